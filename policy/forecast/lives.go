package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Habits are quantiles of the part of its time limit that a job uses, from 0 to 1, ascending and equally likely; at
// least two.
type Habits []float64

// DefaultHabits are for sites without observations: a tenth of the jobs fails at once, a tenth is ended by its limit,
// and the others use any part of it (Mu'alem and Feitelson, IEEE TPDS 2001, §4).
func DefaultHabits() Habits {
	return Habits{0.001, 0.02, 0.14, 0.26, 0.38, 0.5, 0.62, 0.74, 0.86, 1, 1}
}

// quantile is the part of its limit that a job uses so that the given share of the jobs uses no more, interpolated. The
// share is from 0 to 1.
func (h Habits) quantile(share float64) float64 {
	place := float64(share * float64(len(h)-1))
	k := min(int(place), len(h)-1)
	if k == len(h)-1 {
		return h[k]
	}
	return h[k] + float64((place-float64(k))*(h[k+1]-h[k]))
}

// shareBelow is the share of jobs that use less than a part of their limits; it is the inverse of quantile. drawBeyond
// uses it to draw for a running job only among the jobs that use at least as much as it has used.
func (h Habits) shareBelow(part float64) float64 {
	k, _ := slices.BinarySearch(h, part)
	switch {
	case k == 0:
		return 0
	case k == len(h):
		return 1
	}
	return (float64(k-1) + (part-h[k-1])/(h[k]-h[k-1])) / float64(len(h)-1)
}

// drawBeyond draws the part of its limit that a job uses in total, given that it has used some already; chance is from
// 0 to 1.
func (h Habits) drawBeyond(used, chance float64) float64 {
	from := h.shareBelow(used)
	return max(used, h.quantile(from+float64(chance*(1-from))))
}

// Seen returns, for jobs that ran in one snapshot and are gone in the next, the parts of their limits that they used,
// in the order of the first snapshot. Learn learns from these. Time counts at the proportional share, as in Job.Done. A
// job's end is taken to be in the middle between the snapshots, but no more than a tenth of its limit after the first.
func Seen(before, after *policy.Cluster) []float64 {
	still := make(map[int]bool, len(after.Jobs))
	for i := range after.Jobs {
		still[after.Jobs[i].ID] = true
	}
	var parts []float64
	for i := range before.Jobs {
		if j := &before.Jobs[i]; j.Running != nil && j.TimeLimit > 0 && !still[j.ID] {
			between := after.Now.Sub(before.Now) / 2
			// However far apart the snapshots are, no more than a tenth of the limit is added.
			parts = append(parts, usedPart(j, min(between, j.TimeLimit/10)))
		}
	}
	return parts
}

// usedPart is the part of its limit, from 0 to 1, that a job has used after some more time.
func usedPart(j *policy.Job, more time.Duration) float64 {
	return min(1, max(0, (j.Done+more).Seconds()/j.TimeLimit.Seconds()))
}

// EnoughHabits is how many ended jobs Learn needs to use them.
const EnoughHabits = 30

// habitIntervals is into how many equally likely intervals Learn divides the parts.
const habitIntervals = 40

// Learn estimates a site's habits from the observed parts and from running jobs, whose parts are still growing (Kaplan
// and Meier, JASA 1958): without the latter, jobs that use little of their limits would count too much, since they end
// first. With fewer than EnoughHabits observations it returns the defaults.
func Learn(seen []float64, c *policy.Cluster) Habits {
	if len(seen) < EnoughHabits {
		return DefaultHabits()
	}
	ended := slices.Clone(seen)
	slices.Sort(ended)
	var open []float64
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Running != nil && j.TimeLimit > 0 {
			open = append(open, usedPart(j, 0))
		}
	}
	slices.Sort(open)
	// left is the part of all jobs that use more than the present part; gone are the running ones that have used less
	// than that, of which no more is known.
	h, left, gone := make(Habits, 0, habitIntervals+1), 1.0, 0
	for k, part := range ended {
		for gone < len(open) && open[gone] < part {
			gone++
		}
		left = float64(left * (1 - 1/float64(len(ended)-k+len(open)-gone)))
		for len(h) <= habitIntervals && float64(len(h))/habitIntervals <= 1-left {
			h = append(h, part)
		}
	}
	// Of the jobs that use more than any ended one nothing but the limit is known: they are spread evenly up to it.
	last := ended[len(ended)-1]
	for rest := float64(habitIntervals + 1 - len(h)); len(h) <= habitIntervals; rest-- {
		last += float64((1 - last) / rest)
		h = append(h, last)
	}
	return h
}

