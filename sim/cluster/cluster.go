// Package cluster describes the clusters that are simulated: groups of equal servers, from the artifact's ini, from YAML, or from a
// word on the command line.
package cluster

// Cluster is a list of groups of equal servers.
type Cluster struct {
	Groups []Group
}

// Group is a number of equal servers.
type Group struct {
	Name     string // names its servers with a number behind; empty: n
	Servers  int
	GPUs     int     // on each server, as the rest
	CPUs     int     // cores
	Memory   float64 // GB of 1000 MiB
	Storage  float64 // MB/s
	Network  float64 // Gb/s
	GPUType  string
	Features []string
}

// Defaults of what need not be said.
const (
	DefaultStorage = 500 // MB/s
	DefaultNetwork = 40  // Gb/s
)

// Paper is the simulated cluster of the paper: 16 servers with 8 GPUs, 24 cores and 500 GB each.
func Paper() Cluster {
	return Cluster{[]Group{{Servers: 16, GPUs: 8, CPUs: 24, Memory: 500, Storage: DefaultStorage, Network: DefaultNetwork}}}
}

// GPUs is the number of GPUs of the whole cluster.
func (c Cluster) GPUs() int {
	total := 0
	for _, g := range c.Groups {
		total += g.Servers * g.GPUs
	}
	return total
}
