package page

import (
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// Day is what the ledger of savings booked on a day, in the shadow or not.
type Day struct {
	Day    time.Time // its beginning, UTC
	Shadow bool
	savings.Sums
}

// Saved is the input of the savings page.
type Saved struct {
	Kept         bool // the daemon keeps a ledger of savings
	Days         []Day
	Since, Until time.Time
	Skipped      int // lines that cannot be read or whose figures are impossible
}

// Spans are the numbers of days that a reader can choose.
var Spans = []int{7, 30, 90}

// saved is the data of the savings page.
type saved struct {
	Saved
	Choices []choice
	Told    []told
	Charts  []chart
	Rows    []Day // the newest first
}

// choice is a span that a reader can choose.
type choice struct {
	Days   int
	Chosen bool
}

// told summarises all days in the shadow, or all others.
type told struct{ Sentence, Sure string }

// savedOf makes the data of the savings page.
func savedOf(s Saved) saved {
	page := saved{Saved: s, Rows: slices.Clone(s.Days)}
	slices.Reverse(page.Rows)
	for _, days := range Spans {
		page.Choices = append(page.Choices, choice{days, s.Until.Sub(s.Since).Round(day) == time.Duration(days)*day})
	}
	over := fmt.Sprintf("from %s to %s", s.Since.UTC().Format(time.DateOnly), s.Until.UTC().Format(time.DateOnly))
	looked := 0.
	for _, d := range s.Days {
		looked += d.Seconds / s.Until.Sub(s.Since).Seconds()
	}
	for _, shadow := range []bool{false, true} {
		sums := savings.Sums{}
		for _, d := range s.Days {
			if d.Shadow == shadow {
				sums = sums.Plus(d.Sums)
			}
		}
		if sums.Seconds > 0 {
			page.Told = append(page.Told, told{sums.Sentence(shadow, over),
				sums.Certainty().Words(looked)})
		}
	}
	if len(s.Days) > 0 {
		page.Charts = savedCharts(s.Days)
	}
	return page
}

// savedCharts draws GPU-hours by day, with the shadow and other rounds summed.
func savedCharts(days []Day) []chart {
	sums := map[time.Time]savings.Sums{}
	var order []time.Time
	for _, d := range days {
		if _, known := sums[d.Day]; !known {
			order = append(order, d.Day)
		}
		sums[d.Day] = sums[d.Day].Plus(d.Sums)
	}
	slices.SortFunc(order, time.Time.Compare)
	valued := func(of func(savings.Sums) []float64) (all []stretch) {
		for _, at := range order {
			all = append(all, stretch{From: at, Until: at.Add(day), Values: of(sums[at])})
		}
		return all
	}
	newest := sums[order[len(order)-1]]
	return []chart{
		stacked("saved", "GPU-hours saved, by day", fmt.Sprintf("The last day: %.1f GPU-hours.", hours(newest.Saved)),
			[]key{{"c6", "saved"}}, valued(func(s savings.Sums) []float64 { return []float64{hours(s.Saved)} }), 1),
		stacked("idle", "GPU-hours idle though somebody waited, by what was wanting",
			fmt.Sprintf("The last day: %.1f for want of cores, %.1f of memory, %.1f of their turn, %.1f of others "+
				"beside them.", hours(newest.Cores), hours(newest.Memory), hours(newest.Order), hours(newest.Split)),
			[]key{{"c0", "cores"}, {"c5", "memory"}, {"c1", "their turn"}, {"c8", "others beside them"}},
			valued(func(s savings.Sums) []float64 {
				return []float64{hours(s.Cores), hours(s.Memory), hours(s.Order), hours(s.Split)}
			}), 1),
	}
}

// hours converts from seconds.
func hours(seconds float64) float64 { return seconds / time.Hour.Seconds() }

// Total is what all observed jobs held.
func (d Day) Total() float64 { return d.Held + d.Unmatched }
