package profiler

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// mostFaults is how many sizes may fail before the estimator gives up.
const mostFaults = 2

// next returns the next trial over cores, or why there is none. A run that is not exact enough goes on before anything
// else.
func (q Question) next(runs []Run, c Curve) (Trial, Stop) {
	if n := len(runs); n > 0 {
		if more := q.unfinished(runs[n-1]); more > 0 {
			return Trial{runs[n-1].Cores, runs[n-1].Memory, more, WhyScatter, true}, ""
		}
	}
	switch {
	case len(c.Failed) >= mostFaults || len(c.Failed) > 0 && len(c.Failed) == len(q.Cores):
		return Trial{}, Failing
	case q.spent(runs) >= q.Most:
		return Trial{}, Spent
	}
	if t, again := q.repeat(c); again {
		return t, ""
	}
	left := q.left(c)
	if len(left) == 0 {
		return Trial{}, Tried
	}
	if len(c.Points) < 2 {
		return q.opening(c, left)
	}
	return q.mostOpen(c, left)
}

// spent returns how many trials over cores were made.
func (q Question) spent(runs []Run) (n int) {
	for _, r := range runs {
		if r.Memory == q.full() {
			n++
		}
	}
	return n
}

// left returns the cores that were not tried.
func (q Question) left(c Curve) (left []int) {
	for _, cores := range q.Cores {
		is := func(p Point) bool { return p.Cores == cores }
		if !slices.ContainsFunc(c.Points, is) && !slices.ContainsFunc(c.Slower, is) &&
			!slices.Contains(c.Failed, cores) {
			left = append(left, cores)
		}
	}
	return left
}

// trial returns a trial with full memory, as long as is needed at the expected pace.
func (q Question) trial(cores int, c Curve, why Why) Trial {
	length := q.Short
	if expected := c.At(float64(cores)).Rate / float64(q.Batch); expected > 0 {
		length = min(q.Long, max(q.Short/2,
			time.Duration(q.needed(cores, expected)*float64(time.Second)).Round(time.Second)))
	}
	return Trial{Cores: cores, Memory: q.full(), For: length, Why: why}
}

// opening returns the first two points: the rate of one core, and the size at which the GPUs are the limit. That is
// expected at the knee if the trainer's rate with ready data (Bound) is known, and else with all cores. If the smallest
// size fails, the next one is tried in its place.
func (q Question) opening(c Curve, left []int) (Trial, Stop) {
	most := left[len(left)-1]
	switch {
	case len(c.Points) == 0 && len(c.Failed) > 0:
		return q.trial(left[0], c, WhyCoreNext), ""
	case len(c.Points) == 0:
		return q.trial(left[0], c, WhyCore), ""
	case c.Bound > 0:
		first := c.Points[0]
		knee := float64(first.Cores) * c.Bound / first.Rate
		for _, cores := range left {
			if float64(cores) >= knee && cores < most && cores > first.Cores {
				return q.trial(cores, c, WhyBound), ""
			}
		}
	}
	return q.trial(most, c, WhyMost), ""
}

// repeat repeats a size that was slower than fewer cores by more than its scatter. If the second run agrees, the point
// is dropped from the curve.
func (q Question) repeat(c Curve) (Trial, bool) {
	if q.Recorded {
		return Trial{}, false
	}
	for i := 1; i < len(c.raw); i++ {
		a, b := c.raw[i-1], c.raw[i]
		if b.Runs == 1 && b.Rate < a.Rate*(1-max(sensitivity.Noise, 2*math.Hypot(a.Scatter, b.Scatter))) {
			return q.trial(b.Cores, c, WhyFall), true
		}
	}
	return Trial{}, false
}

// mostOpen returns the trial that could change a grant most; Known if none could change a rate by more than Learn.
// Differences of 1e-9 are those of rounding.
func (q Question) mostOpen(c Curve, left []int) (Trial, Stop) {
	best, open, why := 0, q.Learn+2e-9, WhyKnee
	for _, cores := range left {
		gap, doubt := c.gap(cores), c.doubt(cores)+c.largestFall()
		would := gap + doubt
		if cores == q.Share {
			would *= ofShare
		}
		// Of sizes that are equally open take the last: beyond all points it answers for the others, and between two
		// points it has most to lose.
		if would >= open-1e-9 {
			best, open, why = cores, would, WhyKnee
			if doubt > gap {
				why = WhyDoubt
			}
		}
	}
	if best == 0 {
		return Trial{}, Known
	}
	return q.trial(best, c, why), ""
}

const (
	// ofShare is the weight of the rate at the share compared with others, because all gains are relative to it.
	ofShare = 1.5
	// trust is how far a rate may be off the model, relative to it, per e-fold of cores to the next measured point,
	// where the rate follows the cores; where it does not, it cannot be off. Values between 0.1 and 0.4 make little
	// difference.
	trust = 0.2
)

// gap returns how much the model leaves open at this number of cores, relative to the rate.
func (c Curve) gap(cores int) float64 {
	i := c.after(cores)
	if i == len(c.Points) {
		at := c.beyond(float64(cores))
		return at.High/at.Rate - 1
	}
	if i == 0 {
		return 0
	}
	low, high := bracket(c.Points[i-1], c.Points[i], float64(cores))
	return high/low - 1
}

// doubt returns by how much the model itself may be wrong at this number of cores, relative to the rate. It grows with
// the distance to the nearer point, as far as the rate follows the cores there (trust).
func (c Curve) doubt(cores int) float64 {
	i := c.after(cores)
	if i == 0 || i == len(c.Points) {
		return 0
	}
	a, b := c.Points[i-1], c.Points[i]
	below, above := math.Log(float64(cores)/float64(a.Cores)), math.Log(float64(b.Cores)/float64(cores))
	rise := math.Log(b.Rate / a.Rate)
	// The second point is faster than its cores explain: there is a step that the model does not have.
	unexplained := max(0, rise-below-above)
	return float64(trust*min(1, rise/(below+above))*min(below, above)) + float64(unexplained/2)
}

// after returns the index of the first point with more cores, or as many.
func (c Curve) after(cores int) int {
	i := 0
	for i < len(c.Points) && c.Points[i].Cores < cores {
		i++
	}
	return i
}

// largestFall returns the largest fall of the measured points. They scatter by that much, which may be anywhere.
func (c Curve) largestFall() float64 {
	best, fall := 0.0, 0.0
	for _, p := range c.raw {
		best = max(best, p.Rate)
		fall = max(fall, 1-p.Rate/best)
	}
	return fall
}
