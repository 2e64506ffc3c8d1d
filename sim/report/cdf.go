package report

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// cdf is the figure of how many jobs had finished within a time, at one load, with a panel for each policy and a line
// for each allocator.
func (s figures) cdf(load int) illustration {
	axis := s.completionAxis(load)
	var panels []*figure.Panel
	left := 0
	for p, title := range s.panelTitles() {
		panel := &figure.Panel{Title: title, X: axis, Y: figure.Axis{Label: "jobs finished [%]", Min: 0, Max: 100}}
		for k, series := range s.series {
			completions, counted := pooled(s.runsAt(p, k, load))
			left += counted - len(completions)
			if len(completions) > 0 {
				panel.Marks = append(panel.Marks, figure.Line{Points: curve(completions, counted, axis),
					Style: series.style})
			}
		}
		// Draw the first series last, so that its dashes remain visible where lines coincide.
		slices.Reverse(panel.Marks)
		panels = append(panels, noteIfEmpty(panel, "no job that counts was finished"))
	}
	rows, height := inGrid(panels)
	return illustration{
		name: "completion-cdf" + s.suffix(load),
		figure: figure.Figure{
			Title: "Job completion times" + s.atLoad(load), Note: s.leftOut(),
			Keys: s.keys(figure.LineKey), Rows: rows, Height: height,
		},
		caption: "How many of the jobs that count had finished within a time, waiting included. A line further to " +
			"the left is better; " +
			"where two lines cross, one is better for short and the other for long completion times." +
			unfinishedWords(left) + s.seedWords("pooled"),
	}
}

// unfinishedWords explains lines that end below 100 %, because n jobs are unfinished. If n is 0 there is no such line,
// and the text is empty.
func unfinishedWords(n int) string {
	if n == 0 {
		return ""
	}
	return " A line that ends below 100 % belongs to a run that ended before all its jobs did: " + countNoun(n, "job") +
		" in this figure."
}

// pooled returns the completion times of several runs together, ascending in seconds, and the number of jobs in their
// windows, unfinished ones included. The result must not be changed, since for a single run it is the run's own list.
func pooled(runs []*run) (completions []float64, counted int) {
	if len(runs) == 1 {
		return runs[0].completions, runs[0].summary.Jobs
	}
	for _, r := range runs {
		completions = append(completions, r.completions...)
		counted += r.summary.Jobs
	}
	slices.Sort(completions)
	return completions, counted
}

// logTimeRatio is the ratio between the longest completion time and the 5th percentile above which the axis is
// logarithmic.
const logTimeRatio = 40

// completionAxis makes an axis in hours for all completion times at a load. A logarithmic axis begins at the time
// within which one job of 200 had finished, since a few very short jobs would stretch it, and has at most five decades.
func (s figures) completionAxis(load int) figure.Axis {
	axis := figure.Axis{Label: "job completion time [h]", Max: 1}
	least, twentieth, most := math.Inf(1), math.Inf(1), 0.0
	for _, r := range s.runs {
		if n := len(r.completions); n > 0 && r.load == load {
			least = min(least, r.completions[n/200])
			twentieth = min(twentieth, r.completions[n/20])
			most = max(most, r.completions[n-1])
		}
	}
	if most == 0 {
		return axis
	}
	axis.Max = 1.02 * most / hour
	if most > logTimeRatio*twentieth {
		axis.Log = true
		axis.Min = max(least, most/1e5) / hour
	}
	return axis
}

// fineness is the number of distinguishable positions along each axis of a line.
const fineness = 400

// curve is the distribution function of ascending completion times, in hours and percent of the jobs in the window. It
// is a staircase: two points for each job, below and above its step. Unfinished jobs keep it below 100 %.
func curve(completions []float64, counted int, axis figure.Axis) []figure.Point {
	line := []figure.Point{{X: axis.Min, Y: 0}}
	for i, seconds := range completions {
		x := max(seconds/hour, axis.Min)
		line = append(line, figure.Point{X: x, Y: share(i, counted)}, figure.Point{X: x, Y: share(i+1, counted)})
	}
	last := line[len(line)-1]
	return thinned(append(line, figure.Point{X: axis.Max, Y: last.Y}), axis, 100)
}

func share(part, whole int) float64 { return 100 * float64(part) / float64(whole) }

// thinned drops points that are too close to the one before to be distinguished, but never the last one, so that the
// file stays small. It uses the memory of line.
func thinned(line []figure.Point, x figure.Axis, height float64) []figure.Point {
	kept := line[:1]
	for i, p := range line[1:] {
		before := kept[len(kept)-1]
		if i+2 == len(line) || math.Abs(x.Part(p.X)-x.Part(before.X)) >= 1.0/fineness ||
			math.Abs(p.Y-before.Y) >= height/fineness {
			kept = append(kept, p)
		}
	}
	return kept
}
