package bound

import (
	"cmp"
	"fmt"
	"slices"
)

// pattern is one filling of a node, as in cutting stock: which jobs, in parts of a job.
type pattern struct {
	shape   int
	worth   float64
	classes []int32 // ascending
	uses    []float64
}

// configured is the relaxation by configurations: so many nodes of each shape are filled by each pattern, and
// patterns may be mixed in fractions. Its master has a row for each class, all jobs of which run, and one for each
// shape, of which there are no more nodes than there are; its columns are patterns. What is relaxed: fractions of a
// pattern, the parts of a gang, which may differ and share a node, and what the package's comment says.
type configured struct {
	in      *instance
	packers []*packer
}

func newConfigured(in *instance) *configured {
	c := &configured{in: in}
	for s := range in.shapes {
		k := newPacker(&in.shapes[s], in.options[s])
		if k == nil {
			return nil
		}
		c.packers = append(c.packers, k)
	}
	return c
}

func (c *configured) limits() []float64 {
	limits := slices.Clone(c.in.demand)
	for s := range c.in.shapes {
		limits = append(limits, float64(c.in.shapes[s].count))
	}
	return limits
}

func (c *configured) steps() (sum int) {
	for _, k := range c.packers {
		sum += k.steps
	}
	return sum
}

// at goes by the prices of classes, which may be negative; those of shapes follow from them.
func (c *configured) at(prices []float64) (bound float64, columns []column) {
	for k, n := range c.in.demand {
		bound += float64(n * prices[k])
	}
	for s, packer := range c.packers {
		brings, filling := packer.fill(prices)
		bound += float64(float64(c.in.shapes[s].count) * brings)
		if len(filling) > 0 {
			p := c.pattern(s, filling)
			columns = append(columns, c.column(&p))
		}
	}
	return bound, columns
}

func (c *configured) pattern(s int, filling []int) pattern {
	options := c.packers[s].options
	slices.SortFunc(filling, func(x, y int) int { return cmp.Compare(options[x].class, options[y].class) })
	p := pattern{shape: s}
	for _, o := range filling {
		p.add(options[o].class, options[o].parts, options[o].value)
	}
	return p
}

// add adds a part of a job. Classes come in ascending order.
func (p *pattern) add(class, parts int, value float64) {
	p.worth += value
	if n := len(p.classes); n > 0 && p.classes[n-1] == int32(class) {
		p.uses[n-1] += 1 / float64(parts)
		return
	}
	p.classes, p.uses = append(p.classes, int32(class)), append(p.uses, 1/float64(parts))
}

func (c *configured) column(p *pattern) column {
	rows := append(slices.Clone(p.classes), int32(len(c.in.classes)+p.shape))
	return column{p.worth, rows, append(slices.Clone(p.uses), 1)}
}

// fillings finds the patterns by which the plan fills nodes.
func (in *instance) fillings() {
	parts := in.parts
	slices.SortFunc(parts, func(x, y part) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.class, y.class), cmp.Compare(x.parts, y.parts),
			cmp.Compare(x.size.CPUs, y.size.CPUs))
	})
	seen := map[string]bool{}
	for i := 0; i < len(parts) && len(in.patterns) < mostPatterns; {
		p := pattern{shape: in.nodes[parts[i].node].shape}
		word := fmt.Append(nil, p.shape)
		for at := parts[i].node; i < len(parts) && parts[i].node == at; i++ {
			x := &parts[i]
			p.add(x.class, x.parts, x.value)
			word = fmt.Appendf(word, ",%d/%d:%d:%d", x.class, x.parts, x.size.CPUs, x.size.Memory)
		}
		if !seen[string(word)] {
			seen[string(word)] = true
			in.patterns = append(in.patterns, p)
		}
	}
}

// mostPatterns is how many of the plan's own are taken over. They only save steps.
const mostPatterns = 1000
