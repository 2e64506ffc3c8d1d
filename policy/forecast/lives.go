package forecast

import (
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Habits are how much of their time limits jobs use, from 0 to 1, ascending: the edges of parts that are equally
// likely, two at least.
type Habits []float64

// DefaultHabits are those of sites of which nothing has been seen: a tenth of the jobs fails at once, a tenth is ended
// by its limit, and the others use any part of it (Mu'alem and Feitelson, IEEE TPDS 2001, §4).
func DefaultHabits() Habits {
	return Habits{0.001, 0.02, 0.14, 0.26, 0.38, 0.5, 0.62, 0.74, 0.86, 1, 1}
}

// at is the part below which so great a share of the jobs is.
func (h Habits) at(share float64) float64 {
	place := float64(share * float64(len(h)-1))
	k := min(int(place), len(h)-1)
	if k == len(h)-1 {
		return h[k]
	}
	return h[k] + float64((place-float64(k))*(h[k+1]-h[k]))
}

// below is the share of jobs that use less than a part of their limits.
func (h Habits) below(part float64) float64 {
	k, _ := slices.BinarySearch(h, part)
	switch {
	case k == 0:
		return 0
	case k == len(h):
		return 1
	}
	return (float64(k-1) + (part-h[k-1])/(h[k]-h[k-1])) / float64(len(h)-1)
}

// beyond is a part that a job uses which has used so much, drawn from those that are left.
func (h Habits) beyond(used, chance float64) float64 {
	from := h.below(used)
	return max(used, h.at(from+float64(chance*(1-from))))
}

// Seen are the parts of their limits that jobs used which ran in one snapshot and are not in the next, in the order of
// the first: of the time that they took, or would have taken, at the proportional share.
func Seen(before, after *policy.Cluster) []float64 {
	still := make(map[int]bool, len(after.Jobs))
	for i := range after.Jobs {
		still[after.Jobs[i].ID] = true
	}
	var parts []float64
	for i := range before.Jobs {
		if j := &before.Jobs[i]; j.Running != nil && j.TimeLimit > 0 && !still[j.ID] {
			between := after.Now.Sub(before.Now) / 2
			parts = append(parts, used(j, min(between, j.TimeLimit/10)))
		}
	}
	return parts
}

// used is the part of its limit that a job has used, and uses in some more time.
func used(j *policy.Job, more time.Duration) float64 {
	return min(1, max(0, (j.Done+more).Seconds()/j.TimeLimit.Seconds()))
}

// EnoughHabits is how many jobs must have been seen to end to go by them.
const EnoughHabits = 30

// edges is how many parts there are of habits that were learned.
const edges = 40

// Learn are the habits of a site by the parts that were seen and by the jobs that run, of which more is to be seen
// (Kaplan and Meier, JASA 1958): those who use little of their limits are seen first. Without enough they are the
// default ones.
func Learn(seen []float64, c *policy.Cluster) Habits {
	if len(seen) < EnoughHabits {
		return DefaultHabits()
	}
	ended := slices.Clone(seen)
	slices.Sort(ended)
	var open []float64
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Running != nil && j.TimeLimit > 0 {
			open = append(open, used(j, 0))
		}
	}
	slices.Sort(open)
	h, left, gone := make(Habits, 0, edges+1), 1.0, 0
	for k, part := range ended {
		for gone < len(open) && open[gone] < part {
			gone++
		}
		left = float64(left * (1 - 1/float64(len(ended)-k+len(open)-gone)))
		for len(h) <= edges && float64(len(h))/edges <= 1-left {
			h = append(h, part)
		}
	}
	for rest := float64(edges + 1 - len(h)); len(h) <= edges; rest-- { // of these nothing but their limits is known
		last := ended[len(ended)-1]
		h = append(h, last+float64((1-last)/rest))
	}
	return h
}

// What is not known of lengths.
const (
	scatter   = 0.25      // standard deviation of the logarithm of a length over what was declared
	beginning = time.Hour // what a job of unknown length is taken to have run for already, at least
	endless   = 30 * 24 * time.Hour
)

// knowledge is what a length is drawn from.
type knowledge int

const (
	declared knowledge = iota // its user said so
	limited                   // it has a time limit, of which jobs use a part
	unknown
)

// known is what is known of a job's length at that time.
func known(j *policy.Job, now time.Time) knowledge {
	left := j.TimeLimit
	if j.Running != nil {
		left -= now.Sub(j.Started)
	}
	switch {
	case j.Length > 0 && (j.TimeLimit == 0 || j.Length-j.Done < left):
		return declared
	case j.TimeLimit > 0:
		return limited
	}
	return unknown
}

// work is what a job has done when it ends, in time at the proportional share, by a chance from 0 to 1; more than it
// has done.
func work(j *policy.Job, now time.Time, h Habits, chance float64) time.Duration {
	switch known(j, now) {
	case declared:
		return j.Done + left(j.Length-j.Done, j.Length, j.Done, chance)
	case limited:
		part := used(j, 0)
		more := h.beyond(part, chance) - part
		return j.Done + max(time.Second, times(j.TimeLimit, more))
	}
	// Who has run for long goes on for long: as likely as not as long again.
	return j.Done + min(endless, times(max(j.Done, beginning), 1/(1-min(chance, 0.999))-1)) + time.Second
}

// left is what a job has left whose user said how long it is. What he says scatters; what has been done is certain.
func left(expected, length, done time.Duration, chance float64) time.Duration {
	if expected <= 0 { // it is over its time: about a tenth of it more
		return max(time.Second, times(length, 0.1*chance))
	}
	z := math.Sqrt2 * math.Erfinv(2*min(max(chance, 1e-6), 1-1e-6)-1)
	sure := done.Seconds() / length.Seconds() // the nearer its end, the less is open
	s := scatter * math.Sqrt(1-sure)
	return max(time.Second, times(expected, math.Exp(float64(s*z)-float64(float64(s*s)/2))))
}

// times is a part, or a multiple, of a time.
func times(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, float64(endless)*12))
}

// chance is a number from 0 to 1, 1 excluded, that follows from what it is for alone (splitmix64).
func chance(words ...uint64) float64 {
	const step = 0x9e3779b97f4a7c15
	x := uint64(0)
	for _, word := range words {
		x = mixed(x + step + word)
	}
	return float64(float64(x>>11) / (1 << 53))
}

func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
