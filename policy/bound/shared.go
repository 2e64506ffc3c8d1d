package bound

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// device is one GPU of a node.
type device struct{ node, name string }

// deviceOf returns the shared GPU of a placement; false if the placement has whole GPUs, or is nil.
func deviceOf(g *policy.Placement) (at device, shared bool) {
	if g == nil || g.Device == "" || len(g.Nodes) != 1 {
		return device{}, false
	}
	return device{g.Nodes[0], g.Device}, true
}

// splitPartners separates the decisions that count from partners: of the jobs on a shared GPU the first in the plan
// counts, as if it had the GPU for itself, and the others are its partners.
func splitPartners(p policy.Plan) (leads, partners []policy.Decision) {
	taken := map[device]bool{}
	for _, d := range p.Decisions {
		at, shared := deviceOf(d.Grant)
		switch {
		case shared && taken[at]:
			partners = append(partners, d)
		case shared:
			taken[at] = true
			fallthrough
		default:
			leads = append(leads, d)
		}
	}
	return leads, partners
}

// setPartnersAside returns the plan without the partners of shared GPUs, and takes their cores and memory off the
// nodes: the solver knows only whole GPUs.
func (in *instance) setPartnersAside(p policy.Plan) policy.Plan {
	leads, partners := splitPartners(p)
	if len(partners) == 0 {
		return p
	}
	in.partners = make(map[int]bool, len(partners))
	for _, d := range partners {
		in.partners[d.Job] = true
		if n, known := in.byName[d.Grant.Nodes[0]]; known {
			own := d.Grant.PerNode
			in.nodes[n].open = in.nodes[n].open.Minus(gres.Vector{CPUs: own.CPUs, Memory: own.Memory})
		}
	}
	return policy.Plan{Decisions: leads}
}
