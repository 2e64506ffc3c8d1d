package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// mostRows is the most runs in the table of all runs.
const mostRows = 1000

// results is the table of all runs.
type results struct {
	Panel, Series string // titles of the first two columns
	Loads, Seeds  bool   // whether there are columns for them
	Rows          []row
	Left          int // runs that are left out
}

// row is one run.
type row struct {
	Panel, Series, Load, Seed string
	Finished, Jobs            string // of the jobs in the window
	Fault                     string // shown instead of statistics
	Times                     []cell // mean, median, p90, p99, p99.9 and makespan, in hours
	Shares                    []cell // of GPUs, cores and memory, in percent
	Counts                    []cell // rounds and preemptions
	Gains                     []cell // of mean, p99 and makespan over proportional shares
	Best                      bool   // it has the shortest mean completion time of its panel, load and seed
}

// cell is a formatted number and its exact value, which is empty if there is none.
type cell struct{ Text, Value string }

func newCell(text string, value float64) cell { return cell{text, shortNumber(value)} }

// noValue is a cell without a number.
var noValue = cell{Text: "–"}

// results makes the table of all runs, at most mostRows, and marks in each contest (a panel, load and seed with several
// runs) the run with the shortest mean completion time.
func (s *study) results() results {
	table := results{Panel: "Policy", Series: "Allocator", Loads: len(s.loads) > 1, Seeds: s.seeds() > 1}
	if s.isTransposed {
		table.Panel, table.Series = table.Series, table.Panel
	}
	shortest := s.shortest()
	for _, r := range s.runs[:min(len(s.runs), mostRows)] {
		shown := s.row(r)
		mean, contested := shortest[r.contest()]
		shown.Best = contested && r.fault == nil && r.summary.Completion.Mean == mean
		table.Rows = append(table.Rows, shown)
	}
	table.Left = len(s.runs) - len(table.Rows)
	return table
}

// contest identifies the runs among which the best is marked: those of one panel, load and seed.
type contest struct {
	panel, load int
	seed        int64
}

func (r *run) contest() contest { return contest{r.panel, r.load, r.Setting.Seed} }

// shortest returns the shortest mean completion time of each contest with more than one run.
func (s *study) shortest() map[contest]float64 {
	shortest, runs := map[contest]float64{}, map[contest]int{}
	for _, r := range s.runs {
		if r.fault != nil {
			continue
		}
		c, mean := r.contest(), r.summary.Completion.Mean
		if runs[c]++; runs[c] == 1 || mean < shortest[c] {
			shortest[c] = mean
		}
	}
	maps.DeleteFunc(shortest, func(c contest, _ float64) bool { return runs[c] < 2 })
	return shortest
}

// row formats one run for the table; a run without statistics has its fault instead.
func (s *study) row(r *run) row {
	shown := row{
		Panel: s.panels[r.panel], Series: s.series[r.series].label,
		Load: loadWords(r.Setting.Load), Seed: strconv.FormatInt(r.Setting.Seed, 10),
	}
	if r.isSharedBaseline {
		shown.Panel = noValue.Text
	}
	if r.fault != nil {
		shown.Fault = cut(r.fault.Error(), longestLine)
		return shown
	}
	f, h := r.summary, r.summary.CompletionHours
	shown.Finished, shown.Jobs = count(f.Finished), count(f.Jobs)
	for _, value := range []float64{h.Mean, h.Median, h.P90, h.P99, h.P999, f.Makespan / hour} {
		shown.Times = append(shown.Times, newCell(digits(value), value))
	}
	for _, share := range []float64{f.Utilisation.GPUs, f.Utilisation.CPUs, f.Utilisation.Memory} {
		shown.Shares = append(shown.Shares, newCell(percent(share), 100*share))
	}
	for _, n := range []int{f.Rounds, f.Preemptions} {
		shown.Counts = append(shown.Counts, newCell(count(n), float64(n)))
	}
	for _, of := range []quantity{meanCompletion, p99Completion, makespan} {
		shown.Gains = append(shown.Gains, gainCell(r, of))
	}
	return shown
}

// gainCell is the gain of a run over proportional shares in a quantity; nothing if the run cannot be compared.
func gainCell(r *run, of quantity) cell {
	ratio, known := gain([]*run{r}, of)
	if !known {
		return noValue
	}
	return newCell(ratioText(ratio), ratio)
}

// kindTable is the jobs of one panel by model or by number of GPUs, with columns for each series.
type kindTable struct {
	Panel  string
	Series []string // titles of the groups of columns
	Rows   []kindRow
	Left   int // kinds that are left out
}

// kindRow is one kind of jobs. Cells are mean, p99 and gain for each series.
type kindRow struct {
	Kind, Jobs string
	Cells      []cell
}

// mostKinds is the most kinds in a table.
const mostKinds = 60

// kindTables returns the tables by model and by number of GPUs for each panel. runs are those that are shown
// individually. If a baseline is among them, its copies in other panels are shown too.
func (s *study) kindTables(runs []*run) (models, gpus []kindTable) {
	for p := range s.panels {
		var members []*run
		for _, r := range slices.Concat(s.baselineCopiesOf(runs), runs) {
			if r.panel == p && r.fault == nil {
				members = append(members, r)
			}
		}
		if len(members) > 0 {
			models = append(models, s.kindTable(members, byModel, func(r outcome.Row) string { return plain(r.Model) }))
			gpus = append(gpus, s.kindTable(members, byGPUs,
				func(r outcome.Row) string { return countNoun(r.GPUs, "GPU") }))
		}
	}
	return models, gpus
}

