package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// WriteTable writes a line for each run, below a caption with what all runs have in common. Its columns are policy,
// allocator and whatever else the runs differ in, job completion times, makespan, utilisation, rounds, preemptions, the
// gain over proportional shares if there is such a run, and the wall time if it is known. Each column has one unit. The
// text is plain and safe on any terminal. If some runs have no statistics, the others are still written, and the error
// says which and why.
func WriteTable(w io.Writer, runs []Run) error {
	if len(runs) == 0 {
		return errors.New("no runs: want one at least")
	}
	results, faults := Results(runs)
	t := table(results)
	if err := caption(w, runs); err != nil {
		return err
	}
	s := sheet{words: wordsOf(runs), numbers: slices.Concat(t.counts(), t.times(), t.use(), t.gain(), t.wallTimes())}
	if err := s.write(w); err != nil {
		return err
	}
	return cmp.Or(t.explain(w), faults)
}

// caption writes what all runs have in common, if anything.
func caption(w io.Writer, runs []Run) error {
	text := commonWords(runs)
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s\n\n", text)
	return err
}

// wordsOf makes the columns that identify runs: one for each property in which they differ.
func wordsOf(runs []Run) (columns []column) {
	for _, a := range differing(runs) {
		c := column{title: a.title, unit: a.unit}
		for _, run := range runs {
			c.cells = append(c.cells, cmp.Or(a.value(run.Setting), noValue))
		}
		columns = append(columns, c)
	}
	return columns
}

// table is the results, one line each.
type table []Result

// amountsOf extracts a value from every result that has statistics; for the others it is missing, which the table shows
// as a dash.
func (t table) amountsOf(of func(s Summary) float64) []amount {
	amounts := make([]amount, len(t))
	for i, r := range t {
		if r.Summary != nil {
			amounts[i] = amount{of(*r.Summary), true}
		}
	}
	return amounts
}

// hasUnfinished says whether some statistics leave out unfinished jobs, which the table then shows and explains.
func (t table) hasUnfinished() bool {
	return slices.ContainsFunc(t, func(r Result) bool { return r.Summary != nil && r.Summary.Unfinished > 0 })
}

// counts is a column with how many jobs have finished. If all have, there is no such column.
func (t table) counts() []column {
	if !t.hasUnfinished() {
		return nil
	}
	c := column{title: "finished"}
	for _, r := range t {
		cell := noValue
		if r.Summary != nil {
			cell = strconv.Itoa(r.Summary.Finished) + " of " + strconv.Itoa(r.Summary.Jobs)
		}
		c.cells = append(c.cells, cell)
	}
	return []column{c}
}

// times are the columns of completion times and makespan. Completion times all have the unit that suits the means, so
// that a line's values can be compared.
func (t table) times() []column {
	means := t.amountsOf(func(s Summary) float64 { return s.Completion.Mean })
	unit := unitFor(means)
	return []column{
		unit.in("mean", means),
		unit.in("median", t.amountsOf(func(s Summary) float64 { return s.Completion.Median })),
		unit.in("p90", t.amountsOf(func(s Summary) float64 { return s.Completion.P90 })),
		unit.in("p99", t.amountsOf(func(s Summary) float64 { return s.Completion.P99 })),
		unit.in("p99.9", t.amountsOf(func(s Summary) float64 { return s.Completion.P999 })),
		times("makespan", t.amountsOf(func(s Summary) float64 { return s.Makespan })),
	}
}

// use are the columns of utilisation, rounds and preemptions.
func (t table) use() []column {
	return []column{
		numbers("GPU", "%", 1, t.amountsOf(func(s Summary) float64 { return 100 * s.Utilisation.GPUs })),
		numbers("CPU", "%", 1, t.amountsOf(func(s Summary) float64 { return 100 * s.Utilisation.CPUs })),
		numbers("memory", "%", 1, t.amountsOf(func(s Summary) float64 { return 100 * s.Utilisation.Memory })),
		numbers("rounds", "", 0, t.amountsOf(func(s Summary) float64 { return float64(s.Rounds) })),
		numbers("preemptions", "", 0, t.amountsOf(func(s Summary) float64 { return float64(s.Preemptions) })),
	}
}

// gain is a column with how many times shorter the mean is than with proportional shares. If no run is compared, there
// is no such column.
func (t table) gain() []column {
	if !t.hasComparison() {
		return nil
	}
	amounts := make([]amount, len(t))
	for i, r := range t {
		if r.Ratio != nil {
			amounts[i] = amount{r.Ratio.Mean, true}
		}
	}
	return []column{numbers("gain", "x", 2, amounts)}
}

// hasComparison says whether some run is compared with a proportional one.
func (t table) hasComparison() bool {
	return slices.ContainsFunc(t, func(r Result) bool { return r.Ratio != nil && r.Setting.Allocator != Proportional })
}

// wallTimes is a column with how long each simulation took. If that is unknown of all of them, there is no such column.
func (t table) wallTimes() []column {
	if !slices.ContainsFunc(t, func(r Result) bool { return r.Wall > 0 }) {
		return nil
	}
	amounts := make([]amount, len(t))
	for i, r := range t {
		amounts[i] = amount{r.Wall, r.Wall > 0}
	}
	return []column{times("wall", amounts)}
}

// explain writes below the table what its columns mean.
func (t table) explain(w io.Writer) error {
	text := "mean to p99.9: job completion times"
	if t.hasUnfinished() {
		text += " of the finished jobs alone, so they flatter"
	}
	if t.hasComparison() {
		text += "\ngain: the mean with proportional shares over this one"
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// WriteRows writes rows such as those of ByModel and ByGPUs as a plain text table. They must all be by the same
// property: the first row decides whether the names are models or numbers of GPUs. Rows without finished jobs have no
// times.
func WriteRows(w io.Writer, rows []Row) error {
	if len(rows) == 0 {
		return errors.New("no rows: want those of one job at least")
	}
	names, jobs, done := column{title: "model"}, column{title: "jobs"}, column{title: "finished"}
	if rows[0].GPUs > 0 {
		names.title = "GPUs"
	}
	for _, r := range rows {
		names.cells = append(names.cells, r.name())
		jobs.cells, done.cells = append(jobs.cells, strconv.Itoa(r.Jobs)), append(done.cells, strconv.Itoa(r.Finished))
	}
	each := func(of func(f Figures) float64) []amount { return ofRows(rows, of) }
	means := each(func(f Figures) float64 { return f.Completion.Mean })
	unit := unitFor(means)
	return sheet{words: []column{names}, numbers: []column{
		jobs, done,
		unit.in("mean", means),
		unit.in("median", each(func(f Figures) float64 { return f.Completion.Median })),
		unit.in("p99", each(func(f Figures) float64 { return f.Completion.P99 })),
		times("queueing", each(func(f Figures) float64 { return f.Queueing.Mean })),
		numbers("slowdown", "x", 2, each(func(f Figures) float64 { return f.Slowdown.Mean })),
	}}.write(w)
}

// name is what the jobs of the row have in common: the number of GPUs, or else the model.
func (r Row) name() string {
	if r.GPUs > 0 {
		return strconv.Itoa(r.GPUs)
	}
	return named(r.Model)
}

// ofRows extracts a value from every row with finished jobs; for the others it is missing.
func ofRows(rows []Row, of func(f Figures) float64) []amount {
	amounts := make([]amount, len(rows))
	for i, r := range rows {
		if r.Figures != nil {
			amounts[i] = amount{of(*r.Figures), true}
		}
	}
	return amounts
}
