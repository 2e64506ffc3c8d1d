package artifact

import (
	"math"
	"math/bits"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// storagePerGPU is the MB/s that every model asks for, on every cluster: the artifact keeps its profiles' own figures
// in a field that nobody reads.
const storagePerGPU = 62.5

// class is what all jobs of one model with the same number of GPUs have in common.
type class struct {
	model  models.Model
	id     int // of the model
	gpus   int
	n      float64 // gpus
	speed  float64 // at its demand
	demand wish
	fair   wish // the GPU-proportional share
	// least is the share where the demand exceeds that in anything, and otherwise the demand.
	least wish
	lends bool // the demand exceeds the share
	// atDemand and atShare are the iterations of one round.
	atDemand, atShare int64
	parts             vector  // of the cluster's GPUs, cores and memory that the demand is
	dominant          float64 // the largest of them
	opt               chooser
}

// wish is an amount that jobs of one class ask for, whole and by the GPU, and what is known of where it fits.
type wish struct {
	whole, slice vector
	// None before the server first has room for a slice, and nowhere at all where none is set. It was so when the
	// engine's opening had this number, and can only have become worse, since nothing was given back.
	opening int
	first   int
	none    bool
}

func newWish(whole vector) wish { return wish{whole: whole, slice: whole.over(whole[gpu])} }

// newClass derives what a job asks for: the best case of its model, clipped to one server.
func newClass(s *shape, id int, model models.Model, gpus int, round float64) *class {
	c := &class{model: model, id: id, gpus: gpus, n: float64(gpus)}
	want, speed := s.best(model, gpus)
	share := s.fair.times(c.n)
	c.speed = speed
	c.lends = want.exceeds(&share)
	least := want
	if c.lends {
		least = vector{want[gpu], share[cpu], share[memory], share[storage], want[network]}
	}
	c.demand, c.fair, c.least = newWish(want), newWish(share), newWish(least)
	c.atDemand, c.atShare = iterations(round, model.Iteration/speed), iterations(round, model.Iteration)
	c.parts = vector{c.n / s.total[gpu], want[cpu] / s.total[cpu], want[memory] / s.total[memory]}
	c.dominant = max(c.parts[gpu], c.parts[cpu], c.parts[memory])
	return c
}

// best is the demand of a job in its best case and how fast it is with that, over its proportional share. A job that
// fits on one server asks for no more than one has, and is slowed down along a straight line in its cores alone.
func (s *shape) best(model models.Model, gpus int) (want vector, speed float64) {
	n := float64(gpus)
	want = vector{n, n * model.CPUs, n * model.Memory, n * storagePerGPU, 0}
	speed = model.Speedup
	clipped := false
	for r := cpu; r <= storage; r++ {
		if want[r] <= s.server[r] {
			continue
		}
		want[r], clipped = s.server[r], true
		if gpus > s.gpus {
			want[r], speed, clipped = n*s.fair[r], 1, false
		}
	}
	if clipped {
		speed = s.slowed(speed, n*model.CPUs, want[cpu], float64(n*s.fair[cpu]))
	}
	return want, speed
}

// slowed is the speed with fewer cores than the best case. Where the best case is the share itself (m5 with 6 cores for
// each GPU), the artifact divides by zero and dies; here more cores than the share are then of no use.
func (s *shape) slowed(speed, best, got, share float64) float64 {
	excess, slope := float64(best)-share, 0.0
	if excess != 0 {
		slope = (speed - 1) / excess
	}
	return 1 + float64(slope*(got-share))
}

// iterations is how many whole iterations fit in a round. The rest of the round is lost.
func iterations(round, iteration float64) int64 {
	if whole := math.Floor(round / iteration); whole < 1<<62 {
		return int64(whole)
	}
	return 1 << 62
}

// binary says that the arithmetic on what jobs of the class hold is exact: its amounts are short in binary, and so is
// any part of its GPUs in all of them.
func (c *class) binary() bool {
	d, f := c.demand.whole, c.fair.whole
	return bits.OnesCount(uint(c.gpus)) == 1 && c.gpus <= 1024 && short(d[:]...) && short(f[:]...)
}
