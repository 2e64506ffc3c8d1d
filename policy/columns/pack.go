package columns

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// packer finds the filling of one node of a shape with the highest value beyond the costs of its jobs. This is an
// unbounded knapsack in three dimensions with a choice of size. GPUs and cores are few enough to be the states of a
// table (dynamic programming). Memory is considered only if the best filling without it needs too much: the table then
// bounds what the rest of a node can add, so hardly any other filling has to be examined.
type packer struct {
	options     []Option
	gpus        int         // of a node
	cores       int         // in units
	unit        int         // cores per unit; above 1 sizes are rounded down, so that the result is still a bound
	whole       bool        // sizes are rounded up to units, so that a filling fits
	memory      gres.Memory // of a node
	gain        []float64   // of each option: value beyond its cost
	cells       []int       // by GPUs and cores: the best option of that size; nothing: none is worth anything
	chosen      [][]cell    // by GPUs: the options worth trying, ascending in cores
	worth       []float64   // by GPUs and cores: value of the best filling within that
	last        []int       // by GPUs and cores: an option of the best filling, or fewerCores, fewerGPUs, nothing
	ranges      [][2]int    // by class: its range in options; made on first use
	isScarce    []bool      // by option: its class has fewer jobs left than fit on a node; nil: no class
	memoryPrice float64     // price of memory at which it was last just enough
	steps       int         // elementary steps so far
	labels      labels      // reused memory of search
}

// cell is an option worth trying, with its cores in units and its value net of memory.
type cell struct {
	cores, option int
	gain          float64
}

// Entries of packer.last and packer.cells that are not options. fewerCores says that the best filling is the one with a
// unit of cores less, fewerGPUs the one with a GPU less.
const (
	nothing    = -1
	fewerCores = -2
	fewerGPUs  = -3
)

// Limits of a knapsack.
const (
	mostStates = 4096  // GPUs × units of cores
	mostGPUs   = 64    // of a node; larger nodes are bounded by prices alone
	mostLabels = 20000 // partial fillings examined in the search with memory
	// mostPromising limits the options of that search.
	mostPromising = 1500
)

// newPacker makes a packer for nodes of a shape; nil if they have more than mostGPUs GPUs. If a node has so many cores
// that the table would have more than mostStates states, cores are counted in units of several. Options that do not fit
// on an empty node are dropped.
func newPacker(sh *Shape, options []Option) *packer {
	if sh.Most.GPUs > mostGPUs {
		return nil
	}
	k := &packer{gpus: sh.Most.GPUs, unit: 1, memory: sh.Most.Memory}
	for (sh.Most.GPUs+1)*(sh.Most.CPUs/k.unit+1) > mostStates {
		k.unit *= 2
	}
	k.cores = sh.Most.CPUs / k.unit
	k.options = options
	// Fillings are indexes in k.options. These are the indexes of the problem only if nothing is dropped here, which
	// Dive requires.
	if large := func(o Option) bool { return !o.Size.Fits(sh.Most) }; slices.ContainsFunc(options, large) {
		k.options = slices.DeleteFunc(slices.Clone(options), large)
	}
	states := (k.gpus + 1) * (k.cores + 1)
	k.gain, k.cells, k.chosen = make([]float64, len(k.options)), make([]int, states), make([][]cell, k.gpus+1)
	k.worth, k.last = make([]float64, states), make([]int, states)
	return k
}

// state is the index of a number of GPUs and units of cores in the tables.
func (k *packer) state(gpus, cores int) int { return gpus*(k.cores+1) + cores }

// coresOf is the cores of an option in units: rounded up if fillings have to fit (whole), else down, so that the result
// is still a bound.
func (k *packer) coresOf(o int) int {
	if k.whole {
		return (k.options[o].Size.CPUs + k.unit - 1) / k.unit
	}
	return k.options[o].Size.CPUs / k.unit
}

// bestFilling finds the filling of a node with the highest gain at these costs of jobs, by class. bound is at least
// that gain, and nearly always equal to the gain of filling. Where memory is short the search may end before filling is
// the best; bound holds all the same.
func (k *packer) bestFilling(costs []float64) (bound float64, filling []int) {
	k.computeGains(costs)
	bound = k.fillTable(0)
	if filling = k.trace(); k.memoryNeeded(filling) <= k.memory {
		return bound, filling
	}
	return k.fillInMemory(bound)
}

// computeGains computes the gain of each option: its value less the cost of a job of its class. Each part of a gang
// bears an equal part of that cost.
func (k *packer) computeGains(costs []float64) {
	for i := range k.options {
		o := &k.options[i]
		k.gain[i] = o.Value - costs[o.Class]/float64(o.Parts)
	}
	k.steps += len(k.options)
}

