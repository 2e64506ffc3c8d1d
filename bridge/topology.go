package bridge

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// topology is what rarely changes about a cluster: the managed nodes, by partition. A node's index in managed is its
// place.
type topology struct {
	partitions []string            // the managed ones
	nodes      []slurm.Node        // all nodes, as they were when it was built
	managed    []int               // indices of the managed ones in nodes
	names      []string            // of the managed ones, ascending
	parts      map[string][]string // names of the managed nodes of each managed partition that lacks some of them
	pools      map[string][]string // names of the managed pools of each node that is divided into pools
}

// topologyOf is the topology of these nodes: the cached one as long as it still holds. A new one drops the cache of
// jobs, whose entries have indices of nodes in the old one.
func (r *Runner) topologyOf(nodes []slurm.Node) *topology {
	if h := r.cache.topology; h == nil || !h.isValidFor(nodes, r.Settings.Partitions) {
		r.cache.topology, r.cache.jobs = r.build(nodes), nil
	}
	return r.cache.topology
}

// isValidFor says that the topology still holds: names, sizes, GPU types and partitions of the nodes, and the managed
// partitions, are as they were when it was built. What is allocated or closed does not matter.
func (h *topology) isValidFor(nodes []slurm.Node, partitions []string) bool {
	if len(h.nodes) != len(nodes) || !slices.Equal(h.partitions, partitions) {
		return false
	}
	for i := range nodes {
		was, is := &h.nodes[i], &nodes[i]
		if was.Name != is.Name || was.Total != is.Total || was.GPUType != is.GPUType ||
			!slices.Equal(was.Partitions, is.Partitions) {
			return false
		}
	}
	return true
}

// build makes the topology of these nodes. Managed are those that have GPUs and are in a managed partition.
func (r *Runner) build(nodes []slurm.Node) *topology {
	h := &topology{partitions: slices.Clone(r.Settings.Partitions), nodes: slices.Clone(nodes),
		parts: map[string][]string{}}
	for i := range nodes {
		if n := &nodes[i]; n.Total.GPUs > 0 && slices.ContainsFunc(n.Partitions, r.manages) {
			h.managed, h.names = append(h.managed, i), append(h.names, n.Name)
		}
	}
	h.pools = byPool(h.names)
	for _, part := range h.partitions {
		if in := h.nodesIn(part); len(in) < len(h.names) {
			h.parts[part] = in
		}
	}
	return h
}

// nodesIn lists the managed nodes of a partition, ascending in name.
func (h *topology) nodesIn(partition string) []string {
	var in []string
	for _, i := range h.managed {
		if n := &h.nodes[i]; slices.Contains(n.Partitions, partition) {
			in = append(in, n.Name)
		}
	}
	return in
}

// unmanagedPlace is the place of a node that is not managed.
const unmanagedPlace = -1

// placesOf returns the places of nodes, by which snapshot and plan index them; unmanagedPlace for a node that is not
// managed.
func (h *topology) placesOf(names []string) []int {
	places := make([]int, len(names))
	for k, name := range names {
		place, found := slices.BinarySearch(h.names, name)
		if !found {
			place = unmanagedPlace
		}
		places[k] = place
	}
	return places
}

// total is what the node at a place has.
func (h *topology) total(place int) gres.Vector { return h.nodes[h.managed[place]].Total }

// gpuType is the type of the GPUs of the node at a place; empty if there is no common one.
func (h *topology) gpuType(place int) string { return h.nodes[h.managed[place]].GPUType }
