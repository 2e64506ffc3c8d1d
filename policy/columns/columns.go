// Package columns computes how to fill nodes. For given numbers of jobs of each class and nodes of each shape it says
// how much all jobs together can be worth at most, and which fillings of nodes come near that. It knows only numbers.
// policy/bound uses it to prove how good a plan is, and policy to plan.
//
// Column generation (Gilmore and Gomory 1961) solves two relaxations: Pooled, by prices of each resource of each shape,
// and Configured, by whole fillings of one node. Each has a restricted master program, in short master: a linear
// program over the columns found so far, whose duals are the prices. The worth of a filling or column is the sum of the
// values of its jobs. The gain is a value beyond the cost at the present prices. Both relaxations are Lagrangian: a
// bound holds at any prices, so a budget of steps may end the search for good prices at any point. Dive turns the
// fractional solution of Configured into whole fillings. Steps are elementary ones, of which a core does about a
// hundred million a second. They are counted, not timed, so that an answer depends only on the problem.
package columns

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// Problem is the jobs to be placed and the nodes to place them on. All jobs must be placed except those of optional
// classes, so each other class with jobs needs an option on some shape.
type Problem struct {
	Demand []int // jobs of each class
	// Optional says by class that any number of its jobs, or none, may be placed; nil: all jobs must be placed.
	Optional []bool
	Shapes   []Shape
	Options  [][]Option // by shape
}

func (p *Problem) isOptional(class int) bool { return p.Optional != nil && p.Optional[class] }

// Shape is a set of nodes that are treated as equal.
type Shape struct {
	Count int
	Most  gres.Vector // capacity of each
	Sum   gres.Vector // capacity of all; less than Count × Most if they are not quite equal
}

// Option is one size of one part of a job on one node.
type Option struct {
	Class int
	Parts int         // number of nodes over which the job is divided
	Size  gres.Vector // on this node
	Value float64     // of this part
}

// Pattern is one filling of a node, as in the cutting-stock problem: the jobs, or parts of jobs, on it. A column of
// Configured's master is made of one.
type Pattern struct {
	Shape   int       // index in Problem.Shapes
	worth   float64   // value of its jobs together
	classes []int32   // ascending
	uses    []float64 // number of jobs of each class; a part counts as a fraction of a job
	options []int     // indexes in the list of the shape's packer; nil: not made of these
}

// Add adds to the pattern one part of a job that is divided into that many parts. The part counts as a fraction of a
// job of its class; value is that of the part alone. Classes must come in ascending order, so that parts of one class
// are summed.
func (p *Pattern) Add(class, parts int, value float64) {
	p.worth += value
	if n := len(p.classes); n > 0 && p.classes[n-1] == int32(class) {
		p.uses[n-1] += 1 / float64(parts)
		return
	}
	p.classes, p.uses = append(p.classes, int32(class)), append(p.uses, 1/float64(parts))
}
