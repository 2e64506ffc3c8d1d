package columns

import (
	"cmp"
	"slices"
)

// MostClasses is how many classes a program by configurations may have. Its master would be too large with more.
const MostClasses = 200

// Configured is the relaxation by configurations: so many nodes of each shape are filled by each pattern, and
// patterns may be mixed in fractions. Its master has a row for each class, all jobs of which run unless it is optional,
// and one for each shape, of which there are no more nodes than there are; its columns are patterns. What is relaxed:
// fractions of a pattern, and the parts of a gang, which may differ and share a node.
type Configured struct {
	of      *Problem
	packers []*packer
	m       *master
	kept    []column
	bonus   float64 // of all of these
}

// NewConfigured is nil where a shape is too large.
func NewConfigured(p *Problem) *Configured {
	c := &Configured{of: p}
	for s := range p.Shapes {
		k := newPacker(&p.Shapes[s], p.Options[s])
		if k == nil {
			return nil
		}
		c.packers = append(c.packers, k)
	}
	return c
}

// Keep makes it worth more by a bonus to fill a node of a shape with these options, ascending: it is filled so now.
// What Least comes to is then a bound on what fillings are worth with their bonuses. Patterns of other options are none
// the better for it.
func (c *Configured) Keep(shape int, options []int, bonus float64) {
	p := c.pattern(shape, slices.Clone(options))
	kept := c.column(&p)
	kept.worth += bonus
	c.kept, c.bonus = append(c.kept, kept), c.bonus+bonus
}

// Least finds the best costs of jobs, by class, and of nodes, by shape. It begins with such costs of jobs: what each is
// worth beyond the best prices of resources (Pooled.Best) gives a bound that is no more than by those. Beyond
// MostClasses it stays with them. Patterns that are known save steps.
func (c *Configured) Least(costs []float64, known []Pattern, budget int) Bound {
	found := Bound{Prices: append(slices.Clone(costs), make([]float64, len(c.of.Shapes))...)}
	bound, columns := c.at(found.Prices)
	if found.Value = bound; len(c.of.Demand) > MostClasses {
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
	has := func(row int) bool { return row < len(c.of.Demand) && !c.of.optional(row) }
	return generate(c.m, c, found, has, budget)
}

func (c *Configured) limits() []float64 {
	limits := make([]float64, 0, len(c.of.Demand)+len(c.of.Shapes))
	for _, n := range c.of.Demand {
		limits = append(limits, float64(n))
	}
	for s := range c.of.Shapes {
		limits = append(limits, float64(c.of.Shapes[s].Count))
	}
	return limits
}

// penalties are for a job that does not run but has to: more than it could be worth, and a multiple of that, since it
// takes room from others.
func (c *Configured) penalties() []float64 {
	penalties := make([]float64, len(c.of.Demand)+len(c.of.Shapes))
	for _, options := range c.of.Options {
		for i := range options {
			o := &options[i]
			if c.of.optional(o.Class) {
				continue
			}
			penalties[o.Class] = max(penalties[o.Class], 5*o.Value*float64(o.Parts))
		}
	}
	return penalties
}

func (c *Configured) steps() (sum int) {
	for _, k := range c.packers {
		sum += k.steps
	}
	return sum
}

// at goes by the prices of classes, which may be negative where all jobs have to be placed; those of shapes follow from
// them.
func (c *Configured) at(prices []float64) (bound float64, columns []column) {
	bound = c.bonus
	for k, n := range c.of.Demand {
		if c.of.optional(k) {
			prices[k] = max(0, prices[k])
		}
		bound += float64(float64(n) * prices[k])
	}
	for s, packer := range c.packers {
		brings, filling := packer.fill(prices)
		bound += float64(float64(c.of.Shapes[s].Count) * brings)
		if len(filling) > 0 {
			p := c.pattern(s, filling)
			columns = append(columns, c.column(&p))
		}
	}
	return bound, columns
}

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

func (c *Configured) column(p *Pattern) column {
	rows := append(slices.Clone(p.classes), int32(len(c.of.Demand)+p.Shape))
	return column{p.worth, rows, append(slices.Clone(p.uses), 1), p.options, c.fits(p)}
}

// fits says whether a pattern of options needs no more cores than there are, which packers reckon in units.
func (c *Configured) fits(p *Pattern) bool {
	cores := 0
	for _, o := range p.options {
		cores += c.packers[p.Shape].options[o].Size.CPUs
	}
	return cores <= c.of.Shapes[p.Shape].Most.CPUs
}
