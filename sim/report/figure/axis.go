package figure

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// Axis is one side of a panel.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool   // Min must be above 0
	Marks    []Name // where ticks stand and what they say; empty: at round numbers
	Ticks    int    // how many round numbers at most; 0: 6
	// Bare keeps the names and leaves out ticks and line.
	Bare bool
}

// Name is what stands at a place of an axis.
type Name struct {
	At    float64
	Label string
}

// defaultTicks is how many ticks an axis has at most.
const defaultTicks = 6

// widest is how wide a name beside an axis may be, in points.
const widest = 130

// shape gives a plot's axis this axis' range, ticks and texts.
func (a Axis) shape(axis *plot.Axis) {
	if !(a.Max > a.Min) {
		a.Max = a.Min + 1
	}
	axis.Min, axis.Max = a.along(a.Min), a.along(a.Max)
	axis.Label.TextStyle = restyle(axisText, axis.Label.TextStyle)
	axis.Label.Padding = 3
	axis.Tick.Label = restyle(tickText, axis.Tick.Label)
	axis.Tick.Length = 3
	axis.Tick.Color, axis.Color = muted, muted
	axis.Padding = 0
	axis.Tick.Marker = a.ticker()
	if a.Bare {
		axis.Tick.Length, axis.Width = 0, 0
	}
}

// along is where a value lies, for the library: it would take the middle of a logarithmic axis for that of its range,
// and leave room for a label that is not there. What a logarithmic axis cannot show is put at its beginning.
func (a Axis) along(value float64) float64 {
	if a.Log {
		return math.Log10(max(value, a.Min))
	}
	return value
}

// Part is how far along the axis a value lies: 0 at its beginning, 1 at its end.
func (a Axis) Part(value float64) float64 {
	return (a.along(value) - a.along(a.Min)) / (a.along(a.Max) - a.along(a.Min))
}

// restyle keeps the alignment that a plot gives its texts.
func restyle(style, old draw.TextStyle) draw.TextStyle {
	style.XAlign, style.YAlign, style.Rotation = old.XAlign, old.YAlign, old.Rotation
	return style
}

func (a Axis) ticker() plot.Ticker {
	if len(a.Marks) > 0 {
		ticks := make([]plot.Tick, len(a.Marks))
		for i, mark := range a.Marks {
			ticks[i] = plot.Tick{Value: a.along(mark.At), Label: fit(tickText, mark.Label, widest)}
		}
		return plot.ConstantTicks(ticks)
	}
	most := a.Ticks
	if most == 0 {
		most = defaultTicks
	}
	if a.Log {
		return decades{most}
	}
	return round{most}
}

// round are ticks at multiples of 1, 2 or 5 times a power of ten.
type round struct{ most int }

// Ticks are at most as many as were asked for.
func (r round) Ticks(lowest, highest float64) []plot.Tick {
	step := RoundStep((highest - lowest) / float64(r.most))
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for k := math.Ceil(lowest/step - 1e-6); k <= highest/step+1e-6; k++ {
		value := k*step + 0 // no negative zero
		ticks = append(ticks, plot.Tick{Value: value, Label: grouped(value, digits)})
	}
	return ticks
}

// RoundStep is the smallest of 1, 2 or 5 times a power of ten that is not below least.
func RoundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// decades are ticks at powers of ten, with unnamed ones at 2 to 9 times them. Over less than two decades, 2 and 5 are
// named as well.
type decades struct{ most int }

// Ticks leaves names out where there are more decades than may have one. It is asked in logarithms, and answers so.
func (d decades) Ticks(lowest, highest float64) []plot.Tick {
	first, last := int(math.Floor(lowest)), int(math.Ceil(highest))
	every := max(1, (last-first+d.most-1)/d.most)
	var ticks []plot.Tick
	for k := first; k <= last; k++ {
		for factor := 1; factor <= 9; factor++ {
			value := float64(factor) * math.Pow10(k)
			tick := plot.Tick{Value: math.Log10(value)}
			if tick.Value < lowest-1e-9 || tick.Value > highest+1e-9 {
				continue
			}
			if factor == 1 && k%every == 0 || highest-lowest < 2 && (factor == 2 || factor == 5) {
				tick.Label = grouped(value, max(0, -k))
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// grouped writes a number with commas between thousands.
func grouped(value float64, digits int) string {
	text := strconv.FormatFloat(value, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return sign + whole
}
