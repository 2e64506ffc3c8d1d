package trace

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sizes of the drawn histograms.
const (
	barWidth  = 40
	mostBars  = 28 // of one histogram
	mostParts = 16 // with a name of their own
)

// WriteText writes the summary as text with histograms in ASCII, at most 100 columns wide unless a name is long.
func (s Summary) WriteText(w io.Writer) error {
	var b strings.Builder
	s.writeFacts(&b)
	s.writeChanges(&b)
	writeBars(&b, "GPUs of a job", s.gpuRows())
	writeBars(&b, "models", rows(s.Models))
	writeBars(&b, "states", rows(s.States))
	writeBars(&b, s.lengthTitle(), s.lengthRows())
	if s.Span >= hour {
		writeBars(&b, s.hourTitle(), s.hourRows())
	}
	if len(s.Days) > 1 {
		writeBars(&b, s.dayTitle(), s.dayRows())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFacts writes the figures of the whole trace, without those that are unknown.
func (s Summary) writeFacts(b *strings.Builder) {
	fmt.Fprintf(b, "trace %s, format %s\n\n", s.Name, s.Format)
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-13s %s\n", name, fmt.Sprintf(format, args...))
	}
	fact("jobs", "%s", grouped(s.Jobs))
	if !s.Begin.IsZero() {
		fact("begins", "%s", s.Begin.Format(timeLayout(s.Begin)))
	}
	if s.Span > 0 {
		fact("arrivals", "over %s, %s an hour", durationText(s.Span), decimals(s.Rate))
	} else {
		fact("arrivals", "all at once")
	}
	if s.Users > 0 {
		fact("users", "%s", grouped(s.Users))
	}
	if s.Queues > 0 {
		fact("queues", "%s", grouped(s.Queues))
	}
	if s.CPUsPerGPU > 0 {
		fact("recorded with", "%d CPUs for each GPU", s.CPUsPerGPU)
	}
	if s.GPUHours > 0 {
		fact("GPU-hours", "%s", decimals(s.GPUHours))
	}
	if s.Load > 0 {
		fact("offered load", "%s GPU-hours an hour: so many GPUs are busy if nobody waits", decimals(s.Load))
	}
}

// timeLayout is the layout of a moment. The zone is left out if it is UTC, which also stands for an unknown zone.
func timeLayout(moment time.Time) string {
	if _, offset := moment.Zone(); offset != 0 {
		return "2006-01-02 15:04:05 -07:00"
	}
	return "2006-01-02 15:04:05"
}

// writeChanges lists the jobs that were left out of the trace or changed, by reason.
func (s Summary) writeChanges(b *strings.Builder) {
	if len(s.Dropped) > 0 {
		b.WriteString("\nleft out\n\n")
	}
	for _, d := range s.Dropped {
		fmt.Fprintf(b, "  %12s  %s\n", grouped(d.Count), d.Why)
	}
	if len(s.Adjusted) > 0 {
		b.WriteString("\nchanged\n\n")
	}
	for _, a := range s.Adjusted {
		fmt.Fprintf(b, "  %12s  %s\n", grouped(a.Count), a.How)
	}
}

// row is one bar of a histogram.
type row struct {
	label string
	jobs  int
}

// writeBars draws a histogram; its longest bar has barWidth characters, and any job is at least one. Without a job
// nothing is written.
func writeBars(b *strings.Builder, title string, rows []row) {
	width, most, total := 12, 0, 0
	for _, r := range rows {
		width, most, total = max(width, len(r.label)), max(most, r.jobs), total+r.jobs
	}
	if total == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n\n", title)
	for _, r := range rows {
		part := float64(r.jobs) / float64(total) * 100
		bar := strings.Repeat("#", int(math.Ceil(float64(r.jobs)/float64(most)*barWidth)))
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %*s %11s %5.1f %%  %s", width, r.label, grouped(r.jobs), part,
			bar), " ") + "\n")
	}
}

// gpuRows returns a row for each number of GPUs that occurs. If there are more than mostParts of these, it returns a
// row for each range between powers of two instead.
func (s Summary) gpuRows() []row {
	var list []row
	for _, c := range s.GPUs {
		list = append(list, row{strconv.Itoa(c.GPUs), c.Jobs})
	}
	if len(list) <= mostParts {
		return list
	}
	list = nil
	for low := 1; len(s.GPUs) > 0 && low <= s.GPUs[len(s.GPUs)-1].GPUs; low *= 2 {
		r := row{label: fmt.Sprintf("%d-%d", low, 2*low-1)}
		for _, c := range s.GPUs {
			if c.GPUs >= low && c.GPUs < 2*low {
				r.jobs += c.Jobs
			}
		}
		list = append(list, r)
	}
	return list
}

