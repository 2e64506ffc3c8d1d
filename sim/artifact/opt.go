package artifact

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// This file is the paper's OPT as its artifact simulates it: in every round, the best cores and memory for each
// selected job on one imaginary machine that has all that the cluster has. Nobody looks whether the jobs fit on
// servers. The artifact gives a wrong size of that machine to all policies but FIFO and SRTF, with which there is no
// solution; here all are given the right one.

// optRatio is the number of cores for each GPU that the sensitivity matrices hold for.
const optRatio = 3

// What a choice counts: millionths of cores and of GB, and ten-thousandths of the speed at the proportional share.
const (
	amounts = 1e6
	speeds  = 1e4
)

// option is an amount that a job may have.
type option struct {
	choice
	credit int64 // iterations of one round
	held   vector
}

// newOptions are all amounts for a job of the class that are of use: it is not slower than with its proportional share,
// and nothing with less is as fast. Fastest first. Where the matrix does not say how fast the share is, it is as fast
// as the model's table says.
func newOptions(s *shape, c *class, round float64) []option {
	share := newOption(c, s.fair[cpu], s.fair[memory], 1, round)
	var all []option
	matrix := models.Sensitivity(c.id)
	for i, cpus := range models.CPUAxis() {
		for j, gb := range models.MemoryAxis() {
			all = append(all, newOption(c, cpus, gb, matrix[i][j], round))
			if cpus == s.fair[cpu] && gb == s.fair[memory] {
				share = all[len(all)-1]
			}
		}
	}
	all = append(all, share)
	all = slices.DeleteFunc(all, func(o option) bool { return o.worth < share.worth })
	slices.SortStableFunc(all, func(a, b option) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.cpus, b.cpus), cmp.Compare(a.memory, b.memory))
	})
	var useful []option
	for _, o := range all {
		if !slices.ContainsFunc(all, o.worseThan) && !slices.ContainsFunc(useful, o.sameAs) {
			useful = append(useful, o)
		}
	}
	return useful
}

func newOption(c *class, cpus, gb, speed, round float64) option {
	held := vector{gpu: c.n, cpu: c.n * cpus, memory: c.n * gb}
	return option{
		choice: choice{worth: int64(math.Round(speed * speeds)), cpus: int64(held[cpu] * amounts),
			memory: int64(held[memory] * amounts)},
		credit: iterations(round, c.model.Iteration/speed),
		held:   held,
	}
}

func (o option) sameAs(other option) bool { return o.choice == other.choice }

// worseThan says that another option gives no less, takes no more, and differs.
func (o option) worseThan(other option) bool {
	return other.worth >= o.worth && other.cpus <= o.cpus && other.memory <= o.memory && !o.sameAs(other)
}

// chooser is what a class needs under opt.
type chooser struct {
	options []option
	choices []choice // of the options
	jobs    int      // that are selected in this round
	takers  []int32  // of each option that is left for them
}

func newChooser(s *shape, c *class, round float64) chooser {
	o := chooser{options: newOptions(s, c, round)}
	for _, option := range o.options {
		o.choices = append(o.choices, option.choice)
	}
	return o
}

// optimizer keeps solutions, since the same numbers of jobs come back.
type optimizer struct {
	knapsack knapsack
	known    map[string][]int32
	groups   []group
	open     []*chooser // of the groups
	key      []byte
}

// mostKnown is how many solutions are kept.
const mostKnown = 1 << 16

// optimize gives every selected job its option, those of a class that come first in the order of the policy the faster
// ones.
func (e *engine) optimize(now float64) {
	if len(e.allocated) > 0 {
		return
	}
	e.selectJobs()
	e.chooseOptions()
	e.use = vector{}
	for _, i := range e.selected {
		o := e.jobs[i].opt.pick()
		for r := range o.held {
			e.use[r] += o.held[r]
		}
		e.start(i, now, o.credit)
	}
}

// pick is the fastest option that is left.
func (c *chooser) pick() *option {
	at := slices.IndexFunc(c.takers, func(n int32) bool { return n > 0 })
	c.takers[at]--
	return &c.options[at]
}

// chooseOptions finds how many selected jobs of each class take which option. That depends on their numbers alone.
func (e *engine) chooseOptions() {
	o := &e.opt
	cpus, memory := int64(e.total[cpu]*amounts), int64(e.total[memory]*amounts)
	e.countSelected()
	o.groups, o.open, o.key = o.groups[:0], o.open[:0], o.key[:0]
	for _, ofModel := range e.classes {
		for _, c := range ofModel {
			n := int64(c.opt.jobs)
			c.opt.takers = append(c.opt.takers[:0], int32(n))
			if only := c.opt.choices[0]; len(c.opt.choices) == 1 {
				cpus, memory = cpus-n*only.cpus, memory-n*only.memory
			} else if n > 0 {
				o.groups = append(o.groups, group{c.opt.choices, int(n)})
				o.open = append(o.open, &c.opt)
				o.key = binary.AppendUvarint(binary.AppendUvarint(append(o.key, byte(c.id)), uint64(c.gpus)), uint64(n))
			}
		}
	}
	o.key = binary.AppendUvarint(binary.AppendUvarint(o.key, uint64(cpus)), uint64(memory))
	o.share(cpus, memory)
}

func (e *engine) countSelected() {
	for _, ofModel := range e.classes {
		for _, c := range ofModel {
			c.opt.jobs = 0
		}
	}
	for _, i := range e.selected {
		e.jobs[i].opt.jobs++
	}
}

// share tells every open class the takers of its options.
func (o *optimizer) share(cpus, memory int64) {
	takers, known := o.known[string(o.key)]
	if !known {
		takers = o.knapsack.solve(o.groups, cpus, memory)
		if o.known == nil || len(o.known) >= mostKnown {
			o.known = map[string][]int32{}
		}
		o.known[string(o.key)] = takers
	}
	for _, c := range o.open {
		n := len(c.options)
		c.takers = append(c.takers[:0], takers[:n]...)
		takers = takers[n:]
	}
}
