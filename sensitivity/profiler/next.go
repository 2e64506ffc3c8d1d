package profiler

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// mostFaults is how many sizes may fail before the trainer is left in peace.
const mostFaults = 2

// next is the trial of cores that follows, or why there is none.
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

// spent is how many trials of cores were made.
func (q Question) spent(runs []Run) (n int) {
	for _, r := range runs {
		if r.Memory == q.full() {
			n++
		}
	}
	return n
}

// left are the cores that were not tried.
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

// trial is one with full memory, as long as a trainer of the expected pace needs.
func (q Question) trial(cores int, c Curve, why Why) Trial {
	length := q.Short
	if expected := c.At(float64(cores)).Rate / float64(q.Batch); expected > 0 {
		length = min(q.Long, max(q.Short/2,
			time.Duration(q.needed(cores, expected)*float64(time.Second)).Round(time.Second)))
	}
	return Trial{Cores: cores, Memory: q.full(), For: length, Why: why}
}

// opening are the first two points: what one core gives, and where the GPUs are the limit. Those are expected at the
// knee where the trainer has told what the GPUs do with the data at hand, and else with all cores.
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

// repeat asks again where more cores were slower by more than scatter. When the second run says so, too, the point is
// dropped from the curve.
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

// mostOpen is the trial that could change a grant most.
func (q Question) mostOpen(c Curve, left []int) (Trial, Stop) {
	best, open, why := 0, q.Learn+2e-9, WhyKnee
	for _, cores := range left {
		gap, doubt := c.gap(cores), c.doubt(cores)+c.unrest()
		would := gap + doubt
		if cores == q.Share {
			would *= ofShare
		}
		// Of those that are as open the last: beyond all points it answers for the others, and between two it has the
		// most to lose.
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
	// ofShare is what the rate at the share counts more than others: all gains are relative to it.
	ofShare = 1.5
	// trust is how far a rate may be off the model, relative to it, for each e-fold of cores to the next measured
	// point, where it follows the cores. Where it does not, there is nothing that it could be off. Between 0.1 and 0.4
	// it makes little difference.
	trust = 0.2
)

// gap is what the model leaves open with some cores, relative to the rate.
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

// doubt is what may be wrong with the model with some cores, relative to the rate.
func (c Curve) doubt(cores int) float64 {
	i := c.after(cores)
	if i == 0 || i == len(c.Points) {
		return 0
	}
	a, b := c.Points[i-1], c.Points[i]
	below, above := math.Log(float64(cores)/float64(a.Cores)), math.Log(float64(b.Cores)/float64(cores))
	rise := math.Log(b.Rate / a.Rate)
	// b is faster than a's cores can be: there is a step that the model does not have
	unexplained := max(0, rise-below-above)
	return float64(trust*min(1, rise/(below+above))*min(below, above)) + float64(unexplained/2)
}

// after is the index of the first point with more cores.
func (c Curve) after(cores int) int {
	i := 0
	for i < len(c.Points) && c.Points[i].Cores < cores {
		i++
	}
	return i
}

// unrest is what measured points fall at most: so much scatters, and may be anywhere.
func (c Curve) unrest() float64 {
	best, fall := 0.0, 0.0
	for _, p := range c.raw {
		best = max(best, p.Rate)
		fall = max(fall, 1-p.Rate/best)
	}
	return fall
}
