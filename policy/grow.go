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
	job    int
	toSize sensitivity.Option
	net    float64
}

// netTolerance is a gain, in GPU-seconds, that may be a rounding error.
const netTolerance = 1e-3

// grow gives jobs more of what is left where they are, as long as one gains more than its restart costs, and reports
// whether any got more. The jobs that gain most come first, in case the rules limit restarts.
func grow(b *board) bool {
	grown := false
	for all := listGrowths(b); len(all) > 0; all = listGrowths(b) {
		slices.SortFunc(
			all,
			func(x, y growth) int { return cmp.Or(cmp.Compare(y.net, x.net), cmp.Compare(x.job, y.job)) },
		)
		for _, g := range all {
			s := &b.states[g.job]
			// Looked at again: earlier ones have taken room and stops, and a gang is listed on each of its servers.
			if sizeIsFree(b, g.job) && g.toSize.Gain > s.gain && mayHaveMore(b, g.job, g.toSize.Size.Minus(s.size)) {
				resize(b, g.job, g.toSize)
				grown = true
			}
		}
	}
	return grown
}

// trade gives the jobs that gain most by it what others on their server give back, as long as that is worth all the
// restarts, and reports whether there was such a trade. The number of trades on a server is at most maxRepeats for each
// job, to bound the work.
func trade(b *board) bool {
	traded := false
	for n := range b.servers {
		for range maxRepeats * len(b.servers[n].jobs) {
			if b.noTradeGains.has(n) || !tradeOn(b, n) {
				break
			}
			traded = true
		}
	}
	return traded
}

// tradeOn makes the best trade on server n, and reports whether there is one. It marks n as searched in vain
// (board.traded), so that it is not searched again; a trade removes the mark, since it changes the server.
func tradeOn(b *board, n int) bool {
	if b.stops <= 0 {
		return false
	}
	b.noTradeGains.add(n)
	g, plan := bestTrade(b, n)
	if g.net <= netTolerance {
		return false
	}
	carryOutPreemption(b, &plan, b.jobs[g.job].ID)
	resize(b, g.job, g.toSize)
	return true
}

// bestTrade finds the job on server n that gains most, all restarts paid, by what others on it give back, and how they
// give it. The net is netTolerance if there is none. The mark of n as searched in vain is removed if another round may
// allow what this one does not.
func bestTrade(b *board, n int) (growth, preemptionPlan) {
	best := growth{net: netTolerance}
	var how preemptionPlan
	plan := preemptionPlan{server: n, shrinks: b.tradeShrinks}
	spared := mostGivenBack(b, n)
	for _, i := range b.servers[n].jobs {
		s := &b.states[i]
		if len(s.servers) > 1 || s.menu.demand().Gain <= s.gain {
			continue
		}
		ahead := paybackTime(b, i)
		if netOver(b, i, s.menu.demand().Gain, ahead) <= netTolerance || !growable(b, i) || !sizeIsFree(b, i) {
			continue
		}
		for _, o := range largerOptions(s) {
			missing := o.Size.Minus(s.size).Minus(b.servers[n].available())
			plan.shrinks = plan.shrinks[:0]
			if !covered(missing.Minus(spared)) || !affordsMore(b, i, o.Size.Minus(s.size)) ||
				netOver(b, i, o.Gain, ahead) <= best.net || !addGiveBack(b, &plan, missing, i) {
				continue
			}
			net := netTrade(b, i, o, plan)
			if net <= best.net {
				continue
			}
			if !withinStops(b, plan, i) {
				b.noTradeGains.removeOne(n) // the next round may allow it, so the search was not in vain
				continue
			}
			best, how = growth{i, o, net}, plan
			how.shrinks = slices.Clone(plan.shrinks)
		}
	}
	if hasQuotaJobs(b, n) {
		b.noTradeGains.removeOne(n)
	}
	b.tradeShrinks = plan.shrinks[:0]
	return best, how
}

