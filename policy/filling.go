package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// choice is a size that a job may have on a server, and what that nets beyond what the job has now: in GPU-seconds at
// the proportional speed of the reference server over rules.payback, less the cost of the restart if it takes one.
type choice struct {
	size     gres.Vector
	gain     float64 // on that server
	net      float64
	staysPut bool // what the job has now, where it is, so that it needs no restart
}

// prices are what a core and a MiB are worth over rules.payback, in GPU-seconds.
type prices struct{ core, memory float64 }

// costOf is what the cores and memory of v are worth.
func (p prices) costOf(v gres.Vector) float64 {
	return float64(p.core*float64(v.CPUs)) + float64(p.memory*float64(v.Memory))
}

// curve is, by number of cores, the most that some jobs of a server can net together with no more cores than that, in
// GPU-seconds. Memory is not bounded, but paid at its price. So the curve plus the price of a server's memory is an
// upper bound on what they net within that memory (boundWith). What they hold now costs nothing.
type curve []float64

// emptyCurve is the curve of no jobs, in the memory of in.
func emptyCurve(cores int, in curve) curve {
	f := resized(in, cores+1)
	clear(f)
	return f
}

// withJob is the curve with one more job, which has one of these choices; memory is the price of a MiB. Where no choice
// fits in the cores, it is impossible. The result uses the memory of in.
func (f curve) withJob(choices []choice, memory float64, in curve) curve {
	g := resized(in, len(f))
	for c := range g {
		g[c] = impossible
		for k := range choices {
			o := &choices[k]
			if rest := c - o.size.CPUs; rest >= 0 {
				g[c] = max(g[c], f[rest]+o.net-float64(memory*float64(o.size.Memory)))
			}
		}
	}
	return g
}

// impossible is a net so low that nothing elsewhere makes up for it.
const impossible = -1e18

// bestNetWith is the most that the jobs of the curve net together with other jobs, with at most so many cores. others
// has a list of choices for each other job; memory is the price of a MiB. If the cores do not suffice, the result is so
// near impossible that no net makes up for it.
func (f curve) bestNetWith(cores int, memory float64, others [][]choice) float64 {
	switch {
	case cores < 0:
		return impossible
	case len(others) == 0:
		return f[cores]
	}
	most := impossible
	for k := range others[0] {
		o := &others[0][k]
		if rest := cores - o.size.CPUs; rest >= 0 {
			most = max(most, o.net-float64(memory*float64(o.size.Memory))+f.bestNetWith(rest, memory, others[1:]))
		}
	}
	return most
}

// fill is one way to size the first jobs of a list: what they use, what they net, and the choice of the last of them.
type fill struct {
	used gres.Vector
	net  float64
	pick int // index of the choice of the last of the jobs
	from int // index, in the layer before, of the fill of the other jobs
}

// sizeSolver finds exactly the sizes with which the jobs of a server net most together, by dynamic programming over the
// jobs. Of the fills of the first jobs it keeps those for which no other fill needs no more and nets as much (the
// undominated ones); only these can be part of the best. A layer is the fills that are kept after one more job.
type sizeSolver struct {
	layers [][]fill // by number of open jobs that are sized: the undominated fills
	open   []int    // the jobs with more than one choice
	picks  []int    // the result: of each job, the index of its choice
	work   int      // how many fills were looked at so far

	// Scratch memory.
	all        []fill
	bucketEnds []int
	stairs     []stair
}

// solve sizes jobs within the cores and memory of room; their GPUs are settled. It returns what they net and the index
// of each job's choice, in reused memory; ok is false if there is no room for all of them. Jobs with one choice are
// taken off the room at once, the others one after the other.
func (f *sizeSolver) solve(room gres.Vector, jobs [][]choice) (net float64, picks []int, ok bool) {
	begin := fill{}
	f.open, f.picks = f.open[:0], resized(f.picks, len(jobs))
	for k, choices := range jobs {
		if len(choices) == 1 {
			begin.used, begin.net, f.picks[k] = begin.used.Plus(choices[0].size), begin.net+choices[0].net, 0
		} else {
			f.open = append(f.open, k)
		}
	}
	if begin.used.GPUs = 0; begin.used.CPUs > room.CPUs || begin.used.Memory > room.Memory {
		return 0, nil, false
	}
	f.layers = resized(f.layers, len(jobs)+1)
	f.layers[0] = append(f.layers[0][:0], begin)
	for at, k := range f.open {
		f.layers[at+1] = f.addJob(f.layers[at+1][:0], f.layers[at], jobs[k], room)
	}
	last := f.layers[len(f.open)]
	best := -1
	for k := range last {
		if best < 0 || last[k].net > last[best].net {
			best = k
		}
	}
	if best < 0 {
		return 0, nil, false
	}
	for k, at := len(f.open), best; k > 0; k-- {
		f.picks[f.open[k-1]], at = f.layers[k][at].pick, f.layers[k][at].from
	}
	return last[best].net, f.picks, true
}

