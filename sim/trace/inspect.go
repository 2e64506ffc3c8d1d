package trace

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// Summary describes a trace. Figures that the trace does not determine are zero, and left out of JSON.
type Summary struct {
	Name       string    `json:"trace"`
	Format     Format    `json:"format"`
	Jobs       int       `json:"jobs"`
	Begin      time.Time `json:"begin,omitzero"` // the origin of times
	Span       float64   `json:"span_s"`         // seconds from the first arrival to the last
	Rate       float64   `json:"jobs_per_hour,omitzero"`
	Users      int       `json:"users,omitzero"`
	Queues     int       `json:"queues,omitzero"`
	CPUsPerGPU int       `json:"cpus_per_gpu,omitzero"` // of the profiles with which iterations were counted

	// GPUHours is the sum over all jobs; unknown for recorded traces, whose jobs have iterations instead of durations.
	GPUHours float64 `json:"gpu_hours,omitzero"`
	Load     float64 `json:"offered_load,omitzero"` // GPU-hours an hour: the number of busy GPUs if no job waited

	GPUs    []GPUCount   `json:"gpus"`             // ascending
	Models  []Part       `json:"models,omitempty"` // the most frequent first
	States  []Part       `json:"states,omitempty"` // the most frequent first
	Lengths Distribution `json:"lengths"`
	// Hours counts arrivals by hour of the day if Begin is known, and otherwise from the beginning of the trace.
	Hours [24]int `json:"arrivals_by_hour"`
	Days  []int   `json:"arrivals_by_day"` // from the day of Begin on, or from the beginning of the trace

	Dropped  []Dropped  `json:"dropped,omitempty"`
	Adjusted []Adjusted `json:"adjusted,omitempty"`
}

// GPUCount is the number of jobs with this number of GPUs.
type GPUCount struct {
	GPUs int `json:"gpus"`
	Jobs int `json:"jobs"`
}

// Part is the number of jobs with this name.
type Part struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// Distribution describes the lengths of jobs. Of n jobs, the p-th percentile is the length of the ⌈pn/100⌉-th shortest.
type Distribution struct {
	Unit      string   `json:"unit"` // s or iterations
	Least     float64  `json:"least"`
	P50       float64  `json:"p50"`
	P90       float64  `json:"p90"`
	P99       float64  `json:"p99"`
	Most      float64  `json:"most"`
	Mean      float64  `json:"mean"`
	Histogram []Bucket `json:"histogram"` // without the empty buckets at both ends
}

// Bucket counts the jobs whose length is at least From and less than To.
type Bucket struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Jobs int     `json:"jobs"`
}

const (
	inSeconds    = "s"
	inIterations = "iterations"

	hour = 3600.0
	day  = 24 * hour
)

// Inspect summarises a trace: its totals, what its jobs ask for, and when they arrive.
func Inspect(t *Trace) Summary {
	c := census{
		users:  nameCounts{},
		queues: nameCounts{},
		models: nameCounts{},
		states: nameCounts{},
		gpus:   map[int]int{},
	}
	for _, j := range t.Jobs {
		c.add(j.User, "", j.Model, "", j.GPUs)
		c.arrivals, c.lengths = append(c.arrivals, j.Arrival), append(c.lengths, float64(j.Iterations))
	}
	for _, e := range t.Entries {
		c.add(e.User, e.Queue, "", e.State, e.GPUs)
		c.arrivals, c.lengths = append(c.arrivals, e.Submitted), append(c.lengths, e.Duration)
		c.gpuSeconds += float64(e.Duration * float64(e.GPUs))
	}
	s := Summary{
		Name: t.Name, Format: t.Format, Begin: t.Begin, CPUsPerGPU: t.CPUsPerGPU, Dropped: t.Dropped,
		Adjusted: t.Adjusted,
		Jobs:     len(c.lengths), Users: len(c.users), Queues: len(c.queues), Models: c.models.parts(),
		States: c.states.parts(), GPUs: c.counts(),
		GPUHours: c.gpuSeconds / hour, Lengths: distribution(c.lengths, unitOf(t)),
	}
	s.countArrivals(c.arrivals)
	return s
}

// unitOf is the unit in which the trace has the lengths of jobs: iterations in a recorded trace, seconds in a log.
func unitOf(t *Trace) string {
	if len(t.Jobs) > 0 {
		return inIterations
	}
	return inSeconds
}

