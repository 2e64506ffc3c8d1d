// Package models is the table of the ten models that the paper's artifact ships (Synergy, OSDI'22), as far as workloads and the
// reference engine need it. Their sensitivity matrices are profiles in etc/profiles.
package models

// Family is a kind of model. The order is the one in which the artifact breaks ties.
type Family int

// The families.
const (
	Image Family = iota
	Language
	Speech
	Families int = iota
)

// Model is one row of the table, per GPU.
type Model struct {
	Name      string
	Family    Family
	CPUs      float64 // best case
	Memory    float64 // best case, GB
	Iteration float64 // seconds of one iteration at the proportional share
	Speedup   float64 // throughput at the best case over that at the proportional share
}
