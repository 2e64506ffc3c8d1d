package savings

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Idle are GPUs that are free while jobs wait that could use them, by what they want.
type Idle struct {
	Cores  int // the cores that who waits asked for
	Memory int // the memory
	Order  int // nothing: one who waits would fit as he asked, and it is not his turn, or a limit of the site's
	Split  int // more GPUs beside them: there are enough for one who waits, but not together
}

func (i Idle) all() int { return i.Cores + i.Memory + i.Order + i.Split }

// Place is a node that jobs can be started on.
type Place struct {
	Name string
	Free gres.Vector
}

// Want is a number of equal jobs that wait and may start.
type Want struct {
	Count   int
	Nodes   int         // at least 1
	PerNode gres.Vector // as its user asked
	On      func(place int) bool
}

// cause is why a GPU is idle.
type cause int

const (
	unwanted cause = iota
	split
	memory
	cores
	order
)

// Stranded says for each free GPU what those who wait want for it. No more are stranded than they asked for together.
func Stranded(places []Place, wants []Want) (idle Idle) {
	asked := 0
	for i := range wants {
		asked += wants[i].Count * wants[i].Nodes * wants[i].PerNode.GPUs
	}
	alone, spread := together(places, wants), splittable(places, wants)
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

// lacks says what a job wants of a place but for GPUs; unwanted where there are not GPUs enough.
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

// together says for each job that waits whether there are places enough with GPUs for all its parts.
func together(places []Place, wants []Want) []bool {
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

// splittable says for each place whether there is a job that waits whose GPUs are free, but not together.
func splittable(places []Place, wants []Want) []bool {
	found := make([]bool, len(places))
	enough := together(places, wants)
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
