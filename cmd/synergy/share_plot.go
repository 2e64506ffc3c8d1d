package main

import (
	"fmt"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// draw writes a picture as PNG and as SVG.
func draw(f figure.Figure, stem string, stdout io.Writer) error {
	for _, kind := range []string{".png", ".svg"} {
		text, err := picture(f, kind)
		if err != nil {
			return failed{fmt.Errorf("draw %s%s: %w", stem, kind, err)}
		}
		if err := save("out", stem+kind, stdout, func(w io.Writer) error { return writeAll(w, text) }); err != nil {
			return err
		}
	}
	return nil
}

// mostDots keeps a picture readable: of more jobs, evenly chosen ones are drawn.
const mostDots = 1500

// figure draws how long each model's jobs took over time. The first job is left out.
func (t *trial) figure(p experiment.Preset, all []tried) figure.Figure {
	panel := &figure.Panel{X: figure.Axis{Label: "time, s", Max: 1}, Y: figure.Axis{Label: "job, ms", Max: 1}}
	f := figure.Figure{Title: "How long a job takes", Note: "emulated, " + string(p), Height: panelPoint,
		Rows: [][]*figure.Panel{{panel}}}
	var began time.Time
	for _, one := range all {
		if len(one.jobs) > 0 && (began.IsZero() || one.jobs[0].Start.Before(began)) {
			began = one.jobs[0].Start
		}
	}
	for i, one := range all {
		style := figure.StyleOf(markStyle + 3*(i+1))
		dots := figure.Dots{Style: style}
		jobs := one.jobs[min(1, len(one.jobs)):]
		every := 1 + len(jobs)/mostDots
		for k := 0; k < len(jobs); k += every {
			at := figure.Point{X: jobs[k].End.Sub(began).Seconds(), Y: jobs[k].Took().Seconds() * 1000}
			dots.Points, dots.Errors = append(dots.Points, at), append(dots.Errors, 0)
			panel.X.Max, panel.Y.Max = max(panel.X.Max, at.X*1.02), max(panel.Y.Max, at.Y*1.1)
		}
		alone := one.alone.Seconds() * 1000
		panel.Y.Max = max(panel.Y.Max, alone*1.1)
		panel.Marks = append(panel.Marks, dots, figure.Line{Style: style,
			Points: []figure.Point{{X: 0, Y: alone}, {X: 1e9, Y: alone}}})
		f.Keys = append(f.Keys, figure.Key{Label: printable.Line(t.Models[i].Out, longestName) + ", and alone",
			Style: style, Kind: figure.DotKey})
	}
	return f
}
