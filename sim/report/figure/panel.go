package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panel is one pair of axes with what is drawn between them.
type Panel struct {
	Title string
	X, Y  Axis
	Marks []Mark // drawn in this order
	// Grid says which of the axes' ticks have lines across the panel.
	Grid Grid
}

// Grid is which ticks have lines.
type Grid int

// The grids.
const (
	BothGrid Grid = iota
	UprightGrid
	NoGrid
)

// Point is a place in a panel, in the units of its axes.
type Point struct{ X, Y float64 }

// Mark is something that is drawn in a panel.
type Mark interface{ draw(view) }

// view is a panel's place on the canvas.
type view struct {
	draw.Canvas
	x, y scale
}

// scale turns the numbers of an axis into a place.
type scale struct {
	place func(float64) vg.Length
	axis  Axis
}

func (s scale) at(value float64) vg.Length { return s.place(s.axis.along(value)) }

func (v view) at(p Point) vg.Point { return vg.Point{X: v.x.at(p.X), Y: v.y.at(p.Y)} }

// within is a place along the panel, or the end of the panel that it lies beyond.
func (v view) within(x vg.Length) vg.Length { return min(max(x, v.Min.X), v.Max.X) }

func (v view) all(points []Point) []vg.Point {
	places := make([]vg.Point, len(points))
	for i, p := range points {
		places[i] = v.at(p)
	}
	return places
}

// plot is the panel as the library draws it.
func (p *Panel) plot() *plot.Plot {
	drawn := plot.New()
	drawn.BackgroundColor = nil
	drawn.Title.Text = p.Title
	drawn.Title.Padding = 3
	drawn.Title.TextStyle = restyle(panelText, drawn.Title.TextStyle)
	drawn.X.Label.Text = p.X.Label
	p.X.shape(&drawn.X)
	p.Y.shape(&drawn.Y)
	drawn.Add(content{p})
	return drawn
}

// content draws a panel's grid and marks when the library has found their place.
type content struct{ panel *Panel }

// Plot is what the library calls.
func (d content) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	v := view{c, scale{x, d.panel.X}, scale{y, d.panel.Y}}
	d.panel.grid(v, p)
	for _, mark := range d.panel.Marks {
		mark.draw(v)
	}
}

func (p *Panel) grid(v view, drawn *plot.Plot) {
	if p.Grid != NoGrid {
		for _, tick := range named(drawn.X) {
			v.StrokeLine2(hairline(rule), v.x.place(tick), v.Min.Y, v.x.place(tick), v.Max.Y)
		}
	}
	if p.Grid == BothGrid {
		for _, tick := range named(drawn.Y) {
			v.StrokeLine2(hairline(rule), v.Min.X, v.y.place(tick), v.Max.X, v.y.place(tick))
		}
	}
}

// named are the ticks that have a name and lie within the axis.
func named(axis plot.Axis) (ticks []float64) {
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