// netTrade is what a trade brings to all its jobs together, less the cost of the restarts, in GPU-seconds at the
// proportional speed. Gains count until the first of the jobs ends, at most for rules.payback, since the trade is worth
// nothing after that.
func netTrade(b *board, i int, to sensitivity.Option, plan preemptionPlan) float64 {
	ahead := paybackTime(b, i)
	for _, s := range plan.shrinks {
		ahead = min(ahead, paybackTime(b, s.job))
	}
	net := netOver(b, i, to.Gain, ahead)
	for _, s := range plan.shrinks {
		net += netOver(b, s.job, s.to.Gain, ahead)
	}
	return net
}

// withinStops reports whether the rules allow the restarts of a trade by which job i grows: as many jobs as have to be
// stopped may still be stopped in this round.
func withinStops(b *board, plan preemptionPlan, i int) bool {
	stops := boolToInt(b.needsRestart(i))
	for _, s := range plan.shrinks {
		stops += boolToInt(b.needsRestart(s.job))
	}
	return stops <= b.stops
}

// boolToInt is 1 for true and 0 for false, for counting.
func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// listGrowths finds on each server the job that gains most by growing. A server without one is marked (board.grown) and
// left out until it changes.
func listGrowths(b *board) []growth {
	var all []growth
	for n := range b.servers {
		if b.grown.has(n) {
			continue
		}
		if g := bestGrowth(b, n); g.net > netTolerance {
			all = append(all, g)
		} else if b.stops > 0 && !hasQuotaJobs(b, n) { // else more may be possible in another round
			b.grown.add(n)
		}
	}
	return all
}

// bestGrowth finds the job on server n that gains most by growing into what is free there, its restart paid. If no job
// gains, or nothing is free, the net is netTolerance.
func bestGrowth(b *board, n int) growth {
	best := growth{net: netTolerance}
	if left := b.servers[n].available(); left.CPUs <= 0 && left.Memory <= 0 {
		return best
	}
	for _, i := range b.servers[n].jobs {
		s := &b.states[i]
		if !sizeIsFree(b, i) || s.menu.demand().Gain <= s.gain || !growable(b, i) {
			continue
		}
		for _, o := range largerOptions(s) {
			if !mayHaveMore(b, i, o.Size.Minus(s.size)) {
				continue
			}
			if net := netGain(b, i, o.Gain); net > best.net {
				best = growth{i, o, net}
			}
		}
	}
	return best
}

// mayHaveMore reports whether its servers and quotas leave job i so much more on each node.
func mayHaveMore(b *board, i int, more gres.Vector) bool {
	return b.allHave(b.states[i].servers, more) && affordsMore(b, i, more)
}

// sizeIsFree reports whether job i may get another size: it starts or restarts anyway, or the rules still allow a stop
// in this round and its last restart has paid off (hasEarned). It is false for a job whose turn has not come.
func sizeIsFree(b *board, i int) bool {
	st := b.states[i].status
	return st == statusStarting || st == statusKept && b.stops > 0 && b.states[i].earned
}

// growable reports whether job i may be given more where it is. It may if it can be asked to give that back
// (jobClass.canGiveBack) and could be restarted there. Any other job gets more than its least size only when it starts,
// see mayTakeMore.
func growable(b *board, i int) bool { return b.states[i].class.canGiveBack && resizable(b, i) }

// resize gives job i another size where it is. A job that is kept is stopped for that, with reason Grows; readDecision
// fills in the text when the final speed is known.
func resize(b *board, i int, to sensitivity.Option) {
	if s := &b.states[i]; s.status == statusKept {
		b.stop(i, Grows, "")
	}
	b.setSize(i, statusStarting, to)
}

// relocate moves jobs to servers with idle GPUs if they gain more than it costs, and reports whether any moved. Servers
// that a waiting job could use are left alone: a move may break up the room there, or leave it idle until the next
// round.
func relocate(b *board) bool {
	if !b.uncontested.any() {
		return false
	}
	moved := false
	for _, i := range b.order {
		moved = moveToIdle(b, i) || moved
	}
	if moved {
		widenGangs(b)
	}
	return moved
}

