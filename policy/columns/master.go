package columns

import "slices"

// master is a restricted master program: maximise Σ x·worth subject to Σ x·rows = limits (equal) or ≤ limits, x ≥ 0,
// over the columns found so far. It uses the revised simplex method with an explicit inverse, which is good for a few
// hundred rows. After a column is added it continues from the last basis. Bounds do not depend on its precision, since
// they hold at any prices: its duals are only guesses at good ones.
type master struct {
	limits  []float64 // right-hand side of each row
	columns []column
	basis   []int       // basic column of each row
	inverse [][]float64 // of the basis
	x       []float64   // value of the basic column of each row
	duals   []float64   // of each row, at the present basis
	steps   int         // elementary steps so far
	pivots  int         // since the inverse was last computed anew
}

// column is a variable of the master: its value (worth) and how much it uses of each row. It is a pattern (Configured),
// a whole plan (Pooled), or what newMaster adds to each row.
type column struct {
	worth   float64
	rows    []int32   // indexes of the rows that it uses
	uses    []float64 // of each of these rows
	options []int     // of its pattern; nil: it is none
	fits    bool      // its filling fits on a node in cores, not only in units of cores
}

// newMaster makes a master with one column per row, which takes up what other columns leave of the row's limit: free
// nodes or waiting jobs at no penalty (slack), or something that should not be missing, such as a job without a place,
// at that penalty. These columns, numbered as the rows, are the first basis, so there is a solution from the beginning.
func newMaster(limits, penalties []float64) *master {
	n := len(limits)
	m := &master{
		limits: slices.Clone(limits), basis: make([]int, n), inverse: make([][]float64, n), duals: make([]float64, n),
	}
	for r := range limits {
		m.columns = append(m.columns, column{worth: -penalties[r], rows: []int32{int32(r)}, uses: []float64{1}})
		m.limits[r] += 1e-7 * float64(1+r%97) * max(1, limits[r]) / 100 // makes ties in the ratio test rare
		m.basis[r], m.inverse[r] = r, make([]float64, n)
		m.inverse[r][r] = 1
	}
	m.x = slices.Clone(m.limits)
	m.computeDuals()
	return m
}

func (m *master) add(c column) { m.columns = append(m.columns, c) }

// objective is the value of the present solution. missing says that the solution uses the first column of an artificial
// row (see newMaster). Then something is left out, such as a job without a place, and it is no solution of the problem.
func (m *master) objective(artificial func(row int) bool) (value float64, missing bool) {
	for r, k := range m.basis {
		value += float64(m.columns[k].worth * m.x[r])
		if k < len(m.basis) && artificial(k) && m.x[r] > 1e-4 {
			missing = true
		}
	}
	return value, missing
}

// computeDuals computes the duals of the present basis, by which columns are chosen.
func (m *master) computeDuals() {
	clear(m.duals)
	for r, k := range m.basis {
		w := m.columns[k].worth
		if w == 0 {
			continue
		}
		for i, v := range m.inverse[r] {
			m.duals[i] += float64(w * v)
		}
	}
	m.steps += len(m.basis) * len(m.basis)
}

// reducedCost is the reduced cost of a column: its value less its cost at these prices. If it is positive, the column
// improves the solution of which these are the duals.
func (c *column) reducedCost(prices []float64) float64 {
	gain := c.worth
	for i, r := range c.rows {
		gain -= float64(prices[r] * c.uses[i])
	}
	return gain
}

// solve improves the solution by the simplex method. In each pivot the column with the highest reduced cost enters the
// basis. It ends at the optimum over the columns found so far, at an unbounded column, or after that many pivots.
func (m *master) solve(pivots int) {
	for range pivots {
		enters, best := -1, 1e-7
		for k := range m.columns {
			if gain := m.columns[k].reducedCost(m.duals); gain > best {
				enters, best = k, gain
			}
		}
		m.steps += 4 * len(m.columns)
		if enters < 0 || !m.pivot(enters) {
			return
		}
	}
}

// pivot brings a column into the basis, and takes out the one whose value would become negative first. It is false, and
// changes nothing, if no value falls: then the column could grow without bound.
func (m *master) pivot(enters int) bool {
	direction := m.directionOf(&m.columns[enters])
	leaves, least := -1, 0.0
	for r, d := range direction {
		if d <= 1e-9 {
			continue
		}
		ratio := max(0, m.x[r]) / d
		// Of equal ratios the one with the largest pivot, which loses least precision.
		if leaves < 0 || ratio < least-1e-12 || ratio <= least+1e-12 && d > direction[leaves] {
			leaves, least = r, ratio
		}
	}
	if leaves < 0 {
		return false
	}
	m.exchange(leaves, enters, direction, least)
	return true
}

