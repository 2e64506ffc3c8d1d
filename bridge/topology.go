package bridge

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// topology is what stays of a cluster from one round to the next: the nodes of the managed partitions, and which of
// them each has.
type topology struct {
	partitions []string            // the managed ones
	nodes      []Node              // all that were seen, as they were then
	managed    []int               // the numbers of the managed ones among these
	names      []string            // of the managed ones, ascending
	parts      map[string][]string // names of the nodes of each managed partition that has not all of them
	pools      map[string][]string // names of the managed pools of each node that is divided
}

// topologyOf is the topology of these nodes: the one of the last round, as long as it is still that. In another one
// nothing is as it was.
func (r *Runner) topologyOf(nodes []Node) *topology {
	if h := r.reader.topology; h == nil || !h.standsFor(nodes, r.Settings.Partitions) {
		r.reader.topology, r.reader.jobs = r.build(nodes), nil
	}
	return r.reader.topology
}

func (h *topology) standsFor(nodes []Node, partitions []string) bool {
	if len(h.nodes) != len(nodes) || !slices.Equal(h.partitions, partitions) {
		return false
	}
	for i := range nodes {
		was, is := &h.nodes[i], &nodes[i]
		if was.Name != is.Name || was.Total != is.Total || !slices.Equal(was.Partitions, is.Partitions) {
			return false
		}
	}
	return true
}

func (r *Runner) build(nodes []Node) *topology {
	h := &topology{partitions: slices.Clone(r.Settings.Partitions), nodes: slices.Clone(nodes),
		parts: map[string][]string{}}
	for i := range nodes {
		if n := &nodes[i]; n.Total.GPUs > 0 && slices.ContainsFunc(n.Partitions, r.manages) {
			h.managed, h.names = append(h.managed, i), append(h.names, n.Name)
		}
	}
	h.pools = byPool(h.names)
	for _, part := range h.partitions {
		if in := h.of(part); len(in) < len(h.names) {
			h.parts[part] = in
		}
	}
	return h
}

// of lists the managed nodes of a partition.
func (h *topology) of(partition string) []string {
	var in []string
	for _, i := range h.managed {
		if n := &h.nodes[i]; slices.Contains(n.Partitions, partition) {
			in = append(in, n.Name)
		}
	}
	return in
}

// elsewhere is the place of a node that is not in the topology.
const elsewhere = -1

// find gives the places of nodes: their numbers among the managed ones.
func (h *topology) find(names []string) []int {
	places := make([]int, len(names))
	for k, name := range names {
		place, found := slices.BinarySearch(h.names, name)
		if !found {
			place = elsewhere
		}
		places[k] = place
	}
	return places
}

// total is what the node at a place has.
func (h *topology) total(place int) gres.Vector { return h.nodes[h.managed[place]].Total }

// gpuType is the type of a managed node's GPUs; empty where it has none.
func (h *topology) gpuType(place int) string { return h.nodes[h.managed[place]].GPUType }