// moveToIdle moves job i to where it gains most, and reports whether it did. A running job is stopped for that, with
// reason Grows. What the job leaves is handed out at once to the jobs that start or restart on its old server, whose
// size is free to choose.
func moveToIdle(b *board, i int) bool {
	s := &b.states[i]
	if !mayRelocate(b, i) {
		return false
	}
	n, to := betterPlace(b, i)
	if n < 0 {
		return false
	}
	if s.status == statusKept {
		b.stop(i, Grows, "")
	}
	home := s.servers[0]
	b.takeOff(i)
	b.placeOn(i, []int{n}, to)
	spreadOn(b, home)
	return true
}

// mayRelocate reports whether job i may leave its server, which no waiting job could use, and could gain more elsewhere
// than a restart costs: it is on one server and can be asked to give back what it gets there.
func mayRelocate(b *board, i int) bool {
	s := &b.states[i]
	if !s.class.canGiveBack || len(s.servers) != 1 || netGain(b, i, s.menu.demand().Gain) <= netTolerance {
		return false
	}
	return b.uncontested.has(s.servers[0]) && (s.status == statusStarting || sizeIsFree(b, i) && resizable(b, i))
}

// betterPlace finds the server and the size with which job i gains most, all GPUs on one server that no waiting job
// could use; -1 if it gains nowhere. At most maxCompared servers are looked at.
func betterPlace(b *board, i int) (server int, to sensitivity.Option) {
	server = -1
	best, seen := netTolerance, 0
	s := &b.states[i]
	b.byFreeGPUs.visitFrom(
		s.size.GPUs,
		s.class.eligible.servers.intersection(b.roomyServers).intersection(b.uncontested),
		func(n int) bool {
			m := b.menu(s.class, s.size.GPUs, n)
			for _, o := range m.options {
				if m.profile != s.menu.profile {
					break // its speed is unknown on one of the two
				}
				if net := netGain(b, i, o.Gain*(m.unit/s.menu.unit)); net > best*(1+gainTie) && n != s.servers[0] &&
					!s.class.isReservedNow(n) && o.Size.Fits(b.servers[n].available()) &&
					affordsMore(b, i, o.Size.Minus(s.size)) {
					server, to, best = n, o, net
				}
			}
			seen++
			return seen < maxCompared
		},
	)
	return server, to
}

// netGain is what another gain brings to job i, less the cost of the restart, in GPU-seconds at the proportional speed.
func netGain(b *board, i int, gain float64) float64 { return netOver(b, i, gain, paybackTime(b, i)) }

// paybackTime is for how long a change to job i may count its gain: rules.payback, in which a restart must have paid
// off, or less if the job ends before.
func paybackTime(b *board, i int) time.Duration { return timeUntilEnd(b, i, b.c.Rules.payback()) }

// timeUntilEnd is ahead, or the time until job i would end at its present speed, if that is less. A gain counts only
// for so long.
func timeUntilEnd(b *board, i int, ahead time.Duration) time.Duration {
	if left, was := remaining(b.jobs[i]), b.states[i].gain; left != unknownLength && was > 0 {
		// Compared as numbers: at a gain near zero the end is too far off for a duration.
		if end := float64(left) / was; end < float64(ahead) {
			ahead = time.Duration(end)
		}
	}
	return ahead
}

// netOver is what another gain brings to job i over the time ahead, less the cost of the restart, in GPU-seconds at the
// proportional speed. The gain is relative to the share of the server where the job is. A restart costs what the job
// would train meanwhile with the new size.
func netOver(b *board, i int, gain float64, ahead time.Duration) float64 {
	j := b.jobs[i]
	unit := b.states[i].menu.unit
	net := worth(j, (gain-b.states[i].gain)*unit, ahead)
	if b.needsRestart(i) {
		net -= worth(j, gain*unit, min(ahead, j.restartLoss(b.c.Now)))
	}
	return net
}

// needsRestart reports that another size or place means a restart of job i that does not happen anyway.
func (b *board) needsRestart(i int) bool {
	s := &b.states[i]
	return !s.stopped && s.status != statusStarting
}
