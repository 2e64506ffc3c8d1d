// Package columns fills nodes: of so many jobs of each class, and so many nodes of each shape, it says how much all
// jobs together can be worth at most, and which fillings of nodes come near that. It is the numeric core of two others
// and knows numbers alone: policy/bound proves by it how good a plan is, and policy plans by it.
//
// Two relaxations are solved by column generation (Gilmore and Gomory 1961): Pooled, by prices of each resource of each
// shape, and Configured, by whole fillings of one node. Both are Lagrangian: a bound holds at whatever prices it is
// evaluated, so a budget of steps may end the search for good ones anywhere. Dive makes whole fillings of the second.
// Steps are elementary ones, of which a core does some hundred million a second; they are counted and not timed, so
// that an answer depends on the problem alone.
package columns

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// Problem is jobs to be placed, all of them but those of optional classes, and nodes to place them on.
type Problem struct {
	Demand []int // jobs of each class
	// Optional says of each class that any number of its jobs, none included, may be placed; nil: all jobs have to be.
	Optional []bool
	Shapes   []Shape
	Options  [][]Option // by shape
}

func (p *Problem) optional(class int) bool { return p.Optional != nil && p.Optional[class] }

// Shape is nodes that are taken for equal.
type Shape struct {
	Count int
	Most  gres.Vector // capacity of each
	Sum   gres.Vector // capacity of all, which is less than Count times that where they are not quite equal
}

// Option is one size of one part of a job on one node.
type Option struct {
	Class int
	Parts int         // nodes over which the job is then divided
	Size  gres.Vector // on this node
	Value float64     // of this part
}

// Pattern is one filling of a node, as in cutting stock: which jobs, in parts of a job.
type Pattern struct {
	Shape   int
	worth   float64
	classes []int32 // ascending
	uses    []float64
	options []int // in the list of the shape's packer; nil: it is not made of these
}

// Add adds a part of a job. Classes come in ascending order.
func (p *Pattern) Add(class, parts int, value float64) {
	p.worth += value
	if n := len(p.classes); n > 0 && p.classes[n-1] == int32(class) {
		p.uses[n-1] += 1 / float64(parts)
		return
	}
	p.classes, p.uses = append(p.classes, int32(class)), append(p.uses, 1/float64(parts))
}
