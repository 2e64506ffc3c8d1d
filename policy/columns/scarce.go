package columns

// layer is one more job of a class of which there are too few to fill a node with: a 0/1 item of the knapsack, with a
// choice of size.
type layer struct {
	options []int   // those worth trying
	picks   []int32 // by state: the option that is taken there; nothing
}

// fillWithin finds a filling that is worth much beyond such costs and has no more jobs of a class than are left. It is
// the best one where neither memory nor the number of jobs binds, and proves nothing.
func (k *packer) fillWithin(costs []float64, left []int) []int {
	_, filling := k.fill(costs)
	if k.within(filling, left) {
		return filling
	}
	return k.fillScarcely(left)
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

// fillScarcely looks for a price of memory at which the best filling within what is left has just enough of it.
func (k *packer) fillScarcely(left []int) (best []int) {
	k.markScarce(left)
	defer func() { k.scarce = nil }()
	brought, low, high, price := 0.0, 0.0, 0.0, 0.0
	for range 10 {
		filling, worth := k.layered(price, left)
		if k.needs(filling) > k.memory {
			low = price
		} else {
			high = price
			if gain := k.brings(filling); gain > brought {
				brought, best = gain, filling
			}
			if price == 0 {
				return best
			}
		}
		if high == 0 {
			price = max(2*low, worth/float64(max(1, k.memory))/4)
			continue
		}
		price = (low + high) / 2
	}
	return best
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
	for from := 0; from < len(k.options); {
		class, to := k.options[from].Class, from
		for to < len(k.options) && k.options[to].Class == class {
			to++
		}
		if options := k.worthTrying(price, from, to); len(options) > 0 {
			for range left[class] {
				layers = append(layers, k.apply(options, price))
			}
		}
		from = to
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

// net is what an option brings beyond its cost when memory has that price.
func (k *packer) net(o int, price float64) float64 {
	return k.gain[o] - float64(price*float64(k.options[o].Size.Memory))
}

// worthTrying lists the scarce options of a range than which none with no more GPUs and cores brings as much.
func (k *packer) worthTrying(price float64, from, to int) (kept []int) {
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
