package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

// sampler is a figure with every kind of mark and every style.
func sampler() Figure {
	curves := &Panel{Title: "curves", X: Axis{Label: "x [h]", Min: 0.05, Max: 300, Log: true},
		Y: Axis{Label: "y [%]", Max: 100}}
	bars := &Panel{X: Axis{Max: 12}, Y: Axis{Min: -10, Max: 1, Bare: true, Marks: []Name{{0, "first"}, {-1, "second"}}},
		Grid: UprightGrid}
	boxes := &Panel{X: Axis{Max: 10}, Y: Axis{Min: -9, Max: 0}, Grid: NoGrid}
	f := Figure{Title: "title", Note: "note", Height: 300, Rows: [][]*Panel{{curves, bars}, {boxes, nil}}}
	for i := range Styles() {
		y := float64(10 * i)
		curves.Marks = append(curves.Marks,
			Line{[]Point{{0.01, y}, {200, y + 20}}, StyleOf(i)}, Dots{[]Point{{1, y}}, []float64{5}, StyleOf(i)})
		bars.Marks = append(bars.Marks, Bar{To: float64(i + 1), Y: -float64(i), Thick: 0.8, Error: 0.3, Label: "label",
			Style: StyleOf(i)})
		f.Keys = append(f.Keys, Key{"key", StyleOf(i), KeyKind(i % 3)})
	}
	for i := range Tints() {
		y := -float64(i) - 1
		boxes.Marks = append(boxes.Marks, Boxes{[]Box{{Point{0, y}, Point{8, y + 0.9}, "17"}}, TintOf(i)})
	}
	curves.Marks = append(curves.Marks, Band{[]Point{{1, 0}, {9, 0}}, []Point{{1, 9}, {9, 9}}, StyleOf(0)},
		Text{"nothing here"})
	boxes.Marks = append(boxes.Marks, Rule{At: -2}, Rule{At: 5, Direction: Upright}, Lines{[]float64{-3}})
	return f
}

func TestEqualFiguresGiveEqualBytes(t *testing.T) {
	one, other := sampler(), sampler()
	if svgOf(t, one) != svgOf(t, other) {
		t.Error("two SVGs of equal figures differ")
	}
	if !bytes.Equal(pngOf(t, one), pngOf(t, other)) {
		t.Error("two PNGs of equal figures differ")
	}
}

func TestAPNGIsAsLargeAsPapersWantAndNotBlank(t *testing.T) {
	picture, err := png.Decode(bytes.NewReader(pngOf(t, sampler())))
	if err != nil {
		t.Fatal(err)
	}
	if width := picture.Bounds().Dx(); width != 7*resolution {
		t.Errorf("%d pixels wide, want seven inches of %d", width, resolution)
	}
	shades := map[[3]uint32]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			shades[[3]uint32{r, g, b}] = true
		}
	}
	if len(shades) < Styles() {
		t.Errorf("%d different pixels, want one for each of %d styles at least", len(shades), Styles())
	}
}

func TestAnSVGIsWellFormedWhateverIsWrittenInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.StringMatching(`[ -~äß×…漢🙂]{0,40}`).Draw(t, "words")
		f := sampler()
		f.Title, f.Note, f.Keys[0].Label = words, words, words
		f.Rows[0][0].Title, f.Rows[0][0].X.Label, f.Rows[0][0].Y.Label = words, words, words
		f.Rows[0][1].Y.Marks[0].Label = words
		svg, err := f.SVG()
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, svg)
	})
}

// TestADarkPageFindsEveryColour holds that the colours are spelled in an SVG as a page's style asks for them.
func TestADarkPageFindsEveryColour(t *testing.T) {
	svg := svgOf(t, sampler())
	for _, shade := range Shades() {
		if !strings.Contains(svg, "fill:"+shade.Light) && !strings.Contains(svg, "stroke:"+shade.Light) {
			t.Errorf("no fill and no stroke is %s", shade.Light)
		}
	}
}

func TestAnInlineDrawingIsTheFileWithoutItsOutermostElement(t *testing.T) {
	svg := svgOf(t, sampler())
	box, drawing := Inline(svg)
	if !strings.HasPrefix(box, "0 0 504 ") {
		t.Errorf("viewBox %q, want one of %d points' width", box, Width)
	}
	if strings.Contains(drawing, "<svg") || strings.Contains(drawing, "</svg>") || strings.Contains(drawing, "<?xml") {
		t.Error("the drawing has an outermost element of its own")
	}
	wellFormed(t, "<svg>"+drawing+"</svg>")
	if words := strings.Count(drawing, "<text"); words != strings.Count(svg, "<text") {
		t.Errorf("%d texts, want the file's %d", words, strings.Count(svg, "<text"))
	}
}

func TestFiguresAskForFontsThatViewersHave(t *testing.T) {
	svg := svgOf(t, sampler())
	if texts, asked := strings.Count(svg, "<text"), strings.Count(svg, families); texts != asked {
		t.Errorf("%d texts, of which %d ask for %s", texts, asked, families)
	}
}

