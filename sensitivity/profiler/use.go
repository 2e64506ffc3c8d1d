package profiler

import (
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Use is what a trainer had of its GPUs.
type Use struct {
	// Busy is the part of the time in which something of it was under way on a GPU, 0 to 1, the mean over its GPUs.
	// Without Looks it is not known.
	Busy  float64 `json:"busy,omitempty"`
	Looks int     `json:"looks,omitempty"`
	// Memory is the most that it held of one GPU, MiB; 0: not known.
	Memory gres.Memory `json:"memory_mib,omitempty"`
}

// And is both together: the mean of how busy, and the most memory.
func (u Use) And(other Use) Use {
	sum := Use{Looks: u.Looks + other.Looks, Memory: max(u.Memory, other.Memory)}
	if sum.Looks > 0 {
		sum.Busy = (float64(u.Busy*float64(u.Looks)) + float64(other.Busy*float64(other.Looks))) / float64(sum.Looks)
	}
	return sum
}

// Believed is from how many looks on a mean is believed.
const Believed = 3

// UseOf is what a trainer has of a GPU with its share of cores: how busy it keeps it (0: not known) and how much memory
// it holds at most (0: not known). What is done for a sample on the GPU does not depend on the cores, so how busy it is
// goes with the rate. That of the run with most looks counts.
func (q Question) UseOf(runs []Run, c Curve) (busy float64, memory gres.Memory) {
	q = q.Defaults()
	var best *Run
	for i := range runs {
		r := &runs[i]
		if r.Use == nil || r.Fault != "" {
			continue
		}
		memory = max(memory, r.Use.Memory)
		if r.Use.Looks > 0 && (best == nil || r.Use.Looks > best.Use.Looks) {
			best = r
		}
	}
	if best == nil || best.Use.Looks < Believed || !(best.Use.Busy > 0) {
		return 0, memory
	}
	share := q.Share
	if share == 0 || len(c.Points) == 0 {
		share = best.Cores
	}
	busy = best.Use.Busy
	if had := c.At(float64(best.Cores)).Rate; had > 0 {
		busy = float64(busy * c.At(float64(share)).Rate / had)
	}
	return math.Ceil(min(1, busy)*1000) / 1000, memory
}
