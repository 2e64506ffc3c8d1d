package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Point is what charts show of one round.
type Point struct {
	Round               int
	Began               time.Time
	Shadow              bool
	GPUs, Cores, Memory Use // Memory in MiB
	// ForCores and ForMemory count the GPUs stranded for want of cores and of memory; their sum is GPUs.Stranded.
	ForCores, ForMemory int
	Waiting             map[bridge.WaitReason]int
	Gain                float64 // mean over the granted GPUs; 0: no GPU was granted
	Ratio               float64 // the plan's value relative to its bound; 0: there is no certificate
	// Observed, Planned and Acted are the times to observe Slurm, to decide and check, and to do the rest.
	Observed, Planned, Acted time.Duration
	Failed                   int // steps that ended with an error
	Rounds                   int `json:",omitempty"` // rounds of which the point is the mean; 0: it is one round
}

// Took is the duration of the round.
func (p Point) Took() time.Duration { return p.Observed + p.Planned + p.Acted }

// when says what the newest point stands for.
func (p Point) when() string {
	if p.Rounds == 0 {
		return "The newest round"
	}
	return "The newest " + counted(p.Rounds, "round") + ", in the mean"
}

// Waits is the number of waiting jobs.
func (p Point) Waits() (all int) {
	for _, n := range p.Waiting {
		all += n
	}
	return all
}

// planning are the phases of a round that neither change anything nor make requests.
var planning = []string{"decide", "check", "certify", "diff"}

// PointOf extracts a point from a report.
func PointOf(report bridge.Report) Point {
	c := clusterOf(report, Health{}, Asked{}, report.Began)
	p := Point{Round: report.Round, Began: report.Began, Shadow: report.Shadow, GPUs: c.GPUs, Cores: c.Has[1].Use,
		Memory: c.Has[2].Use, Gain: c.Gain, Waiting: map[bridge.WaitReason]int{}}
	for _, n := range c.Nodes {
		if n.Lacks == "memory" {
			p.ForMemory += n.GPUs.Stranded
		} else {
			p.ForCores += n.GPUs.Stranded
		}
	}
	for _, r := range c.Queue.Reasons {
		p.Waiting[r.Reason] += r.N
	}
	if report.Certificate != nil {
		p.Ratio = report.Certificate.Ratio()
	}
	for _, phase := range report.Phases {
		switch {
		case phase.Name == "observe":
			p.Observed += phase.Took
		case slices.Contains(planning, phase.Name):
			p.Planned += phase.Took
		default:
			p.Acted += phase.Took
		}
	}
	for _, s := range report.Steps {
		if s.Error != "" {
			p.Failed++
		}
	}
	return p
}

// Past is the input of the page of rounds.
type Past struct {
	Points []Point // in any order
	Reach  Reach
	Kept   bool     // a history is kept, so the reader can look further back
	Gaps   []string // days of the history that could not be read
}

// rounds is the data of the page of rounds.
type rounds struct {
	Past
	Reaches []Reach
	Charts  []chart
	Rows    []Point // the newest first
	More    int
	All     int // rounds
	Newest  int
	From    time.Time
}

// roundsOf makes the data of the page of rounds.
func roundsOf(past Past) rounds {
	points := slices.Clone(past.Points)
	slices.SortStableFunc(points, func(a, b Point) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Round, b.Round))
	})
	r := rounds{Past: past, Reaches: Reaches}
	for _, p := range points {
		r.All += max(1, p.Rounds)
	}
	if len(points) == 0 {
		return r
	}
	r.From, r.Newest = points[0].Began, points[len(points)-1].Round
	if r.Reach.Days == 0 {
		r.Charts = charted(points, stretchesOf(points))
	} else {
		r.Charts = charted(points, lengthsOf(points, r.Reach.Length))
	}
	r.Rows = slices.Clone(points)
	slices.Reverse(r.Rows)
	r.Rows, r.More = first(r.Rows)
	return r
}

// stretchesOf gives each point the time until the next one, but at most three usual rounds.
func stretchesOf(points []Point) []stretch {
	usual := usualGap(points)
	all := make([]stretch, len(points))
	for i, p := range points {
		until := p.Began.Add(usual)
		if i+1 < len(points) {
			until = points[i+1].Began
			if latest := p.Began.Add(3 * usual); until.After(latest) {
				until = latest
			}
		}
		all[i] = stretch{From: p.Began, Until: until}
	}
	return all
}

// lengthsOf gives each mean the interval that contains its first round.
func lengthsOf(points []Point, length time.Duration) []stretch {
	all := make([]stretch, len(points))
	for i, p := range points {
		start := p.Began.Truncate(length)
		all[i] = stretch{From: start, Until: start.Add(length)}
	}
	return all
}

// usualGap is the median time between two rounds.
func usualGap(points []Point) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(points); i++ {
		gaps = append(gaps, points[i].Began.Sub(points[i-1].Began))
	}
	slices.Sort(gaps)
	if len(gaps) == 0 || gaps[len(gaps)/2] <= 0 {
		return 5 * time.Minute
	}
	return gaps[len(gaps)/2]
}

