package savings

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Idle counts GPUs that are free while jobs wait that could use them, by what these jobs lack.
type Idle struct {
	Cores  int // the cores that a waiting job asked for
	Memory int // the memory that it asked for
	Order  int // nothing: a waiting job fits as requested, but is not next in line, or a limit of the site holds it
	Split  int // more GPUs on the same node: enough are free for a waiting job, but on different nodes
}

func (i Idle) all() int { return i.Cores + i.Memory + i.Order + i.Split }

// Place is a node on which jobs can be started.
type Place struct {
	Name string
	Free gres.Vector
}

// Want is a number of equal waiting jobs that may start.
type Want struct {
	Count   int
	Nodes   int         // at least 1
	PerNode gres.Vector // the user's request
	On      func(place int) bool
}

// cause is what keeps a GPU idle. The values ascend by precedence: if several waiting jobs lack different things, the
// GPU counts under the highest one. A job that lacks nothing is the highest: then no resource is to blame.
type cause int

const (
	unwanted cause = iota
	split
	memory
	cores
	order
)

// Stranded computes for the free GPUs what the waiting jobs lack beside them. It counts no more GPUs than these jobs
// asked for in total. On a place, only jobs count that have the GPUs for all their parts somewhere; the others make it
// split if enough GPUs are free in total, and are ignored if not.
func Stranded(places []Place, wants []Want) (idle Idle) {
	asked := 0
	for i := range wants {
		asked += wants[i].Count * wants[i].Nodes * wants[i].PerNode.GPUs
	}
	alone, spread := placeable(places, wants), splittable(places, wants)
	for p := range places {
		n := min(places[p].Free.GPUs, asked)
		if n <= 0 {
			continue
		}
		why := unwanted
		if spread[p] {
			why = split
		}
		for w := range wants {
			if alone[w] {
				why = max(why, wants[w].lacks(p, places[p].Free))
			}
		}
		if why != unwanted {
			asked -= n
			*idle.of(why) += n
		}
	}
	return idle
}

// of returns the count of a cause.
func (i *Idle) of(why cause) *int {
	switch why {
	case cores:
		return &i.Cores
	case memory:
		return &i.Memory
	case order:
		return &i.Order
	}
	return &i.Split
}

// lacks says what a job lacks on a place besides GPUs; unwanted if the place has too few GPUs for a part of the job.
func (w *Want) lacks(p int, free gres.Vector) cause {
	switch {
	case w.PerNode.GPUs > free.GPUs || !w.On(p):
		return unwanted
	case w.PerNode.CPUs > free.CPUs:
		return cores
	case w.PerNode.Memory > free.Memory:
		return memory
	}
	return order
}

// placeable says for each want whether enough places have the GPUs for all parts of a job.
func placeable(places []Place, wants []Want) []bool {
	enough := make([]bool, len(wants))
	for w := range wants {
		parts := 0
		for p := range places {
			if wants[w].lacks(p, places[p].Free) != unwanted {
				parts++
			}
		}
		enough[w] = parts >= wants[w].Nodes
	}
	return enough
}

// splittable says for each place whether a waiting job exists for which enough GPUs are free, but spread over places
// with too few each.
func splittable(places []Place, wants []Want) []bool {
	found := make([]bool, len(places))
	enough := placeable(places, wants)
	for w := range wants {
		free := 0
		var on []int
		for p := range places {
			if wants[w].On(p) && places[p].Free.GPUs > 0 {
				free, on = free+places[p].Free.GPUs, append(on, p)
			}
		}
		if enough[w] || free < wants[w].Nodes*wants[w].PerNode.GPUs {
			continue
		}
		for _, p := range on {
			found[p] = true
		}
	}
	return found
}
