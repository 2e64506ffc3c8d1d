package artifact

import "math"

// point is a pair of values for cores and memory: of prices, or of positions and slopes in the plane of prices.
type point struct{ cpus, memory float64 }

// boundAt is the largest total value if jobs pay these prices for their amounts and the capacities are paid for (the
// Lagrangian bound). No choice for all jobs within the capacities is worth more, whatever the prices. slack is the
// unused capacity when every job makes its best choice, negative if it is exceeded; it is a subgradient of the bound.
func (k *knapsack) boundAt(price point) (bound float64, slack point) {
	slack = point{float64(k.cpus), float64(k.memory)}
	for _, g := range k.groups {
		best, value := g.bestChoice(price)
		n := float64(g.count)
		bound += float64(n * value)
		slack.cpus -= float64(n * float64(g.choices[best].cpus))
		slack.memory -= float64(n * float64(g.choices[best].memory))
	}
	return bound + float64(price.cpus*float64(k.cpus)) + float64(price.memory*float64(k.memory)), slack
}

// bestChoice returns the choice with the highest value after payment at these prices, and that value. Of equal choices
// it is the first. The bound lets every job make this choice, and losses are measured from it.
func (g *group) bestChoice(price point) (index int, value float64) {
	value = math.Inf(-1)
	for i := range g.choices {
		if v := g.choices[i].netValue(price); v > value {
			index, value = i, v
		}
	}
	return index, value
}

// netValue is the value of a choice after payment: its worth minus the price of its amounts.
func (c *choice) netValue(price point) float64 {
	return float64(c.worth) - float64(price.cpus*float64(c.cpus)) - float64(price.memory*float64(c.memory))
}

// The search for prices ends after mostCuts steps or in an area this small; the bound is then as good as exact.
const (
	mostCuts  = 120
	leastArea = 1e-16 // relative to the first area
)

// findPrices finds the prices with the lowest bound, by cutting planes: the bound is a convex function of the prices,
// so its slope at the centre of gravity of the remaining area shows which half can be removed. Positions in the area
// are parts of the highest prices, 0 to 1. The closer the bound, the fewer solutions the search enumerates.
func (k *knapsack) findPrices() {
	top := k.highestPrices()
	k.prices = point{}
	best, _ := k.boundAt(k.prices)
	k.area = append(k.area[:0], point{0, 0}, point{1, 0}, point{1, 1}, point{0, 1})
	for range mostCuts {
		centre, size := centroid(k.area)
		if size < leastArea {
			return
		}
		price := point{centre.cpus * top.cpus, centre.memory * top.memory}
		bound, slack := k.boundAt(price)
		if bound < best {
			best, k.prices = bound, price
		}
		if slack == (point{}) {
			return
		}
		k.cutArea(centre, point{slack.cpus * top.cpus, slack.memory * top.memory})
	}
}

// highestPrices returns prices so high that every job makes its cheapest choices of cores and of memory. The best
// prices are not higher, so they limit the search. The tiny initial values keep them above 0.
func (k *knapsack) highestPrices() point {
	top := point{math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat32}
	for _, g := range k.groups {
		for _, a := range g.choices {
			for _, b := range g.choices {
				gain := float64(a.worth - b.worth)
				if more := a.cpus - b.cpus; more > 0 {
					top.cpus = max(top.cpus, gain/float64(more))
				}
				if more := a.memory - b.memory; more > 0 {
					top.memory = max(top.memory, gain/float64(more))
				}
			}
		}
	}
	return top
}

// cutArea removes the part of the area beyond the line through a point, on the side to which the slope points. The
// bound is higher there, so the best prices are in the rest.
func (k *knapsack) cutArea(through, slope point) {
	height := func(p point) float64 {
		return float64((p.cpus-through.cpus)*slope.cpus) + float64((p.memory-through.memory)*slope.memory)
	}
	k.cut = k.cut[:0]
	for i, a := range k.area {
		b := k.area[(i+1)%len(k.area)]
		from, to := height(a), height(b)
		if from <= 0 {
			k.cut = append(k.cut, a)
		}
		if from < 0 && to > 0 || from > 0 && to < 0 {
			t := from / (from - to)
			k.cut = append(k.cut, point{a.cpus + float64(t*(b.cpus-a.cpus)), a.memory + float64(t*(b.memory-a.memory))})
		}
	}
	k.area, k.cut = k.cut, k.area
}

// centroid returns the centre of gravity of a convex area, and its size. The size is 0 if the area is empty or a line.
func centroid(area []point) (centre point, size float64) {
	if len(area) < 3 {
		return point{}, 0
	}
	origin := area[0]
	for i := 1; i+1 < len(area); i++ {
		ax, ay := area[i].cpus-origin.cpus, area[i].memory-origin.memory
		bx, by := area[i+1].cpus-origin.cpus, area[i+1].memory-origin.memory
		part := float64((float64(ax*by) - float64(ay*bx)) / 2)
		size += part
		centre.cpus += float64(part * (ax + bx) / 3)
		centre.memory += float64(part * (ay + by) / 3)
	}
	if size <= 0 {
		return point{}, 0
	}
	return point{origin.cpus + centre.cpus/size, origin.memory + centre.memory/size}, size
}
