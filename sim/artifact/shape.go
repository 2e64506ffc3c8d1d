package artifact

import (
	"fmt"
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
)

// What a vector counts, in this order, which is also the order in which the artifact clips demands.
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

// times and over round every component. Sums of what they return are written as sums of variables, so that no processor
// fuses a product into them.
func (v vector) times(x float64) vector {
	for r := range v {
		v[r] = float64(v[r] * x)
	}
	return v
}

func (v vector) over(x float64) vector {
	for r := range v {
		v[r] /= x
	}
	return v
}

// covers says whether there is as much of everything as another wants. There is no tolerance, as there is none in the
// artifact.
func (v *vector) covers(want *vector) bool {
	return v[cpu] >= want[cpu] && v[memory] >= want[memory] && v[storage] >= want[storage] && v[gpu] >= want[gpu] &&
		v[network] >= want[network]
}

// exceeds says whether there is more of anything than another has.
func (v *vector) exceeds(other *vector) bool { return !other.covers(v) }

func (v *vector) isZero() bool { return *v == vector{} }

// shape is a cluster of equal servers as the artifact knows it.
type shape struct {
	count  int // servers
	gpus   int // on each
	server vector
	fair   vector // the share of one GPU
	total  vector // of the cluster
}

// shapeOf finds what the artifact cannot simulate: anything but equal servers.
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

// ratio is the number of cores for each GPU, which the artifact has its models by. It is 0 where there is no whole one.
func (s *shape) ratio() int {
	if cores := int(s.server[cpu]); cores%s.gpus == 0 {
		return cores / s.gpus
	}
	return 0
}

// short says that all the amounts are so short in binary that sums and differences of them, and of their halves down to
// the part of one GPU in a thousand, are exact in float64.
func short(amounts ...float64) bool {
	for _, x := range amounts {
		if math.Abs(x) > 1<<30 || x*1024 != math.Trunc(x*1024) {
			return false
		}
	}
	return true
}
