package report

import "github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"

// byLoad is the figure of the mean completion time by load, with the standard error over the seeds. It shows up to
// which load an allocator keeps up.
func (s figures) byLoad() illustration {
	var panels []*figure.Panel
	var all []figure.Dots
	for p, title := range s.panelTitles() {
		panel := &figure.Panel{Title: title, X: s.loadAxis()}
		for k, series := range s.series {
			if dots := s.means(p, k); len(dots.Points) > 0 {
				panel.Marks = append(panel.Marks, figure.Line{Points: dots.Points, Style: series.style}, dots)
				all = append(all, dots)
			}
		}
		panels = append(panels, noteIfEmpty(panel, "no job that counts was finished"))
	}
	for _, panel := range panels {
		panel.Y = meanAxis(all)
	}
	rows, height := inGrid(panels)
	return illustration{
		name: "completion-load",
		figure: figure.Figure{
			Title: "Mean job completion time against load", Note: s.leftOut(),
			Keys: s.keys(figure.DotKey), Rows: rows, Height: height,
		},
		caption: "Mean completion time of the jobs that count at each load; lower is better. Where a line turns " +
			"upwards, jobs come faster than " +
			"the cluster works them off, and the queue grows for as long as the run lasts." +
			s.seedWords("averaged; whiskers are the standard error of their mean"),
	}
}

// means returns the mean completion times of a series in hours at each load, with their standard errors over the seeds.
// Workloads that were not generated have the load 0 and no place on the axis.
func (s figures) means(panel, series int) figure.Dots {
	dots := figure.Dots{Style: s.series[series].style}
	for l, load := range s.loads {
		mean, deviation, n := average(s.runsAt(panel, series, l), meanCompletion)
		if n > 0 && load > 0 {
			dots.Points = append(dots.Points, figure.Point{X: load, Y: mean / hour})
			dots.Errors = append(dots.Errors, deviation/hour)
		}
	}
	return dots
}

// mostMarked is how many loads can be labelled along an axis.
const mostMarked = 8

// loadAxis has a tick at each load, if there are at most mostMarked. The load 0 of workloads that were not generated
// comes first in s.loads and is left out.
func (s figures) loadAxis() figure.Axis {
	loads := s.loads[len(s.loads)-s.generatedLoads():]
	lowest, highest := loads[0], loads[len(loads)-1]
	room := (highest - lowest) / 20
	axis := figure.Axis{Label: "load [jobs/h]", Min: max(0, lowest-room), Max: highest + room}
	if len(loads) <= mostMarked {
		for _, load := range loads {
			axis.Marks = append(axis.Marks, figure.Name{At: load, Label: shortNumber(load)})
		}
	}
	return axis
}

// logMeanRatio is the ratio between the highest and the lowest mean above which the axis is logarithmic.
const logMeanRatio = 25

// meanAxis makes an axis for all dots with their whiskers, so that all panels can be compared; it is logarithmic if the
// means differ much.
func meanAxis(all []figure.Dots) figure.Axis {
	axis := figure.Axis{Label: "mean completion time [h]", Max: 1}
	lowest, highest := 0.0, 0.0
	for _, dots := range all {
		for i, point := range dots.Points {
			highest = max(highest, point.Y+dots.Errors[i])
			if lowest == 0 || point.Y < lowest {
				lowest = point.Y
			}
		}
	}
	if highest == 0 {
		return axis
	}
	axis.Max = 1.05 * highest
	if highest > logMeanRatio*lowest {
		axis.Log, axis.Min = true, lowest/1.3
	}
	return axis
}
