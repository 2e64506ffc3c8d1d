package figure

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// Axis is one axis of a panel.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool   // logarithmic; Min must be above 0
	Marks    []Name // the ticks; empty: at round numbers
	Ticks    int    // the most round numbers; 0: 6
	// Bare keeps the labels and leaves out ticks and the line.
	Bare bool
}

// Name is a label at a position of an axis.
type Name struct {
	At    float64
	Label string
}

// defaultTicks is the default for Axis.Ticks.
const defaultTicks = 6

// maxLabelWidth is the maximal width of a label beside an axis, in points.
const maxLabelWidth = 130

// applyTo applies this axis' range, ticks and texts to the library's axis. An empty range becomes one of length 1,
// since positions are parts of it.
func (a Axis) applyTo(axis *plot.Axis) {
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

// along maps a value to the library's axis, which is always linear: its own logarithmic axis would find a wrong middle
// and leave room for an absent label. Values that a logarithmic axis cannot show are moved to its beginning.
func (a Axis) along(value float64) float64 {
	if a.Log {
		return math.Log10(max(value, a.Min))
	}
	return value
}

// Part is the position of a value along the axis: 0 at its beginning, 1 at its end.
func (a Axis) Part(value float64) float64 {
	return (a.along(value) - a.along(a.Min)) / (a.along(a.Max) - a.along(a.Min))
}

// restyle returns the style with the alignment and rotation that the library had chosen for the text.
func restyle(style, old draw.TextStyle) draw.TextStyle {
	style.XAlign, style.YAlign, style.Rotation = old.XAlign, old.YAlign, old.Rotation
	return style
}

// ticker returns the axis' own marks, or else ticks at round numbers.
func (a Axis) ticker() plot.Ticker {
	if len(a.Marks) > 0 {
		ticks := make([]plot.Tick, len(a.Marks))
		for i, mark := range a.Marks {
			ticks[i] = plot.Tick{Value: a.along(mark.At), Label: fit(tickText, mark.Label, maxLabelWidth)}
		}
		return plot.ConstantTicks(ticks)
	}
	most := a.Ticks
	if most == 0 {
		most = defaultTicks
	}
	if a.Log {
		return decadeTicker{most}
	}
	return roundTicker{most}
}

// roundTicker makes at most most ticks at multiples of 1, 2 or 5 times a power of ten.
type roundTicker struct{ most int }

// Ticks implements plot.Ticker. The small numbers keep a tick or a digit that rounding errors would lose.
func (r roundTicker) Ticks(lowest, highest float64) []plot.Tick {
	step := RoundStep((highest - lowest) / float64(r.most))
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	for k := math.Ceil(lowest/step - 1e-6); k <= highest/step+1e-6; k++ {
		value := k*step + 0 // adding 0 turns -0 into 0
		ticks = append(ticks, plot.Tick{Value: value, Label: grouped(value, digits)})
	}
	return ticks
}

// RoundStep returns the smallest of 1, 2 and 5 times a power of ten that is at least least, but for a rounding error.
func RoundStep(least float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= least*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// decadeTicker makes ticks at powers of ten, with unlabelled ones at 2 to 9 times them. On an axis of less than two
// decades, 2 and 5 are labelled as well.
type decadeTicker struct{ most int }

// Ticks implements plot.Ticker on an axis of logarithms. It leaves labels out if there are more than most decades.
func (d decadeTicker) Ticks(lowest, highest float64) []plot.Tick {
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

// grouped formats a number with commas between thousands.
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
