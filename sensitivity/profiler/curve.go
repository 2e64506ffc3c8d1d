package profiler

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Point combines all runs with the same cores.
type Point struct {
	Cores   int     `json:"cores"`
	Rate    float64 `json:"samples_per_s"` // per GPU
	Scatter float64 `json:"scatter"`       // standard error, relative to Rate
	Runs    int     `json:"runs"`
}

// Curve is the estimated rate over cores. Its Points never fall.
type Curve struct {
	Points []Point // ascending in cores
	// Slower are points that were measured twice and both times were slower than with fewer cores. A job would then get
	// fewer cores, or use as few workers.
	Slower []Point
	Failed []int   // cores with which the trainer fails, ascending
	Bound  float64 // as in the Question; 0 if the trainer is faster, so that it is wrong

	raw []Point // Points before they were made to rise
}

// floor is the least scatter that is assumed for any run, since two runs of a minute differ by as much.
const floor = 0.03

// weight is the weight of a point in means: its inverse variance, with the scatter at least about floor.
func (p Point) weight() float64 { return 1 / (floor*floor + float64(p.Scatter*p.Scatter)) }

// curve computes the curve from the runs with full memory.
func (q Question) curve(runs []Run) Curve {
	c := Curve{Bound: q.Bound}
	for _, p := range q.points(runs, q.full()) {
		if p.Runs == 0 {
			c.Failed = append(c.Failed, p.Cores)
			continue
		}
		c.Points = append(c.Points, p)
	}
	c.dropSlower()
	c.raw = c.Points
	c.level()
	return c
}

// points combines runs of the same size, ascending in cores. A size that failed once is a point without runs. A
// recorded run has no scatter and nothing to leave out at its beginning, so its rate is taken as it is.
func (q Question) points(runs []Run, memory gres.Memory) (points []Point) {
	paces := make(map[int][]pace)
	for _, r := range runs {
		if r.Memory != memory {
			continue
		}
		at := paceOf(r.Windows, q.workers(r.Cores))
		if q.Recorded {
			at = pace{rate: total(r.Windows).rate()}
		}
		if r.Fault != "" {
			at.rate = 0
		}
		paces[r.Cores] = append(paces[r.Cores], at)
	}
	for cores, all := range paces {
		points = append(points, q.point(cores, all))
	}
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.Cores, b.Cores) })
	return points
}

// point returns the mean of the runs. Its scatter is the larger of that within the runs and that between them.
func (q Question) point(cores int, runs []pace) Point {
	sum, square := 0.0, 0.0
	for _, r := range runs {
		if r.rate <= 0 {
			return Point{Cores: cores}
		}
		sum += r.rate
		square += float64(r.scatter * r.scatter)
	}
	n := float64(len(runs))
	mean, between := sum/n, 0.0
	for _, r := range runs {
		between += float64((r.rate/mean - 1) * (r.rate/mean - 1))
	}
	if n > 1 {
		between /= n - 1
	}
	return Point{cores, mean * float64(q.Batch), math.Sqrt(max(square/n, between) / n), len(runs)}
}

// dropSlower removes the points of which two runs agree that fewer cores are faster.
func (c *Curve) dropSlower() {
	best, kept := 0.0, []Point(nil)
	for _, p := range c.Points {
		if p.Runs > 1 && p.Rate < best*(1-sensitivity.Noise) {
			c.Slower = append(c.Slower, p)
			continue
		}
		best = max(best, p.Rate)
		kept = append(kept, p)
	}
	c.Points = kept
}

// level makes the points rise, by weighted means of those that do not (isotonic fit). The bound counts as a point
// beyond all others, unless the trainer is faster than the bound by more than scatter explains.
func (c *Curve) level() {
	points := slices.Clone(c.Points)
	if n := len(points); n > 0 && c.Bound > 0 {
		if points[n-1].Rate > c.Bound*(1+2*sensitivity.Noise) {
			c.Bound = 0
		} else {
			points = append(points, Point{Rate: c.Bound})
		}
	}
	rates, weights := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		rates[i], weights[i] = p.Rate, p.weight()
	}
	for i, rate := range Isotonic(rates, weights)[:len(c.Points)] {
		points[i].Rate = rate
	}
	c.Points = points[:len(c.Points)]
	c.plateau()
}

// even is how far two rates may differ, relative to them, and count as equal in any case. Scatter may extend that, up
// to evenMost.
const (
	even     = 0.005
	evenMost = 0.06
)

// plateau makes those last points equal that cannot be told apart. Otherwise a job would get all the cores of a node
// for a tenth of a per cent that is not real. They get their weighted mean.
func (c *Curve) plateau() {
	n := len(c.Points)
	first, sum, weights := n, 0.0, 0.0
	for i := n - 1; i >= 0; i-- {
		p, last := c.Points[i], c.Points[n-1]
		if p.Rate < last.Rate*(1-min(evenMost, max(even, 2*math.Hypot(p.Scatter, last.Scatter)))) {
			break
		}
		weight := p.weight()
		first, sum, weights = i, sum+float64(weight*p.Rate), weights+weight
	}
	for i := first; i < n; i++ {
		c.Points[i].Rate = sum / weights
	}
}