// rows returns the most frequent parts, and one row for the sum of the others.
func rows(parts []Part) []row {
	var list []row
	for i, p := range parts {
		if i == mostParts {
			list = append(list, row{label: fmt.Sprintf("%d others", len(parts)-mostParts)})
		}
		if i >= mostParts {
			list[mostParts].jobs += p.Jobs
			continue
		}
		list = append(list, row{p.Name, p.Jobs})
	}
	return list
}

// lengthTitle is the title of the histogram of lengths, with their percentiles.
func (s Summary) lengthTitle() string {
	d, show := s.Lengths, durationText
	title := "how long jobs ran"
	if d.Unit == inIterations {
		title, show = "iterations of a job", func(x float64) string { return grouped(int(math.Round(x))) }
	}
	return fmt.Sprintf("%s: half at most %s, 90 %% %s, 99 %% %s, the longest %s, on average %s",
		title, show(d.P50), show(d.P90), show(d.P99), show(d.Most), show(d.Mean))
}

// lengthRows returns a row for each bucket of lengths.
func (s Summary) lengthRows() []row {
	show := boundText
	if s.Lengths.Unit == inIterations {
		show = iterationsText
	}
	var list []row
	for _, bucket := range s.Lengths.Histogram {
		list = append(list, row{show(bucket.From) + " - " + show(bucket.To), bucket.Jobs})
	}
	return list
}

// hourTitle is the title of the histogram of arrivals by hour, which depends on whether the time of day is known.
func (s Summary) hourTitle() string {
	if s.Begin.IsZero() {
		return "arrivals by hour, the trace beginning at 0 o'clock"
	}
	return "arrivals by hour of the day"
}

// hourRows returns a row for each hour of the day.
func (s Summary) hourRows() []row {
	var list []row
	for h, jobs := range s.Hours {
		list = append(list, row{fmt.Sprintf("%02d:00", h), jobs})
	}
	return list
}

// daysPerBar is the number of days that one bar stands for, so that there are at most mostBars.
func (s Summary) daysPerBar() int { return (len(s.Days) + mostBars - 1) / mostBars }

// dayTitle is the title of the histogram of arrivals by day.
func (s Summary) dayTitle() string {
	if s.daysPerBar() > 1 {
		return fmt.Sprintf("arrivals in %d days each, from that day on", s.daysPerBar())
	}
	return "arrivals by day"
}

// dayRows returns a row for each step of days, named after the first of them.
func (s Summary) dayRows() []row {
	var list []row
	for chunk := range slices.Chunk(s.Days, s.daysPerBar()) {
		r := row{label: s.date(len(list) * s.daysPerBar())}
		for _, jobs := range chunk {
			r.jobs += jobs
		}
		list = append(list, r)
	}
	return list
}

// date is the name of a day, counted from that of Begin: its date, or its number if Begin is unknown.
func (s Summary) date(number int) string {
	if s.Begin.IsZero() {
		return fmt.Sprintf("day %d", number)
	}
	return s.Begin.AddDate(0, 0, number).Format("2006-01-02")
}

// durationText formats a duration in the largest fitting unit, with one decimal.
func durationText(seconds float64) string {
	switch {
	case seconds < 60:
		return decimals(seconds) + " s"
	case seconds < hour:
		return decimals(seconds/60) + " min"
	case seconds < 2*day:
		return decimals(seconds/hour) + " h"
	}
	return decimals(seconds/day) + " d"
}

// boundText formats a bound of a bucket of durations, which is always a whole number of its unit.
func boundText(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < hour:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < day:
		return fmt.Sprintf("%.0f h", seconds/hour)
	}
	return fmt.Sprintf("%.0f d", seconds/day)
}

// iterationsText formats a bound of a bucket of iterations with a prefix for thousands, such as 300 k.
func iterationsText(n float64) string {
	const prefixes = " kMGT"
	i := 0
	for ; n >= 1000 && i < len(prefixes)-1; i++ {
		n /= 1000
	}
	return strings.TrimSpace(fmt.Sprintf("%.0f %c", n, prefixes[i]))
}

// decimals formats a number with one decimal below 1000, without a trailing zero.
func decimals(x float64) string {
	whole := math.Floor(math.Round(x*10) / 10)
	if tenth := int(math.Round((x - whole) * 10)); tenth > 0 && whole < 1000 {
		return fmt.Sprintf("%.0f.%d", whole, tenth)
	}
	return grouped(int(math.Round(x)))
}

// grouped formats a whole number with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
