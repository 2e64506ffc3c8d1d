// Package figure draws panels with axes, with a legend above them that never covers data, as SVG and as PNG. Figures
// can be read in black and white: lines differ in their dashes and areas in hatching or lightness, not only in colour.
// The package is independent of simulations, embeds its fonts, and gives equal bytes for equal figures.
package figure

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Width is the width of a figure in points, that of two columns of a paper.
const Width = 504

// Distances between the parts of a figure, in points.
const (
	margin     = 6
	gutter     = 14 // between panels
	lineGap    = 3  // between lines of text
	sampleSize = 26 // width of a legend's sample
	sampleGap  = 4
	entryGap   = 16
)

// Figure is a grid of panels under a title, a note and a legend.
type Figure struct {
	Title  string
	Note   string  // one line under the title, for example about what is left out
	Height float64 // of the panels with their axes, in points; the width is always Width
	Keys   []Key
	// Rows have equal lengths. Places may be empty (nil), except the first of a row, whose vertical axis is labelled
	// for the whole row.
	Rows [][]*Panel
}

// Key is an entry of the legend.
type Key struct {
	Label string
	Style Style
	Kind  KeyKind
}

// KeyKind is the kind of a legend's sample.
type KeyKind int

// The kinds of samples.
const (
	LineKey KeyKind = iota
	DotKey          // a line with its dot
	AreaKey
)

// size is the size of the whole figure. Title, note and legend are added to Height, so that panels do not shrink with a
// long legend.
func (f Figure) size() (width, height vg.Length) {
	_, legend := f.legend()
	return Width, f.headingHeight() + legend + vg.Length(f.Height) + 2*margin
}

// draw draws the whole figure from the top down; each part takes its height off the canvas.
func (f Figure) draw(c draw.Canvas) {
	c.SetColor(paper)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	f.heading(c)
	c.Max.Y -= f.headingHeight()
	entries, height := f.legend()
	for _, e := range entries {
		e.draw(c)
	}
	c.Max.Y -= height
	f.panels(c)
}

// headline is one line above the panels.
type headline struct {
	style draw.TextStyle
	text  string
}

// headlines returns the title and the note, without those that are empty.
func (f Figure) headlines() (lines []headline) {
	for _, line := range []headline{{titleText, f.Title}, {noteText, f.Note}} {
		if line.text != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// headingHeight is the height of title and note together, in points.
func (f Figure) headingHeight() (height vg.Length) {
	for _, line := range f.headlines() {
		height += line.style.Height("X") + lineGap
	}
	return height + lineGap
}

// heading draws the title and the note.
func (f Figure) heading(c draw.Canvas) {
	top := c.Max.Y
	for _, line := range f.headlines() {
		height := line.style.Height("X")
		c.FillText(line.style, vg.Point{X: c.Min.X, Y: top - height}, fit(line.style, line.text, c.Max.X-c.Min.X))
		top -= height + lineGap
	}
}

// entry is a key with its position in the legend: the distances of its corner from the left edge and from the top.
type entry struct {
	key   Key
	label string
	x, y  vg.Length
}

// legend places the keys from left to right in as many lines as needed, and returns them with the total height in
// points. Without keys the height is 0.
func (f Figure) legend() (entries []entry, height vg.Length) {
	if len(f.Keys) == 0 {
		return nil, 0
	}
	const room = Width - 2*margin
	x, line := vg.Length(0), keyText.Height("X")+lineGap
	height = line
	for _, key := range f.Keys {
		label := fit(keyText, key.Label, room-sampleSize-sampleGap)
		width := sampleSize + sampleGap + keyText.Width(label)
		if x > 0 && x+width > room {
			x, height = 0, height+line
		}
		entries = append(entries, entry{key, label, x, height})
		x += width + entryGap
	}
	return entries, height + 2*lineGap
}

// draw draws an entry of the legend: its sample and its label. The canvas must begin where the legend does.
func (e entry) draw(c draw.Canvas) {
	at := vg.Point{X: c.Min.X + e.x, Y: c.Max.Y - e.y}
	e.key.sample(c, vg.Rectangle{Min: at, Max: at.Add(vg.Point{X: sampleSize, Y: keyText.Height("X")})})
	at = at.Add(vg.Point{X: sampleSize + sampleGap, Y: keyText.FontExtents().Descent / 2})
	c.FillText(keyText, at, e.label)
}

// sample draws the sample in front of a key's label: a line, a line with its dot, or an area.
func (k Key) sample(c draw.Canvas, box vg.Rectangle) {
	middle := (box.Min.Y + box.Max.Y) / 2
	switch k.Kind {
	case AreaKey:
		box.Min.Y, box.Max.Y = middle-3.5, middle+3.5
		k.Style.fill(c, box)
		return
	case DotKey:
		k.Style.dot(c, vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: middle})
	}
	c.StrokeLine2(k.Style.line(), box.Min.X, middle, box.Max.X, middle)
}

// panels draws the grid of panels with frames of equal size. Room for the labels of the rows is taken off at the left
// before the panels are aligned.
func (f Figure) panels(c draw.Canvas) {
	edge := c.Min.X
	if slices.ContainsFunc(f.Rows, func(row []*Panel) bool { return row[0].Y.Label != "" }) {
		c.Min.X += axisText.Height("X") + lineGap
	}
	plots := make([][]*plot.Plot, len(f.Rows))
	for i, row := range f.Rows {
		plots[i] = make([]*plot.Plot, len(row))
		for j, panel := range row {
			if panel != nil {
				plots[i][j] = panel.plot()
			}
		}
	}
	tiles := draw.Tiles{Rows: len(f.Rows), Cols: len(f.Rows[0]), PadX: gutter, PadY: gutter}
	for i, row := range plot.Align(plots, tiles, c) {
		for j, canvas := range row {
			if plots[i][j] != nil {
				plots[i][j].Draw(canvas)
			}
		}
		nameRow(c, edge, plots[i][0].DataCanvas(row[0]).Rectangle, f.Rows[i][0].Y.Label)
	}
}

// nameRow writes the label of a row's vertical axes along the figure's edge, so that the labels of all rows are aligned
// whatever the width of the tick labels.
func nameRow(c draw.Canvas, edge vg.Length, frame vg.Rectangle, label string) {
	style := axisText
	style.Rotation, style.XAlign, style.YAlign = math.Pi/2, draw.XCenter, draw.YTop
	c.FillText(style, vg.Point{X: edge, Y: (frame.Min.Y + frame.Max.Y) / 2}, fit(style, label, frame.Max.Y-frame.Min.Y))
}

// fit shortens a text to a width, with a mark at its end; if nothing fits, the mark is left.
func fit(style draw.TextStyle, text string, width vg.Length) string {
	if style.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 0 && style.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
