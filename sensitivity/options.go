package sensitivity

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Option is one size that a job could get on a server, and how fast it would be with it.
type Option struct {
	Size gres.Vector
	Gain float64 // throughput relative to the proportional share, ≥ 1
}

// Options returns the gain curve of a job with fair.GPUs GPUs on one server: the sizes worth choosing up to what the
// server has (limit, at least fair). It tries cores one by one, and memory at the measured points, at the share and at
// the limit. A size is worth choosing if it is no slower than fair, the proportional share, and no other size is as
// fast with no more of anything; it may be below fair in what the job does not need. The options ascend in Gain, so the
// first keeps the promise of the share and the last is the Demand. There is always one: fair itself, or a size that is
// as good with less.
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

// Demand returns the smallest size with full speed: the fastest that a server with limit allows, and of those the one
// with the fewest cores, then the least memory (the paper's best-case demand).
func (p *Profile) Demand(fair, limit gres.Vector) Option {
	options := p.Options(fair, limit)
	return options[len(options)-1]
}

// usefulCores returns the most cores worth trying: more than the last measured point gain nothing. It is at least
// fair's, which is always an option.
func (p *Profile) usefulCores(fair, limit gres.Vector) int {
	last := math.Ceil(p.CoresPerGPU[len(p.CoresPerGPU)-1] * float64(fair.GPUs))
	return max(min(limit.CPUs, int(last)), fair.CPUs)
}

// amounts returns the memory worth trying: the proportional share, the measured amounts that fit the server, and all
// that the server has if the next measured amount does not fit.
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
// None has more than most cores. In the sorted order faster options come first, so it suffices to remember, for each
// number of cores, the least memory of those kept so far with at most that many cores.
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

// order sorts by falling gain, then fewer cores, then less memory.
func order(a, b Option) int {
	return cmp.Or(
		cmp.Compare(b.Gain, a.Gain),
		cmp.Compare(a.Size.CPUs, b.Size.CPUs),
		cmp.Compare(a.Size.Memory, b.Size.Memory),
	)
}
