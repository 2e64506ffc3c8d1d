package artifact

import (
	"math"
	"math/bits"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
)

// storagePerGPU is the MB/s per GPU that every model asks for, on every cluster: the artifact stores its profiles' own
// values in a field that it never reads.
const storagePerGPU = 62.5

// class is what all jobs of one model and number of GPUs have in common.
type class struct {
	model  models.Model // the row of the table
	id     int          // of the model
	gpus   int
	n      float64 // gpus as a float64
	speed  float64 // with its demand, relative to the proportional share
	demand request
	fair   request // the GPU-proportional share
	// least is the share if the demand exceeds it in any resource, and otherwise the demand.
	least        request
	exceedsShare bool // whether the demand exceeds the share
	// atDemand and atShare are the iterations of one round with the demand and with the share.
	atDemand, atShare int64
	fractions         vector  // the parts of the cluster's GPUs, cores and memory in the demand
	dominant          float64 // the largest of these parts
	opt               chooser
}

// request is an amount that jobs of one class ask for, as a whole and per GPU, with a cache of where it does not fit.
type request struct {
	whole, slice vector
	// The cache is valid as long as engine.releaseCount is the same, since nothing has been given back until then. No
	// server before first has room for a slice; fitsNowhere says that the request as a whole fits nowhere.
	releaseCount int
	first        int
	fitsNowhere  bool
}

// newRequest makes a request for this amount; a slice is its part for one GPU.
func newRequest(whole vector) request { return request{whole: whole, slice: whole.over(whole[gpu])} }

// newClass computes what jobs of a model with this number of GPUs ask for, and how many iterations they complete in a
// round of so many seconds. This is the same for all of them, so it is computed once.
func newClass(s *shape, id int, model models.Model, gpus int, round float64) *class {
	c := &class{model: model, id: id, gpus: gpus, n: float64(gpus)}
	want, speed := s.bestDemand(model, gpus)
	share := s.fair.times(c.n)
	c.speed = speed
	c.exceedsShare = want.exceeds(&share)
	least := want
	if c.exceedsShare {
		least = vector{want[gpu], share[cpu], share[memory], share[storage], want[network]}
	}
	c.demand, c.fair, c.least = newRequest(want), newRequest(share), newRequest(least)
	c.atDemand, c.atShare = iterations(round, model.Iteration/speed), iterations(round, model.Iteration)
	c.fractions = vector{c.n / s.total[gpu], want[cpu] / s.total[cpu], want[memory] / s.total[memory]}
	c.dominant = max(c.fractions[gpu], c.fractions[cpu], c.fractions[memory])
	return c
}

// bestDemand is the demand of a job in its best case, and its speed with that relative to its proportional share. A job
// that can fit on one server asks for at most a whole server. Its speed then falls linearly with the cores that it
// lacks; lacking memory costs no speed. A larger job whose best case exceeds one server in a resource gets only its
// share of that resource, and the speed of the share.
func (s *shape) bestDemand(model models.Model, gpus int) (want vector, speed float64) {
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
		speed = s.slowedSpeed(speed, n*model.CPUs, want[cpu], float64(n*s.fair[cpu]))
	}
	return want, speed
}

// slowedSpeed is the speed of a job that gets fewer cores than in its best case. It lies on the line from the best
// cores, with the given speed, to the cores of the share, with speed 1; all cores are those of the whole job. If the
// best case equals the share (m5 with 6 cores per GPU), the artifact divides by zero and aborts; here cores beyond the
// share add nothing.
func (s *shape) slowedSpeed(speed, best, got, share float64) float64 {
	excess, slope := float64(best)-share, 0.0
	if excess != 0 {
		slope = (speed - 1) / excess
	}
	return 1 + float64(slope*(got-share))
}

// iterations is how many whole iterations fit in a round (both in seconds). The rest of the round is lost. The bound
// keeps the conversion to int64 defined for iterations that take nearly no time.
func iterations(round, iteration float64) int64 {
	if whole := math.Floor(round / iteration); whole < 1<<62 {
		return int64(whole)
	}
	return 1 << 62
}

// hasExactAmounts says whether the arithmetic on the class's amounts is exact (engine.exact): the amounts have few
// binary digits, and its GPUs are a power of two, so any part of them has few as well.
func (c *class) hasExactAmounts() bool {
	d, f := c.demand.whole, c.fair.whole
	return bits.OnesCount(uint(c.gpus)) == 1 && c.gpus <= 1024 && hasFewDigits(d[:]...) && hasFewDigits(f[:]...)
}