// waitReasons lists the reasons in their fixed order.
func waitReasons() (all []bridge.WaitReason) {
	for _, cause := range bridge.WaitCauses() {
		if !slices.Contains(all, cause.Reason()) {
			all = append(all, cause.Reason())
		}
	}
	return all
}

// series computes values from the points and returns them as stretches.
type series func(of func(Point) []float64) []stretch

// charted draws all charts. Each point's values last for its span.
func charted(points []Point, spans []stretch) []chart {
	valued := series(func(of func(Point) []float64) []stretch {
		all := slices.Clone(spans)
		for i := range all {
			all[i].Values = of(points[i])
		}
		return all
	})
	newest := points[len(points)-1]
	return []chart{
		gpuChart(newest, valued),
		stacked("cores", "Cores by who has them", useTold(newest.when(), "cores", newest.Cores), useKeys,
			valued(func(p Point) []float64 { return useValues(p.Cores, 1) }), 1),
		stacked("memory", "Memory in GB by who has it", useTold(newest.when(), "MiB", newest.Memory), useKeys,
			valued(func(p Point) []float64 { return useValues(p.Memory, 1000) }), 1),
		waitChart(newest, valued), ratioChart(newest, valued), tookChart(newest, valued),
	}
}

func gpuChart(newest Point, valued series) chart {
	told := fmt.Sprintf("%s: of %d GPUs our jobs have %d, other people %d; %d are idle, of them %d for "+
		"want of cores and %d for want of memory; %d are on closed nodes.", newest.when(), newest.GPUs.Total,
		newest.GPUs.Share, newest.GPUs.Foreign, newest.GPUs.Idle(), newest.ForCores, newest.ForMemory,
		newest.GPUs.Closed)
	keys := []key{{"share", "our jobs"}, {"foreign", "other people's"}, {"stranded-cores", "idle for want of cores"},
		{"stranded-memory", "idle for want of memory"}, {"free", "idle"}, {"closed", "on closed nodes"}}
	return stacked("gpus", "GPUs by who has them", told, keys, valued(func(p Point) []float64 {
		return numbers(p.GPUs.Share+p.GPUs.Lent, p.GPUs.Foreign, p.ForCores, p.ForMemory, p.GPUs.Free, p.GPUs.Closed)
	}), 1)
}

func waitChart(newest Point, valued series) chart {
	reasons := waitReasons()
	var keys []key
	for k, reason := range reasons {
		keys = append(keys, key{fmt.Sprintf("c%d", k), string(reason)})
	}
	values := valued(func(p Point) []float64 {
		values := make([]float64, len(reasons))
		for k, reason := range reasons {
			values[k] = float64(p.Waiting[reason])
		}
		return values
	})
	return stacked("waiting", "Jobs that wait, by what binds first", waitTold(newest), keys, values, 1)
}

func ratioChart(newest Point, valued series) chart {
	values := valued(func(p Point) []float64 {
		if p.Ratio == 0 {
			return []float64{math.NaN()}
		}
		return []float64{100 * p.Ratio}
	})
	told := newest.when() + ": nobody worked out what a plan could be."
	if newest.Ratio > 0 {
		told = fmt.Sprintf("%s: %.1f percent.", newest.when(), 100*newest.Ratio)
	}
	return traced("ratio", "What plans are worth, in percent of what any plan could be", told, " %",
		key{"c4", "of the bound"}, values, 0, 100)
}

func tookChart(newest Point, valued series) chart {
	keys := []key{{"c1", "to look at Slurm"}, {"c4", "to decide and check"}, {"c6", "to act"}}
	values := valued(func(p Point) []float64 {
		return []float64{p.Observed.Seconds(), p.Planned.Seconds(), p.Acted.Seconds()}
	})
	return stacked("took", "Seconds that a round took",
		fmt.Sprintf("%s: %.1f seconds.", newest.when(), newest.Took().Seconds()), keys, values, 0.1)
}

var useKeys = []key{{"share", "share of our jobs"}, {"lent", "lent to them beyond it"}, {"foreign", "other people's"},
	{"stranded", "idle, and no GPU for it"}, {"free", "idle"}, {"closed", "on closed nodes"}}

func useValues(u Use, unit float64) []float64 {
	values := numbers(u.Share, u.Lent, u.Foreign, u.Stranded, u.Free, u.Closed)
	for k := range values {
		values[k] /= unit
	}
	return values
}

func numbers(all ...int) []float64 {
	values := make([]float64, len(all))
	for k, n := range all {
		values[k] = float64(max(0, n))
	}
	return values
}

func useTold(when, unit string, u Use) string {
	return fmt.Sprintf("%s: of %d %s our jobs have %d as their share and %d beyond it, other people %d; "+
		"%d are idle, of them %d where no GPU is free.", when, u.Total, unit, u.Share, u.Lent, u.Foreign, u.Idle(),
		u.Stranded)
}

func waitTold(p Point) string {
	var parts []string
	for _, reason := range waitReasons() {
		if n := p.Waiting[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d for %s", n, reason))
		}
	}
	if parts == nil {
		return p.when() + ": nobody waits."
	}
	return p.when() + ": " + strings.Join(parts, ", ") + "."
}
