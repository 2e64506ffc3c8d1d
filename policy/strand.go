package policy

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// mayTake says whether job i may have more than its least. A job that can be asked to give back always may. What one
// that cannot takes is gone until it ends: it may have it as long as no more GPUs are left without their share than the
// rules allow anyway, or where it gains more by it than those who are expected meanwhile lose.
func (b sizing) mayTake(i int, to sensitivity.Option) bool {
	s := &b.seats[i]
	if s.class.lends {
		return true
	}
	more := to.Size.Minus(s.size)
	if !b.sparesQuota(i, more) {
		return false
	}
	if b.c.Rules.CallableOnly {
		return to.Size.Fits(s.menu.owed[0].Size)
	}
	after := b.stranded
	for _, n := range s.servers {
		sv := b.servers[n]
		after -= sv.stranded()
		sv.free = sv.free.Minus(more)
		after += sv.stranded()
	}
	if after <= b.stranded || after <= b.mayStrand {
		return true
	}
	return (to.Gain-s.gain)*s.menu.unit*float64(b.jobs[i].GPUs) > b.missed(after, b.holds(i, to.Gain))
}

// holds is for how many horizons job i is expected to hold what it is given now; infinite where nobody knows when it
// ends.
func (b sizing) holds(i int, gain float64) float64 {
	j, horizons := b.jobs[i], math.Inf(1)
	if left := remaining(j); left > 0 && left != unknown {
		horizons = float64(left) / gain / float64(b.c.Rules.horizon())
	}
	if j.TimeLimit > 0 {
		horizons = min(horizons, float64(j.TimeLimit)/float64(b.c.Rules.horizon()))
	}
	return horizons
}

// missed is how many GPUs are missed, in the mean over so many horizons, if so many and not those of now go without
// their share. GPUs with their share are taken before those without: first by who waits, then by who is expected. As
// many come as came within the last horizon, evenly, and stay for one. So the GPU that is number r in that line is
// missed from when r have been asked for, and never if fewer are ever there at once.
func (b sizing) missed(stranded int, horizons float64) float64 {
	in := b.comers()
	missed := 0.0
	for r := b.idle - stranded + 1; r <= b.idle-b.stranded; r++ {
		switch beyond := float64(r - in.waiting); {
		case beyond <= 0:
			missed++
		case beyond <= in.arriving*min(1, horizons):
			missed += 1 - beyond/(in.arriving*horizons)
		}
	}
	return missed
}

// interest is who is there or expected to use GPUs that are free.
type interest struct {
	waiting  int     // GPUs for which jobs wait that could use them
	arriving float64 // GPUs that jobs asked for who came within the last horizon
}

// comers is worked out when it is first asked for.
func (b sizing) comers() interest {
	if b.interest != nil {
		return *b.interest
	}
	d := interest{}
	since := b.c.Now.Add(-b.c.Rules.horizon())
	for i, j := range b.jobs {
		if !j.Arrival.Before(since) {
			d.arriving += float64(j.GPUs)
		}
		if s := &b.seats[i]; s.standing == waits && (s.told == nil || !slices.Contains(helpless, s.told.reason)) {
			d.waiting += j.GPUs
		}
	}
	b.interest = &d
	return d
}