// Assumptions about unknown lengths.
const (
	// standard deviation of the logarithm of a length relative to the declared one
	lengthDeviation = 0.25
	assumedRun      = time.Hour           // a job of unknown length counts as having run for at least this
	maxRemaining    = 30 * 24 * time.Hour // the most that a job of unknown length still runs
)

// knowledge is the source from which a job's length is drawn.
type knowledge int

const (
	declaredLength knowledge = iota // by its user
	limitedLength                   // by a time limit, of which jobs use a part
	unknownLength
)

// lengthKnowledge says from what a job's length is drawn, at that time. A declared length beyond the time limit does
// not count, since the limit ends the job before.
func lengthKnowledge(j *policy.Job, now time.Time) knowledge {
	left := j.TimeLimit
	if j.Running != nil {
		left -= now.Sub(j.Started)
	}
	switch {
	case j.Length > 0 && (j.TimeLimit == 0 || j.Length-j.Done < left):
		return declaredLength
	case j.TimeLimit > 0:
		return limitedLength
	}
	return unknownLength
}

// endProgress is the progress at which a job ends in one future, in time at the proportional share. A chance from 0 to
// 1 draws it from what is known of the job's length. It is more than the job has done, so every job goes on for some
// time.
func endProgress(j *policy.Job, now time.Time, h Habits, chance float64) time.Duration {
	switch lengthKnowledge(j, now) {
	case declaredLength:
		return j.Done + remainingLength(j.Length-j.Done, j.Length, j.Done, chance)
	case limitedLength:
		part := usedPart(j, 0)
		more := h.drawBeyond(part, chance) - part
		return j.Done + max(time.Second, scaled(j.TimeLimit, more))
	}
	// A job that has run for long goes on for long: half of the jobs that have run for a time run twice that or more.
	return j.Done + min(maxRemaining, scaled(max(j.Done, assumedRun), 1/(1-min(chance, 0.999))-1)) + time.Second
}

// remainingLength is the remaining time of a job with a declared length, drawn by a chance from 0 to 1. The lengths of
// such jobs scatter around the declared one: the remaining time has a log-normal distribution with the expected
// remaining time as its mean. The part that is done is certain, so the remaining time scatters less towards the end.
func remainingLength(expected, length, done time.Duration, chance float64) time.Duration {
	if expected <= 0 { // it is overdue: up to a tenth of its length more
		return max(time.Second, scaled(length, 0.1*chance))
	}
	z := math.Sqrt2 * math.Erfinv(2*min(max(chance, 1e-6), 1-1e-6)-1)
	sure := done.Seconds() / length.Seconds() // the nearer the end, the less is uncertain
	s := lengthDeviation * math.Sqrt(1-sure)
	return max(time.Second, scaled(expected, math.Exp(float64(s*z)-float64(float64(s*s)/2))))
}

// scaled multiplies a time. The result is at most twelve times maxRemaining, so that later sums do not overflow.
func scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, float64(maxRemaining)*12))
}

// hashChance is a hash of its arguments as a number from 0 to 1, 1 excluded (splitmix64). It stands in for a random
// number, so that forecasts with equal seeds draw the same for each job.
func hashChance(words ...uint64) float64 {
	const step = 0x9e3779b97f4a7c15
	x := uint64(0)
	for _, word := range words {
		x = splitmixFinal(x + step + word)
	}
	return float64(float64(x>>11) / (1 << 53))
}

// splitmixFinal is the finalizer of splitmix64.
func splitmixFinal(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
