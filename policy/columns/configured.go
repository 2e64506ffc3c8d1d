package columns

import (
	"cmp"
	"slices"
)

// MostClasses limits the classes of a program by configurations: with more its master, which has a row for each, would
// take too many steps.
const MostClasses = 200

// Configured is the relaxation by configurations: each pattern fills a number of nodes of its shape, and patterns may
// be mixed in fractions. Its bound is nearly tight, since sizes must fit together on a node. Its master has a row for
// each class (all jobs run unless the class is optional) and a row for each shape (no more nodes than there are). Its
// columns are patterns. Relaxed are fractions of a pattern, and the parts of a gang, which may differ and share a node.
type Configured struct {
	problem *Problem
	packers []*packer // by shape
	m       *master   // nil: Least has kept the prices that it began with
	kept    []column  // patterns with a bonus, see Keep
	bonus   float64   // sum over kept
}

// NewConfigured returns the relaxation of a problem; nil if a shape has too many GPUs for a packer (mostGPUs). Then
// only Pooled bounds it.
func NewConfigured(p *Problem) *Configured {
	c := &Configured{problem: p}
	for s := range p.Shapes {
		k := newPacker(&p.Shapes[s], p.Options[s])
		if k == nil {
			return nil
		}
		c.packers = append(c.packers, k)
	}
	return c
}

// Keep adds a bonus to the value of filling one node of a shape with these options (indexes, ascending), because the
// node is filled so now and keeping that takes no restarts. The result of Least is then a bound on the value of
// fillings with their bonuses. Patterns of other options gain nothing by it.
func (c *Configured) Keep(shape int, options []int, bonus float64) {
	p := c.pattern(shape, slices.Clone(options))
	kept := c.column(&p)
	kept.worth += bonus
	c.kept, c.bonus = append(c.kept, kept), c.bonus+bonus
}

// Least finds the prices of jobs (by class) and of nodes (by shape) with the least bound. It starts from the given
// prices of jobs: the value of each beyond the best prices of resources (Pooled.Best), which gives a bound no higher
// than that by resources. With more than MostClasses classes it keeps these prices. Known patterns save steps.
func (c *Configured) Least(costs []float64, known []Pattern, budget int) Bound {
	found := Bound{Prices: append(slices.Clone(costs), make([]float64, len(c.problem.Shapes))...)}
	bound, columns := c.boundAt(found.Prices)
	if found.Value = bound; len(c.problem.Demand) > MostClasses {
		return found
	}
	c.m = newMaster(c.limits(), c.penalties())
	for _, column := range columns {
		c.m.add(column)
	}
	for _, kept := range c.kept {
		c.m.add(kept)
	}
	for i := range known {
		c.m.add(c.column(&known[i]))
	}
	// The first column of such a row stands for a job that is not placed, which only optional classes allow.
	has := func(row int) bool { return row < len(c.problem.Demand) && !c.problem.isOptional(row) }
	return searchPrices(c.m, c, found, has, budget)
}

// limits are, by row, the right-hand sides of the master: the number of jobs of each class, then of nodes of each
// shape.
func (c *Configured) limits() []float64 {
	limits := make([]float64, 0, len(c.problem.Demand)+len(c.problem.Shapes))
	for _, n := range c.problem.Demand {
		limits = append(limits, float64(n))
	}
	for s := range c.problem.Shapes {
		limits = append(limits, float64(c.problem.Shapes[s].Count))
	}
	return limits
}

// penalties are, by row of the master, what leaving out one mandatory job costs: five times its highest value. A job
// that is left out frees room for others, which must not pay. Rows of shapes and of optional classes cost nothing.
func (c *Configured) penalties() []float64 {
	penalties := make([]float64, len(c.problem.Demand)+len(c.problem.Shapes))
	for _, options := range c.problem.Options {
		for i := range options {
			o := &options[i]
			if c.problem.isOptional(o.Class) {
				continue
			}
			penalties[o.Class] = max(penalties[o.Class], 5*o.Value*float64(o.Parts))
		}
	}
	return penalties
}

// steps is the number of elementary steps of all packers so far.
func (c *Configured) steps() (sum int) {
	for _, k := range c.packers {
		sum += k.steps
	}
	return sum
}

// boundAt computes the bound at the prices of the classes, and the best filling of a node of each shape there as a
// column. The prices of shapes are not read: the best price of a node is what its best filling brings beyond the prices
// of its jobs. A price may be negative for a class all of whose jobs must be placed. For an optional class it is raised
// to 0 in prices, since such a job may be left out for nothing.
func (c *Configured) boundAt(prices []float64) (bound float64, columns []column) {
	bound = c.bonus
	for k, n := range c.problem.Demand {
		if c.problem.isOptional(k) {
			prices[k] = max(0, prices[k])
		}
		bound += float64(float64(n) * prices[k])
	}
	for s, packer := range c.packers {
		brings, filling := packer.bestFilling(prices)
		bound += float64(float64(c.problem.Shapes[s].Count) * brings)
		if len(filling) > 0 {
			p := c.pattern(s, filling)
			columns = append(columns, c.column(&p))
		}
	}
	return bound, columns
}

// pattern makes a pattern of a filling of a node of shape s (indexes in its options), which it sorts by class.
func (c *Configured) pattern(s int, filling []int) Pattern {
	options := c.packers[s].options
	slices.SortFunc(filling, func(x, y int) int {
		return cmp.Or(cmp.Compare(options[x].Class, options[y].Class), cmp.Compare(x, y))
	})
	p := Pattern{Shape: s, options: filling}
	for _, o := range filling {
		p.Add(options[o].Class, options[o].Parts, options[o].Value)
	}
	return p
}

// column makes a column of the master from a pattern: its classes and one node of its shape.
func (c *Configured) column(p *Pattern) column {
	rows := append(slices.Clone(p.classes), int32(len(c.problem.Demand)+p.Shape))
	return column{p.worth, rows, append(slices.Clone(p.uses), 1), p.options, c.fits(p)}
}

// fits reports whether the options of a pattern need no more cores than a node has. Packers round cores down to units,
// so a filling may need a few more; it is good for a bound then, not for a plan.
func (c *Configured) fits(p *Pattern) bool {
	cores := 0
	for _, o := range p.options {
		cores += c.packers[p.Shape].options[o].Size.CPUs
	}
	return cores <= c.problem.Shapes[p.Shape].Most.CPUs
}
