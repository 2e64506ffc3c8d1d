package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// plotCommand is synergy profile plot: its help and its flags.
func plotCommand() *cobra.Command {
	var o showOptions
	var out string
	command := &cobra.Command{
		Use:   "plot --out FILE FILE",
		Short: "draw a profile: samples a second over cores, the share, the knee",
		Long: `synergy profile plot draws samples a second and GPU over cores a GPU, a line for each amount of memory, with the share and the knee of
a job on the node of --node. FILE of --out ends in .png or .svg; without either, both are written.`,
		Example: "  synergy profile plot --node 8/24/500 --out res50 res50.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, paths []string) error {
			all, err := o.read(paths)
			if err != nil {
				return err
			}
			if out == "" {
				out = strings.TrimSuffix(filepath.Base(paths[0]), profileExtension)
			}
			return o.plot(all[0].Profile, nil, out, "out", c.OutOrStdout())
		},
	}
	output := newGroup("Output")
	output.flags.StringVarP(&out, "out", "o", "",
		"`file` that ends in .png or .svg, or what both begin with (default: the profile's name, here)")
	setGroups(command, o.group(), output)
	return command
}

// plot writes the picture of a profile to path, or to a .png and a .svg if path has neither extension. curve has the
// measured points; it is nil if only the profile is known. option is the flag that named the path, for errors.
func (o *showOptions) plot(p *sensitivity.Profile, curve *profiler.Curve, path, option string, stdout io.Writer) error {
	drawn := o.profileFigure(p, curve)
	kinds := []string{".png", ".svg"}
	if extension := filepath.Ext(path); extension == ".png" || extension == ".svg" {
		kinds, path = []string{extension}, strings.TrimSuffix(path, extension)
	}
	for _, kind := range kinds {
		text, err := picture(drawn, kind)
		if err != nil {
			return failed{fmt.Errorf("--%s %s%s: %w", option, path, kind, err)}
		}
		if err := save(option, path+kind, stdout, func(w io.Writer) error { return writeAll(w, text) }); err != nil {
			return err
		}
	}
	return nil
}

// picture draws a figure in one kind of file, .png or else .svg.
func picture(f figure.Figure, kind string) ([]byte, error) {
	if kind == ".png" {
		return f.PNG()
	}
	text, err := f.SVG()
	return []byte(text), err
}

// Styles of figure.StyleOf, and a height.
const (
	fitStyle   = 2   // blue, solid: the line with most memory
	firstLine  = 3   // of the lines with less memory
	panelPoint = 230 // height
)

// profileFigure draws samples a second over cores, both per GPU, with the share and the knee, the least size with
// nearly the best speed. Lines are drawn from 0 cores to the right edge, which has some room beyond the last point, so
// that the share and the knee stand inside.
func (o *showOptions) profileFigure(p *sensitivity.Profile, curve *profiler.Curve) figure.Figure {
	worth := profiler.On(p, o.node.Vector, o.gpus)
	share, knee := perGPU(worth.Fair), perGPU(worth.Best.Size)
	most := max(p.CoresPerGPU[len(p.CoresPerGPU)-1], share.Cores, knee.Cores) * 1.04
	last := len(p.MemoryPerGPU) - 1
	panel := &figure.Panel{
		X: figure.Axis{Label: "cores per GPU", Max: most}, Y: figure.Axis{Label: "samples/s per GPU",
			Max: 1.1 * o.highestRate(p, curve)},
	}
	f := figure.Figure{
		Title: fmt.Sprintf("%s on %s, batch %d", p.Model, p.GPUType, p.Batch), Note: worth.String(), Height: panelPoint,
		Rows: [][]*figure.Panel{{panel}},
	}
	if curve != nil {
		panel.Marks = append(panel.Marks, o.curveBand(*curve, most))
		f.Keys = append(f.Keys, figure.Key{Label: "where it can be", Style: figure.Faint(figure.StyleOf(fitStyle)),
			Kind: figure.AreaKey})
	}
	for j := range p.MemoryPerGPU {
		style := figure.StyleOf(firstLine + j)
		if j == last {
			style = figure.StyleOf(fitStyle)
		}
		line := figure.Line{Style: style}
		for _, cores := range append([]float64{0}, append(p.CoresPerGPU, most)...) {
			line.Points = append(line.Points, figure.Point{X: cores,
				Y: p.Rate(sensitivity.Share{Cores: cores, Memory: float64(p.MemoryPerGPU[j])})})
		}
		panel.Marks = append(panel.Marks, line)
		f.Keys = append(f.Keys, figure.Key{Label: fmt.Sprintf("with %s per GPU", gigabytes(p.MemoryPerGPU[j])),
			Style: style})
	}
	return o.addMarks(f, panel, p, curve, share, knee)
}

