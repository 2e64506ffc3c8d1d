package report

import (
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// maxAbreast is how many runs a figure shows side by side.
const maxAbreast = 3

// intervals is the number of equal parts into which a run's time is divided: more could not be distinguished in a
// narrow panel.
const intervals = 240

// allocationHeight is the height of this figure in points.
const allocationHeight = 430

// resource is what one row of the figure shows: the part of the cluster that is used or demanded, in percent.
type resource struct {
	label string
	share func(*outcome.Run, outcome.Round) float64
}

var resources = []resource{
	{"GPU demand [%]", func(r *outcome.Run, at outcome.Round) float64 { return percentOf(at.Demand, float64(r.GPUs)) }},
	{"GPUs held [%]", func(r *outcome.Run, at outcome.Round) float64 { return percentOf(at.GPUs, float64(r.GPUs)) }},
	{"cores held [%]", func(r *outcome.Run, at outcome.Round) float64 { return percentOf(at.CPUs, float64(r.CPUs)) }},
	{"memory held [%]", func(r *outcome.Run, at outcome.Round) float64 { return percentOf(at.Memory, r.Memory) }},
}

// percentOf is a part in percent; 0 if the whole is 0.
func percentOf(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}

// allocations are the figures of demand and allocation over time, of the runs that have recorded rounds. Up to three
// runs of a panel are side by side.
func (s figures) allocations(runs []*run) (drawn []illustration) {
	for p := range s.panels {
		var recorded []*run
		for _, r := range runs {
			if r.panel == p && len(r.Rounds) > 0 {
				recorded = append(recorded, r)
			}
		}
		for first := 0; first < len(recorded); first += maxAbreast {
			drawn = append(drawn, s.allocation(recorded[first:min(first+maxAbreast, len(recorded))], len(drawn)+1))
		}
	}
	return drawn
}

// allocation draws up to three runs side by side, with a row for each resource and equal axes.
func (s figures) allocation(runs []*run, number int) illustration {
	rows := make([][]*figure.Panel, len(resources))
	ended := 0.0
	for _, r := range runs {
		ended = max(ended, end(r.Run))
	}
	for i, resource := range resources {
		most := 100.0
		for _, r := range runs {
			panel, highest := s.overTime(r, resource, ended)
			most = max(most, highest)
			rows[i] = append(rows[i], panel)
		}
		for j, panel := range rows[i] {
			// A little room remains above the highest line.
			panel.Y.Max = 1.04 * most
			s.trimLabels(panel, i, runs[j])
		}
	}
	style := figure.StyleOf(allocationStyle)
	return illustration{
		name: fmt.Sprintf("allocation-%02d", number),
		figure: figure.Figure{
			Title:  "Demand and allocation over time: " + s.panels[runs[0].panel] + s.atLoad(runs[0].load),
			Height: allocationHeight, Rows: rows,
			Keys: []figure.Key{
				{Label: "mean over an interval", Style: style},
				{Label: "lowest to highest round in it", Style: figure.Faint(style), Kind: figure.AreaKey},
			},
		},
		caption: fmt.Sprintf(
			"GPUs that all unfinished jobs ask for, and GPUs, cores and memory that jobs hold right after each "+
				"round, in "+
				"percent of the cluster. Each point is the mean over an interval of %s h. Demand above 100 %% is a "+
				"queue. Where GPUs are all "+
				"held and cores or memory are not, the rest is what no running job has a use for.",
			digits(ended/intervals/hour)),
	}
}

// allocationStyle is the style of the one line in each panel.
const allocationStyle = 2

// trimLabels keeps titles in the top row only and time labels in the bottom row only.
func (s figures) trimLabels(panel *figure.Panel, row int, r *run) {
	if row == 0 {
		panel.Title = s.columnTitle(r)
	}
	if row < len(resources)-1 {
		panel.X.Label = ""
	}
}

// columnTitle distinguishes the runs of one panel.
func (s *study) columnTitle(r *run) string {
	title := s.series[r.series].label
	if s.seeds() > 1 {
		title += fmt.Sprintf(", seed %d", r.Setting.Seed)
	}
	return title
}

// overTime draws one resource of one run up to ended (seconds), and returns its highest value, from which the caller
// makes an axis common to all runs.
func (s figures) overTime(r *run, of resource, ended float64) (panel *figure.Panel, highest float64) {
	mean, low, high := spread(r.Run, of.share, ended)
	for _, p := range high {
		highest = max(highest, p.Y)
	}
	style := figure.StyleOf(allocationStyle)
	return &figure.Panel{
		X: figure.Axis{Label: "time [h]", Max: ended / hour, Ticks: 5},
		Y: figure.Axis{Label: of.label, Ticks: 4},
		Marks: []figure.Mark{
			figure.Band{Low: low, High: high, Style: style}, figure.Rule{At: 100},
			figure.Line{Points: mean, Style: style},
		},
	}, highest
}

// end is when the last round of a run ends, in seconds. It is at least a second after that round's beginning, even if
// the setting has no time between rounds, so that the axis has a length.
func end(r *outcome.Run) float64 {
	last := r.Rounds[len(r.Rounds)-1].At
	return max(r.Ended, last+max(1, r.Setting.RoundSeconds))
}

// spread divides the time until ended (seconds) into equal intervals, since a long run has more rounds than a figure
// can show. It returns the mean over time, the minimum and the maximum in each interval that the rounds of the run
// cover. The state right after a round lasts until the next one.
func spread(r *outcome.Run, share func(*outcome.Run, outcome.Round) float64, ended float64) (mean, low,
	high []figure.Point) {
	width := ended / intervals
	bins := make([]bin, intervals)
	for i, round := range r.Rounds {
		until := end(r)
		if i+1 < len(r.Rounds) {
			until = r.Rounds[i+1].At
		}
		value := share(r, round)
		for k := int(round.At / width); k < intervals && float64(k)*width < until; k++ {
			bins[k].add(value, min(until, float64(k+1)*width)-max(round.At, float64(k)*width))
		}
	}
	for k, b := range bins {
		if b.time > 0 {
			x := (float64(k) + 0.5) * width / hour
			mean = append(mean, figure.Point{X: x, Y: b.sum / b.time})
			low = append(low, figure.Point{X: x, Y: b.least})
			high = append(high, figure.Point{X: x, Y: b.most})
		}
	}
	return mean, low, high
}

// bin accumulates the values in one interval; sum is weighted by seconds.
type bin struct{ time, sum, least, most float64 }

// add adds a value that lasted for these seconds of the interval.
func (b *bin) add(value, seconds float64) {
	if seconds <= 0 {
		return
	}
	if b.time == 0 {
		b.least, b.most = value, value
	}
	b.least, b.most = min(b.least, value), max(b.most, value)
	b.time += seconds
	b.sum += float64(value * seconds)
}
