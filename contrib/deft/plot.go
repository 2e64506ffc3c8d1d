package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// Of the pictures: the height, and the style of figure.StyleOf from which those of the models are counted.
const (
	panelPoint = 230
	markStyle  = 5
)

// draw writes a picture into a file that ends in .png or .svg. If the path has no such ending, it writes both.
func draw(f figure.Figure, path string) error {
	kinds, stem := []string{".png", ".svg"}, path
	if kind := filepath.Ext(path); slices.Contains(kinds, kind) {
		kinds, stem = []string{kind}, strings.TrimSuffix(path, kind)
	}
	for _, kind := range kinds {
		text, err := picture(f, kind)
		if err != nil {
			return fmt.Errorf("draw %s%s: %w", stem, kind, err)
		}
		if err := os.WriteFile(stem+kind, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func picture(f figure.Figure, kind string) ([]byte, error) {
	if kind == ".png" {
		return f.PNG()
	}
	text, err := f.SVG()
	return []byte(text), err
}

// mostDots keeps a picture readable: of more jobs, evenly chosen ones are drawn.
const mostDots = 1500

// figure draws how long each model's jobs took over time. The first job is left out. The time of a job alone is a
// horizontal line that leaves the panel at its right end, and the axes have a margin of 2 and 10 %.
func (t *trial) figure(p experiment.Preset, all []modelResult) figure.Figure {
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
