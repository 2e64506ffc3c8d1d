package page

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// mostCount bounds each figure of a stored point: no cluster has more MiB.
const mostCount = 1 << 50

// Print writes a point in the form that ReadPoint reads.
func (p *Point) Print() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write a point of round %d: %w", p.Round, err)
	}
	return text, nil
}

// ReadPoint reads a stored point, and refuses one with impossible figures.
func ReadPoint(text []byte) (p Point, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return Point{}, fmt.Errorf("read a point: %w", err)
	}
	if !p.possible() {
		return Point{}, fmt.Errorf("read a point of round %d: it has figures that cannot be", p.Round)
	}
	return p, nil
}

// possible says whether all figures are within bounds.
func (p *Point) possible() bool {
	counts := []int{p.Round, p.ForCores, p.ForMemory, p.Failed, p.Rounds}
	for _, u := range []Use{p.GPUs, p.Cores, p.Memory} {
		counts = append(counts, u.Total, u.Share, u.Lent, u.Foreign, u.Closed, u.Stranded, u.Free)
	}
	counts = slices.AppendSeq(counts, maps.Values(p.Waiting))
	for _, took := range []time.Duration{p.Observed, p.Planned, p.Acted} {
		if took < 0 || took > 365*day {
			return false
		}
	}
	amiss := func(n int) bool { return n < 0 || n > mostCount }
	inBounds := func(x float64) bool { return x >= 0 && x < mostCount }
	return !slices.ContainsFunc(counts, amiss) && inBounds(p.Gain) && inBounds(p.Ratio)
}

// Mean replaces the points of each interval of this length by one: the mean of their values, the number and time of the
// first round, and the sum of failed steps. Points may come in any order.
func Mean(points []Point, length time.Duration) []Point {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b Point) int { return a.Began.Compare(b.Began) })
	var few []Point
	for len(points) > 0 {
		start := points[0].Began.Truncate(length)
		end := slices.IndexFunc(points, func(p Point) bool { return !p.Began.Before(start.Add(length)) })
		if end < 0 {
			end = len(points)
		}
		few = append(few, meanOf(points[:end]))
		points = points[end:]
	}
	return few
}

// meanOf returns the mean of at least one point. Points that are means themselves count with their number of rounds.
func meanOf(points []Point) Point {
	m := Point{Round: points[0].Round, Began: points[0].Began, Shadow: points[len(points)-1].Shadow,
		Waiting: map[bridge.WaitReason]int{}}
	for _, p := range points {
		m.Rounds += max(1, p.Rounds)
	}
	weighed := func(of func(*Point) float64) float64 {
		sum := 0.0
		for i := range points {
			sum += float64(float64(max(1, points[i].Rounds)) * of(&points[i]))
		}
		return sum / float64(m.Rounds)
	}
	whole := func(of func(*Point) int) int {
		return int(math.Round(weighed(func(p *Point) float64 { return float64(of(p)) })))
	}
	m.GPUs = meanUse(whole, func(p *Point) Use { return p.GPUs })
	m.Cores = meanUse(whole, func(p *Point) Use { return p.Cores })
	m.Memory = meanUse(whole, func(p *Point) Use { return p.Memory })
	m.ForCores = whole(func(p *Point) int { return p.ForCores })
	m.ForMemory = whole(func(p *Point) int { return p.ForMemory })
	for _, reason := range waitReasons() {
		if n := whole(func(p *Point) int { return p.Waiting[reason] }); n > 0 {
			m.Waiting[reason] = n
		}
	}
	m.Observed = time.Duration(weighed(func(p *Point) float64 { return float64(p.Observed) }))
	m.Planned = time.Duration(weighed(func(p *Point) float64 { return float64(p.Planned) }))
	m.Acted = time.Duration(weighed(func(p *Point) float64 { return float64(p.Acted) }))
	m.Gain = known(points, func(p *Point) float64 { return p.Gain })
	m.Ratio = known(points, func(p *Point) float64 { return p.Ratio })
	for _, p := range points {
		m.Failed += p.Failed
	}
	return m
}

// meanUse is the mean of each part of a Use.
func meanUse(whole func(func(*Point) int) int, of func(*Point) Use) Use {
	part := func(get func(Use) int) int { return whole(func(p *Point) int { return get(of(p)) }) }
	return Use{
		Total:    part(func(u Use) int { return u.Total }),
		Share:    part(func(u Use) int { return u.Share }),
		Lent:     part(func(u Use) int { return u.Lent }),
		Foreign:  part(func(u Use) int { return u.Foreign }),
		Closed:   part(func(u Use) int { return u.Closed }),
		Stranded: part(func(u Use) int { return u.Stranded }),
		Free:     part(func(u Use) int { return u.Free }),
	}
}

// known is the mean of a figure over the points that have it; 0 if none has.
func known(points []Point, of func(*Point) float64) float64 {
	sum, n := 0.0, 0.0
	for i := range points {
		if x := of(&points[i]); x > 0 {
			weight := float64(max(1, points[i].Rounds))
			sum, n = sum+float64(weight*x), n+weight
		}
	}
	return sum / cmp.Or(n, 1)
}

// Reach is how far back the page of rounds looks.
type Reach struct {
	Days   int           // 0: the stored reports
	Length time.Duration // the time that one point stands for
}

// Reaches are the choices of a reader. Each has no more points than a chart draws.
var Reaches = []Reach{{}, {1, 10 * time.Minute}, {7, time.Hour}, {30, 4 * time.Hour}, {365, 2 * day}}

// Furthest is the longest reach in days.
var Furthest = Reaches[len(Reaches)-1].Days

// ReachOf returns the reach with this number of days.
func ReachOf(days int) (Reach, bool) {
	i := slices.IndexFunc(Reaches, func(r Reach) bool { return r.Days == days })
	if i < 0 {
		return Reach{}, false
	}
	return Reaches[i], true
}

// Words is the name of the reach.
func (r Reach) Words() string {
	switch r.Days {
	case 0:
		return "the last rounds"
	case 1:
		return "a day"
	}
	return fmt.Sprintf("%d days", r.Days)
}

// Over formats the time that one point stands for.
func (r Reach) Over() string {
	switch {
	case r.Length >= day:
		return fmt.Sprintf("%d days", r.Length/day)
	case r.Length > time.Hour:
		return fmt.Sprintf("%d hours", r.Length/time.Hour)
	case r.Length == time.Hour:
		return "hour"
	}
	return fmt.Sprintf("%d minutes", r.Length/time.Minute)
}
