package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// growth is a running job, a size, and what a restart with it brings beyond its cost, in GPU-seconds at the proportional speed.
type growth struct {
	job int
	to  sensitivity.Option
	net float64
}

// grow restarts running jobs where they are with more of what is left, as long as one gains more than its restart costs; where
// the rules limit restarts, those that gain most.
func (b *board) grow() {
	for b.stops > 0 {
		all := b.growths()
		if len(all) == 0 {
			return
		}
		slices.SortFunc(all, func(x, y growth) int { return cmp.Or(cmp.Compare(y.net, x.net), cmp.Compare(x.job, y.job)) })
		for _, g := range all {
			s := &b.seats[g.job]
			if b.stops > 0 && s.standing == kept && b.allHave(s.servers, g.to.Size.Minus(s.size)) {
				b.restart(g.job, g.to)
			}
		}
	}
}

// growths finds on each server the running job with most to gain.
func (b *board) growths() []growth {
	var all []growth
	for n := range b.servers {
		if g := b.bestGrowth(n); g.net > 0 {
			all = append(all, g)
		}
	}
	return all
}

func (b *board) bestGrowth(n int) growth {
	var best growth
	if left := b.servers[n].open(); left.CPUs <= 0 && left.Memory <= 0 {
		return best
	}
	for _, i := range b.servers[n].jobs {
		s := &b.seats[i]
		if s.standing != kept || s.menu.demand().Gain <= s.gain || !b.resizable(i) {
			continue
		}
		for _, o := range above(s) {
			if net := b.netGain(i, o.Gain); net > best.net && b.allHave(s.servers, o.Size.Minus(s.size)) {
				best = growth{i, o, net}
			}
		}
	}
	return best
}

// restart gives running job i another size where it is.
func (b *board) restart(i int, to sensitivity.Option) {
	b.stop(i, Grows, fmt.Sprintf("restarts to train %.2f× as fast", to.Gain/b.seats[i].gain))
	b.reseat(i, fresh, to)
}

// passes bounds how often all jobs are looked through for one that would be better off elsewhere.
const passes = 4

// relocate moves jobs to servers with idle GPUs where they gain more than it costs. It does so only while nobody waits for GPUs,
// since a move may break up the room that somebody waits for.
func (b *board) relocate() {
	for moved, pass := !b.wanted(), 0; moved && pass < passes; pass++ {
		moved = false
		for _, i := range b.order {
			moved = b.moveOn(i) || moved
		}
		b.widen()
		b.grow()
	}
}

// moveOn moves job i to where it gains most, and says whether it did.
func (b *board) moveOn(i int) bool {
	s := &b.seats[i]
	if !b.mayMove(i) {
		return false
	}
	n, to := b.betterPlace(i)
	if n < 0 {
		return false
	}
	if s.standing == kept {
		b.stop(i, Grows, fmt.Sprintf("moves to train %.2f× as fast", to.Gain/s.gain))
	}
	home := s.servers[0]
	b.unseat(i)
	b.seatAt(i, []int{n}, to)
	b.spreadOn(home)
	return true
}

func (b *board) mayMove(i int) bool {
	j, s := b.jobs[i], &b.seats[i]
	if !j.Saves || s.cleared || len(s.servers) != 1 || b.netGain(i, s.menu.demand().Gain) <= 0 {
		return false
	}
	return s.standing == fresh || s.standing == kept && b.stops > 0 && b.resizable(i)
}

// betterPlace finds the server and the size with which job i gains most; -1 if it gains nowhere.
func (b *board) betterPlace(i int) (server int, to sensitivity.Option) {
	server = -1
	best, seen := 0.0, 0
	s := &b.seats[i]
	b.now.from(s.size.GPUs, s.kind.zone.servers, func(n int) bool {
		for _, o := range b.menu(s.kind, s.size.GPUs, n).options {
			if net := b.netGain(i, o.Gain); net > best*(1+tie) && n != s.servers[0] && o.Size.Fits(b.servers[n].open()) {
				server, to, best = n, o, net
			}
		}
		seen++
		return seen < looks
	})
	return server, to
}

// netGain is what restarting job i with a new gain brings until the rules look no further, or until the job would have ended, less
// the cost of the restart; in GPU-seconds at the proportional speed.
func (b *board) netGain(i int, gain float64) float64 {
	j, s := b.jobs[i], &b.seats[i]
	ahead := b.c.Rules.horizon()
	if left := remaining(j); left != unknown && s.gain > 0 {
		ahead = min(ahead, time.Duration(float64(left)/s.gain))
	}
	net := worth(j, gain-s.gain, ahead)
	if b.restarts(i) {
		net -= worth(j, gain, min(ahead, j.restartLoss(b.c.Now)))
	}
	return net
}

// restarts says that another size or place means a restart of job i which does not come about anyway.
func (b *board) restarts(i int) bool {
	s := &b.seats[i]
	return !s.stopped && s.standing != fresh
}
