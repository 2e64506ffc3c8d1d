package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chart is a drawing of values over time, as stacked areas or as a line.
type chart struct {
	ID, Title     string
	Told          string // the same in a sentence, for screen readers
	Width, Height int
	Keys          []key
	Up, Across    []tick
	Areas         []area
}

// key is an entry of the legend: the class of a colour and its meaning.
type key struct{ Class, Label string }

// tick is a grid line at At, from X1 to X2, with its label.
type tick struct {
	At, X1, X2, Label string
}

// area is one series as an SVG path.
type area struct{ Class, Path string }

// stretch is a time during which values were constant, with one value for each series.
type stretch struct {
	From, Until time.Time
	Values      []float64
}

// The drawing, in units of its view box.
const (
	chartWidth, chartHeight    = 720, 220
	left, right, above, bottom = 56, 704, 10, 194
	mostStretches              = 240 // beyond this, neighbours are averaged
	mostTicks                  = 6
)

// scale maps times and values to coordinates of the drawing.
type scale struct {
	from, until time.Time
	low, high   float64
}

func (s scale) x(at time.Time) float64 {
	all := s.until.Sub(s.from).Seconds()
	if all <= 0 {
		return left
	}
	part := min(1, max(0, at.Sub(s.from).Seconds()/all))
	return left + float64((right-left)*part)
}

func (s scale) y(value float64) float64 {
	part := min(1, max(0, (value-s.low)/(s.high-s.low)))
	return bottom - float64((bottom-above)*part)
}

// stacked draws series on top of each other, the first one lowest. The axis reaches at least to least. A single series
// may be negative.
func stacked(id, title, told string, keys []key, all []stretch, least float64) chart {
	all = thinned(all)
	s := scaleOf(all, least)
	c := chart{ID: id, Title: title, Told: told, Width: chartWidth, Height: chartHeight, Keys: keys}
	c.grid(s, "")
	for k := range keys {
		c.Areas = append(c.Areas, area{keys[k].Class, areaPath(s, all, k)})
	}
	return c
}

// traced draws one series as a line on an axis from low to high. NaN leaves a gap.
func traced(id, title, told, unit string, name key, all []stretch, low, high float64) chart {
	all = thinned(all)
	s := scaleOf(all, high)
	s.low, s.high = low, high
	c := chart{ID: id, Title: title, Told: told, Width: chartWidth, Height: chartHeight, Keys: []key{name}}
	c.grid(s, unit)
	c.Areas = []area{{name.Class + " line", linePath(s, all)}}
	return c
}

// thinned averages neighbouring stretches until there are at most mostStretches.
func thinned(all []stretch) []stretch {
	if len(all) <= mostStretches {
		return all
	}
	size := (len(all) + mostStretches - 1) / mostStretches
	var few []stretch
	for group := range slices.Chunk(all, size) {
		mean := stretch{From: group[0].From, Until: group[len(group)-1].Until,
			Values: make([]float64, len(group[0].Values))}
		for k := range mean.Values {
			sum, n := 0.0, 0
			for _, one := range group {
				if !math.IsNaN(one.Values[k]) {
					sum, n = sum+one.Values[k], n+1
				}
			}
			mean.Values[k] = sum / float64(n) // NaN if no value was known
		}
		few = append(few, mean)
	}
	return few
}

// scaleOf returns a scale that covers all stretches and at least the values from 0 to least.
func scaleOf(all []stretch, least float64) scale {
	s := scale{high: least}
	for i, one := range all {
		if i == 0 || one.From.Before(s.from) {
			s.from = one.From
		}
		if one.Until.After(s.until) {
			s.until = one.Until
		}
		sum := 0.0
		for _, v := range one.Values {
			sum += v
		}
		s.low, s.high = min(s.low, sum), max(s.high, sum)
	}
	if s.high <= s.low {
		s.high = s.low + 1
	}
	return s
}

// areaPath draws series k on top of those before it, with a gap where time is not covered.
func areaPath(s scale, all []stretch, k int) string {
	var path strings.Builder
	for start := 0; start < len(all); {
		end := start + 1
		for end < len(all) && !all[end].From.After(all[end-1].Until) {
			end++
		}
		areaOf(&path, s, all[start:end], k)
		start = end
	}
	return path.String()
}

// areaOf draws a part without a gap: along the upper edge and back along the lower edge.
func areaOf(path *strings.Builder, s scale, all []stretch, k int) {
	word := "M"
	to := func(at time.Time, value float64) {
		fmt.Fprintf(path, "%s%s %s", word, coordinate(s.x(at)), coordinate(s.y(value)))
		word = "L"
	}
	for i := range all {
		base := sum(all[i].Values[:k])
		to(all[i].From, base+all[i].Values[k])
		to(all[i].Until, base+all[i].Values[k])
	}
	for i := len(all) - 1; i >= 0; i-- {
		base := sum(all[i].Values[:k])
		to(all[i].Until, base)
		to(all[i].From, base)
	}
	path.WriteString("Z")
}

// linePath draws the first series as a line.
func linePath(s scale, all []stretch) string {
	var path strings.Builder
	word := "M"
	for i, one := range all {
		if math.IsNaN(one.Values[0]) {
			word = "M"
			continue
		}
		if i > 0 && one.From.After(all[i-1].Until) {
			word = "M"
		}
		y := coordinate(s.y(one.Values[0]))
		fmt.Fprintf(&path, "%s%s %sL%s %s", word, coordinate(s.x(one.From)), y, coordinate(s.x(one.Until)), y)
		word = "L"
	}
	return path.String()
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// grid adds grid lines at round values and times.
func (c *chart) grid(s scale, unit string) {
	step := roundStep((s.high - s.low) / mostTicks)
	for k := math.Ceil(s.low / step); float64(k*step) <= s.high+step/1000; k++ {
		value := float64(k * step)
		c.Up = append(c.Up, tick{coordinate(s.y(value)), strconv.Itoa(left), strconv.Itoa(right),
			strconv.FormatFloat(value, 'f', -1, 64) + unit})
	}
	for _, at := range moments(s.from, s.until) {
		c.Across = append(c.Across, tick{coordinate(s.x(at.at)), strconv.Itoa(above), strconv.Itoa(bottom), at.label})
	}
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is at least least, and at least 0.001.
func roundStep(least float64) float64 {
	least = max(least, 0.001)
	ten := math.Pow(10, math.Floor(math.Log10(least)))
	for _, times := range []float64{1, 2, 5} {
		if float64(times*ten) >= least*(1-1e-9) {
			return times * ten
		}
	}
	return 10 * ten
}

// moment is a time on the axis, with its label.
type moment struct {
	at    time.Time
	label string
}

const day = 24 * time.Hour

// timeSteps are the possible distances between two labels of the time axis.
var timeSteps = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day}

// moments returns a few round times for the time axis, in UTC.
func moments(from, until time.Time) (all []moment) {
	span := until.Sub(from)
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if span <= s*mostTicks {
			step = s
			break
		}
	}
	if span > step*mostTicks*10 { // centuries, from a clock that was wrong
		return nil
	}
	layout := "01-02"
	if step < day {
		layout = "01-02 15:04"
	}
	for at := from.UTC().Truncate(step); !at.After(until); at = at.Add(step) {
		if !at.Before(from) {
			all = append(all, moment{at, at.Format(layout)})
		}
	}
	return all
}
