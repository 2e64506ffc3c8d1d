package sensitivity

import (
	"math"
	"sort"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Option is one size that a job could be given on a server, and how fast it would be there.
type Option struct {
	Size gres.Vector
	Gain float64 // throughput relative to the proportional share, ≥ 1
}

// sameSpeed is the relative difference under which two throughputs count as equal, well below what any measurement resolves.
const sameSpeed = 1e-9

// Options is the gain curve of a job with fair.GPUs GPUs on one server: every size from what the server owes it (fair) up to
// what the server has (limit) that is worth choosing. A size is worth choosing when no other is as fast with no more of
// anything; none is slower than fair. They ascend in Gain, so the first is the least that keeps the promise and the last is
// the Demand. There is always one: fair itself, or what does as well with less.
func (p *Profile) Options(fair, limit gres.Vector) []Option {
	var all []Option
	for _, memory := range p.memories(fair, limit) {
		all = append(all, p.along(memory, fair, limit)...)
	}
	return undominated(all)
}

// Demand is the smallest size with full speed: the fastest that a server with limit allows, and of those the one with the
// fewest cores, then the least memory (the paper's best-case demand).
func (p *Profile) Demand(fair, limit gres.Vector) Option {
	options := p.Options(fair, limit)
	return options[len(options)-1]
}

// memories lists the amounts worth trying: the measured ones that fit the server, and the proportional share.
func (p *Profile) memories(fair, limit gres.Vector) []gres.Memory {
	amounts := []gres.Memory{fair.Memory}
	for _, perGPU := range p.MemoryPerGPU {
		if total := perGPU * gres.Memory(fair.GPUs); total <= limit.Memory && total != fair.Memory {
			amounts = append(amounts, total)
		}
	}
	return amounts
}

// along tries every number of cores with one amount of memory and keeps what is at least as fast as fair. More cores than the
// last measured point gain nothing, so the walk ends there.
func (p *Profile) along(memory gres.Memory, fair, limit gres.Vector) []Option {
	last := int(math.Ceil(p.CoresPerGPU[len(p.CoresPerGPU)-1] * float64(fair.GPUs)))
	most := max(min(limit.CPUs, last), fair.CPUs)
	var options []Option
	for cores := 1; cores <= most; cores++ {
		size := gres.Vector{GPUs: fair.GPUs, CPUs: cores, Memory: memory}
		if gain := p.Gain(size, fair); gain >= 1-sameSpeed {
			options = append(options, Option{size, gain})
		}
	}
	return options
}

// undominated keeps the options for which no other is as fast with no more cores and no more memory, ascending in gain.
func undominated(options []Option) []Option {
	sort.SliceStable(options, func(a, b int) bool { return before(options[a], options[b]) })
	var kept []Option
	for _, o := range options {
		if !dominated(o, kept) {
			kept = append(kept, o)
		}
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	return kept
}

// before orders by falling gain, then fewer cores, then less memory.
func before(a, b Option) bool {
	if x, y := math.Round(a.Gain/sameSpeed), math.Round(b.Gain/sameSpeed); x != y {
		return x > y
	}
	if a.Size.CPUs != b.Size.CPUs {
		return a.Size.CPUs < b.Size.CPUs
	}
	return a.Size.Memory < b.Size.Memory
}

func dominated(o Option, faster []Option) bool {
	for _, f := range faster {
		if f.Size.CPUs <= o.Size.CPUs && f.Size.Memory <= o.Size.Memory {
			return true
		}
	}
	return false
}
