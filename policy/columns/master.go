package columns

import "slices"

// master is a restricted master program: the most that Σ x·worth can be with Σ x·rows = limits (equal) or ≤ limits, x
// ≥ 0, over the columns that have been found so far. It is solved by the revised simplex method with an explicit
// inverse, which is good for a few hundred rows; a column that joins later goes on from the last basis. Nothing that
// is proven rests on its precision: its duals are good guesses at prices.
type master struct {
	limits  []float64
	columns []column
	basis   []int       // column of each row
	inverse [][]float64 // of the basis
	x       []float64   // of the basis
	duals   []float64
	steps   int // elementary ones, so far
	pivots  int // since the inverse was made anew
}

// column is a way to use rows.
type column struct {
	worth   float64
	rows    []int32
	uses    []float64
	options []int // of the pattern that it is
	fits    bool  // such a filling fits, to the last core
}

// newMaster has one column for each row to begin with: of slack, or of what is missing, at that penalty.
func newMaster(limits, penalties []float64) *master {
	n := len(limits)
	m := &master{
		limits: slices.Clone(limits), basis: make([]int, n), inverse: make([][]float64, n), duals: make([]float64, n),
	}
	for r := range limits {
		m.columns = append(m.columns, column{worth: -penalties[r], rows: []int32{int32(r)}, uses: []float64{1}})
		m.limits[r] += 1e-7 * float64(1+r%97) * max(1, limits[r]) / 100 // ties of the ratio test are rare then
		m.basis[r], m.inverse[r] = r, make([]float64, n)
		m.inverse[r][r] = 1
	}
	m.x = slices.Clone(m.limits)
	m.price()
	return m
}

func (m *master) add(c column) { m.columns = append(m.columns, c) }

// value is what the present solution is worth; missing says that it rests on what is not there.
func (m *master) value(artificial func(row int) bool) (value float64, missing bool) {
	for r, k := range m.basis {
		value += float64(m.columns[k].worth * m.x[r])
		if k < len(m.basis) && artificial(k) && m.x[r] > 1e-4 {
			missing = true
		}
	}
	return value, missing
}

// price works out the duals.
func (m *master) price() {
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

// reduced is by how much a column is worth more than it costs at such prices.
func (c *column) reduced(prices []float64) float64 {
	gain := c.worth
	for i, r := range c.rows {
		gain -= float64(prices[r] * c.uses[i])
	}
	return gain
}

// solve goes on to an optimum, or for so many pivots.
func (m *master) solve(pivots int) {
	for range pivots {
		enters, best := -1, 1e-7
		for k := range m.columns {
			if gain := m.columns[k].reduced(m.duals); gain > best {
				enters, best = k, gain
			}
		}
		m.steps += 4 * len(m.columns)
		if enters < 0 || !m.pivot(enters) {
			return
		}
	}
}

// pivot brings a column into the basis; false where there is no bound to it.
func (m *master) pivot(enters int) bool {
	direction := m.directionOf(&m.columns[enters])
	leaves, least := -1, 0.0
	for r, d := range direction {
		if d <= 1e-9 {
			continue
		}
		ratio := max(0, m.x[r]) / d
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

// directionOf is a column in terms of the basis.
func (m *master) directionOf(c *column) []float64 {
	direction := make([]float64, len(m.basis))
	for r := range direction {
		for i, row := range c.rows {
			direction[r] += float64(m.inverse[r][row] * c.uses[i])
		}
	}
	return direction
}

// exchange makes a column basic in place of that of a row.
func (m *master) exchange(leaves, enters int, direction []float64, step float64) {
	m.eliminate(leaves, direction, step)
	m.basis[leaves] = enters
	if m.pivots++; m.pivots > 200 {
		m.refresh()
	}
	m.price()
}

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

// refresh makes the inverse of the basis anew, without what rounding has added up to. A basis that has become
// singular stays as it was.
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

func scale(a, b []float64, f float64) {
	for i := range a {
		a[i] *= f
		b[i] *= f
	}
}

func subtract(a, b []float64, f float64) {
	for i, v := range b {
		a[i] -= float64(f * v)
	}
}

func abs(x float64) float64 { return max(x, -x) }

// restore brings a solution that has become negative in places back to what is possible, by the dual simplex method,
// for so many pivots at most.
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

// pivotOut takes the column of row r, which is below nothing, out of the basis; false where none can take its place.
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
		if ratio := max(0, -c.reduced(m.duals)) / -along; enters < 0 || ratio < least {
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