// addMarks adds the measured points, the share and the knee to the figure, and returns it. Without a curve the points
// are those of the profile, which does not say how far they scatter.
func (o *showOptions) addMarks(
	f figure.Figure, panel *figure.Panel, p *sensitivity.Profile, curve *profiler.Curve, share, knee sensitivity.Share,
) figure.Figure {
	dots := figure.Dots{Style: figure.StyleOf(fitStyle)}
	if curve != nil {
		for _, point := range curve.Points {
			dots.Points = append(dots.Points, figure.Point{X: float64(point.Cores) / float64(o.gpus), Y: point.Rate})
			dots.Errors = append(dots.Errors, 2*point.Scatter*point.Rate)
		}
	} else {
		for i, cores := range p.CoresPerGPU {
			dots.Points = append(dots.Points, figure.Point{X: cores, Y: p.Throughput[i][len(p.MemoryPerGPU)-1]})
			dots.Errors = append(dots.Errors, 0)
		}
	}
	label := "in the profile"
	if curve != nil {
		label = "measured, ± 2 standard errors"
	}
	panel.Marks = append(panel.Marks, dots,
		figure.Rule{At: share.Cores, Direction: figure.Upright}, figure.Rule{At: knee.Cores, Direction: figure.Upright})
	panel.X.Marks = ticks(panel.X.Max, share.Cores, knee.Cores)
	f.Keys = append(f.Keys, figure.Key{Label: label, Style: figure.StyleOf(fitStyle), Kind: figure.DotKey})
	return f
}

// ticks name the share and the knee, and round numbers that are not within a tenth of the axis of one of these, so that
// no labels overlap.
func ticks(most, share, knee float64) []figure.Name {
	names := []figure.Name{{At: share, Label: fmt.Sprintf("share: %g", share)}}
	if knee == share {
		names[0].Label = fmt.Sprintf("share and knee: %g", share)
	} else {
		names = append(names, figure.Name{At: knee, Label: fmt.Sprintf("knee: %g", knee)})
	}
	step := figure.RoundStep(most / 8)
	for at := 0.0; at <= most; at += step {
		if math.Abs(at-share) > most/10 && math.Abs(at-knee) > most/10 {
			names = append(names, figure.Name{At: at, Label: fmt.Sprintf("%g", at)})
		}
	}
	return names
}

// curveBand is the range in which the curve lies, up to most cores a GPU. It begins at the least number of cores that
// was measured, since the curve says nothing below.
func (o *showOptions) curveBand(c profiler.Curve, most float64) figure.Band {
	band := figure.Band{Style: figure.StyleOf(fitStyle)}
	const steps = 200
	first := float64(c.Points[0].Cores) / float64(o.gpus)
	for i := range steps + 1 {
		cores := first + (most-first)*float64(i)/steps
		at := c.At(cores * float64(o.gpus))
		band.Low = append(band.Low, figure.Point{X: cores, Y: max(0, at.Low)})
		band.High = append(band.High, figure.Point{X: cores, Y: at.High})
	}
	return band
}

// highestRate is the highest rate that the figure shows, in samples a second and GPU: of the line with most memory, and
// of the upper end of each measured point's error bar, which is two standard errors long.
func (o *showOptions) highestRate(p *sensitivity.Profile, c *profiler.Curve) (rate float64) {
	for _, row := range p.Throughput {
		rate = max(rate, row[len(row)-1])
	}
	if c != nil {
		for _, point := range c.Points {
			rate = max(rate, point.Rate*(1+2*point.Scatter))
		}
	}
	return rate
}

func perGPU(v gres.Vector) sensitivity.Share { return sensitivity.ShareOf(v) }

func gigabytes(m gres.Memory) string { return fmt.Sprintf("%g GB", float64(m)/float64(gres.Gigabyte)) }
