package policy

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Gains are relative to a share, and shares differ from server to server. So speeds are compared in one unit, that of
// the reference server, in planning and in certifying a plan (policy/bound).

// Reference is the server whose proportional share is the unit of speeds: one with the capacity that most GPUs are on,
// of several such the first by name. Neither the order of the nodes nor whether they are open matters, so the unit
// stays the same as nodes close and open. It is zero if there are no nodes.
func Reference(nodes []Node) (reference gres.Vector) {
	gpus := map[gres.Vector]int{}
	for i := range nodes {
		gpus[nodes[i].Total] += nodes[i].Total.GPUs
	}
	first := -1
	for i := range nodes {
		switch more := gpus[nodes[i].Total] - gpus[reference]; {
		case first < 0, more > 0, more == 0 && nodes[i].Name < nodes[first].Name:
			first, reference = i, nodes[i].Total
		}
	}
	return reference
}

// Unit is the throughput with the proportional share of a server, fair, relative to that with the share of as many GPUs
// of the reference server. A gain over fair times the unit is the speed, in which jobs on different servers are
// compared. It is 1 without a profile, or if one of the two throughputs is 0.
func Unit(p *sensitivity.Profile, fair, reference gres.Vector) float64 {
	there := gres.Proportional(reference, fair.GPUs)
	if p == nil || fair == there {
		return 1
	}
	mine, its := p.Rate(sensitivity.ShareOf(fair)), p.Rate(sensitivity.ShareOf(there))
	if mine == 0 || its == 0 {
		return 1
	}
	return mine / its
}
