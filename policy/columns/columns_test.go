package columns

import (
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

const budget = 10_000_000

// drawn is a problem in which every job has a size that is no more than its share of any node, so that all jobs have a
// place if their GPUs have: up to so many nodes of each shape, filled to the last GPU or nearly so.
func drawn(r *rand.Rand, shapes, nodes, gpus int) *Problem {
	p := &Problem{}
	room := 0
	for range shapes {
		most := gres.Vector{GPUs: gpus, CPUs: gpus * (2 + r.Intn(3)), Memory: gres.Memory(gpus * (10 + r.Intn(20)))}
		count := 1 + r.Intn(nodes)
		p.Shapes, room = append(p.Shapes, Shape{count, most, most.Times(count)}), room+count*gpus
		p.Options = append(p.Options, nil)
	}
	for room > r.Intn(2) {
		size := min(room, 1<<r.Intn(2))
		if gpus%size != 0 {
			size = 1
		}
		jobs := 1 + r.Intn(max(1, room/size/2))
		room -= jobs * size
		p.Demand = append(p.Demand, jobs)
		for s := range p.Shapes {
			p.Options[s] = append(p.Options[s], curve(r, len(p.Demand)-1, size, &p.Shapes[s])...)
		}
	}
	return p
}

// curve draws sizes of a class on a shape, the first within its share, the more the faster.
func curve(r *rand.Rand, class, gpus int, sh *Shape) (all []Option) {
	size := gres.Vector{GPUs: gpus, CPUs: 1 + r.Intn(sh.Most.CPUs/sh.Most.GPUs),
		Memory: sh.Most.Memory / gres.Memory(sh.Most.GPUs) / 2}
	size.Memory *= gres.Memory(gpus)
	for value := float64(gpus); size.Fits(sh.Most) && len(all) < 4; value *= 1 + r.Float64() {
		all = append(all, Option{class, 1, size, value})
		size.CPUs, size.Memory = size.CPUs+r.Intn(3), size.Memory+gres.Memory(r.Intn(15))
	}
	return all
}

// solved is the bound of a problem, and what a dive makes of it.
func solved(p *Problem) (bound float64, fillings []Filling, left []int) {
	pooled, c := NewPooled(p), NewConfigured(p)
	pooled.Least(0, make([]float64, Resources*len(p.Shapes)), budget)
	bound = c.Least(pooled.Best, nil, budget).Value
	fillings, left = c.Dive(budget)
	return bound, fillings, left
}

// worth checks that fillings are possible, and that they place all jobs but those that are left over.
func worth(t *testing.T, p *Problem, fillings []Filling, left []int) (sum float64) {
	t.Helper()
	nodes, jobs := make([]int, len(p.Shapes)), slices.Clone(left)
	for _, f := range fillings {
		var held gres.Vector
		for _, o := range f.Options {
			option := p.Options[f.Shape][o]
			held = held.Plus(option.Size)
			jobs[option.Class] += f.Nodes
			sum += float64(f.Nodes) * option.Value
		}
		if nodes[f.Shape] += f.Nodes; f.Nodes < 1 || !held.Fits(p.Shapes[f.Shape].Most) {
			t.Fatalf("%d nodes of %s are to hold %s", f.Nodes, p.Shapes[f.Shape].Most, held)
		}
	}
	for s, n := range nodes {
		if n > p.Shapes[s].Count {
			t.Fatalf("%d nodes of shape %d are filled, and there are %d", n, s, p.Shapes[s].Count)
		}
	}
	if !slices.Equal(jobs, p.Demand) || slices.Min(left) < 0 {
		t.Fatalf("jobs placed or left over: %v, want %v", jobs, p.Demand)
	}
	return sum
}

func TestADiveFillsNodesWithAllJobsAndNoMoreThanThereIs(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	cases, whole, reached, lowest := 300, 0, 0.0, 1.0
	for range cases {
		p := drawn(r, 1+r.Intn(3), 30, 8)
		bound, fillings, left := solved(p)
		got := worth(t, p, fillings, left)
		if slices.Max(left) > 0 {
			continue
		}
		if got > bound*(1+1e-9) {
			t.Fatalf("fillings are worth %.6f, and the bound is %.6f", got, bound)
		}
		whole, reached, lowest = whole+1, reached+got/bound, min(lowest, got/bound)
	}
	t.Logf("%d of %d dives place all jobs, at %.2f %% of the bound in the mean, %.2f at least", whole, cases,
		100*reached/float64(whole), 100*lowest)
	if whole < cases*97/100 || reached/float64(whole) < 0.995 {
		t.Errorf("%d of %d dives place all jobs, at %.4f of the bound", whole, cases, reached/float64(whole))
	}
}

// The optimum is found by trying every size of every job on every node.
func TestADiveIsNearTheOptimumOfSmallProblems(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	cases, whole, reached := 400, 0, 0.0
	for range cases {
		p := drawn(r, 1+r.Intn(2), 2, 2)
		best := optimum(p)
		bound, fillings, left := solved(p)
		if best > bound*(1+1e-9) {
			t.Fatalf("the optimum is %.6f, and the bound is %.6f", best, bound)
		}
		got := worth(t, p, fillings, left)
		if slices.Max(left) > 0 {
			continue
		}
		if got > best*(1+1e-9) {
			t.Fatalf("fillings are worth %.6f, and the optimum is %.6f", got, best)
		}
		whole, reached = whole+1, reached+got/best
	}
	t.Logf("%d of %d dives place all jobs, at %.2f %% of the optimum in the mean", whole, cases,
		100*reached/float64(whole))
	if whole < cases*97/100 || reached/float64(whole) < 0.99 {
		t.Errorf("%d of %d dives place all jobs, at %.4f of the optimum", whole, cases, reached/float64(whole))
	}
}

func optimum(p *Problem) float64 {
	var free []gres.Vector
	var shape, jobs []int
	for s, sh := range p.Shapes {
		for range sh.Count {
			free, shape = append(free, sh.Most), append(shape, s)
		}
	}
	for class, n := range p.Demand {
		for range n {
			jobs = append(jobs, class)
		}
	}
	return try(p, jobs, free, shape)
}

func try(p *Problem, jobs []int, free []gres.Vector, shape []int) float64 {
	if len(jobs) == 0 {
		return 0
	}
	best := -infinite
	for n := range free {
		for _, o := range p.Options[shape[n]] {
			if o.Class == jobs[0] && o.Size.Fits(free[n]) {
				free[n] = free[n].Minus(o.Size)
				best = max(best, o.Value+try(p, jobs[1:], free, shape))
				free[n] = free[n].Plus(o.Size)
			}
		}
	}
	return best
}

// Packers reckon the cores of large nodes in units, of which a size may need a little more than it is counted for.
func TestAFillingFitsANodeWithMoreCoresThanArePackedOneByOne(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 20 {
		p := drawn(r, 1, 10, 8)
		p.Shapes[0].Most.CPUs *= 100
		p.Shapes[0].Sum = p.Shapes[0].Most.Times(p.Shapes[0].Count)
		for o := range p.Options[0] {
			p.Options[0][o].Size.CPUs = p.Options[0][o].Size.CPUs*100 + 7
		}
		_, fillings, left := solved(p)
		worth(t, p, fillings, left)
	}
}

func TestADiveDependsOnTheProblemAloneAndChangesNothingOfIt(t *testing.T) {
	p, same := drawn(rand.New(rand.NewSource(4)), 3, 30, 8), drawn(rand.New(rand.NewSource(4)), 3, 30, 8)
	_, first, _ := solved(p)
	_, second, _ := solved(p)
	if !reflect.DeepEqual(first, second) {
		t.Errorf("%v, and then %v", first, second)
	}
	if !reflect.DeepEqual(p, same) {
		t.Errorf("%v was changed to %v", same, p)
	}
}

func TestADiveOutOfStepsLeavesJobsOverAndBreaksNothing(t *testing.T) {
	p := drawn(rand.New(rand.NewSource(5)), 3, 30, 8)
	for steps := 1; steps < budget; steps *= 3 {
		pooled, c := NewPooled(p), NewConfigured(p)
		pooled.Least(0, make([]float64, Resources*len(p.Shapes)), steps)
		c.Least(pooled.Best, nil, steps)
		fillings, left := c.Dive(steps)
		worth(t, p, fillings, left)
	}
}
