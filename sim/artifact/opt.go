package artifact

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// This file is the paper's OPT as its artifact simulates it: in every round, the best cores and memory for each
// selected job on one imaginary machine with the capacity of the whole cluster. Whether the jobs fit on servers is not
// checked. The artifact uses a wrong size of that machine for all policies but FIFO and SRTF, with which the program
// has no solution; here all policies use the right size.

// optRatio is the cores per GPU for which the sensitivity matrices are valid, so Opt requires it.
const optRatio = 3

// The units of a choice: millionths of a core and of a GB, and ten-thousandths of the speed at the proportional share.
const (
	amountUnits = 1e6
	speedUnits  = 1e4
)

// option is an amount that a job can get under Opt.
type option struct {
	choice
	credit int64  // iterations of one round
	held   vector // for all its GPUs
}

// newOptions returns the amounts from which Opt chooses for a job of the class, the fastest first. They come from the
// model's sensitivity matrix, without those with which the job is slower than with its proportional share, and those
// for which an amount that is no larger is as fast. If the matrix does not contain the share, its speed is 1, that of
// the model's table. A round is in seconds.
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

// newOption is an amount of cores and GB per GPU with its speed relative to the proportional share. The amounts are
// rounded down to whole units, as the capacities are, so that the knapsack is exact.
func newOption(c *class, cpus, gb, speed, round float64) option {
	held := vector{gpu: c.n, cpu: c.n * cpus, memory: c.n * gb}
	return option{
		choice: choice{worth: int64(math.Round(speed * speedUnits)), cpus: int64(held[cpu] * amountUnits),
			memory: int64(held[memory] * amountUnits)},
		credit: iterations(round, c.model.Iteration/speed),
		held:   held,
	}
}

func (o option) sameAs(other option) bool { return o.choice == other.choice }

// worseThan says whether another option is as valuable, takes no more, and is different. Such an option need never be
// chosen.
func (o option) worseThan(other option) bool {
	return other.worth >= o.worth && other.cpus <= o.cpus && other.memory <= o.memory && !o.sameAs(other)
}

// chooser is the state of a class under Opt: its options, and how many of its jobs get which in this round.
type chooser struct {
	options []option // the fastest first
	choices []choice // the options' values and amounts, for the knapsack
	jobs    int      // selected in this round
	takers  []int32  // by option: how many jobs are still to get it
}

// newChooser prepares the options of a class once; rounds choose from them. A round is in seconds.
func newChooser(s *shape, c *class, round float64) chooser {
	o := chooser{options: newOptions(s, c, round)}
	for _, option := range o.options {
		o.choices = append(o.choices, option.choice)
	}
	return o
}

// optimizer solves the program of each round, and caches solutions, since the same numbers of jobs recur.
type optimizer struct {
	knapsack knapsack
	// solutions by key: how many jobs take each option, for all groups one after the other
	solutions     map[string][]int32
	groups        []group    // the selected jobs of each class with several options
	groupChoosers []*chooser // the classes of the groups
	key           []byte     // of the present round: the groups and the capacities
}

// maxSolutions is the most cached solutions.
const maxSolutions = 1 << 16

// optimize gives every selected job an option, and lets it run. Of the jobs of a class, those first in the policy's
// order get the faster ones. If jobs run already, they have been given another round because the same jobs would be
// selected again (keepsPlaces); then nothing is left to do.
func (e *engine) optimize(now float64) {
	if len(e.allocated) > 0 {
		return
	}
	e.selectJobs()
	e.chooseOptions()
	e.use = vector{}
	for _, i := range e.selected {
		o := e.jobs[i].opt.takeOption()
		for r := range o.held {
			e.use[r] += o.held[r]
		}
		e.start(i, now, o.credit)
	}
}

// takeOption takes the fastest option that is still to be given to a job of the class. One must be left, since
// chooseOptions has counted the selected jobs.
func (c *chooser) takeOption() *option {
	at := slices.IndexFunc(c.takers, func(n int32) bool { return n > 0 })
	c.takers[at]--
	return &c.options[at]
}

// chooseOptions determines how many selected jobs of each class get which option, which is stored in takers. This
// depends only on the numbers of jobs and the capacities, which are therefore the key of the cache. Jobs of a class
// with one option leave nothing to choose: their amounts are taken off the capacities before.
func (e *engine) chooseOptions() {
	o := &e.opt
	cpus, memory := int64(e.total[cpu]*amountUnits), int64(e.total[memory]*amountUnits)
	e.countSelected()
	o.groups, o.groupChoosers, o.key = o.groups[:0], o.groupChoosers[:0], o.key[:0]
	for _, ofModel := range e.classes {
		for _, c := range ofModel {
			n := int64(c.opt.jobs)
			c.opt.takers = append(c.opt.takers[:0], int32(n))
			if only := c.opt.choices[0]; len(c.opt.choices) == 1 {
				cpus, memory = cpus-n*only.cpus, memory-n*only.memory
			} else if n > 0 {
				o.groups = append(o.groups, group{c.opt.choices, int(n)})
				o.groupChoosers = append(o.groupChoosers, &c.opt)
				o.key = binary.AppendUvarint(binary.AppendUvarint(append(o.key, byte(c.id)), uint64(c.gpus)), uint64(n))
			}
		}
	}
	o.key = binary.AppendUvarint(binary.AppendUvarint(o.key, uint64(cpus)), uint64(memory))
	o.distributeOptions(cpus, memory)
}

// countSelected counts the selected jobs of each class, because the program treats equal jobs as a group.
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

// distributeOptions stores in every class of the groups how many jobs take each option, from the cache or from a new
// solution within these capacities. A full cache is emptied, since it does not record which solutions recur.
func (o *optimizer) distributeOptions(cpus, memory int64) {
	takers, known := o.solutions[string(o.key)]
	if !known {
		takers = o.knapsack.solve(o.groups, cpus, memory)
		if o.solutions == nil || len(o.solutions) >= maxSolutions {
			o.solutions = map[string][]int32{}
		}
		o.solutions[string(o.key)] = takers
	}
	for _, c := range o.groupChoosers {
		n := len(c.options)
		c.takers = append(c.takers[:0], takers[:n]...)
		takers = takers[n:]
	}
}