// fillTable fills the table of best fillings by GPUs and cores, as if memory were unlimited at that price per MiB, and
// returns the value of the best filling of the whole node. The best filling within some GPUs and cores is one option
// and the best filling of the rest, so options may repeat; or it is the best one with a GPU or a unit of cores less.
// trace then lists the options of the whole node's.
func (k *packer) fillTable(price float64) float64 {
	k.chooseOptions(price)
	width := k.cores + 1
	for g := 0; g <= k.gpus; g++ {
		worth, last := k.worth[g*width:][:width], k.last[g*width:][:width]
		for c := range worth {
			worth[c], last[c] = 0, nothing
		}
		if g > 0 {
			for c, w := range k.worth[(g-1)*width:][:width] {
				if w > worth[c] {
					worth[c], last[c] = w, fewerGPUs
				}
			}
		}
		for size := 1; size <= g; size++ {
			rest := k.worth[(g-size)*width:][:width]
			for _, x := range k.chosen[size] {
				for c := x.cores; c < width; c++ {
					if w := x.gain + rest[c-x.cores]; w > worth[c] {
						worth[c], last[c] = w, x.option
					}
				}
				k.steps += width - x.cores
			}
		}
		for c := 1; c < width; c++ {
			if worth[c-1] > worth[c] {
				worth[c], last[c] = worth[c-1], fewerCores
			}
		}
	}
	return k.worth[len(k.worth)-1]
}

// chooseOptions keeps, for each number of GPUs, the options worth trying in the table. These have a positive gain net
// of memory at that price, and no option with as many GPUs and fewer cores has as high a one. Scarce options are left
// to layers, since the table may take an option any number of times.
func (k *packer) chooseOptions(price float64) {
	for i := range k.cells {
		k.cells[i] = nothing
	}
	net := func(o int) float64 { return k.gain[o] - float64(price*float64(k.options[o].Size.Memory)) }
	for o := range k.options {
		if g := net(o); g > 0 && (k.isScarce == nil || !k.isScarce[o]) {
			if at := k.state(k.options[o].Size.GPUs, k.coresOf(o)); k.cells[at] == nothing || g > net(k.cells[at]) {
				k.cells[at] = o
			}
		}
	}
	k.steps += len(k.options)
	for g := range k.chosen {
		k.chosen[g] = k.chosen[g][:0]
		best := 0.0
		for c := 0; c <= k.cores; c++ {
			if o := k.cells[k.state(g, c)]; o != nothing && net(o) > best {
				best = net(o)
				k.chosen[g] = append(k.chosen[g], cell{c, o, best})
			}
		}
	}
}

// trace lists the options of the best filling in the table.
func (k *packer) trace() []int { return k.traceFrom(nil, k.gpus, k.cores) }

// traceFrom appends to a filling the options of the best filling within g GPUs and c units of cores, read off the
// table.
func (k *packer) traceFrom(filling []int, g, c int) []int {
	for {
		switch o := k.last[k.state(g, c)]; o {
		case nothing:
			return filling
		case fewerCores:
			c--
		case fewerGPUs:
			g--
		default:
			filling = append(filling, o)
			g, c = g-k.options[o].Size.GPUs, c-k.coresOf(o)
		}
	}
}

// memoryNeeded is the memory that a filling needs.
func (k *packer) memoryNeeded(filling []int) (memory gres.Memory) {
	for _, o := range filling {
		memory += k.options[o].Size.Memory
	}
	return memory
}

// totalGain is the sum of the gains of a filling.
func (k *packer) totalGain(filling []int) (gain float64) {
	for _, o := range filling {
		gain += k.gain[o]
	}
	return gain
}

// fillInMemory finds the best filling within the memory of a node. bound is what the table gives without a price of
// memory. It is lowered to what is proven: at any price, the table's value plus the price of all the node's memory is a
// bound.
//
// In six trials it looks for a price of memory at which the table's best filling just fits, starting from the last such
// price; a trial changes the price by at most a factor of 1.25. Then it searches all fillings that could beat the best
// one found. It ends early if that one reaches the bound.
func (k *packer) fillInMemory(bound float64) (float64, []int) {
	var best []int
	brought, fit := 0.0, 0.0
	low, high := 0.0, bound/float64(max(1, k.memory))
	price := high / 2
	if k.memoryPrice > 0 && k.memoryPrice < high {
		price = k.memoryPrice
	}
	for range 6 {
		if limit := k.fillTable(price) + float64(price*float64(k.memory)); limit < bound {
			bound, fit = limit, price
		}
		filling := k.trace()
		if k.memoryNeeded(filling) > k.memory {
			low = price
		} else {
			high = price
			if gain := k.totalGain(filling); gain > brought {
				brought, best = gain, filling
			}
		}
		if bound-brought < 1e-9*bound {
			return bound, best
		}
		price = min(max((low+high)/2, 0.8*price), 1.25*price)
	}
	k.memoryPrice = fit
	k.fillTable(fit)
	if gain, filling, all := k.search(fit, brought); all {
		if filling == nil {
			filling = best
		}
		return max(gain, brought), filling
	}
	return bound, best
}

