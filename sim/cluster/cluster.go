// Package cluster describes simulated clusters: groups of equal servers, read from the artifact's ini, from YAML, or
// from a word on the command line. Every description is checked. Missing values are filled in only where the format
// defines a default.
package cluster

import (
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Cluster is a list of groups of equal servers.
type Cluster struct {
	Groups []Group
}

// Group is a group of equal servers.
type Group struct {
	Name     string // prefix of its servers' names, before a number; empty: n
	Servers  int
	GPUs     int     // on each server, as are the following
	CPUs     int     // cores
	Memory   float64 // GB of 1000 MiB
	Storage  float64 // MB/s
	Network  float64 // Gb/s
	GPUType  string
	Features []string
}

// Defaults of optional values.
const (
	DefaultStorage = 500 // MB/s
	DefaultNetwork = 40  // Gb/s
)

// The range of cores per GPU that the paper compares (Synergy, OSDI'22, §5).
const (
	leastRatio = 3
	mostRatio  = 6
)

// Paper returns the paper's simulated cluster: 16 servers with 8 GPUs, 24 cores and 500 GB each.
func Paper() Cluster {
	return Cluster{[]Group{{Servers: 16, GPUs: 8, CPUs: 24, Memory: 500, Storage: DefaultStorage,
		Network: DefaultNetwork}}}
}

// Ratio returns the paper's simulated cluster with this many cores per GPU, 3 to 6.
func Ratio(coresPerGPU int) (Cluster, error) {
	if coresPerGPU < leastRatio || coresPerGPU > mostRatio {
		return Cluster{}, fmt.Errorf("cluster: ratio = %d: want %d to %d cores for each GPU", coresPerGPU, leastRatio,
			mostRatio)
	}
	c := Paper()
	c.Groups[0].CPUs = c.Groups[0].GPUs * coresPerGPU
	return c, nil
}

// Vector is the capacity of one server of the group, in the planner's units.
func (g Group) Vector() gres.Vector {
	return gres.Vector{GPUs: g.GPUs, CPUs: g.CPUs, Memory: gres.Memory(math.Round(g.Memory * float64(gres.Gigabyte)))}
}

// Servers is the number of servers of the whole cluster.
func (c Cluster) Servers() int {
	total := 0
	for _, g := range c.Groups {
		total += g.Servers
	}
	return total
}

// GPUs is the number of GPUs of the whole cluster.
func (c Cluster) GPUs() int {
	total := 0
	for _, g := range c.Groups {
		total += g.Servers * g.GPUs
	}
	return total
}

// CPUs is the number of cores of the whole cluster.
func (c Cluster) CPUs() int {
	total := 0
	for _, g := range c.Groups {
		total += g.Servers * g.CPUs
	}
	return total
}

// Memory is the memory of the whole cluster in GB.
func (c Cluster) Memory() float64 {
	total := 0.0
	for _, g := range c.Groups {
		total += float64(float64(g.Servers) * g.Memory)
	}
	return total
}

// Equal says whether all servers are equal, apart from their names.
func (c Cluster) Equal() bool {
	for _, g := range c.Groups {
		if !g.sameServers(c.Groups[0]) {
			return false
		}
	}
	return true
}

// sameServers says whether the servers of two groups are equal, apart from their names and number.
func (g Group) sameServers(other Group) bool {
	return g.GPUs == other.GPUs && g.CPUs == other.CPUs && g.Memory == other.Memory && g.Storage == other.Storage &&
		g.Network == other.Network && g.GPUType == other.GPUType && slices.Equal(g.Features, other.Features)
}
