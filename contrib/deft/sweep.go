package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// sweepOptions are the flags of deft sweep.
type sweepOptions struct {
	trialOptions
	bounds, steps string
	preset        string
	plot          string
}

// usualBounds are the bounds of Deft's own script.
const usualBounds = "1,2,4,8,10,20,50,100,500,1000,5000,10000,1000000"

func sweepCommand() *cobra.Command {
	var o sweepOptions
	command := &cobra.Command{
		Use:   "sweep -f FILE [flags]",
		Short: "the same experiment over bounds of the queue, or over lengths of a step",
		Long: `sweep runs an experiment again and again on an emulated GPU, prints a line for each model and value, and
draws them. Without --steps it varies --bounds: how many kernels a preempted model may have in its queue, from 1, which
costs it most, to so many that nothing is bounded. With --steps it varies how long a job of a preempted model is, where
a turn is a whole one: how long may a step be for the important model not to notice?`,
		Example: `  deft sweep -f pair.json --plot bounds.png
  deft sweep -f pair.json --steps 5,10,20,50,100,200 --preset lookahead`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	flags := command.Flags()
	o.define(command)
	flags.StringVar(&o.bounds, "bounds", usualBounds, "`kernels`, with commas")
	flags.StringVar(&o.steps, "steps", "",
		"`milliseconds` of a job that is preempted, with commas, in place of bounds")
	flags.StringVar(&o.preset, "preset", string(experiment.LookAhead), "with --steps, how the GPU is shared")
	flags.StringVar(&o.plot, "plot", "", "draw it: a `file` that ends in .png or .svg, or what both begin with")
	return command
}

// sweepPoint is one experiment of a sweep.
type sweepPoint struct {
	value   float64
	config  testbed.Config
	results []experiment.Summary
}

// mostValues bounds a sweep.
const mostValues = 64

// run runs the experiment with each value, prints a table, and draws it if --plot is given.
func (o *sweepOptions) run(out, notes io.Writer) error {
	t, err := o.read(notes)
	if err != nil {
		return err
	}
	points, what, err := o.points(t)
	if err != nil {
		return err
	}
	for i := range points {
		p := &points[i]
		result, err := testbed.Run(p.config)
		if err != nil {
			return fmt.Errorf("%s: with %g: %w", o.file, p.value, err)
		}
		for k, one := range result.Clients {
			p.results = append(p.results, experiment.Summarise(t.work[k].Jobs(time.Time{}, one.Steps),
				one.Alone+t.work[k].Host()))
		}
	}
	if err := table(out, t.swept(points, what)); err != nil || o.plot == "" {
		return err
	}
	return draw(t.sweepFigure(points, what), o.plot)
}

// points are the experiments, and what varies between them. With --steps the number of kernels of a job stays, and each
// gets longer or shorter.
func (o *sweepOptions) points(t *trial) (points []sweepPoint, what string, err error) {
	option, text := "bounds", o.bounds
	if o.steps != "" {
		option, text = "steps", o.steps
	}
	values, err := positive(strings.Split(text, ","))
	if err == nil && len(values) > mostValues {
		err = fmt.Errorf("%d values: want at most %d", len(values), mostValues)
	}
	if err != nil {
		return nil, "", fmt.Errorf("--%s: %w", option, err)
	}
	preset, err := experiment.ParsePreset(o.preset)
	if err != nil {
		return nil, "", fmt.Errorf("--preset %w", err)
	}
	for _, x := range values {
		if o.steps == "" {
			if x != math.Trunc(x) || x > 1e9 {
				return nil, "", fmt.Errorf("--bounds: %g: want a whole number of kernels up to 1000000000", x)
			}
			c := experiment.Bounded(o.config(t, experiment.None), int(x))
			points = append(points, sweepPoint{value: x, config: c})
			continue
		}
		if x > 6e4 {
			return nil, "", fmt.Errorf("--steps: %g: want milliseconds up to 60000", x)
		}
		c := o.config(t, preset)
		for k := range c.Clients {
			if one := &c.Clients[k]; one.Class == share.Low {
				one.Kernel = time.Duration(x * float64(time.Millisecond) / float64(one.Kernels))
			}
		}
		points = append(points, sweepPoint{value: x, config: c})
	}
	if o.steps != "" {
		return points, "step, ms", nil
	}
	return points, "bound, kernels", nil
}

// swept is a table with a line for each model and value.
func (t *trial) swept(points []sweepPoint, what string) [][]string {
	rows := [][]string{{what, "model", "jobs", "mean", "p50", "p95", "jobs/s", "inflation", "late"}}
	for _, p := range points {
		for k, s := range p.results {
			rows = append(rows, []string{strconv.FormatFloat(p.value, 'f', -1, 64),
				printable.Line(t.Models[k].Out, longestName), strconv.Itoa(s.Jobs), inMS(s.Mean),
				inMS(s.P50), inMS(s.P95), fmt.Sprintf("%.2f", s.Rate),
				fmt.Sprintf("%.2f", s.Inflation), strconv.Itoa(s.Late)})
		}
	}
	return rows
}

// sweepFigure draws how many times longer than alone jobs take, over the values.
func (t *trial) sweepFigure(points []sweepPoint, what string) figure.Figure {
	panel := &figure.Panel{
		X: figure.Axis{Label: what, Min: points[0].value, Max: points[0].value, Log: true},
		Y: figure.Axis{Label: "times as long as alone", Max: 1},
	}
	f := figure.Figure{Title: "How much longer than alone a job takes", Note: "emulated", Height: panelPoint,
		Rows: [][]*figure.Panel{{panel}}}
	for k, m := range t.Models {
		style := figure.StyleOf(markStyle + 3*(k+1))
		line, dots := figure.Line{Style: style}, figure.Dots{Style: style}
		for _, p := range points {
			at := figure.Point{X: p.value, Y: p.results[k].Inflation}
			line.Points = append(line.Points, at)
			dots.Points, dots.Errors = append(dots.Points, at), append(dots.Errors, 0)
			panel.X.Min, panel.X.Max = min(panel.X.Min, at.X), max(panel.X.Max, at.X)
			panel.Y.Max = max(panel.Y.Max, at.Y*1.1)
		}
		panel.Marks = append(panel.Marks, line, dots)
		name := printable.Line(m.Out, longestName)
		f.Keys = append(f.Keys, figure.Key{Label: name, Style: style, Kind: figure.DotKey})
	}
	return f
}
