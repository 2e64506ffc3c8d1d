package figure

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line connects points.
type Line struct {
	Points []Point
	Style  Style
}

func (l Line) draw(v view) { v.StrokeLines(l.Style.line(), v.ClipLinesXY(v.all(l.Points))...) }

// Dots are symbols at points, each with a whisker of its error's length; none for an error of 0.
type Dots struct {
	Points []Point
	Errors []float64 // of Y, in both directions
	Style  Style
}

// draw draws each symbol over its whisker.
func (d Dots) draw(v view) {
	for i, p := range d.Points {
		if e := d.Errors[i]; e > 0 {
			v.whisker(v.at(Point{p.X, p.Y - e}), v.at(Point{p.X, p.Y + e}), d.Style.colour)
		}
		d.Style.dot(v.Canvas, v.at(p))
	}
}

// whiskerCap is half the width of a whisker's ends, in points.
const whiskerCap = 2

// whisker draws a line with caps at both ends, which shows the error of a value.
func (v view) whisker(from, to vg.Point, colour color.Color) {
	style := draw.LineStyle{Color: colour, Width: 0.8}
	across := vg.Point{X: whiskerCap}
	if from.Y == to.Y {
		across = vg.Point{Y: whiskerCap}
	}
	v.StrokeLines(style, []vg.Point{from, to},
		[]vg.Point{from.Sub(across), from.Add(across)}, []vg.Point{to.Sub(across), to.Add(across)})
}

// Band is the area between two lines over the same X values.
type Band struct {
	Low, High []Point
	Style     Style
}

// bandOpacity keeps the grid and other bands visible.
const bandOpacity = 0x48

// draw fills the area: it goes along the upper line, and back along the lower one.
func (b Band) draw(v view) {
	outline := v.all(b.High)
	for i := len(b.Low) - 1; i >= 0; i-- {
		outline = append(outline, v.at(b.Low[i]))
	}
	v.FillPolygon(Faint(b.Style).colour, v.ClipPolygonXY(outline))
}

// Bar is a horizontal bar from From to To, centred on Y with the height Thick and clipped to the panel. Label is
// written at its end.
type Bar struct {
	From, To float64
	Y, Thick float64
	Error    float64 // of To, in both directions; 0: none
	Label    string
	Style    Style
}

// draw draws the bar, then its whisker, and the label behind both.
func (b Bar) draw(v view) {
	low, high := v.at(Point{min(b.From, b.To), b.Y - b.Thick/2}), v.at(Point{max(b.From, b.To), b.Y + b.Thick/2})
	low.X, high.X = v.clipX(low.X), v.clipX(high.X)
	b.Style.fill(v.Canvas, vg.Rectangle{Min: low, Max: high})
	end := high.X
	if b.Error > 0 {
		left, right := v.at(Point{b.To - b.Error, b.Y}), v.at(Point{b.To + b.Error, b.Y})
		v.whisker(left, right, ink)
		end = max(end, right.X)
	}
	style := smallText
	style.YAlign = draw.YCenter
	v.FillText(style, vg.Point{X: end + 3, Y: (low.Y+high.Y)/2 + style.FontExtents().Descent}, b.Label)
}

// Rule is a dashed line across the whole panel, at a value of the axis that it crosses.
type Rule struct {
	At        float64
	Direction Direction
}

// Direction is the direction of a rule.
type Direction int

// The directions.
const (
	Level Direction = iota
	Upright
)

// draw draws the dashed line; it crosses the horizontal axis if it is upright, otherwise the vertical one.
func (r Rule) draw(v view) {
	style := draw.LineStyle{Color: ink, Width: 0.8, Dashes: []vg.Length{3, 2}}
	if r.Direction == Upright {
		v.StrokeLine2(style, v.x.at(r.At), v.Min.Y, v.x.at(r.At), v.Max.Y)
		return
	}
	v.StrokeLine2(style, v.Min.X, v.y.at(r.At), v.Max.X, v.y.at(r.At))
}

// Text is written in the middle of a panel that shows nothing else.
type Text struct{ Text string }

// draw writes the text, shortened to the width of the panel.
func (t Text) draw(v view) {
	style := noteText
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	v.FillText(style, v.Center(), fit(style, t.Text, v.Max.X-v.Min.X))
}

// Boxes are rectangles of one style, drawn as one area with gaps between neighbours.
type Boxes struct {
	Boxes []Box
	Style Style
}

// Box is a rectangle between two corners. Label is written if there is room.
type Box struct {
	From, To Point
	Label    string
}

// The least sizes of a box, in points, at which it gets a gap or a label.
const (
	gapWidth    = 1.2
	labelHeight = 6.5
)

// draw draws all boxes as one area, which keeps files small, and then their labels.
func (b Boxes) draw(v view) {
	var area vg.Path
	var edges, hatching [][]vg.Point
	for _, box := range b.Boxes {
		place := v.place(box)
		area = append(area, place.Path()...)
		hatching = append(hatching, b.Style.hatch.lines(place)...)
		if place.Max.X-place.Min.X > gapWidth {
			edges = append(edges, []vg.Point{{X: place.Max.X, Y: place.Min.Y}, place.Max})
		}
	}
	if len(area) == 0 {
		return
	}
	v.SetColor(b.Style.colour)
	v.Fill(area)
	strokeTogether(v.Canvas, draw.LineStyle{Color: paper, Width: 0.5}, append(edges, hatching...))
	for _, box := range b.Boxes {
		v.boxLabel(box, b.Style)
	}
}

// place is the position of a box, clipped to the panel.
func (v view) place(box Box) vg.Rectangle {
	from, to := v.at(box.From), v.at(box.To)
	from.X, to.X = v.clipX(from.X), v.clipX(to.X)
	return vg.Rectangle{Min: from, Max: to}
}

// boxLabel writes a box's label, on a patch of the box's colour that interrupts the line along its middle.
func (v view) boxLabel(box Box, style Style) {
	place, words := v.place(box), smallText
	from, to := place.Min, place.Max
	if box.Label == "" || to.Y-from.Y < labelHeight || to.X-from.X < words.Width(box.Label)+4 {
		return
	}
	words.XAlign, words.YAlign, words.Color = draw.XCenter, draw.YCenter, textColourOn(style.colour)
	middle, half := vg.Point{X: (from.X + to.X) / 2, Y: (from.Y + to.Y) / 2}, words.Width(box.Label)/2+1
	v.SetColor(style.colour)
	v.Fill(vg.Rectangle{Min: vg.Point{X: middle.X - half, Y: middle.Y - 1},
		Max: vg.Point{X: middle.X + half, Y: middle.Y + 1}}.Path())
	v.FillText(words, middle.Add(vg.Point{Y: words.FontExtents().Descent}), box.Label)
}

// textColourOn is the colour of text on a background: dark if the background's brightness as the eye sees it (the usual
// weights of red, green and blue) is above the middle. The two colours are not those of ink and paper, which are
// replaced on a dark page (Shades).
func textColourOn(under color.NRGBA) color.NRGBA {
	if 299*int(under.R)+587*int(under.G)+114*int(under.B) > 128_000 {
		return color.NRGBA{0x1B, 0x1B, 0x1B, 0xFF}
	}
	return color.NRGBA{0xFE, 0xFE, 0xFE, 0xFF}
}

// Lines are thin lines across the panel at the given heights, to separate rows.
type Lines struct{ At []float64 }

// draw draws the lines over the whole width.
func (l Lines) draw(v view) {
	for _, y := range l.At {
		v.StrokeLine2(hairline(rule), v.Min.X, v.y.at(y), v.Max.X, v.y.at(y))
	}
}
