package artifact

import (
	"fmt"
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
)

// The resources of a vector, in the order in which the artifact limits demands.
const (
	gpu = iota
	cpu
	memory
	storage
	network
	resources
)

// vector is an amount of every resource: GPUs, cores, GB, MB/s of storage, Gb/s of network.
type vector [resources]float64

// times multiplies every component. The explicit float64 keeps a processor from fusing the product with a later
// addition, which rounds differently from the artifact.
func (v vector) times(x float64) vector {
	for r := range v {
		v[r] = float64(v[r] * x)
	}
	return v
}

// over divides every component.
func (v vector) over(x float64) vector {
	for r := range v {
		v[r] /= x
	}
	return v
}

// covers says whether v has at least as much of every resource as want. There is no tolerance, so the last bit of an
// amount can decide whether a job fits, as in the artifact.
func (v *vector) covers(want *vector) bool {
	return v[cpu] >= want[cpu] && v[memory] >= want[memory] && v[storage] >= want[storage] && v[gpu] >= want[gpu] &&
		v[network] >= want[network]
}

// exceeds says whether v has more of some resource than other.
func (v *vector) exceeds(other *vector) bool { return !other.covers(v) }

func (v *vector) isZero() bool { return *v == vector{} }

// shape is a cluster of equal servers, as the artifact represents it: one server and how many there are.
type shape struct {
	count  int    // number of servers
	gpus   int    // on each server
	server vector // the capacity of one
	fair   vector // the proportional share of one GPU
	total  vector // of the whole cluster
}

// shapeOf converts a cluster. It is an error if its servers differ, since the artifact knows only one kind.
func shapeOf(c cluster.Cluster) (shape, error) {
	if err := c.Check(); err != nil {
		return shape{}, err
	}
	if !c.Equal() {
		return shape{}, fmt.Errorf("cluster: its %d groups differ: want equal servers, the artifact knows no others",
			len(c.Groups))
	}
	g := c.Groups[0]
	s := shape{count: c.Servers(), gpus: g.GPUs}
	s.server = vector{float64(g.GPUs), float64(g.CPUs), g.Memory, g.Storage, g.Network}
	s.fair = s.server.over(s.server[gpu])
	s.total = s.server.times(float64(s.count))
	return s, nil
}

// ratio is the cores per GPU, which decides what table of models is used. If it is not a whole number, the result is 0,
// since there is no table for it.
func (s *shape) ratio() int {
	if cores := int(s.server[cpu]); cores%s.gpus == 0 {
		return cores / s.gpus
	}
	return 0
}

// hasFewDigits says whether all amounts are at most 2^30 and multiples of 1/1024. Sums and differences of them, and of
// their halves down to a thousandth part, are then exact in float64, so the order in which they are computed does not
// matter (engine.exact).
func hasFewDigits(amounts ...float64) bool {
	for _, x := range amounts {
		if math.Abs(x) > 1<<30 || x*1024 != math.Trunc(x*1024) {
			return false
		}
	}
	return true
}
