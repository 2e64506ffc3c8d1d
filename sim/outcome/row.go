package outcome

import (
	"cmp"
	"maps"
	"slices"
)

// Row is the statistics of some jobs of the window.
type Row struct {
	Model    string `json:"model,omitempty"` // common to the jobs; empty in a table by GPUs
	GPUs     int    `json:"gpus,omitempty"`  // common to the jobs; 0 in a table by model
	Jobs     int    `json:"jobs"`
	Finished int    `json:"finished"`
	*Figures        // nil if none has finished
}

// ByModel returns the table by model, ascending in name.
func ByModel(run Run) []Row {
	return rows(run, func(j Job) string { return j.Model }, func(row *Row, model string) { row.Model = model })
}

// ByGPUs returns the table by the number of requested GPUs, ascending.
func ByGPUs(run Run) []Row {
	return rows(run, func(j Job) int { return j.GPUs }, func(row *Row, gpus int) { row.GPUs = gpus })
}

// rows makes a row for all jobs of the window with the same key, ascending in key. name sets the key in the row.
func rows[K cmp.Ordered](run Run, of func(Job) K, name func(row *Row, key K)) []Row {
	alike := make(map[K][]Job)
	for _, job := range run.jobsInWindow() {
		alike[of(job)] = append(alike[of(job)], job)
	}
	var table []Row
	for _, key := range slices.Sorted(maps.Keys(alike)) {
		row := rowOf(alike[key])
		name(&row, key)
		table = append(table, row)
	}
	return table
}

// rowOf makes the row of these jobs; its figures are nil if none has finished.
func rowOf(jobs []Job) Row {
	done := finished(jobs)
	row := Row{Jobs: len(jobs), Finished: len(done)}
	if len(done) > 0 {
		figures := figuresOf(done)
		row.Figures = &figures
	}
	return row
}