// census counts the jobs of a trace by their properties.
type census struct {
	users, queues, models, states nameCounts
	gpus                          map[int]int // jobs by number of GPUs
	arrivals, lengths             []float64   // seconds; seconds or iterations
	gpuSeconds                    float64
}

// add counts one job; an empty text is not counted.
func (c *census) add(user, queue, model, state string, gpus int) {
	c.users.add(user)
	c.queues.add(queue)
	c.models.add(model)
	c.states.add(state)
	c.gpus[gpus]++
}

// counts lists the numbers of GPUs with their jobs, ascending.
func (c *census) counts() []GPUCount {
	var list []GPUCount
	for _, gpus := range slices.Sorted(maps.Keys(c.gpus)) {
		list = append(list, GPUCount{gpus, c.gpus[gpus]})
	}
	return list
}

// nameCounts counts jobs by name; jobs without a name are not counted.
type nameCounts map[string]int

// add counts one job with this name.
func (t nameCounts) add(name string) {
	if name != "" {
		t[name]++
	}
}

// parts lists the names, the most frequent first, and equally frequent ones by name.
func (t nameCounts) parts() []Part {
	var list []Part
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, Part{name, t[name]})
	}
	slices.SortStableFunc(list, func(a, b Part) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return list
}

// countArrivals counts arrivals (seconds since Begin) by hour and by day, and computes rate and load. Between n
// arrivals there are n-1 gaps, so n-1 jobs arrive in the span. Without a span, rate and load stay 0. GPUHours must be
// known before.
func (s *Summary) countArrivals(arrivals []float64) {
	if len(arrivals) == 0 {
		return
	}
	s.Span = roundToMillis(slices.Max(arrivals) - slices.Min(arrivals))
	if s.Span > 0 {
		s.Load, s.Rate = s.GPUHours/(s.Span/hour), float64(len(arrivals)-1)/(s.Span/hour)
	}
	s.Days = make([]int, int((slices.Max(arrivals)+s.sinceMidnight())/day)+1)
	for _, at := range arrivals {
		at += s.sinceMidnight()
		s.Days[int(at/day)]++
		s.Hours[int(math.Mod(at, day)/hour)]++
	}
}

// sinceMidnight is the time of day of Begin, in seconds; 0 if Begin is unknown.
func (s *Summary) sinceMidnight() float64 {
	if s.Begin.IsZero() {
		return 0
	}
	h, m, sec := s.Begin.Clock()
	return float64(h*3600+m*60+sec) + float64(s.Begin.Nanosecond())/1e9
}

// distribution describes the lengths, which it sorts in place.
func distribution(lengths []float64, unit string) Distribution {
	d := Distribution{Unit: unit}
	if len(lengths) == 0 {
		return d
	}
	slices.Sort(lengths)
	total := 0.0
	for _, x := range lengths {
		total += x
	}
	d.Least, d.Most = lengths[0], lengths[len(lengths)-1]
	d.P50, d.P90, d.P99 = percentile(lengths, 50), percentile(lengths, 90), percentile(lengths, 99)
	d.Mean, d.Histogram = total/float64(len(lengths)), histogram(lengths, bounds(unit))
	return d
}

// percentile returns the smallest of the sorted lengths that p percent of them do not exceed.
func percentile(sorted []float64, p int) float64 { return sorted[(len(sorted)*p+99)/100-1] }

// bounds returns the bounds of the buckets: round lengths, each two to four times the one before, and at last one that
// no length reaches (see maxSeconds and maxIterations).
func bounds(unit string) []float64 {
	if unit == inSeconds {
		return []float64{
			0, 1, 3, 10, 30, 60, 180, 600, 1800, hour, 3 * hour, 10 * hour,
			day, 3 * day, 10 * day, 30 * day, 100 * day, 300 * day, 1000 * day, 100_000 * day,
		}
	}
	list := []float64{}
	for x := 1.0; x <= maxIterations; x *= 10 {
		list = append(list, x, 3*x)
	}
	return list
}

// histogram counts sorted lengths into buckets between the bounds, without the empty buckets at both ends. All lengths
// must be within the bounds.
func histogram(sorted, bounds []float64) []Bucket {
	var list []Bucket
	next := 0
	for i := 1; i < len(bounds) && next < len(sorted); i++ {
		first := next
		for next < len(sorted) && sorted[next] < bounds[i] {
			next++
		}
		if next > 0 {
			list = append(list, Bucket{bounds[i-1], bounds[i], next - first})
		}
	}
	return list
}

// WriteJSON writes the summary as JSON.
func (s Summary) WriteJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(s)
}
