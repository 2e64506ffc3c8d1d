package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// growth is a job, a larger size, and what that brings beyond its cost, in GPU-seconds at the proportional speed.
type growth struct {
	job int
	to  sensitivity.Option
	net float64
}

// trifle is a gain, in GPU-seconds, that may be a rounding error.
const trifle = 1e-3

// passes bounds how often changes that gain more than they cost are searched for anew, since one may make room for
// another.
const passes = 4

// improve changes running jobs where that gains more than it costs: first by what is free where they are, then by moves
// to idle servers, by trades on a server, which cost more than one restart, and by exchanges between servers.
func (b allocation) improve() {
	s, x := sizing(b), exchanging{appraisal(b)}
	for again, pass := true, 0; again && pass < passes; pass++ {
		again = s.grow()
		if b.uncontested.any() {
			again = s.relocate() || again
		}
		again = s.trade() || again
		again = x.swap() || again
	}
}

// grow gives jobs more of what is left where they are, as long as one gains more than its restart costs. The jobs that
// gain most come first, in case the rules limit restarts.
func (b sizing) grow() bool {
	grown := false
	for all := b.growths(); len(all) > 0; all = b.growths() {
		slices.SortFunc(all, func(x, y growth) int { return cmp.Or(cmp.Compare(y.net, x.net), cmp.Compare(x.job, y.job)) })
		for _, g := range all {
			s := &b.seats[g.job]
			if b.sizable(g.job) && g.to.Gain > s.gain && b.mayHave(g.job, g.to.Size.Minus(s.size)) {
				b.resize(g.job, g.to)
				grown = true
			}
		}
	}
	return grown
}

// trade gives the jobs that gain most by it what others on their server give back, as long as that is worth all the
// restarts.
func (b sizing) trade() bool {
	traded := false
	for n := range b.servers {
		for range passes * len(b.servers[n].jobs) {
			if b.traded.has(n) || !b.tradeOn(n) {
				break
			}
			traded = true
		}
	}
	return traded
}

// tradeOn makes the best trade on server n, and reports whether there is one.
func (b sizing) tradeOn(n int) bool {
	if b.stops <= 0 {
		return false
	}
	b.traded.add(n)
	g, plan := b.bestTrade(n)
	if g.net <= trifle {
		return false
	}
	b.carryOut(&plan, b.jobs[g.job].ID)
	b.resize(g.job, g.to)
	return true
}

// bestTrade finds the job on server n that gains most, all restarts paid, by what others on it give back, and how they
// give it.
func (b sizing) bestTrade(n int) (growth, clearing) {
	best := growth{net: trifle}
	var how clearing
	plan := clearing{server: n, shrinks: b.trial}
	spared := b.spared(n)
	for _, i := range b.servers[n].jobs {
		s := &b.seats[i]
		if len(s.servers) > 1 || s.menu.demand().Gain <= s.gain {
			continue
		}
		ahead := b.ahead(i)
		if b.netOver(i, s.menu.demand().Gain, ahead) <= trifle || !b.growable(i) || !b.sizable(i) {
			continue
		}
		for _, o := range above(s) {
			missing := o.Size.Minus(s.size).Minus(b.servers[n].open())
			plan.shrinks = plan.shrinks[:0]
			if !covered(missing.Minus(spared)) || !b.affordsMore(i, o.Size.Minus(s.size)) ||
				b.netOver(i, o.Gain, ahead) <= best.net || !b.giveBack(&plan, missing, i) {
				continue
			}
			net := b.netTrade(i, o, plan)
			if net <= best.net {
				continue
			}
			if !b.within(plan, i) {
				b.traded.drop(n)
				continue
			}
			best, how = growth{i, o, net}, plan
			how.shrinks = slices.Clone(plan.shrinks)
		}
	}
	if b.counted(n) {
		b.traded.drop(n)
	}
	b.trial = plan.shrinks[:0]
	return best, how
}

// netTrade is what a trade brings in all until the first of its jobs ends, less the cost of the restarts.
func (b sizing) netTrade(i int, to sensitivity.Option, plan clearing) float64 {
	ahead := b.ahead(i)
	for _, s := range plan.shrinks {
		ahead = min(ahead, b.ahead(s.job))
	}
	net := b.netOver(i, to.Gain, ahead)
	for _, s := range plan.shrinks {
		net += b.netOver(s.job, s.to.Gain, ahead)
	}
	return net
}

// within reports whether the rules allow the restarts of a trade.
func (b sizing) within(plan clearing, i int) bool {
	stops := asInt(b.restarts(i))
	for _, s := range plan.shrinks {
		stops += asInt(b.restarts(s.job))
	}
	return stops <= b.stops
}

func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// growths finds on each server the job that gains most by growing.
func (b sizing) growths() []growth {
	var all []growth
	for n := range b.servers {
		if b.grown.has(n) {
			continue
		}
		if g := b.bestGrowth(n); g.net > trifle {
			all = append(all, g)
		} else if b.stops > 0 && !b.counted(n) {
			b.grown.add(n)
		}
	}
	return all
}