// label is a partial filling in search: the partial filling with index from, and one more option.
type label struct {
	memory       gres.Memory
	gain         float64 // of its options together
	from, option int32
}

// labels are the partial fillings of a search.
type labels struct {
	all     []label
	byState [][]int32 // by state; ascending in memory and in gain
}

// search finds the best filling that fits in memory and has a gain above known. If there is none, filling is nil and
// gain is known. It extends partial fillings (labels) by one option after the other, and drops those that cannot get
// above known with the best rest of the node, by the table for that price of memory. all is false if it gave up because
// there were too many options or labels; it proves nothing then.
func (k *packer) search(price, known float64) (gain float64, filling []int, all bool) {
	known += 1e-9
	hope := func(g, c int, memory gres.Memory) float64 {
		return k.worth[k.state(g, c)] + float64(price*float64(memory))
	}
	k.labels.reset(len(k.worth))
	best := int32(nothing)
	promising := k.promising(known, hope)
	if len(promising) > mostPromising {
		return 0, nil, false
	}
	for _, o := range k.undominated(promising) {
		size, cores := k.options[o].Size, k.coresOf(o)
		for g := size.GPUs; g <= k.gpus; g++ {
			for c := cores; c <= k.cores; c++ {
				at := k.state(g, c)
				for _, from := range k.labels.byState[k.state(g-size.GPUs, c-cores)] {
					l := label{k.labels.all[from].memory + size.Memory, k.labels.all[from].gain + k.gain[o], from,
						int32(o)}
					k.steps++
					if l.memory > k.memory || l.gain+hope(k.gpus-g, k.cores-c, k.memory-l.memory) <= known {
						continue
					}
					if k.labels.insert(at, l) && l.gain > known {
						known, best = l.gain, int32(len(k.labels.all)-1)
					}
				}
			}
		}
		if len(k.labels.all) > mostLabels {
			return 0, nil, false
		}
	}
	if best == nothing {
		return known - 1e-9, nil, true // nothing better than what was known
	}
	for at := best; k.labels.all[at].option != nothing; at = k.labels.all[at].from {
		filling = append(filling, int(k.labels.all[at].option))
	}
	return known, filling, true
}

// promising lists the options that a filling with a value above known may contain: even with the best rest of the node
// (hope) the others would not reach it.
func (k *packer) promising(known float64, hope func(g, c int, memory gres.Memory) float64) (kept []int) {
	for o := range k.options {
		if k.gain[o] <= 0 {
			continue
		}
		size := k.options[o].Size
		if k.gain[o]+hope(k.gpus-size.GPUs, k.cores-k.coresOf(o), k.memory-size.Memory) > known {
			kept = append(kept, o)
		}
	}
	return kept
}

// undominated lists the options that no other option dominates (same GPUs, no more cores and memory, no lower gain), in
// falling gain. The others need not be searched: a filling with one of them is no better.
func (k *packer) undominated(options []int) (kept []int) {
	slices.SortFunc(options, func(x, y int) int {
		return cmp.Or(cmp.Compare(k.gain[y], k.gain[x]), cmp.Compare(x, y))
	})
	for _, o := range options {
		better := func(p int) bool {
			s, t := k.options[p].Size, k.options[o].Size
			return s.GPUs == t.GPUs && k.coresOf(p) <= k.coresOf(o) && s.Memory <= t.Memory
		}
		k.steps += len(kept)
		if !slices.ContainsFunc(kept, better) {
			kept = append(kept, o)
		}
	}
	return kept
}

// reset leaves only the empty filling, for a table with so many states.
func (l *labels) reset(states int) {
	if len(l.byState) != states {
		l.byState = make([][]int32, states)
	}
	for i := range l.byState {
		l.byState[i] = l.byState[i][:0]
	}
	l.all = append(l.all[:0], label{0, 0, nothing, nothing})
	l.byState[0] = append(l.byState[0], 0)
}

// insert adds a label to those of a state and removes the ones that it dominates (no less memory, no more gain). It is
// false, and adds nothing, if an existing label dominates the new one.
func (l *labels) insert(state int, n label) bool {
	list := l.byState[state]
	at := 0
	for at < len(list) && l.all[list[at]].memory <= n.memory {
		at++
	}
	if at > 0 && l.all[list[at-1]].gain >= n.gain {
		return false
	}
	worse := at
	for worse < len(list) && l.all[list[worse]].gain <= n.gain {
		worse++
	}
	l.all = append(l.all, n)
	l.byState[state] = slices.Replace(list, at, worse, int32(len(l.all)-1))
	return true
}
