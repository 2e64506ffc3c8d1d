package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is a pair of axes with the marks between them.
type Panel struct {
	Title string
	X, Y  Axis
	Marks []Mark // drawn in this order
	// Grid says which ticks have lines across the panel.
	Grid Grid
}

// Grid is a choice of grid lines.
type Grid int

// The choices of grid lines.
const (
	BothGrid Grid = iota
	UprightGrid
	NoGrid
)

// Point is a position in a panel, in the units of its axes.
type Point struct{ X, Y float64 }

// Mark is something that can be drawn in a panel.
type Mark interface{ draw(view) }

// view is the canvas of a panel with the scales of its axes.
type view struct {
	draw.Canvas
	x, y scale
}

// scale maps the values of an axis to positions on the canvas.
type scale struct {
	place func(float64) vg.Length
	axis  Axis
}

func (s scale) at(value float64) vg.Length { return s.place(s.axis.along(value)) }

func (v view) at(p Point) vg.Point { return vg.Point{X: v.x.at(p.X), Y: v.y.at(p.Y)} }

// clipX clips a horizontal position to the panel.
func (v view) clipX(x vg.Length) vg.Length { return min(max(x, v.Min.X), v.Max.X) }

// all maps points to positions on the canvas.
func (v view) all(points []Point) []vg.Point {
	places := make([]vg.Point, len(points))
	for i, p := range points {
		places[i] = v.at(p)
	}
	return places
}

// plot converts the panel to the library's plot. The label of the vertical axis is left out: the figure writes it once
// for the whole row.
func (p *Panel) plot() *plot.Plot {
	drawn := plot.New()
	drawn.BackgroundColor = nil
	drawn.Title.Text = p.Title
	drawn.Title.Padding = 3
	drawn.Title.TextStyle = restyle(panelText, drawn.Title.TextStyle)
	drawn.X.Label.Text = p.X.Label
	p.X.applyTo(&drawn.X)
	p.Y.applyTo(&drawn.Y)
	drawn.Add(content{p})
	return drawn
}

// content draws a panel's grid and marks, after the library has laid out the axes.
type content struct{ panel *Panel }

// Plot implements plot.Plotter.
func (d content) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	v := view{c, scale{x, d.panel.X}, scale{y, d.panel.Y}}
	d.panel.grid(v, p)
	for _, mark := range d.panel.Marks {
		mark.draw(v)
	}
}

// grid draws lines across the panel at the labelled ticks. The library's ticks are logarithms already on a logarithmic
// axis, so they are placed without Axis.along.
func (p *Panel) grid(v view, drawn *plot.Plot) {
	if p.Grid != NoGrid {
		for _, tick := range labelledTicks(drawn.X) {
			v.StrokeLine2(hairline(rule), v.x.place(tick), v.Min.Y, v.x.place(tick), v.Max.Y)
		}
	}
	if p.Grid == BothGrid {
		for _, tick := range labelledTicks(drawn.Y) {
			v.StrokeLine2(hairline(rule), v.Min.X, v.y.place(tick), v.Max.X, v.y.place(tick))
		}
	}
}

// labelledTicks returns the values of the ticks within the axis that have a label, on the scale of the library.
func labelledTicks(axis plot.Axis) (ticks []float64) {
	for _, tick := range axis.Tick.Marker.Ticks(axis.Min, axis.Max) {
		if !tick.IsMinor() && tick.Value >= axis.Min && tick.Value <= axis.Max {
			ticks = append(ticks, tick.Value)
		}
	}
	return ticks
}

func hairline(colour color.Color) draw.LineStyle {
	return draw.LineStyle{Color: colour, Width: 0.5}
}
