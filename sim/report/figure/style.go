package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of everything but data.
var (
	paper = color.NRGBA{0xFF, 0xFF, 0xFF, 0xFF}
	ink   = color.NRGBA{0x1A, 0x1A, 0x1A, 0xFF}
	muted = color.NRGBA{0x5C, 0x5C, 0x5C, 0xFF}
	rule  = color.NRGBA{0xDC, 0xDC, 0xDC, 0xFF}
)

// The colours of data: those of Okabe and Ito, which colour-blind readers can distinguish, preceded by a grey for the
// series with which others are compared.
var (
	grey       = color.NRGBA{0x6E, 0x6E, 0x6E, 0xFF}
	orange     = color.NRGBA{0xE6, 0x9F, 0x00, 0xFF}
	blue       = color.NRGBA{0x00, 0x72, 0xB2, 0xFF}
	green      = color.NRGBA{0x00, 0x9E, 0x73, 0xFF}
	purple     = color.NRGBA{0xCC, 0x79, 0xA7, 0xFF}
	vermillion = color.NRGBA{0xD5, 0x5E, 0x00, 0xFF}
	sky        = color.NRGBA{0x56, 0xB4, 0xE9, 0xFF}
	black      = color.NRGBA{0x30, 0x30, 0x30, 0xFF}
)

// tints are the fills of kinds that lie side by side. The first three can be distinguished in greyscale, and the next
// ones have a line along their middle.
var tints = []Style{
	{colour: color.NRGBA{0x1B, 0x45, 0x80, 0xFF}},
	{colour: color.NRGBA{0xEB, 0xC9, 0x5F, 0xFF}},
	{colour: color.NRGBA{0xCC, 0x66, 0x77, 0xFF}},
	{colour: color.NRGBA{0x3C, 0x7D, 0x5A, 0xFF}, hatch: spineHatch},
	{colour: color.NRGBA{0xA6, 0xCC, 0xDF, 0xFF}, hatch: spineHatch},
	{colour: color.NRGBA{0x7B, 0x5E, 0xA7, 0xFF}, hatch: spineHatch},
	{colour: color.NRGBA{0xA8, 0xA8, 0xA8, 0xFF}},
}

// Style is the look of a series, for lines, areas and symbols.
type Style struct {
	colour color.NRGBA
	dashes []vg.Length
	hatch  hatch
	glyph  draw.GlyphDrawer
}

var styles = []Style{
	{grey, []vg.Length{6, 3}, noHatch, draw.BoxGlyph{}},
	{orange, []vg.Length{5, 2, 1.2, 2}, risingHatch, draw.PyramidGlyph{}},
	{blue, nil, fallingHatch, draw.CircleGlyph{}},
	{green, []vg.Length{1.5, 2}, crossHatch, draw.RingGlyph{}},
	{purple, []vg.Length{9, 3}, levelHatch, draw.SquareGlyph{}},
	{vermillion, []vg.Length{3, 2}, uprightHatch, draw.TriangleGlyph{}},
	{sky, []vg.Length{7, 2, 1.2, 2, 1.2, 2}, gridHatch, draw.PlusGlyph{}},
	{black, []vg.Length{1, 3}, noHatch, draw.CrossGlyph{}},
}

// Styles is the number of styles.
func Styles() int { return len(styles) }

// StyleOf returns the style of the n-th series; they repeat after Styles.
func StyleOf(n int) Style { return styles[n%len(styles)] }

// Tints is the number of tints.
func Tints() int { return len(tints) }

// TintOf returns the fill of the n-th kind; they repeat after Tints.
func TintOf(n int) Style { return tints[n%len(tints)] }

func (s Style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.colour, Width: 1.3, Dashes: s.dashes}
}

// dot draws the symbol of the style at a position.
func (s Style) dot(c draw.Canvas, at vg.Point) {
	// A symbol has no dashes, whatever line was drawn before it.
	c.SetLineDash(nil, 0)
	c.DrawGlyphNoClip(draw.GlyphStyle{Color: s.colour, Radius: 2.6, Shape: s.glyph}, at)
}

// fill fills a rectangle with colour, hatching and an outline.
func (s Style) fill(c draw.Canvas, box vg.Rectangle) {
	c.SetColor(s.colour)
	c.Fill(box.Path())
	strokeTogether(c, draw.LineStyle{Color: paper, Width: 0.7}, s.hatch.lines(box))
	c.StrokeLines(draw.LineStyle{Color: ink, Width: 0.4}, outline(box))
}

// strokeTogether draws lines as one path, which takes a third of the bytes of separate paths.
func strokeTogether(c draw.Canvas, style draw.LineStyle, lines [][]vg.Point) {
	var path vg.Path
	for _, line := range lines {
		path.Move(line[0])
		for _, p := range line[1:] {
			path.Line(p)
		}
	}
	if len(path) > 0 {
		c.SetLineStyle(style)
		c.Stroke(path)
	}
}

func outline(box vg.Rectangle) []vg.Point {
	return []vg.Point{box.Min, {X: box.Max.X, Y: box.Min.Y}, box.Max, {X: box.Min.X, Y: box.Max.Y}, box.Min}
}

// The text styles.
var (
	titleText = bold(lettering(10, ink))
	noteText  = lettering(8, muted)
	keyText   = lettering(8.5, ink)
	panelText = bold(lettering(9, ink))
	axisText  = lettering(8.5, ink)
	tickText  = lettering(8, ink)
	smallText = lettering(7, ink)
)

func bold(style draw.TextStyle) draw.TextStyle {
	style.Font.Weight = boldWeight
	return style
}

// boldWeight is WeightBold of golang.org/x/image/font, which is not imported for this constant alone.
const boldWeight = 3

// lettering is a text style with this size in points and colour, in the font that the package embeds.
func lettering(size vg.Length, colour color.Color) draw.TextStyle {
	return text.Style{
		Color:   colour,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign:  draw.XLeft,
		YAlign:  draw.YBottom,
		Handler: plot.DefaultTextHandler,
	}
}

// Faint returns a style as used for bands: translucent and without hatching.
func Faint(s Style) Style {
	s.colour.A, s.hatch = bandOpacity, noHatch
	return s
}