// bestGrowth finds the job on server n that gains most by growing into what is free there; its net is trifle if there
// is none.
func (b sizing) bestGrowth(n int) growth {
	best := growth{net: trifle}
	if left := b.servers[n].open(); left.CPUs <= 0 && left.Memory <= 0 {
		return best
	}
	for _, i := range b.servers[n].jobs {
		s := &b.seats[i]
		if !b.sizable(i) || s.menu.demand().Gain <= s.gain || !b.growable(i) {
			continue
		}
		for _, o := range above(s) {
			if !b.mayHave(i, o.Size.Minus(s.size)) {
				continue
			}
			if net := b.netGain(i, o.Gain); net > best.net {
				best = growth{i, o, net}
			}
		}
	}
	return best
}

// mayHave reports whether its servers and quotas leave job i so much more on each node.
func (b sizing) mayHave(i int, more gres.Vector) bool {
	return b.allHave(b.seats[i].servers, more) && b.affordsMore(i, more)
}

// sizable reports whether the size of job i is free to choose, or the rules allow a restart of it.
func (b constraints) sizable(i int) bool {
	st := b.seats[i].standing
	return st == fresh || st == kept && b.stops > 0 && b.seats[i].earned
}

// growable reports whether job i may have more where it is, and can be asked to give that back.
func (b constraints) growable(i int) bool { return b.seats[i].class.lends && b.resizable(i) }

// resize gives job i another size where it is.
func (b preemption) resize(i int, to sensitivity.Option) {
	if s := &b.seats[i]; s.standing == kept {
		b.stop(i, Grows, "")
	}
	b.reseat(i, fresh, to)
}

// relocate moves jobs to servers with idle GPUs if they gain more than it costs. Servers that a waiting job could use
// are left alone: a move may break up the room there, or leave it idle until the next round.
func (b sizing) relocate() bool {
	moved := false
	for _, i := range b.order {
		moved = b.moveOn(i) || moved
	}
	if moved {
		b.widen()
	}
	return moved
}

// moveOn moves job i to where it gains most, and reports whether it did.
func (b sizing) moveOn(i int) bool {
	s := &b.seats[i]
	if !b.mayMove(i) {
		return false
	}
	n, to := b.betterPlace(i)
	if n < 0 {
		return false
	}
	if s.standing == kept {
		b.stop(i, Grows, "")
	}
	home := s.servers[0]
	b.unseat(i)
	b.seatAt(i, []int{n}, to)
	b.spreadOn(home)
	return true
}

// mayMove reports whether job i may leave its server, which no waiting job could use, and could gain by that.
func (b sizing) mayMove(i int) bool {
	s := &b.seats[i]
	if !s.class.lends || len(s.servers) != 1 || b.netGain(i, s.menu.demand().Gain) <= trifle {
		return false
	}
	return b.uncontested.has(s.servers[0]) && (s.standing == fresh || b.sizable(i) && b.resizable(i))
}

// betterPlace finds the server and the size with which job i gains most; -1 if it gains nowhere.
func (b sizing) betterPlace(i int) (server int, to sensitivity.Option) {
	server = -1
	best, seen := trifle, 0
	s := &b.seats[i]
	b.now.from(s.size.GPUs, s.class.eligible.servers.and(b.roomy).and(b.uncontested), func(n int) bool {
		m := b.menu(s.class, s.size.GPUs, n)
		for _, o := range m.options {
			if m.profile != s.menu.profile {
				break // its speed is unknown on one of the two
			}
			if net := b.netGain(i, o.Gain*(m.unit/s.menu.unit)); net > best*(1+tie) && n != s.servers[0] &&
				!s.class.shutTo(n) && o.Size.Fits(b.servers[n].open()) &&
				b.affordsMore(i, o.Size.Minus(s.size)) {
				server, to, best = n, o, net
			}
		}
		seen++
		return seen < looks
	})
	return server, to
}

// netGain is what another gain brings to job i, less the cost of the restart, in GPU-seconds at the proportional speed.
func (b constraints) netGain(i int, gain float64) float64 { return b.netOver(i, gain, b.ahead(i)) }

// ahead is for how long a change to job i may count its gain: rules.payback, in which a restart must have paid off, or
// less if the job ends before.
func (b constraints) ahead(i int) time.Duration { return b.until(i, b.c.Rules.payback()) }

// until is ahead, or the time until job i would end at its present speed, if that is less.
func (b constraints) until(i int, ahead time.Duration) time.Duration {
	if left, was := remaining(b.jobs[i]), b.seats[i].gain; left != unknown && was > 0 {
		// Compared as numbers: at a gain near zero the end is too far off for a duration.
		if end := float64(left) / was; end < float64(ahead) {
			ahead = time.Duration(end)
		}
	}
	return ahead
}

// netOver is netGain over a given time. The gain is relative to the share of the server where the job is.
func (b constraints) netOver(i int, gain float64, ahead time.Duration) float64 {
	j := b.jobs[i]
	unit := b.seats[i].menu.unit
	net := worth(j, (gain-b.seats[i].gain)*unit, ahead)
	if b.restarts(i) {
		net -= worth(j, gain*unit, min(ahead, j.restartLoss(b.c.Now)))
	}
	return net
}

// restarts reports that another size or place means a restart of job i that does not happen anyway.
func (b *board) restarts(i int) bool {
	s := &b.seats[i]
	return !s.stopped && s.standing != fresh
}
