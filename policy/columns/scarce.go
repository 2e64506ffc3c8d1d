package columns

// layer is one more job of a scarce class, one that has too few jobs left to fill a node with them. The table would
// take such a class any number of times; a layer takes it once, as a 0/1 item of the knapsack with a choice of size.
type layer struct {
	options []int   // worth trying
	picks   []int32 // by state: the option taken there, or nothing
}

// fillWithin finds a filling with a gain above known at these costs and no more jobs of a class than are left; nil if
// it finds none. It is for the dive, which places whole jobs. It first excludes options with which no filling gets
// above known. If the best filling of the table then has too many jobs or needs too much memory, it searches again,
// taking the jobs of scarce classes one by one (layer). It proves no bound: where memory is short there may be better
// fillings.
func (k *packer) fillWithin(costs []float64, left []int, known float64) []int {
	k.computeGains(costs)
	for o := range k.options {
		if left[k.options[o].Class] == 0 {
			k.gain[o] = -infinite // as excludeHopeless does: not worth trying
		}
	}
	if k.memoryPrice > 0 && !k.excludeHopeless(k.memoryPrice, known) || !k.excludeHopeless(0, known) {
		return nil
	}
	if filling := k.trace(); k.memoryNeeded(filling) <= k.memory && k.withinLeft(filling, left) {
		return filling
	}
	k.markScarce(left)
	defer func() { k.isScarce = nil }()
	return k.searchLayered(left, known)
}

// excludeHopeless excludes the options that no filling with a gain above known has, as the table for that price of
// memory shows, so that fewer are tried. It is false if there is no such filling at all. The table is filled before
// that, so the best filling of all options can still be read off it.
func (k *packer) excludeHopeless(price, known float64) bool {
	limit := k.fillTable(price) + float64(price*float64(k.memory))
	for o := range k.options {
		if k.gain[o] <= 0 {
			continue
		}
		size := k.options[o].Size
		rest := k.worth[k.state(k.gpus-size.GPUs, k.cores-k.coresOf(o))] + float64(price*float64(k.memory-size.Memory))
		if k.gain[o]+rest <= known {
			k.gain[o] = -infinite
		}
	}
	k.steps += len(k.options)
	return limit > known
}

// searchLayered looks for a price of memory at which the best filling within the jobs that are left just fits, in six
// trials. It ends at once if one fits without a price, since memory is not short then. Until one fits, the price at
// least doubles. A filling that needs too much memory gets other sizes (balanceSizes) and is a candidate, too. It
// returns the best filling above known; nil if none is.
func (k *packer) searchLayered(left []int, known float64) (best []int) {
	low, high, price := 0.0, 0.0, k.memoryPrice
	for range 6 {
		filling, worth := k.layeredFilling(price, left)
		enough := k.memoryNeeded(filling) <= k.memory
		if enough {
			high = price
		} else {
			low = price
			filling = k.balanceSizes(filling)
		}
		if gain := k.totalGain(filling); gain > known {
			known, best = gain, filling
		}
		switch {
		case enough && price == 0:
			return best
		case high == 0:
			price = max(2*low, worth/float64(max(1, k.memory))/4)
		default:
			price = (low + high) / 2
		}
	}
	return best
}

// withinLeft reports whether a filling has no more jobs of a class than are left. The table alone does not see to that.
func (k *packer) withinLeft(filling, left []int) bool {
	for i, o := range filling {
		class, more := k.options[o].Class, left[k.options[o].Class]
		for _, p := range filling[i:] {
			if k.options[p].Class == class {
				more--
			}
		}
		if more < 0 {
			return false
		}
	}
	return true
}

// balanceSizes changes the sizes in a filling so that its cores and memory suffice. It starts from the sizes with the
// smallest part of cores and memory, then repeatedly takes the change that fits with the largest increase of gain. It
// changes filling itself, and returns nil if even the smallest sizes do not fit.
func (k *packer) balanceSizes(filling []int) []int {
	cores, memory := k.cores, k.memory
	for i, o := range filling {
		filling[i] = k.smallestSize(o)
		cores, memory = cores-k.coresOf(filling[i]), memory-k.options[filling[i]].Size.Memory
	}
	if cores < 0 || memory < 0 {
		return nil
	}
	for {
		at, to, best := -1, 0, 1e-9
		for i, o := range filling {
			in := k.rangeOf(k.options[o].Class)
			k.steps += in[1] - in[0]
			for p := in[0]; p < in[1]; p++ {
				fits := k.coresOf(p)-k.coresOf(o) <= cores &&
					k.options[p].Size.Memory-k.options[o].Size.Memory <= memory
				if more := k.gain[p] - k.gain[o]; fits && more > best &&
					k.options[p].Size.GPUs == k.options[o].Size.GPUs {
					at, to, best = i, p, more
				}
			}
		}
		if at < 0 {
			return filling
		}
		o := filling[at]
		cores, memory = cores+k.coresOf(o)-k.coresOf(to), memory+k.options[o].Size.Memory-k.options[to].Size.Memory
		filling[at] = to
	}
}

