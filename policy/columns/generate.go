package columns

// relaxation is a program without some constraints, bounded by prices for the rows of its master. Any prices prove a
// bound; the best prices prove the least one.
type relaxation interface {
	// boundAt is the bound at these prices, and columns that are worth more than they cost there.
	boundAt(prices []float64) (bound float64, columns []column)
	// steps is the number of elementary steps taken so far.
	steps() int
}

// precision is the relative gap between the bound and the value of the relaxation at which the search for prices ends.
const precision = 1e-4

// Bound is the result of column generation.
type Bound struct {
	Value  float64
	Prices []float64 // at which the bound is proven
	Closed bool      // the relaxation gives no better bound, up to precision
}

// searchPrices searches for the prices with the least bound by column generation, starting from those of found. After
// budget steps it returns what it has, which is a bound in any case. Prices are smoothed (Wentges 1997): bounds are
// computed between the best prices so far and the master's duals, which jump. If no column joins the master at smoothed
// prices, the master's own duals are tried before the search ends. artificial tells the rows whose first column stands
// for something that is missing, such as a job without a place: a solution that uses such a column does not solve the
// problem.
func searchPrices(m *master, r relaxation, found Bound, artificial func(row int) bool, budget int) Bound {
	smooth := 0.5
	mixed := make([]float64, len(m.duals))
	for m.steps+r.steps() < budget {
		m.solve(50 + 2*len(m.duals))
		value, missing := m.objective(artificial)
		if found.Closed = !missing && found.Value-value <= precision*found.Value; found.Closed {
			return found
		}
		for i, d := range m.duals {
			mixed[i] = d + float64(smooth*(found.Prices[i]-d))
		}
		bound, columns := r.boundAt(mixed)
		if bound < found.Value {
			found.Value = bound
			copy(found.Prices, mixed)
		}
		joined := false
		for _, c := range columns {
			if c.reducedCost(m.duals) > 1e-7 {
				m.add(c)
				joined = true
			}
		}
		switch {
		case joined:
			smooth = 0.5
		case smooth == 0: // the master has all columns that it needs
			found.Closed = !missing
			return found
		default:
			smooth = 0
		}
	}
	return found
}