// Isotonic returns the sequence nearest to rates that does not fall, by weighted least squares (pool adjacent
// violators). Weights are above 0.
func Isotonic(rates, weights []float64) []float64 {
	type pool struct {
		sum, weight float64
		size        int
	}
	mean := func(p pool) float64 { return p.sum / p.weight }
	var pools []pool
	for i, rate := range rates {
		pools = append(pools, pool{rate * weights[i], weights[i], 1})
		for n := len(pools); n > 1 && mean(pools[n-2]) > mean(pools[n-1]); n = len(pools) {
			last := pools[n-1]
			pools = pools[:n-1]
			pools[n-2].sum += last.sum
			pools[n-2].weight += last.weight
			pools[n-2].size += last.size
		}
	}
	level := make([]float64, 0, len(rates))
	for _, p := range pools {
		for range p.size {
			level = append(level, mean(p))
		}
	}
	return level
}

// Estimate is a rate with the interval in which it should be, in samples/s per GPU.
type Estimate struct{ Low, Rate, High float64 }

// At returns the rate with some cores. Below the first point it falls in proportion, and beyond the last it stays the
// same, since nothing was measured there. A curve without points is 0 everywhere. With fewer cores than the first point
// it may be as fast as that at most, if one core is not the limit there.
func (c Curve) At(cores float64) Estimate {
	n := len(c.Points)
	if n == 0 {
		return Estimate{}
	}
	next := 0
	for next < n && float64(c.Points[next].Cores) <= cores {
		next++
	}
	switch {
	case next == 0:
		first := c.Points[0]
		rate := first.Rate * cores / float64(first.Cores)
		return Estimate{rate, rate, first.Rate}.widened(first.Scatter)
	case next == n:
		return c.beyond(cores).widened(c.Points[n-1].Scatter)
	}
	return between(c.Points[next-1], c.Points[next], cores)
}

// beyond returns the rate with more cores than were measured. It may rise up to the bound, at most in proportion to the
// cores; without a bound it is taken not to rise.
func (c Curve) beyond(cores float64) Estimate {
	last := c.Points[len(c.Points)-1]
	high := last.Rate
	if c.Bound > high {
		high = min(c.Bound, last.Rate*cores/float64(last.Cores))
	}
	return Estimate{last.Rate, last.Rate, high}
}

// between returns the rate between two measured points: the middle of what the model leaves open.
func between(a, b Point, cores float64) Estimate {
	low, high := bracket(a, b, cores)
	return Estimate{low, (low + high) / 2, high}.widened(max(a.Scatter, b.Scatter))
}

// bracket returns the chord as the lower bound and the model's hard knee as the upper. If b is faster than a's rate per
// core explains, there is no knee between them.
func bracket(a, b Point, cores float64) (low, high float64) {
	part := (cores - float64(a.Cores)) / float64(b.Cores-a.Cores)
	low = a.Rate + float64(part*(b.Rate-a.Rate))
	return low, max(low, min(a.Rate*cores/float64(a.Cores), b.Rate))
}

func (e Estimate) widened(scatter float64) Estimate {
	return Estimate{e.Low * (1 - 2*scatter), e.Rate, e.High * (1 + 2*scatter)}
}

// Knot is a corner of the curve, which is straight between two of them.
type Knot struct{ Cores, Rate float64 }

// Knots returns the measured points and, between two of them, the knee that the model predicts, at the middle of what
// it leaves open.
func (c Curve) Knots() (knots []Knot) {
	for i, p := range c.Points {
		if i > 0 {
			a := c.Points[i-1]
			if knee := float64(a.Cores) * p.Rate / a.Rate; knee > float64(a.Cores) && knee < float64(p.Cores) {
				knots = append(knots, Knot{knee, between(a, p, knee).Rate})
			}
		}
		knots = append(knots, Knot{float64(p.Cores), p.Rate})
	}
	return knots
}

// Knee returns the fewest cores that reach the best rate less the given part of it; 0 if nothing was measured.
func (c Curve) Knee(part float64) float64 {
	knots := c.Knots()
	if len(knots) == 0 {
		return 0
	}
	enough := float64(knots[len(knots)-1].Rate * (1 - part))
	for i, k := range knots {
		if k.Rate < enough {
			continue
		}
		if i == 0 {
			return k.Cores
		}
		a := knots[i-1]
		return a.Cores + float64((enough-a.Rate)/(k.Rate-a.Rate)*(k.Cores-a.Cores))
	}
	return knots[len(knots)-1].Cores
}