// addJob sizes one more job after each of the fills in from, and returns the undominated results in the memory of to.
// Fills come in ascending order of cores and stay so: they are sorted into one bucket (heap) for each number of cores,
// which keeps this near linear. It counts the fills that it looks at (work).
func (f *sizeSolver) addJob(to, from []fill, choices []choice, room gres.Vector) []fill {
	f.bucketEnds = resized(f.bucketEnds, room.CPUs+2)
	clear(f.bucketEnds)
	f.all = f.all[:0]
	for at := range from {
		for k := range choices {
			o := &choices[k]
			used := gres.Vector{CPUs: from[at].used.CPUs + o.size.CPUs, Memory: from[at].used.Memory + o.size.Memory}
			if used.CPUs <= room.CPUs && used.Memory <= room.Memory {
				f.all = append(f.all, fill{used, from[at].net + o.net, k, at})
				f.bucketEnds[used.CPUs+1]++
			}
		}
	}
	f.work += len(f.all)
	for cores := range room.CPUs + 1 {
		f.bucketEnds[cores+1] += f.bucketEnds[cores]
	}
	to = resized(to, len(f.all))
	for k := range f.all {
		heap := &f.bucketEnds[f.all[k].used.CPUs]
		to[*heap] = f.all[k]
		*heap++
	}
	return f.keepUndominated(to)
}

// keepUndominated drops, in place, the fills for which another needs no more and nets as much: they cannot be part of a
// better result, and without them the layers stay small. The fills come in ascending order of cores.
func (f *sizeSolver) keepUndominated(all []fill) []fill {
	f.stairs = f.stairs[:0]
	kept := all[:0]
	for end := 0; end < len(all); {
		from := end
		for end < len(all) && all[end].used.CPUs == all[from].used.CPUs {
			end++
		}
		heap := f.dropDominatedEarly(all[from:end])
		slices.SortFunc(heap, func(x, y fill) int {
			return cmp.Or(cmp.Compare(x.used.Memory, y.used.Memory), cmp.Compare(y.net, x.net),
				cmp.Compare(x.from, y.from), cmp.Compare(x.pick, y.pick))
		})
		for _, x := range heap {
			if f.addToStairs(x) {
				kept = append(kept, x)
			}
		}
	}
	return kept
}

// dropDominatedEarly drops, in place, fills with equal cores that are dominated by one with fewer cores
// (isBelowStairs), or by the one of them that nets most. That saves keepUndominated most of its sorting.
func (f *sizeSolver) dropDominatedEarly(heap []fill) []fill {
	best := heap[0]
	for _, x := range heap[1:] {
		if cmp.Or(cmp.Compare(x.net, best.net), cmp.Compare(best.used.Memory, x.used.Memory),
			cmp.Compare(best.from, x.from), cmp.Compare(best.pick, x.pick)) > 0 {
			best = x
		}
	}
	kept := heap[:0]
	for _, x := range heap {
		if (x.used.Memory < best.used.Memory || x == best) && !f.isBelowStairs(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// isBelowStairs reports that a fill seen before, with no more cores, needs no more memory than x and nets as much, so
// that x can be dropped.
func (f *sizeSolver) isBelowStairs(x fill) bool {
	at := f.stairAbove(x.used.Memory)
	return at > 0 && f.stairs[at-1].net >= x.net
}

// stairAbove is the index of the first stair with more memory than this; the number of stairs if there is none.
func (f *sizeSolver) stairAbove(memory gres.Memory) int {
	low, high := 0, len(f.stairs)
	for low < high {
		if mid := (low + high) / 2; f.stairs[mid].memory <= memory {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// stair is the most net of any fill so far that needs no more than this memory. Fills come in ascending order of cores,
// so the fills on the stairs need no more cores than the next fill: it is dominated if it lies below them.
type stair struct {
	memory gres.Memory
	net    float64
}

// addToStairs adds fill x to the stairs, which rise in memory and in net, and drops the stairs that x dominates. It is
// false, and changes nothing, if x is itself dominated: a fill with no more memory nets as much.
func (f *sizeSolver) addToStairs(x fill) bool {
	at := f.stairAbove(x.used.Memory)
	if at > 0 && f.stairs[at-1].net >= x.net {
		return false
	}
	if at > 0 && f.stairs[at-1].memory == x.used.Memory {
		at--
	}
	end := at
	for end < len(f.stairs) && f.stairs[end].net <= x.net {
		end++
	}
	f.stairs = slices.Replace(f.stairs, at, end, stair{x.used.Memory, x.net})
	return true
}
