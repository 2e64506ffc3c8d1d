package sensitivity

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Option is one size that a job could be given on a server, and how fast it would be there.
type Option struct {
	Size gres.Vector
	Gain float64 // throughput relative to the proportional share, ≥ 1
}

// Options is the gain curve of a job with fair.GPUs GPUs on one server: the sizes worth choosing up to what the server
// has (limit, no less than fair). Cores are tried one by one, memory at the measured points, at the share and at the
// limit. A size is worth choosing when it is no slower than fair, the proportional share, and no other is as fast with
// no more of anything; it may lie below fair in what the job does not need. They ascend in Gain, so the first keeps the
// promise and the last is the Demand. There is always one: fair itself, or what does as well with less.
func (p *Profile) Options(fair, limit gres.Vector) []Option {
	all := []Option{{fair, 1}}
	owed := p.Rate(ShareOf(fair))
	most := p.usefulCores(fair, limit)
	for _, memory := range p.amounts(fair, limit) {
		for cores := 1; cores <= most; cores++ {
			size := gres.Vector{GPUs: fair.GPUs, CPUs: cores, Memory: memory}
			if g := gain(p.Rate(ShareOf(size)), owed); g >= 1 {
				all = append(all, Option{size, g})
			}
		}
	}
	return undominated(all, most)
}

// Demand is the smallest size with full speed: the fastest that a server with limit allows, and of those the one with
// the fewest cores, then the least memory (the paper's best-case demand).
func (p *Profile) Demand(fair, limit gres.Vector) Option {
	options := p.Options(fair, limit)
	return options[len(options)-1]
}

// usefulCores is the most cores worth trying: beyond the last measured point more gain nothing.
func (p *Profile) usefulCores(fair, limit gres.Vector) int {
	last := math.Ceil(p.CoresPerGPU[len(p.CoresPerGPU)-1] * float64(fair.GPUs))
	return max(min(limit.CPUs, int(last)), fair.CPUs)
}

// amounts lists the memory worth trying: the proportional share, the measured amounts that fit the server, and, where
// the next measured one does not, all that the server has.
func (p *Profile) amounts(fair, limit gres.Vector) []gres.Memory {
	amounts := []gres.Memory{fair.Memory}
	for _, perGPU := range p.MemoryPerGPU {
		total := perGPU * gres.Memory(fair.GPUs)
		amounts = append(amounts, min(total, limit.Memory))
		if total >= limit.Memory {
			break
		}
	}
	slices.Sort(amounts)
	return slices.Compact(amounts)
}

// undominated keeps the options for which no other is as fast with no more cores and no more memory, ascending in gain.
// None has more than most cores. Those as fast or faster come first, so it is enough to remember the least memory among
// them with at most so many cores.
func undominated(options []Option, most int) []Option {
	slices.SortStableFunc(options, order)
	least := make([]gres.Memory, most+1)
	for cores := range least {
		least[cores] = math.MaxInt64
	}
	var kept []Option
	for _, o := range options {
		if least[o.Size.CPUs] <= o.Size.Memory {
			continue
		}
		kept = append(kept, o)
		for cores := o.Size.CPUs; cores <= most && least[cores] > o.Size.Memory; cores++ {
			least[cores] = o.Size.Memory
		}
	}
	slices.Reverse(kept)
	return kept
}

// order is by falling gain, then fewer cores, then less memory.
func order(a, b Option) int {
	return cmp.Or(
		cmp.Compare(b.Gain, a.Gain),
		cmp.Compare(a.Size.CPUs, b.Size.CPUs),
		cmp.Compare(a.Size.Memory, b.Size.Memory),
	)
}