// smallestSize is the size of option o's class, with as many GPUs, that takes the smallest part of a node: of cores or
// of memory, whichever part is larger.
func (k *packer) smallestSize(o int) int {
	part := func(p int) float64 {
		return max(float64(k.coresOf(p))/float64(max(1, k.cores)),
			float64(k.options[p].Size.Memory)/float64(max(1, k.memory)))
	}
	in := k.rangeOf(k.options[o].Class)
	k.steps += in[1] - in[0]
	least := o
	for p := in[0]; p < in[1]; p++ {
		if k.options[p].Size.GPUs == k.options[o].Size.GPUs && part(p) < part(least) {
			least = p
		}
	}
	return least
}

// markScarce marks the options of classes with fewer jobs left than a node has room for: these cannot be taken any
// number of times, so the table leaves them to layers.
func (k *packer) markScarce(left []int) {
	k.isScarce = make([]bool, len(k.options))
	for o := range k.options {
		k.isScarce[o] = left[k.options[o].Class] < k.gpus/max(1, k.options[o].Size.GPUs)
	}
}

// layeredFilling computes the best filling within the jobs that are left, and its value, for unlimited memory at that
// price per MiB. The table is filled with the classes that have enough jobs. Then one layer is added for each job of
// the scarce classes. The filling is read off the layers in reverse order, and the rest of it off the table.
func (k *packer) layeredFilling(price float64, left []int) (filling []int, worth float64) {
	k.fillTable(price)
	var layers []layer
	for class := range left {
		if options := k.worthTrying(price, k.rangeOf(class)); left[class] > 0 && len(options) > 0 {
			for range left[class] {
				layers = append(layers, k.addLayer(options, price))
			}
		}
	}
	worth = k.worth[len(k.worth)-1]
	g, c := k.gpus, k.cores
	for l := len(layers) - 1; l >= 0; l-- {
		if o := int(layers[l].picks[k.state(g, c)]); o != nothing {
			filling = append(filling, o)
			g, c = g-k.options[o].Size.GPUs, c-k.coresOf(o)
		}
	}
	return k.traceFrom(filling, g, c), worth
}

// rangeOf is where the options of a class begin and end, since options are in the order of classes; empty if the class
// has none. The ranges of all classes are computed at the first call.
func (k *packer) rangeOf(class int) [2]int {
	if k.ranges == nil {
		for from := 0; from < len(k.options); {
			to := from
			for to < len(k.options) && k.options[to].Class == k.options[from].Class {
				to++
			}
			for len(k.ranges) <= k.options[from].Class {
				k.ranges = append(k.ranges, [2]int{})
			}
			k.ranges[k.options[from].Class], from = [2]int{from, to}, to
		}
	}
	if class >= len(k.ranges) {
		return [2]int{}
	}
	return k.ranges[class]
}

// netGain is the gain of an option less its memory at that price.
func (k *packer) netGain(o int, price float64) float64 {
	return k.gain[o] - float64(price*float64(k.options[o].Size.Memory))
}

// worthTrying lists the scarce options in a range of options (first and end) that are worth a layer (a job of a scarce
// class as an item that is taken at most once): those with a positive net gain at that price of memory that no other
// option of the range dominates. One dominates that needs no more GPUs and cores and gains more, or as much and comes
// first.
func (k *packer) worthTrying(price float64, in [2]int) (kept []int) {
	from, to := in[0], in[1]
	for o := from; o < to; o++ {
		net := k.netGain(o, price)
		if !k.isScarce[o] || net <= 0 {
			continue
		}
		beaten := false
		for p := from; p < to && !beaten; p++ {
			other := k.netGain(p, price)
			beaten = k.coresOf(p) <= k.coresOf(o) && k.options[p].Size.GPUs <= k.options[o].Size.GPUs &&
				(other > net || other == net && p < o)
		}
		if !beaten {
			kept = append(kept, o)
		}
	}
	k.steps += (to - from) * (1 + len(kept))
	return kept
}

// addLayer adds one job, with a choice of these options, to the table as a layer. It goes down in GPUs: an entry is
// computed from entries with fewer GPUs, which do not have this job yet, so that the job is not taken twice.
func (k *packer) addLayer(options []int, price float64) layer {
	width := k.cores + 1
	l := layer{options, make([]int32, len(k.worth))}
	for at := range l.picks {
		l.picks[at] = nothing
	}
	for g := k.gpus; g > 0; g-- {
		worth, picks := k.worth[g*width:][:width], l.picks[g*width:][:width]
		for _, o := range options {
			size, cores := k.options[o].Size.GPUs, k.coresOf(o)
			if size > g {
				continue
			}
			rest, net := k.worth[(g-size)*width:][:width], k.netGain(o, price)
			for c := cores; c < width; c++ {
				if w := net + rest[c-cores]; w > worth[c] {
					worth[c], picks[c] = w, int32(o)
				}
			}
			k.steps += width - cores
		}
	}
	return l
}
