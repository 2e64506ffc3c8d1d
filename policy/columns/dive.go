package columns

import "slices"

// Filling is what so many nodes of a shape are given each.
type Filling struct {
	Shape, Nodes int
	Options      []int // in Problem.Options of the shape
}

// diver makes whole fillings of a solution in fractions: what the program takes of a filling in whole numbers is taken,
// then one node of the filling of which it takes most, and the rest is solved anew; and so on, until all jobs have a
// place (a dive: a branch and bound that never goes back).
type diver struct {
	*Configured
	left     []int // jobs of each class that have no place yet
	nodes    []int // of each shape that are empty yet
	fillings []Filling
	patience int // steps up to which all that is better is looked for before one more node is filled
}

// Dive makes whole fillings of what Least came to, in about so many steps at most, for problems without gangs (Parts is
// 1 everywhere) all of whose options fit their shapes. Left are the jobs of each class that it has found no place for:
// that there is one for all of them is not proven by the relaxation. It ends what c is good for.
func (c *Configured) Dive(budget int) (fillings []Filling, left []int) {
	d := diver{Configured: c, left: slices.Clone(c.of.Demand)}
	for s := range c.of.Shapes {
		d.nodes = append(d.nodes, c.of.Shapes[s].Count)
		c.packers[s].whole = true
	}
	if c.m == nil {
		return nil, d.left
	}
	d.patience = c.m.steps + c.steps() + budget/3
	budget += c.m.steps + c.steps()
	d.improve()
	for c.m.steps+c.steps() < budget {
		d.takeWhole()
		if !slices.ContainsFunc(d.left, positive) || !slices.ContainsFunc(d.nodes, positive) || !d.step() {
			break
		}
	}
	return d.fillings, d.left
}

func positive(n int) bool { return n > 0 }

// takeWhole takes all that the present solution has of its fillings in whole numbers. What is left of it is the
// solution for the rest.
func (d *diver) takeWhole() {
	for r, k := range d.m.basis {
		if n := min(int(d.m.x[r]+1e-3), d.most(k)); n > 0 {
			d.take(k, n)
		}
	}
}

// most is how many nodes can be filled by a column with what is left.
func (d *diver) most(k int) int {
	c := &d.m.columns[k]
	if c.options == nil || !c.fits {
		return 0
	}
	jobs := len(d.left)
	most := d.nodes[int(c.rows[len(c.rows)-1])-jobs]
	for i, r := range c.rows[:len(c.rows)-1] {
		most = min(most, d.left[r]/int(c.uses[i]))
	}
	return most
}

// take fills n nodes by column k, and takes what it uses off the program, in which it may be basic.
func (d *diver) take(k, n int) {
	c := &d.m.columns[k]
	shape := int(c.rows[len(c.rows)-1]) - len(d.left)
	for i, r := range c.rows[:len(c.rows)-1] {
		d.left[r] -= n * int(c.uses[i])
	}
	d.nodes[shape] -= n
	d.fillings = append(d.fillings, Filling{shape, n, c.options})
	for i, r := range c.rows {
		d.m.limits[r] -= float64(float64(n) * c.uses[i])
	}
	if r := slices.Index(d.m.basis, k); r >= 0 {
		d.m.x[r] -= float64(n)
	}
}

// step takes one node of the filling of which the program takes most, and solves the rest; false where there is none.
func (d *diver) step() bool {
	k, best := -1, 1e-3
	for r, b := range d.m.basis {
		if d.m.x[r] > best && d.most(b) > 0 {
			k, best = b, d.m.x[r]
		}
	}
	if k >= 0 {
		d.take(k, 1)
		d.m.restore(50 + 2*len(d.m.duals))
	}
	return d.improve() || k >= 0
}

// improve solves what is left with fillings that are still possible, and says whether it has found other ones.
func (d *diver) improve() (joined bool) {
	d.exclude()
	d.m.solve(50 + 2*len(d.m.duals))
	for round := 0; d.goesOn(round) && d.generate(); round++ {
		joined = true
		d.m.solve(50 + 2*len(d.m.duals))
	}
	return joined
}

// goesOn says whether to look for more fillings after so many rounds: always while a job has no place in the solution.
func (d *diver) goesOn(round int) bool {
	if round < hasty || round < patient && d.m.steps+d.steps() < d.patience {
		return true
	}
	_, missing := d.m.value(func(row int) bool { return row < len(d.left) })
	return missing && round < patient
}

// How often fillings are looked for before one more node is filled.
const (
	hasty   = 2
	patient = 30
)

// excluded is so much more than the multiple in penalties that it holds however much jobs are worth elsewhere.
const excluded = 100

// exclude makes what cannot fill any node any more worth less than to leave its jobs out, so that the program does not
// rest on it.
func (d *diver) exclude() {
	gone := false
	for k := range d.m.columns {
		if c := &d.m.columns[k]; c.options != nil && c.worth > 0 && d.most(k) == 0 {
			c.worth *= -excluded
			gone = true
		}
	}
	if gone {
		d.m.price()
	}
}

// generate adds the best fillings within what is left to the program, and says whether there are better ones than it
// has.
func (d *diver) generate() (joined bool) {
	for s, packer := range d.packers {
		if d.nodes[s] == 0 {
			continue
		}
		filling := packer.fillWithin(d.m.duals, d.left, d.m.duals[len(d.left)+s]+1e-6)
		if len(filling) == 0 {
			continue
		}
		p := d.pattern(s, filling)
		if c := d.column(&p); c.reduced(d.m.duals) > 1e-6 {
			d.m.add(c)
			joined = true
		}
	}
	return joined
}
