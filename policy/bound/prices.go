package bound

import "github.com/synergy-slurmd/synergy-slurmd/gres"

// pooled is the relaxation in which the nodes of a shape are one: a price for a GPU, a core and a GB of each shape,
// and each job takes the size, and the shape, at which it is worth most beyond its price. Its master has a row for
// each of these and one for the sum of the columns, which are whole plans.
type pooled struct {
	in    *instance
	taken int
	best  []float64 // by class: worth of a job beyond its price, at the last prices
}

// resources is how many have a price.
const resources = 3

func newPooled(in *instance) *pooled {
	return &pooled{in: in, best: make([]float64, len(in.classes))}
}

func gigabytes(m gres.Memory) float64 { return float64(m) / float64(gres.Gigabyte) }

// limits are what there is of each resource of each shape; the last is of the sum of columns.
func (p *pooled) limits() []float64 {
	limits := make([]float64, 0, resources*len(p.in.shapes)+1)
	for s := range p.in.shapes {
		sum := p.in.shapes[s].sum
		limits = append(limits, float64(sum.GPUs), float64(sum.CPUs), gigabytes(sum.Memory))
	}
	return append(limits, 1)
}

func (p *pooled) steps() int { return p.taken }

// at takes away from prices what is below nothing: only at others a bound is proven.
func (p *pooled) at(prices []float64) (bound float64, columns []column) {
	in := p.in
	rows := resources * len(in.shapes)
	for r := range prices {
		prices[r] = max(0, prices[r])
	}
	type choice struct {
		shape int
		o     *option
	}
	choices := make([]choice, len(in.classes))
	for k := range p.best {
		p.best[k] = -infinite
	}
	for s := range in.shapes {
		gpu, core, gb := prices[resources*s], prices[resources*s+1], prices[resources*s+2]
		for i := range in.options[s] {
			o := &in.options[s][i]
			cost := float64(gpu*float64(o.size.GPUs)) + float64(core*float64(o.size.CPUs)) +
				float64(gb*gigabytes(o.size.Memory))
			if w := float64(o.parts) * (o.value - cost); w > p.best[o.class] {
				p.best[o.class], choices[o.class] = w, choice{s, o}
			}
		}
		p.taken += 2 * len(in.options[s])
	}
	uses := make([]float64, rows)
	worth := 0.0
	for k, c := range choices {
		parts := in.demand[k] * float64(c.o.parts)
		bound += float64(in.demand[k] * p.best[k])
		worth += float64(parts * c.o.value)
		uses[resources*c.shape] += float64(parts * float64(c.o.size.GPUs))
		uses[resources*c.shape+1] += float64(parts * float64(c.o.size.CPUs))
		uses[resources*c.shape+2] += float64(parts * gigabytes(c.o.size.Memory))
	}
	for r, limit := range p.limits()[:rows] {
		bound += float64(prices[r] * limit)
	}
	return bound, []column{p.column(worth, uses)}
}

// column is a whole plan, by what it is worth and uses.
func (p *pooled) column(worth float64, uses []float64) column {
	c := column{worth: worth}
	for r, use := range uses {
		if use != 0 {
			c.rows, c.uses = append(c.rows, int32(r)), append(c.uses, use)
		}
	}
	c.rows, c.uses = append(c.rows, int32(len(uses))), append(c.uses, 1)
	return c
}

// present is the plan that is measured, as a column.
func (p *pooled) present() column {
	uses := make([]float64, resources*len(p.in.shapes))
	for i := range p.in.parts {
		part := &p.in.parts[i]
		s := resources * p.in.nodes[part.node].shape
		uses[s] += float64(part.size.GPUs)
		uses[s+1] += float64(part.size.CPUs)
		uses[s+2] += gigabytes(part.size.Memory)
	}
	return p.column(p.in.value-p.in.settled, uses)
}

const infinite = 1e300
