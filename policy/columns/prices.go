package columns

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// Pooled is the relaxation that treats all nodes of a shape as one pool. It has a price for a GPU, a core and a GB of
// each shape, and each job takes the size and shape with the highest value beyond its price. Its master has a row for
// each resource of each shape and one for the sum of the columns, which are whole plans.
type Pooled struct {
	Best []float64 // by class: value of a job beyond its price, at the last prices

	problem    *Problem
	stepsTaken int // elementary steps so far
}

// Resources is the number of priced resources of a shape: GPUs, cores and GB, in this order.
const Resources = 3

// NewPooled returns the pooled relaxation of a problem.
func NewPooled(p *Problem) *Pooled { return &Pooled{problem: p, Best: make([]float64, len(p.Demand))} }

// Least finds the prices of resources, by shape, with the least bound. It starts from a known plan, given by its value
// and its use of each resource of each shape, and leaves Best at the best prices.
func (p *Pooled) Least(worth float64, uses []float64, budget int) Bound {
	limits := p.limits()
	penalties := make([]float64, len(limits))
	// Leaving out a part of a plan must cost more than any plan is worth: a million and ten times the known one.
	penalties[len(limits)-1] = 1e6 + float64(10*worth)
	m := newMaster(limits, penalties)
	m.add(p.column(worth, uses))
	found := Bound{Prices: make([]float64, len(limits))}
	bound, columns := p.boundAt(found.Prices)
	found.Value = bound
	for _, c := range columns {
		m.add(c)
	}
	found = searchPrices(m, p, found, func(row int) bool { return row == len(limits)-1 }, budget)
	p.boundAt(found.Prices) // sets p.Best for them
	return found
}

func gigabytes(m gres.Memory) float64 { return float64(m) / float64(gres.Gigabyte) }

// limits are the right-hand sides of the master: the amounts of each resource of each shape, in the order of Resources;
// the last entry says that the columns, which are whole plans, add up to one plan.
func (p *Pooled) limits() []float64 {
	limits := make([]float64, 0, Resources*len(p.problem.Shapes)+1)
	for s := range p.problem.Shapes {
		sum := p.problem.Shapes[s].Sum
		limits = append(limits, float64(sum.GPUs), float64(sum.CPUs), gigabytes(sum.Memory))
	}
	return append(limits, 1)
}

func (p *Pooled) steps() int { return p.stepsTaken }

// boundAt computes the bound at these prices of resources, and the plan, as a column, in which each job takes the
// option with the highest value beyond its price. It leaves that gain in Best, by class. Negative prices are set to 0
// in prices first, since they prove no bound.
func (p *Pooled) boundAt(prices []float64) (bound float64, columns []column) {
	rows := Resources * len(p.problem.Shapes)
	for r := range prices {
		prices[r] = max(0, prices[r])
	}
	type choice struct {
		shape int
		o     *Option
	}
	choices := make([]choice, len(p.problem.Demand))
	for k := range p.Best {
		if p.Best[k] = -infinite; p.problem.isOptional(k) {
			p.Best[k] = 0 // not placed
		}
	}
	for s := range p.problem.Shapes {
		gpu, core, gb := prices[Resources*s], prices[Resources*s+1], prices[Resources*s+2]
		for i := range p.problem.Options[s] {
			o := &p.problem.Options[s][i]
			cost := float64(gpu*float64(o.Size.GPUs)) + float64(core*float64(o.Size.CPUs)) +
				float64(gb*gigabytes(o.Size.Memory))
			if w := float64(o.Parts) * (o.Value - cost); w > p.Best[o.Class] {
				p.Best[o.Class], choices[o.Class] = w, choice{s, o}
			}
		}
		p.stepsTaken += 2 * len(p.problem.Options[s])
	}
	uses := make([]float64, rows)
	worth := 0.0
	for k, c := range choices {
		if c.o == nil && p.problem.isOptional(k) {
			continue // no option is worth its price
		}
		parts := float64(p.problem.Demand[k]) * float64(c.o.Parts)
		bound += float64(float64(p.problem.Demand[k]) * p.Best[k])
		worth += float64(parts * c.o.Value)
		uses[Resources*c.shape] += float64(parts * float64(c.o.Size.GPUs))
		uses[Resources*c.shape+1] += float64(parts * float64(c.o.Size.CPUs))
		uses[Resources*c.shape+2] += float64(parts * gigabytes(c.o.Size.Memory))
	}
	for r, limit := range p.limits()[:rows] {
		bound += float64(prices[r] * limit)
	}
	return bound, []column{p.column(worth, uses)}
}

// column makes a column from a whole plan, given by its value and its use of each resource of each shape. It uses the
// last row, which sums plans, once.
func (p *Pooled) column(worth float64, uses []float64) column {
	c := column{worth: worth}
	for r, use := range uses {
		if use != 0 {
			c.rows, c.uses = append(c.rows, int32(r)), append(c.uses, use)
		}
	}
	c.rows, c.uses = append(c.rows, int32(len(uses))), append(c.uses, 1)
	return c
}

const infinite = 1e300
