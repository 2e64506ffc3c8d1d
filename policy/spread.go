package policy

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// spreadLeft hands out the cores and memory that the least sizes left over. Jobs that start or restart anyway come
// first, since their size costs nothing; then gangs across nodes, which can have only what all their nodes have.
// Running jobs follow in improve, where a change has to be worth a restart.
func spreadLeft(b *board) {
	takeStoppedToLeast(b)
	for n := range b.servers {
		if b.stirredServers.has(n) {
			spreadOn(b, n)
		}
	}
	widenGangs(b)
}

// takeStoppedToLeast takes running jobs that restart where they are down to their least sizes: since they restart,
// their size is free to choose, and what they held beyond that is handed out anew.
func takeStoppedToLeast(b *board) {
	slices.Sort(b.stopped)
	for _, i := range b.stopped {
		s := &b.states[i]
		if s.status != statusKept || !s.stopped {
			continue
		}
		o := sensitivity.Option{Size: s.size, Gain: s.gain}
		// A job that runs with less than its least size keeps that: there may be no room for more.
		if least := b.alloc.sizes(s.menu)[0]; least.Size.Fits(o.Size) {
			o = least
		}
		b.setSize(i, statusStarting, o)
	}
}

// startingJobs lists the jobs whose size is free to choose in this round, ascending. Some were so only for a while, so
// the caller looks at the status.
func (b *board) startingJobs() []int {
	slices.Sort(b.started)
	b.started = slices.Compact(b.started)
	return b.started
}

// spreadOn hands out the free cores and memory of server n in steps, each to the job that gains most for what it takes,
// until no job gains by more.
func spreadOn(b *board, n int) {
	for giveLargerSize(b, n) {
	}
}

// giveLargerSize gives a larger size to one job on server n: of those that start or restart anyway, the one that gains
// most for what it takes of what is left. It is false if none may have more. Gangs are left to widenGangs, since their
// size depends on other servers, too.
func giveLargerSize(b *board, n int) bool {
	left := b.servers[n].available()
	job, best := -1, 0.0
	var to sensitivity.Option
	for _, i := range b.servers[n].jobs {
		s := &b.states[i]
		if s.status != statusStarting || len(s.servers) > 1 {
			continue
		}
		for _, o := range largerOptions(s) {
			more := o.Size.Minus(s.size)
			if !more.Fits(left) {
				continue
			}
			value := (o.Gain - s.gain) * s.menu.unit * float64(s.size.GPUs) / amountWeight(more, left)
			if value > best*(1+gainTie) && affordsMore(b, i, more) && mayTakeMore(b, i, o) {
				job, best, to = i, value, o
			}
		}
	}
	if job >= 0 {
		b.setSize(job, statusStarting, to)
	}
	return job >= 0
}

// gainTie is the relative difference below which two sizes are equally good, so that the earlier job gets it whatever
// the rounding.
const gainTie = 1e-9

// largerOptions lists the options with more gain than the job has, ascending in gain.
func largerOptions(s *jobState) []sensitivity.Option {
	k := len(s.menu.options)
	for k > 0 && s.menu.options[k-1].Gain > s.gain*(1+gainTie) {
		k--
	}
	return s.menu.options[k:]
}

// amountWeight is how much of what is left an amount takes: the fractions of cores and of memory, added up. Gains are
// divided by it, so that what is scarce goes where it brings most. An amount of nothing has a tiny weight, so that no
// gain is divided by 0. Where more is positive, left must be, too.
func amountWeight(more, left gres.Vector) float64 {
	p := 0.0
	if more.CPUs > 0 {
		p += float64(more.CPUs) / float64(left.CPUs)
	}
	if more.Memory > 0 {
		p += float64(more.Memory) / float64(left.Memory)
	}
	return math.Max(p, 1e-6)
}

// widenGangs gives each starting gang the best size that all its nodes have room for, one gang after the other.
func widenGangs(b *board) {
	for _, i := range b.startingJobs() {
		if s := &b.states[i]; s.status == statusStarting && len(s.servers) > 1 {
			widenGang(b, i)
		}
	}
}

// widenGang gives gang i the best size that all its nodes and its quotas have room for, if that is better than its own.
func widenGang(b *board, i int) {
	s := &b.states[i]
	options := largerOptions(s)
	for k := len(options) - 1; k >= 0; k-- {
		more := options[k].Size.Minus(s.size)
		if mayHaveMore(b, i, more) && mayTakeMore(b, i, options[k]) {
			b.setSize(i, statusStarting, options[k])
			return
		}
	}
}
