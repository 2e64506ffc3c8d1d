package report

import (
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// mostBars is how many bars, one above the other, remain readable.
const mostBars = 40

// Sizes of figures with bars. The heights are in points, the others relative to a bar's height or length.
const (
	barHeight  = 14
	barsHeight = 45 // of axis and margins
	barThick   = 0.8
	groupGap   = 0.5
	labelRoom  = 1.45 // the axis is this many times as long as the longest bar, to leave room for its label
)

// place is the position of the bar for the runs of a panel and series.
type place struct {
	panel, series int
	y             float64 // 0 at the top, negative below
	runs          []*run
}

// bars is the figure of the mean completion time and the makespan of all runs at a load, with a group of bars for each
// policy. Only the left panel has labels. Y.Min is the negative number of bars and gaps, hence the sign in the height.
func (s figures) bars(load int) illustration {
	places, all := s.places(load)
	mean := s.barPanel(places, "mean completion time [h]", meanCompletion)
	makespan := s.barPanel(places, "makespan [h]", makespan)
	for _, p := range places {
		mean.Y.Marks = append(mean.Y.Marks, figure.Name{At: p.y, Label: s.placeLabel(p)})
		makespan.Y.Marks = append(makespan.Y.Marks, figure.Name{At: p.y})
	}
	note := ""
	if all > len(places) {
		note = fmt.Sprintf("The first %d of %d bars; the table has all.", len(places), all)
	}
	return illustration{
		name: "completion-bars" + s.suffix(load),
		figure: figure.Figure{
			Title: "Mean completion time and makespan" + s.atLoad(load), Note: note,
			Rows:   [][]*figure.Panel{{mean, makespan}},
			Height: barsHeight - barHeight*mean.Y.Min,
		},
		caption: "Mean completion time of the jobs that count, and the time from the first arrival to the last " +
			"finish; shorter is better. In " +
			"brackets: how many times shorter than with proportional shares under the same policy." +
			s.seedWords("averaged; whiskers are the standard error of their mean"),
	}
}

// places returns the positions of the bars that fit, and how many bars there are in total.
func (s figures) places(load int) (places []place, all int) {
	y := 0.0
	for p := range s.panels {
		before := all
		for k := range s.series {
			runs := s.runsAt(p, k, load)
			if len(runs) == 0 {
				continue
			}
			if all++; all <= mostBars {
				places = append(places, place{p, k, y, runs})
				y--
			}
		}
		if all > before {
			y -= groupGap
		}
	}
	return places, all
}

// placeLabel names the series of a bar, and its panel if there are several.
func (s figures) placeLabel(p place) string {
	if len(s.panels) == 1 {
		return s.series[p.series].label
	}
	return s.panels[p.panel] + " · " + s.series[p.series].label
}

// barPanel draws one quantity of all runs as bars. Its axis leaves room for the label after the longest bar. Above the
// first bar and below the last one are 0.8: half a bar, and as much space.
func (s figures) barPanel(places []place, label string, value quantity) *figure.Panel {
	panel := &figure.Panel{
		X: figure.Axis{Label: label, Ticks: 5}, Grid: figure.UprightGrid,
		Y: figure.Axis{Max: 0.8, Min: -0.8, Bare: true},
	}
	for _, p := range places {
		panel.Y.Min = p.y - 0.8
		mean, deviation, n := average(p.runs, value)
		if n == 0 {
			panel.Marks = append(panel.Marks, figure.Bar{Y: p.y, Thick: barThick, Label: "no job was finished"})
			continue
		}
		panel.X.Max = max(panel.X.Max, labelRoom*(mean+deviation)/hour)
		panel.Marks = append(panel.Marks, figure.Bar{
			To: mean / hour, Y: p.y, Thick: barThick, Error: deviation / hour,
			Label: hours(mean) + " h" + inBrackets(p.runs, value), Style: s.series[p.series].style,
		})
	}
	return panel
}

// inBrackets is the gain of the runs over proportional shares in a quantity, for the label of a bar. It is empty if the
// gain is unknown, and for the runs with proportional shares, whose gain would always be 1.
func inBrackets(runs []*run, value quantity) string {
	ratio, known := gain(runs, value)
	if !known || runs[0].base == runs[0] {
		return ""
	}
	return " (" + ratioText(ratio) + ")"
}
