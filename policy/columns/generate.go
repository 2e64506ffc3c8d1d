package columns

// relaxation is a program that is bounded by prices for the rows of its master: a bound is proven at any prices, and
// least at the best ones.
type relaxation interface {
	// at is the bound at such prices, and columns that are worth more than they cost there.
	at(prices []float64) (bound float64, columns []column)
	// steps is how many elementary ones that has taken so far.
	steps() int
}

// precision is at which distance between a bound and what is known to be reached by the relaxation prices are good
// enough.
const precision = 1e-4

// Bound is what column generation came to.
type Bound struct {
	Value  float64
	Prices []float64 // at which it is proven
	Closed bool      // no better bound is to be had from the relaxation, but for the precision
}

// generate looks for the prices with the least bound by column generation. Prices are smoothed (Wentges 1997): they
// are looked for between those of the master, which leap, and the best so far. It ends after so many steps with what
// it has.
func generate(m *master, r relaxation, found Bound, artificial func(row int) bool, budget int) Bound {
	smooth := 0.5
	mixed := make([]float64, len(m.duals))
	for m.steps+r.steps() < budget {
		m.solve(50 + 2*len(m.duals))
		value, missing := m.value(artificial)
		if found.Closed = !missing && found.Value-value <= precision*found.Value; found.Closed {
			return found
		}
		for i, d := range m.duals {
			mixed[i] = d + float64(smooth*(found.Prices[i]-d))
		}
		bound, columns := r.at(mixed)
		if bound < found.Value {
			found.Value = bound
			copy(found.Prices, mixed)
		}
		joined := false
		for _, c := range columns {
			if c.reduced(m.duals) > 1e-7 {
				m.add(c)
				joined = true
			}
		}
		switch {
		case joined:
			smooth = 0.5
		case smooth == 0: // the master has all that it needs
			found.Closed = !missing
			return found
		default:
			smooth = 0
		}
	}
	return found
}
