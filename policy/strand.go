package policy

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// mayTakeMore reports whether job i may have size to, which is more than it has. A job that can be asked to give back
// always may. What any other takes is gone until it ends, and GPUs that lose their share by that are of little use to
// jobs that come meanwhile. So its quotas must leave other jobs their share (leavesQuotaShare), and either no more GPUs
// are stranded than the rules allow anyway, or it gains more than the jobs expected meanwhile lose. Under CallableOnly
// nothing else is asked, since its menu ends at its share.
func mayTakeMore(b *board, i int, to sensitivity.Option) bool {
	s := &b.states[i]
	if s.class.canGiveBack {
		return true
	}
	more := to.Size.Minus(s.size)
	if !leavesQuotaShare(b, i, more) {
		return false
	}
	if b.c.Rules.CallableOnly {
		return true // its menu has no more than its share
	}
	after := b.stranded
	for _, n := range s.servers {
		sv := b.servers[n] // a copy, to try it
		after -= sv.stranded()
		sv.free = sv.free.Minus(more)
		after += sv.stranded()
	}
	if after <= b.stranded || after <= b.maxStranded {
		return true
	}
	return (to.Gain-s.gain)*s.menu.unit*float64(
		b.jobs[i].GPUs,
	) > expectedMissed(
		b,
		after,
		expectedHorizons(b, i, to.Gain),
	)
}

// expectedHorizons is how long job i is expected to hold what it is given now, in units of rules.horizon: until the end
// of its declared length at this gain, or of its time limit; infinite if neither is known.
func expectedHorizons(b *board, i int, gain float64) float64 {
	j, horizons := b.jobs[i], math.Inf(1)
	if left := remaining(j); left > 0 && left != unknownLength {
		horizons = float64(left) / gain / float64(b.c.Rules.horizon())
	}
	if j.TimeLimit > 0 {
		horizons = min(horizons, float64(j.TimeLimit)/float64(b.c.Rules.horizon()))
	}
	return horizons
}

// expectedMissed is how many GPUs other jobs would lack, in the mean over so many horizons, if as many GPUs as stranded
// were without their share, and not b.stranded as now. mayTakeMore weighs that against what the job gains.
//
// GPUs with their share are assumed to be taken before those without: first by waiting jobs, then by as many GPUs' jobs
// as came within the last horizon, evenly over time, each for one horizon. The GPUs that lose their share are the last
// ones to be taken of those that have it. GPU number r in that order is missed from the time when r GPUs have been
// asked for, and never if fewer than r are in use at once.
func expectedMissed(b *board, stranded int, horizons float64) float64 {
	in := currentDemand(b)
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

// gpuDemand is how many free GPUs jobs want now, or are expected to want.
type gpuDemand struct {
	waiting  int     // GPUs that waiting jobs could use
	arriving float64 // GPUs of the jobs that came within the last horizon
}

// currentDemand returns the demand for free GPUs, computed when first used in a round (board.interest). Waiting jobs
// that a free GPU would not help (cannotUseFree) do not count.
func currentDemand(b *board) gpuDemand {
	if b.interest != nil {
		return *b.interest
	}
	d := gpuDemand{}
	since := b.c.Now.Add(-b.c.Rules.horizon())
	for i, j := range b.jobs {
		if !j.Arrival.Before(since) {
			d.arriving += float64(j.GPUs)
		}
		if s := &b.states[i]; s.status == statusWaiting &&
			(s.answer == nil || !slices.Contains(cannotUseFree, s.answer.reason)) {
			d.waiting += j.GPUs
		}
	}
	b.interest = &d
	return d
}
