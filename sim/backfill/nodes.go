package backfill

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// nodeSet is a set of nodes, by index. It must not be changed after it was shared.
type nodeSet []bool

// allNodes is the set of all of so many nodes.
func allNodes(nodes int) nodeSet {
	s := make(nodeSet, nodes)
	for i := range s {
		s[i] = true
	}
	return s
}

// has is false for every node beyond the set, so that the empty set contains none.
func (s nodeSet) has(node int) bool { return node < len(s) && s[node] }

// intersect returns the nodes that are in both sets. If s is nil, it stands for all nodes, so that the result is other.
func (s nodeSet) intersect(other nodeSet) nodeSet {
	if s == nil {
		return other
	}
	both := make(nodeSet, len(s))
	for i := range s {
		both[i] = s[i] && other[i]
	}
	return both
}

// without is the set without these nodes, as a copy, because other stretches may share the set.
func (s nodeSet) without(nodes []int) nodeSet {
	rest := slices.Clone(s)
	for _, n := range nodes {
		rest[n] = false
	}
	return rest
}

// chooseNodes returns the nodes on which the job fits into the free resources, in the way of select/cons_tres: of the
// runs of adjacent suitable nodes that are long enough, it takes the one with the fewest free cores, from its left end.
// If no run is long enough, the nodes need not be adjacent. It returns nil if the job does not fit.
func chooseNodes(j *job, free []gres.Vector, among nodeSet) []int {
	var best, able []int
	least, cores := 0, 0
	for n := 0; n <= len(free); n++ { // the step at len(free) ends the last run of nodes
		if n < len(free) && among.has(n) && j.PerNode.Fits(free[n]) {
			able, cores = append(able, n), cores+free[n].CPUs
			continue
		}
		if len(able) >= j.Nodes && (best == nil || cores < least) {
			best, least = slices.Clone(able[:j.Nodes]), cores
		}
		able, cores = able[:0], 0
	}
	if best != nil {
		return best
	}
	return chooseScattered(j, free, among)
}

// chooseScattered returns the first suitable nodes, which need not be adjacent, or nil if there are too few.
func chooseScattered(j *job, free []gres.Vector, among nodeSet) []int {
	var able []int
	for n := range free {
		if among.has(n) && j.PerNode.Fits(free[n]) {
			able = append(able, n)
		}
	}
	if len(able) < j.Nodes {
		return nil
	}
	return able[:j.Nodes]
}