func TestTheLegendStaysWithinTheFigure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Figure{}
		for _, label := range rapid.SliceOfN(rapid.StringMatching(`\w{0,150}`), 1, 20).Draw(t, "labels") {
			f.Keys = append(f.Keys, Key{Label: label})
		}
		entries, height := f.legend()
		for i, e := range entries {
			if right := e.x + sampleSize + sampleGap + keyText.Width(e.label); e.x < 0 || right > Width-2*margin {
				t.Errorf("entry %d from %v to %v, want it within %v", i, e.x, right, Width-2*margin)
			}
			if e.y > height {
				t.Errorf("entry %d reaches %v down, and the legend %v", i, e.y, height)
			}
			if i > 0 && e.y == entries[i-1].y && e.x < entries[i-1].x+sampleSize+keyText.Width(entries[i-1].label) {
				t.Errorf("entry %d lies upon the one before", i)
			}
		}
	})
}

func TestShortenedTextsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		width := vg.Length(rapid.Float64Range(10, 300).Draw(t, "width"))
		if got := fit(tickText, text, width); tickText.Width(got) > width {
			t.Errorf("%q is %v wide, want at most %v", got, tickText.Width(got), width)
		}
	})
}

func TestHatchingStaysWithinItsBox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Float64Range(0, 100)
		from := vg.Point{X: vg.Length(length.Draw(t, "x")), Y: vg.Length(length.Draw(t, "y"))}
		box := vg.Rectangle{Min: from, Max: from.Add(vg.Point{X: vg.Length(length.Draw(t, "width")),
			Y: vg.Length(length.Draw(t, "height"))})}
		for pattern := noHatch; pattern <= spineHatch; pattern++ {
			for _, line := range pattern.lines(box) {
				for _, p := range line {
					if p.X < box.Min.X-1e-9 || p.X > box.Max.X+1e-9 || p.Y < box.Min.Y-1e-9 || p.Y > box.Max.Y+1e-9 {
						t.Fatalf("pattern %d: %v lies outside %v", pattern, p, box)
					}
				}
			}
		}
	})
}

func TestRoundTicksAreWithinTheAxisAndNotTooMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lowest := rapid.Float64Range(-1e6, 1e6).Draw(t, "lowest")
		span := math.Pow(10, rapid.Float64Range(-2, 7).Draw(t, "span"))
		most := rapid.IntRange(3, 9).Draw(t, "most")
		ticks := roundTicker{most}.Ticks(lowest, lowest+span)
		if len(ticks) == 0 || len(ticks) > most+1 {
			t.Fatalf("%d ticks, want 1 to %d", len(ticks), most+1)
		}
		labels := map[string]bool{}
		for _, tick := range ticks {
			if tick.Value < lowest-1e-6*span || tick.Value > lowest+span*(1+1e-6) {
				t.Errorf("tick %v outside %v to %v", tick.Value, lowest, lowest+span)
			}
			if labels[tick.Label] || tick.Label == "" || tick.Label == "-0" {
				t.Errorf("label %q", tick.Label)
			}
			labels[tick.Label] = true
		}
	})
}

func TestALogarithmicAxisNamesPowersOfTen(t *testing.T) {
	for _, c := range []struct {
		lowest, highest float64
		want            string
	}{
		{0.05, 300, "0.1 1 10 100"},
		{0.5, 30, "0.5 1 2 5 10 20"},
		{2, 9, "2 5"},
		{1, 1e12, "1 1,000 1,000,000 1,000,000,000 1,000,000,000,000"},
	} {
		var names []string
		for _, tick := range (decadeTicker{5}).Ticks(math.Log10(c.lowest), math.Log10(c.highest)) {
			if tick.Label != "" {
				names = append(names, tick.Label)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v to %v: %s, want %s", c.lowest, c.highest, got, c.want)
		}
	}
}

// TestBarsAndBoxesEndWithTheirPanel would take minutes, and megabytes, if they did not.
func TestBarsAndBoxesEndWithTheirPanel(t *testing.T) {
	panel := &Panel{X: Axis{Max: 1}, Y: Axis{Max: 1}, Marks: []Mark{
		Bar{From: -1e9, To: 1e9, Y: 0.5, Thick: 0.2, Style: StyleOf(1)},
		Boxes{[]Box{{Point{-1e9, 0}, Point{1e9, 0.2}, "17"}}, TintOf(0)},
	}}
	svg := svgOf(t, Figure{Height: 100, Rows: [][]*Panel{{panel}}})
	if len(svg) > 20_000 {
		t.Errorf("%d bytes for two rectangles", len(svg))
	}
}

func TestWhatALogarithmicAxisCannotShowIsAtItsBeginning(t *testing.T) {
	axis := Axis{Min: 0.1, Max: 100, Log: true}
	for value, want := range map[float64]float64{-3: 0, 0: 0, 0.1: 0, 10: 2.0 / 3, 100: 1} {
		if got := axis.Part(value); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v lies at %v, want %v", value, got, want)
		}
	}
}

func svgOf(t testing.TB, f Figure) string {
	t.Helper()
	svg, err := f.SVG()
	if err != nil {
		t.Fatal(err)
	}
	return svg
}

func pngOf(t testing.TB, f Figure) []byte {
	t.Helper()
	data, err := f.PNG()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wellFormed reads an SVG to its end, and holds that no number in it is none.
func wellFormed(t interface{ Fatalf(string, ...any) }, svg string) {
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		if element, ok := token.(xml.StartElement); ok {
			for _, attribute := range element.Attr {
				if strings.Contains(attribute.Value, "NaN") || strings.Contains(attribute.Value, "Inf") {
					t.Fatalf("%s %s=%q", element.Name.Local, attribute.Name.Local, attribute.Value)
				}
			}
		}
	}
}
