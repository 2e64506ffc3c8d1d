// Package models is the table of the ten models in the paper's artifact (Synergy, OSDI'22), as far as workloads and the
// artifact engine need it. The same measurements, as profiles for the planner, are in etc/profiles.
package models

import "fmt"

// Family is a kind of model. The order of the values is the one in which the artifact breaks ties.
type Family int

// The families.
const (
	Image Family = iota
	Language
	Speech
	Families int = iota
)

// String returns the family's name: image, language or speech.
func (f Family) String() string { return [...]string{"image", "language", "speech"}[f] }

// Members lists the class IDs of the family's models, ascending.
func (f Family) Members() []int {
	var ids []int
	for id, r := range table {
		if r.family == f {
			ids = append(ids, id)
		}
	}
	return ids
}

// Model is one row of the table, per GPU.
type Model struct {
	Name      string
	Family    Family
	CPUs      float64 // best case
	Memory    float64 // best case, GB
	Iteration float64 // seconds of one iteration at the proportional share
	Speedup   float64 // throughput at the best case over that at the proportional share
}

// The CPU:GPU ratios for which the artifact has tables. The paper's servers have three cores per GPU.
const (
	LeastRatio = 3
	MostRatio  = 6
)

// Set returns the ten models on servers with ratio cores per GPU, 3 to 6. A model's index is its class ID.
func Set(ratio int) ([]Model, error) {
	if ratio < LeastRatio || ratio > MostRatio {
		return nil, fmt.Errorf("CPU:GPU ratio = %d: want %d to %d, which the artifact has tables for", ratio,
			LeastRatio, MostRatio)
	}
	set := make([]Model, len(table))
	for id, r := range table {
		at := ratio - LeastRatio
		set[id] = Model{r.name, r.family, r.cpus[at], r.memory, r.iteration[at], r.speedup[at]}
	}
	return set, nil
}

// Find returns the class ID of the model with this name, which is the same in every Set. known is false if the artifact
// has no such model.
func Find(name string) (id int, known bool) {
	for id, r := range table {
		if r.name == name {
			return id, true
		}
	}
	return 0, false
}
