package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// spread hands out what the least sizes left over: on each node, step by step, to the job that gains most for what it takes.
// Jobs that start or restart anyway come first, since their size costs nothing; gangs across nodes next, since they can only
// have what all their nodes have; then running jobs, where the gain is worth a restart.
func (b *board) spread() {
	tenants := b.tenants()
	for n := range b.servers {
		b.spreadOn(n, tenants[n])
	}
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == fresh && len(s.servers) > 1 {
			b.raise(i)
		}
	}
	for n := range b.servers {
		b.grow(n)
	}
}

// tenants lists by server the single-node jobs whose size is free to choose, in the order of the snapshot.
func (b *board) tenants() [][]int {
	tenants := make([][]int, len(b.servers))
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == fresh && len(s.servers) == 1 {
			tenants[s.servers[0]] = append(tenants[s.servers[0]], i)
		}
	}
	return tenants
}

func (b *board) spreadOn(n int, jobs []int) {
	for len(jobs) > 0 {
		i, to := b.bestStep(n, jobs)
		if i < 0 {
			return
		}
		b.reseat(i, fresh, to)
	}
}

// bestStep finds the job on server n, and its next size, with the most throughput gained for what it takes of what is left.
func (b *board) bestStep(n int, jobs []int) (job int, to sensitivity.Option) {
	left := b.servers[n].open()
	job, best := -1, 0.0
	for _, i := range jobs {
		s := &b.seats[i]
		for _, o := range above(s) {
			more := o.Size.Minus(s.size)
			if !more.Fits(left) {
				continue
			}
			value := (o.Gain - s.gain) * float64(s.size.GPUs) / price(more, left)
			if value > best*(1+tie) && b.mayTake(i, more) {
				job, best, to = i, value, o
			}
		}
	}
	return job, to
}

// tie is the relative difference under which two steps are equally good, so that the earlier job takes it whatever the rounding.
const tie = 1e-9

// above lists the options with more gain than the seat has.
func above(s *seat) []sensitivity.Option {
	k := len(s.menu.options)
	for k > 0 && s.menu.options[k-1].Gain > s.gain*(1+tie) {
		k--
	}
	return s.menu.options[k:]
}

// price weighs an amount by what is left of each resource. A step that takes nothing is free.
func price(more, left gres.Vector) float64 {
	p := 0.0
	if more.CPUs > 0 {
		p += float64(more.CPUs) / float64(left.CPUs)
	}
	if more.Memory > 0 {
		p += float64(more.Memory) / float64(left.Memory)
	}
	return math.Max(p, 1e-6)
}

// mayTake says whether job i may take more than its least. A job that can be asked to give back always may. One that cannot may
// only as long as it leaves enough of the cluster's GPUs with their proportional share for those who come next.
func (b *board) mayTake(i int, more gres.Vector) bool {
	j, s := &b.c.Jobs[i], &b.seats[i]
	if j.Saves {
		return true
	}
	after := b.stranded
	for _, n := range s.servers {
		sv := b.servers[n]
		after -= sv.stranded()
		sv.free = sv.free.Minus(more)
		after += sv.stranded()
	}
	return after <= b.stranded || after <= b.mayStrand
}

// raise gives a gang the best size that all its nodes have.
func (b *board) raise(i int) {
	s := &b.seats[i]
	options := above(s)
	for k := len(options) - 1; k >= 0; k-- {
		more := options[k].Size.Minus(s.size)
		if b.allHave(s.servers, more) && b.mayTake(i, more) {
			b.reseat(i, fresh, options[k])
			return
		}
	}
}

func (b *board) allHave(servers []int, more gres.Vector) bool {
	for _, n := range servers {
		if !more.Fits(b.servers[n].open()) {
			return false
		}
	}
	return true
}

// grow restarts running jobs on server n with more of what is left, as long as one gains more than its restart costs.
func (b *board) grow(n int) {
	for b.stops > 0 {
		i, to := b.bestGrowth(n)
		if i < 0 {
			return
		}
		was := b.seats[i].gain
		b.stop(i, Grows, fmt.Sprintf("restarts to train %.2f× as fast", to.Gain/was))
		b.reseat(i, fresh, to)
	}
}

// bestGrowth finds the running job on server n, and the size, with the most to gain beyond the cost of its restart.
func (b *board) bestGrowth(n int) (job int, to sensitivity.Option) {
	sv := &b.servers[n]
	left := sv.open()
	job, best := -1, 0.0
	if left.CPUs <= 0 && left.Memory <= 0 {
		return job, to
	}
	for _, i := range inOrder(sv.jobs) {
		s := &b.seats[i]
		if s.standing != kept || len(s.servers) != 1 || s.menu == nil || !b.c.Jobs[i].Saves {
			continue
		}
		for _, o := range above(s) {
			if more := o.Size.Minus(s.size); more.Fits(left) {
				if net := b.netGain(i, o.Gain); net > best {
					job, best, to = i, net, o
				}
			}
		}
	}
	return job, to
}

// inOrder is a sorted copy.
func inOrder(jobs []int) []int {
	sorted := slices.Clone(jobs)
	slices.Sort(sorted)
	return sorted
}

// netGain is what restarting running job i with a new gain brings until the rules look no further, or until the job would have
// ended, less what it would have done meanwhile; in GPU-seconds at the proportional speed.
func (b *board) netGain(i int, gain float64) float64 {
	j, was := &b.c.Jobs[i], b.seats[i].gain
	ahead := b.horizon()
	if left := remaining(j); left != unknown && was > 0 {
		ahead = min(ahead, time.Duration(float64(left)/was))
	}
	return worth(j, gain, ahead-j.Restart) - worth(j, was, ahead)
}
