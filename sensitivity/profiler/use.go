package profiler

import (
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Use is a trainer's use of its GPUs.
type Use struct {
	// Busy is the part of the time, 0 to 1, in which any of its work was under way on a GPU, as a mean over its GPUs.
	// It is unknown if Looks, the number of samples, is 0.
	Busy  float64 `json:"busy,omitempty"`
	Looks int     `json:"looks,omitempty"`
	// Memory is the most that it held of one GPU, MiB; 0: unknown.
	Memory gres.Memory `json:"memory_mib,omitempty"`
}

// And combines two uses: the mean of Busy, weighted by Looks, and the most memory.
func (u Use) And(other Use) Use {
	sum := Use{Looks: u.Looks + other.Looks, Memory: max(u.Memory, other.Memory)}
	if sum.Looks > 0 {
		sum.Busy = (float64(u.Busy*float64(u.Looks)) + float64(other.Busy*float64(other.Looks))) / float64(sum.Looks)
	}
	return sum
}

// Believed is the least number of looks for which Busy is used.
const Believed = 3

// UseOf returns a trainer's use of a GPU with its share of cores: how busy it keeps the GPU and the most memory that it
// holds; 0: unknown. The GPU's work per sample does not depend on the cores, so busy is proportional to the rate. It is
// taken from the run with the most looks. It is rounded up, since too large a value only keeps other jobs away.
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
