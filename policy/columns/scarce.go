package columns

// layer is one more job of a class of which there are too few to fill a node with: a 0/1 item of the knapsack, with a
// choice of size.
type layer struct {
	options []int   // those worth trying
	picks   []int32 // by state: the option that is taken there; nothing
}

// fillWithin finds a filling that is worth more beyond such costs than is known, and has no more jobs of a class than
// are left; nothing where it finds none. It proves nothing: where memory binds there may be better ones.
func (k *packer) fillWithin(costs []float64, left []int, known float64) []int {
	k.weigh(costs)
	for o := range k.options {
		if left[k.options[o].Class] == 0 {
			k.gain[o] = -infinite
		}
	}
	if k.price > 0 && !k.strike(k.price, known) || !k.strike(0, known) {
		return nil
	}
	if filling := k.trace(); k.needs(filling) <= k.memory && k.within(filling, left) {
		return filling
	}
	k.markScarce(left)
	defer func() { k.scarce = nil }()
	return k.priced(left, known)
}

// strike leaves out options that no filling has which is worth more than what is known, as the table shows for a price
// of memory; false where there is no such filling.
func (k *packer) strike(price, known float64) bool {
	limit := k.table(price) + float64(price*float64(k.memory))
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

// priced looks for a price of memory at which the best filling within what is left has just enough of it.
func (k *packer) priced(left []int, known float64) (best []int) {
	low, high, price := 0.0, 0.0, k.price
	for range 6 {
		filling, worth := k.layered(price, left)
		enough := k.needs(filling) <= k.memory
		if enough {
			high = price
		} else {
			low = price
			filling = k.balanced(filling)
		}
		if gain := k.brings(filling); gain > known {
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

// within says whether a filling has no more jobs of a class than are left.
func (k *packer) within(filling, left []int) bool {
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

// balanced gives the jobs of a filling other sizes, so that memory is enough: first those that take the smallest part
// of cores and memory, then, one after the other, what gains most and fits. Nothing where even the first do not fit.
func (k *packer) balanced(filling []int) []int {
	cores, memory := k.cores, k.memory
	for i, o := range filling {
		filling[i] = k.smallest(o)
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

// smallest is the size of the class of option o, with as many GPUs, that takes the smallest part of a node: of its
// cores or of its memory, whichever is more.
func (k *packer) smallest(o int) int {
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

// markScarce finds the options of classes of which fewer jobs are left than a node has room for.
func (k *packer) markScarce(left []int) {
	k.scarce = make([]bool, len(k.options))
	for o := range k.options {
		k.scarce[o] = left[k.options[o].Class] < k.gpus/max(1, k.options[o].Size.GPUs)
	}
}

// layered is the best filling within what is left, and what it brings, when memory has that price a MiB and no end:
// first of the classes of which there are enough, then one layer for each job of the others.
func (k *packer) layered(price float64, left []int) (filling []int, worth float64) {
	k.table(price)
	var layers []layer
	for class := range left {
		if options := k.worthTrying(price, k.rangeOf(class)); left[class] > 0 && len(options) > 0 {
			for range left[class] {
				layers = append(layers, k.apply(options, price))
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

// rangeOf is where the options of a class begin and end, which come in the order of classes.
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

// net is what an option brings beyond its cost when memory has that price.
func (k *packer) net(o int, price float64) float64 {
	return k.gain[o] - float64(price*float64(k.options[o].Size.Memory))
}

// worthTrying lists the scarce options of a range than which none with no more GPUs and cores brings as much.
func (k *packer) worthTrying(price float64, in [2]int) (kept []int) {
	from, to := in[0], in[1]
	for o := from; o < to; o++ {
		net := k.net(o, price)
		if !k.scarce[o] || net <= 0 {
			continue
		}
		beaten := false
		for p := from; p < to && !beaten; p++ {
			other := k.net(p, price)
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

// apply adds one layer to the table. States come in falling GPUs, so that no job is taken twice.
func (k *packer) apply(options []int, price float64) layer {
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
			rest, net := k.worth[(g-size)*width:][:width], k.net(o, price)
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