// baselineCopiesOf returns the copies, in further panels, of those baselines that are among the runs.
func (s *study) baselineCopiesOf(runs []*run) (guests []*run) {
	for _, g := range s.baselineCopies {
		if slices.ContainsFunc(runs, func(r *run) bool { return r.Run == g.Run }) {
			guests = append(guests, g)
		}
	}
	return guests
}

func byModel(r *run) []outcome.Row { return r.models }
func byGPUs(r *run) []outcome.Row  { return r.gpus }

// kindTable makes a table of the runs of one panel; by returns the statistics of a run by kind, and name the title of a
// kind. Its rows are the kinds of the first run, at most mostKinds.
func (s *study) kindTable(runs []*run, by func(*run) []outcome.Row, name func(outcome.Row) string) kindTable {
	table := kindTable{Panel: s.panels[runs[0].panel]}
	kinds := by(runs[0])
	table.Left = max(0, len(kinds)-mostKinds)
	for _, row := range kinds[:len(kinds)-table.Left] {
		table.Rows = append(table.Rows, kindRow{Kind: name(row), Jobs: count(row.Jobs)})
	}
	for _, r := range runs {
		table.Series = append(table.Series, s.series[r.series].label)
		rows, bases := by(r), []outcome.Row(nil)
		if r.base != nil {
			bases = by(r.base)
		}
		for i := range table.Rows {
			table.Rows[i].Cells = append(
				table.Rows[i].Cells,
				kindCells(matchingRow(rows, kinds[i]), matchingRow(bases, kinds[i]))...)
		}
	}
	return table
}

// matchingRow returns the row of the same kind; the zero row if there is none.
func matchingRow(rows []outcome.Row, as outcome.Row) outcome.Row {
	i := slices.IndexFunc(rows, func(r outcome.Row) bool { return r.Model == as.Model && r.GPUs == as.GPUs })
	if i < 0 {
		return outcome.Row{}
	}
	return rows[i]
}

// kindCells are mean and p99 in hours, and the gain over proportional shares if all jobs have finished in both runs,
// since otherwise the slow ones would be left out. The zero row has no figures.
func kindCells(of, base outcome.Row) []cell {
	if of.Figures == nil {
		return []cell{noValue, noValue, noValue}
	}
	h, gained := of.Completion.Hours(), noValue
	if base.Figures != nil && of.Finished == of.Jobs && base.Finished == base.Jobs && of.Jobs == base.Jobs {
		ratio := base.Completion.Mean / of.Completion.Mean
		gained = newCell(ratioText(ratio), ratio)
	}
	return []cell{newCell(digits(h.Mean), h.Mean), newCell(digits(h.P99), h.P99), gained}
}

// waitRow is a job that waited long.
type waitRow struct {
	Run, Job, Model, User, GPUs string
	Arrival, Start, Waited, End string // in hours
	Starts                      string
}

// mostWaits is how many jobs of each run are listed.
const mostWaits = 3

// waits lists the jobs of each run that waited longest.
func (s *study) waits(runs []*run) (waits []waitRow) {
	for _, r := range runs {
		if r.fault != nil {
			continue
		}
		for _, job := range longestWaits(r) {
			waits = append(waits, s.wait(r, job))
		}
	}
	return waits
}

// longestWaits returns the mostWaits jobs in the window that waited longest, the longest first.
func longestWaits(r *run) (jobs []outcome.Job) {
	for _, job := range r.Jobs {
		if !r.Setting.Window.Has(job.ID) {
			continue
		}
		at, _ := slices.BinarySearchFunc(jobs, job, func(a, b outcome.Job) int {
			return cmp.Or(cmp.Compare(waitedSeconds(r, b), waitedSeconds(r, a)), cmp.Compare(a.ID, b.ID))
		})
		if at < mostWaits {
			jobs = slices.Insert(jobs, at, job)
			jobs = jobs[:min(len(jobs), mostWaits)]
		}
	}
	return jobs
}

// waitedSeconds is how many seconds a job existed without holding resources, before its first run and after
// preemptions. For an unfinished job it counts until the end of the run. AttainedGPU counts the time of each of the
// job's GPUs, so it is divided by their number.
func waitedSeconds(r *run, job outcome.Job) float64 {
	until := r.Ended
	if job.Done() {
		until = job.Finish
	}
	return max(0, until-job.Arrival-job.AttainedGPU/float64(max(1, job.GPUs)))
}

// wait formats one job that waited, with times in hours.
func (s *study) wait(r *run, job outcome.Job) waitRow {
	w := waitRow{
		Run: s.shownAs(r), Job: strconv.Itoa(job.ID), Model: plain(job.Model),
		User: cmp.Or(plain(job.User), "–"), GPUs: strconv.Itoa(job.GPUs),
		Arrival: hours(job.Arrival), Start: "never", Waited: hours(waitedSeconds(r, job)), End: "unfinished",
		Starts: count(job.Starts),
	}
	if job.FirstRun >= 0 {
		w.Start = hours(job.FirstRun - job.Arrival)
	}
	if job.Done() {
		w.End = hours(job.Completion())
	}
	return w
}

// shownAs is a name of a run that distinguishes it from all others that are shown individually.
func (s *study) shownAs(r *run) string {
	if r.isSharedBaseline {
		return s.columnTitle(r)
	}
	return s.panels[r.panel] + " · " + s.columnTitle(r)
}

// shownInWords names the load and seed of the runs that are shown individually, for headings. If all runs have one load
// and one seed, it is empty, since a heading need not say that.
func (s *study) shownInWords() string {
	words := ""
	if load := len(s.loads) - 1; load > 0 {
		words = ", at " + loadWords(s.loads[load])
	}
	if s.seeds() > 1 {
		words += fmt.Sprintf(", with seed %d", s.detailedRuns()[0].Setting.Seed)
	}
	return words
}
