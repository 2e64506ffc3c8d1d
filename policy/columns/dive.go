package columns

import "slices"

// Filling says that a number of nodes of a shape are filled with the same options.
type Filling struct {
	Shape, Nodes int
	Options      []int // indexes in Problem.Options of the shape
}

// diver turns a fractional solution into whole fillings by a dive, a branch and bound that never goes back: it takes
// what the solution has of each filling in whole numbers, then one node of the filling with the largest remaining
// fraction, solves the rest again, and repeats until all jobs are placed.
type diver struct {
	*Configured
	left     []int     // jobs of each class that are not placed yet
	nodes    []int     // nodes of each shape that are still empty
	fillings []Filling // taken so far
	patience int       // number of steps up to which better fillings are looked for before a node is filled
}

// Dive turns the solution of Least into whole fillings, in about budget steps. It is for problems without gangs (Parts
// is 1 everywhere) whose options all fit their shapes. left counts the jobs of each class that it found no place for;
// the relaxation does not prove that all jobs fit. If Least made no master, no job is placed. c cannot be used
// afterwards, since its packers then round cores up and its master lacks what was placed.
func (c *Configured) Dive(budget int) (fillings []Filling, left []int) {
	d := diver{Configured: c, left: slices.Clone(c.problem.Demand)}
	for s := range c.problem.Shapes {
		d.nodes = append(d.nodes, c.problem.Shapes[s].Count)
		c.packers[s].whole = true
	}
	if c.m == nil {
		return nil, d.left
	}
	d.patience = c.m.steps + c.steps() + budget/3 // two thirds are left for filling nodes
	budget += c.m.steps + c.steps()
	d.improve()
	for c.m.steps+c.steps() < budget {
		d.takeWhole()
		if !slices.ContainsFunc(d.left, positive) || !slices.ContainsFunc(d.nodes, positive) || !d.fillOneNode() {
			break
		}
	}
	return d.fillings, d.left
}

func positive(n int) bool { return n > 0 }

// takeWhole takes the whole number of each filling in the present solution. No new solution is needed for that: what is
// left of it solves the remaining problem.
func (d *diver) takeWhole() {
	for r, k := range d.m.basis {
		if n := min(int(d.m.x[r]+1e-3), d.mostNodes(k)); n > 0 { // 2.9995 is 3: the solution has rounding errors
			d.takeFilling(k, n)
		}
	}
}

// mostNodes is how many nodes can still be filled as column k says, with the nodes and jobs that are left. The last row
// of such a column is that of its shape of nodes, the others are those of its classes of jobs. It is 0 for a column
// that fills no node, or that fits only because cores were rounded.
func (d *diver) mostNodes(k int) int {
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

// takeFilling fills n nodes by column k. It notes the filling, subtracts what it uses from the jobs and nodes left and
// from the limits of the master, and n from the solution if the column is in it.
func (d *diver) takeFilling(k, n int) {
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

// fillOneNode fills one node by the filling with the largest fraction in the solution and solves the rest; false if
// there is no such filling and no new one is found, so that the dive ends.
func (d *diver) fillOneNode() bool {
	k, best := -1, 1e-3
	for r, b := range d.m.basis {
		if d.m.x[r] > best && d.mostNodes(b) > 0 {
			k, best = b, d.m.x[r]
		}
	}
	if k >= 0 {
		d.takeFilling(k, 1) // which may leave a negative number of nodes with this filling
		d.m.restore(50 + 2*len(d.m.duals))
	}
	return d.improve() || k >= 0
}

// improve solves the remaining problem with the fillings that are still possible, and looks for new ones that make it
// better; joined says that it found some.
func (d *diver) improve() (joined bool) {
	d.exclude()
	d.m.solve(50 + 2*len(d.m.duals))
	for round := 0; d.mayGoOn(round) && d.addFillings(); round++ {
		joined = true
		d.m.solve(50 + 2*len(d.m.duals))
	}
	return joined
}

// mayGoOn reports whether to look for more fillings after that many rounds. It is true for the first minRounds, and
// then up to maxRounds while the steps so far are below patience. While the solution leaves a job without a place it is
// true up to maxRounds even beyond patience.
func (d *diver) mayGoOn(round int) bool {
	if round < minRounds || round < maxRounds && d.m.steps+d.steps() < d.patience {
		return true
	}
	_, missing := d.m.objective(func(row int) bool { return row < len(d.left) })
	return missing && round < maxRounds
}

// The least and the largest number of rounds of looking for fillings before one more node is filled.
const (
	minRounds = 2
	maxRounds = 30
)

// exclusionFactor is the factor by which exclude makes a value negative. It exceeds the factor of 5 in penalties by
// far, since a job may be worth more in other patterns, by which its penalty is computed.
const exclusionFactor = 100

// exclude makes patterns that can fill no more nodes worth less than leaving their jobs out, so that the solution does
// not use them. They stay in the list, since columns are known by their numbers.
func (d *diver) exclude() {
	gone := false
	for k := range d.m.columns {
		if c := &d.m.columns[k]; c.options != nil && c.worth > 0 && d.mostNodes(k) == 0 {
			c.worth *= -exclusionFactor // columns are numbered, so none is removed
			gone = true
		}
	}
	if gone {
		d.m.computeDuals()
	}
}

// addFillings adds to the master the best filling of each shape within the nodes and jobs that are left, if its value
// is above the prices of its jobs and its node at the present duals. joined says that one was added.
func (d *diver) addFillings() (joined bool) {
	for s, packer := range d.packers {
		if d.nodes[s] == 0 {
			continue
		}
		filling := packer.fillWithin(d.m.duals, d.left, d.m.duals[len(d.left)+s]+1e-6)
		if len(filling) == 0 {
			continue
		}
		p := d.pattern(s, filling)
		if c := d.column(&p); c.reducedCost(d.m.duals) > 1e-6 {
			d.m.add(c)
			joined = true
		}
	}
	return joined
}
