package profiler

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Cache is a trainer's data cache that never evicts, as MinIO: in every epoch as much comes from memory as fits, and
// the rest from storage. So the rate with any amount of memory follows from the storage rate (Synergy, OSDI'22, §3.2).
type Cache struct {
	Dataset gres.Memory // everything that an epoch reads
	Base    gres.Memory // what the job needs besides the cache
	Storage float64     // MiB/s that the job gets from storage
	Sample  float64     // MiB of a stored sample
}

// isKnown reports whether the cache is known well enough to compute with.
func (c Cache) isKnown() bool { return c.Dataset > 0 && c.Storage > 0 && c.Sample > 0 }

// miss returns the part of an epoch that comes from storage when the job has this much memory.
func (c Cache) miss(memory gres.Memory) float64 {
	return min(1, max(0, 1-float64(memory-c.Base)/float64(c.Dataset)))
}

// fetch returns how many samples per second storage and cache can deliver.
func (c Cache) fetch(memory gres.Memory) float64 {
	return c.Storage / (c.Sample * c.miss(memory)) // +Inf if nothing is missed
}

// Column says how an amount of memory changes the curve.
type Column struct {
	Memory gres.Memory // of the whole job
	Most   float64     // samples/s per GPU that storage can deliver; +Inf: no limit
	Part   float64     // factor on the rate with full memory; below 1 only if measured without knowing the cache
}

// Of returns the rate with the column's memory, given the rate with full memory.
func (c Column) Of(rate float64) float64 { return min(rate*c.Part, c.Most) }

// Growth is what is known about memory: columns, ascending, and how they were found.
type Growth struct {
	Columns []Column
	How     string // one sentence for people
}

// shares are the parts of the data set for which the cache is computed. A profile is interpolated linearly between two
// of them, and the rate rises ever faster as less is missed, so they are closer together at the end.
var shares = []float64{0, 0.3, 0.5, 0.65, 0.75, 0.82, 0.88, 0.92, 0.95, 0.98, 1}

// growth returns what the runs with less memory say, compared with those with full memory.
func (q Question) growth(runs []Run, c Curve) Growth {
	if q.Cache.isKnown() {
		return q.reckoned(runs, c)
	}
	return q.measured(runs, c)
}

// reckoned computes the columns from the cache. A run with less memory confirms the cache, or, if it was slower than
// with full memory, gives the storage rate. If it was as fast although the cache predicts otherwise, the cache is not
// what limits the trainer: the amount of that run is then the only column.
func (q Question) reckoned(runs []Run, c Curve) Growth {
	cache, how := q.Cache, "memory is reckoned: the cache never evicts"
	for _, p := range q.lessMemoryPoints(runs) {
		expected := min(c.At(float64(p.Cores)).Rate, cache.fetch(p.memory)/float64(q.GPUs))
		switch off := p.Rate/expected - 1; {
		case math.Abs(off) <= confirms:
			how += ", and a run with less confirms it"
		case p.Rate < c.At(float64(p.Cores)).Rate*(1-sensitivity.Noise):
			cache.Storage = p.Rate * float64(q.GPUs) * cache.Sample * cache.miss(p.memory)
			how += ", and storage as fast as in a run with less"
		default:
			how = "memory does not matter: what was reckoned for the cache was not so in a run with less"
			return Growth{[]Column{{p.memory, math.Inf(1), 1}}, how}
		}
	}
	return Growth{q.columns(cache), how}
}

// confirms is how far a run may be off the computed rate, relative to it, and still confirm it.
const confirms = 0.15

// columns returns the amounts for which the cache's rates are written into the profile: parts of the data set, up to
// full memory. The last column is the first amount with which nothing is missed, or full memory.
func (q Question) columns(cache Cache) (columns []Column) {
	for _, share := range shares {
		memory := max(1, cache.Base+gres.Memory(share*float64(cache.Dataset)))
		if memory >= q.full() {
			break
		}
		columns = append(columns, Column{memory, cache.fetch(memory) / float64(q.GPUs), 1})
	}
	if n := len(columns); n == 0 || !math.IsInf(columns[n-1].Most, 1) {
		columns = append(columns, Column{q.full(), cache.fetch(q.full()) / float64(q.GPUs), 1})
	}
	return columns
}

// measured returns one column, the least amount tried, if memory does not matter, and else a column for each amount. A
// rate within Noise of that with full memory counts as equal.
func (q Question) measured(runs []Run, c Curve) Growth {
	less := q.lessMemoryPoints(runs)
	if len(less) == 0 {
		return Growth{[]Column{{q.full(), math.Inf(1), 1}}, "memory was not varied"}
	}
	var columns []Column
	for _, p := range less {
		part := min(1, p.Rate/c.At(float64(p.Cores)).Rate)
		if part >= 1-sensitivity.Noise {
			part = 1
		}
		columns = append(columns, Column{p.memory, math.Inf(1), part})
	}
	if columns[0].Part == 1 {
		return Growth{columns[:1], "memory does not matter down to the least that was tried"}
	}
	return Growth{append(columns, Column{q.full(), math.Inf(1), 1}),
		"memory matters, and was measured at one number of cores"}
}

// lessPoint is a point with less than full memory.
type lessPoint struct {
	Point
	memory gres.Memory
}

// lessMemoryPoints returns the measured points with less memory, ascending in memory.
func (q Question) lessMemoryPoints(runs []Run) (all []lessPoint) {
	for _, memory := range q.amounts() {
		for _, p := range q.points(runs, memory) {
			if p.Runs > 0 {
				all = append(all, lessPoint{p, memory})
			}
		}
	}
	return all
}

// amounts returns the amounts to be tried besides full memory, ascending. For a known cache one run with half of the
// data set in memory is enough to confirm it.
func (q Question) amounts() []gres.Memory {
	if q.Cache.isKnown() {
		half := q.Cache.Base + q.Cache.Dataset/2
		if half < q.full() {
			return []gres.Memory{half}
		}
		return nil
	}
	return q.Memory[:len(q.Memory)-1]
}

// nextMemory returns the next trial with less memory. It is made at the knee, where a shortage shows most, and first
// with the least amount: if that is enough, the others are, too. A recorded curve has no runs with less memory, and a
// run that is to go on comes first.
func (q Question) nextMemory(runs []Run, d Decision) (Trial, bool) {
	if len(d.Curve.Points) == 0 || q.Recorded || len(runs) > 0 && q.unfinished(runs[len(runs)-1]) > 0 {
		return Trial{}, false
	}
	why := WhyLess
	if q.Cache.isKnown() {
		why = WhyConfirm
	}
	for i, memory := range q.amounts() {
		if slices.ContainsFunc(runs, func(r Run) bool { return r.Memory == memory }) {
			if i == 0 && len(d.Grows.Columns) == 1 {
				return Trial{}, false
			}
			why = WhyBetween
			continue
		}
		return q.lessMemory(memory, d.Curve, why), true
	}
	return Trial{}, false
}

// lessMemory returns a trial with this amount at the first point beyond the knee. It is twice as long as one with full
// memory, up to Long.
func (q Question) lessMemory(memory gres.Memory, c Curve, why Why) Trial {
	knee := c.Knee(q.Learn)
	cores := c.Points[len(c.Points)-1].Cores
	for _, p := range c.Points {
		if float64(p.Cores) >= knee {
			cores = p.Cores
			break
		}
	}
	t := q.trial(cores, c, why)
	t.Memory, t.For = memory, min(q.Long, 2*t.For)
	return t
}