// directionOf expresses a column in terms of the basis: how much the value of each row's basic column falls for each
// unit of it.
func (m *master) directionOf(c *column) []float64 {
	direction := make([]float64, len(m.basis))
	for r := range direction {
		for i, row := range c.rows {
			direction[r] += float64(m.inverse[r][row] * c.uses[i])
		}
	}
	return direction
}

// exchange replaces the basic column of row leaves by column enters, which gets the value step, and computes the new
// duals. After 200 pivots the inverse is computed anew, since rounding errors add up.
func (m *master) exchange(leaves, enters int, direction []float64, step float64) {
	m.eliminate(leaves, direction, step)
	m.basis[leaves] = enters
	if m.pivots++; m.pivots > 200 {
		m.refresh()
	}
	m.computeDuals()
}

// eliminate updates the inverse and the solution for a pivot in row leaves.
func (m *master) eliminate(leaves int, direction []float64, step float64) {
	pivotRow := m.inverse[leaves]
	inv := 1 / direction[leaves]
	for i := range pivotRow {
		pivotRow[i] *= inv
	}
	for r, d := range direction {
		if r == leaves || d == 0 {
			continue
		}
		row := m.inverse[r]
		for i, v := range pivotRow {
			row[i] -= float64(d * v)
		}
		m.x[r] -= float64(d * step)
	}
	m.x[leaves] = step
	m.steps += len(direction) * len(direction)
}

// refresh computes the inverse of the basis and the solution anew, without accumulated rounding errors, by Gauss-Jordan
// elimination. If the basis has become singular both stay as they were.
func (m *master) refresh() {
	m.pivots = 0
	n := len(m.basis)
	a, inverse := make([][]float64, n), make([][]float64, n)
	for r := range a {
		a[r], inverse[r] = make([]float64, n), make([]float64, n)
		inverse[r][r] = 1
	}
	for at, k := range m.basis {
		for i, r := range m.columns[k].rows {
			a[r][at] += m.columns[k].uses[i]
		}
	}
	m.steps += n * n * n
	for at := range n {
		lead := at
		for r := at + 1; r < n; r++ {
			if abs(a[r][at]) > abs(a[lead][at]) {
				lead = r
			}
		}
		if abs(a[lead][at]) < 1e-11 {
			return
		}
		a[at], a[lead] = a[lead], a[at]
		inverse[at], inverse[lead] = inverse[lead], inverse[at]
		scale(a[at], inverse[at], 1/a[at][at])
		for r := range n {
			if f := a[r][at]; r != at && f != 0 {
				subtract(a[r], a[at], f)
				subtract(inverse[r], inverse[at], f)
			}
		}
	}
	m.inverse = inverse
	for r := range n {
		m.x[r] = 0
		for i, v := range inverse[r] {
			m.x[r] += float64(v * m.limits[i])
		}
	}
}

// scale multiplies two rows by f.
func scale(a, b []float64, f float64) {
	for i := range a {
		a[i] *= f
		b[i] *= f
	}
}

// subtract subtracts f times row b from row a.
func subtract(a, b []float64, f float64) {
	for i, v := range b {
		a[i] -= float64(f * v)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// restore makes a solution with negative values feasible again by the dual simplex method, in at most that many pivots.
// takeFilling leaves negative values where it takes one node more than the solution has of a filling.
func (m *master) restore(pivots int) {
	for range pivots {
		leaves, least := -1, -1e-7
		for r, x := range m.x {
			if x < least {
				leaves, least = r, x
			}
		}
		if leaves < 0 || !m.pivotOut(leaves) {
			return
		}
	}
}

// pivotOut takes the basic column of row r, whose value is negative, out of the basis. The ratio test of the dual
// simplex method chooses the column that replaces it. It is false, and changes nothing, if no column can.
func (m *master) pivotOut(r int) bool {
	row := m.inverse[r]
	enters, least := -1, 0.0
	for k := range m.columns {
		c := &m.columns[k]
		along := 0.0
		for i, at := range c.rows {
			along += float64(row[at] * c.uses[i])
		}
		if along >= -1e-9 {
			continue
		}
		if ratio := max(0, -c.reducedCost(m.duals)) / -along; enters < 0 || ratio < least {
			enters, least = k, ratio
		}
	}
	m.steps += 8 * len(m.columns)
	if enters < 0 {
		return false
	}
	direction := m.directionOf(&m.columns[enters])
	m.exchange(r, enters, direction, m.x[r]/direction[r])
	return true
}
