package outcome

import (
	"cmp"
	"maps"
	"slices"
)

// Row is what became of some of the jobs of the window.
type Row struct {
	Model    string `json:"model,omitempty"` // that they have in common; empty in a table by GPUs
	GPUs     int    `json:"gpus,omitempty"`  // that they have in common; 0 in a table by model
	Jobs     int    `json:"jobs"`
	Finished int    `json:"finished"`
	*Figures        // nil where none has finished
}

// ByModel is the table of the models, ascending in their names.
func ByModel(run Run) []Row {
	return rows(run, func(j Job) string { return j.Model }, func(row *Row, model string) { row.Model = model })
}

// ByGPUs is the table of the numbers of GPUs that jobs asked for, ascending.
func ByGPUs(run Run) []Row {
	return rows(run, func(j Job) int { return j.GPUs }, func(row *Row, gpus int) { row.GPUs = gpus })
}

// rows makes a row of all jobs that are alike.
func rows[K cmp.Ordered](run Run, of func(Job) K, name func(row *Row, key K)) []Row {
	alike := make(map[K][]Job)
	for _, job := range run.counted() {
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

func rowOf(jobs []Job) Row {
	done := finished(jobs)
	row := Row{Jobs: len(jobs), Finished: len(done)}
	if len(done) > 0 {
		figures := figuresOf(done)
		row.Figures = &figures
	}
	return row
}
