package policy

import (
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// bound is the most throughput that any plan can have for all jobs of c, whose nodes are of one shape: the least of the
// dual of the paper's first program (Synergy-OPT), in which all servers are one, over the prices of a core and of a GB.
// It is convex in both, so nested searches find the least; any other point would be a bound as well.
func bound(c Cluster) float64 {
	all := menusIn(c)
	cores := float64(c.Nodes[0].Total.CPUs * len(c.Nodes))
	memory := gigabytes(c.Nodes[0].Total.Memory) * float64(len(c.Nodes))
	return leastOver(4, func(core float64) float64 {
		return leastOver(0.4, func(gb float64) float64 {
			d := core*cores + gb*memory
			for _, m := range all {
				d += bestAt(m, core, gb)
			}
			return d
		})
	})
}

func menusIn(c Cluster) [][]sensitivity.Option {
	cache := menus{}
	var all [][]sensitivity.Option
	for _, j := range c.Jobs {
		all = append(all, cache.menuOf(menuKey{j.Profile, j.GPUs, 1, c.Nodes[0].Total, terms{}, c.Nodes[0].Total,
			false}).options)
	}
	return all
}

// bestAt is the most that an option brings beyond its price.
func bestAt(options []sensitivity.Option, core, gb float64) float64 {
	best := math.Inf(-1)
	for _, o := range options {
		best = max(best, o.Gain*float64(o.Size.GPUs)-core*float64(o.Size.CPUs)-gb*gigabytes(o.Size.Memory))
	}
	return best
}

// leastOver is the least of a convex function between 0 and high.
func leastOver(high float64, f func(float64) float64) float64 {
	low := 0.0
	for range 40 {
		a, b := low+(high-low)*0.382, low+(high-low)*0.618
		if f(a) < f(b) {
			high = b
		} else {
			low = a
		}
	}
	return f((low + high) / 2)
}
