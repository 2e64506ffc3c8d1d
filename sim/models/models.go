// Package models is the table of the ten models that the paper's artifact ships (Synergy, OSDI'22), as far as workloads
// and the reference engine need it. The same measurements as profiles that the planner reads are in etc/profiles.
package models

import "fmt"

// Family is a kind of model. The order is the one in which the artifact breaks ties.
type Family int

// The families.
const (
	Image Family = iota
	Language
	Speech
	Families int = iota
)

// String is the family's name: image, language or speech.
func (f Family) String() string { return [...]string{"image", "language", "speech"}[f] }

// Members are the class ids of the family's models, ascending.
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

// The CPU:GPU ratios that the artifact has tables for. The paper's servers have three cores for each GPU.
const (
	LeastRatio = 3
	MostRatio  = 6
)

// Set is the ten models as they run on servers with that many cores for each GPU, 3, 4, 5 or 6. A model's index is its
// class id.
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

// Find is the class id of the model of that name, the same in every Set. It is false where the artifact has no such
// model.
func Find(name string) (id int, known bool) {
	for id, r := range table {
		if r.name == name {
			return id, true
		}
	}
	return 0, false
}
