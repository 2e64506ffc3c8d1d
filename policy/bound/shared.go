package bound

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// device is one GPU of a node.
type device struct{ node, name string }

// deviceOf is that on which a placement has a seat.
func deviceOf(g *policy.Placement) (at device, seat bool) {
	if g == nil || g.Device == "" || len(g.Nodes) != 1 {
		return device{}, false
	}
	return device{g.Nodes[0], g.Device}, true
}

// apart tells those who lead on their devices, the first that the plan names, from their partners.
func apart(p policy.Plan) (leads, partners []policy.Decision) {
	taken := map[device]bool{}
	for _, d := range p.Decisions {
		at, seat := deviceOf(d.Grant)
		switch {
		case seat && taken[at]:
			partners = append(partners, d)
		case seat:
			taken[at] = true
			fallthrough
		default:
			leads = append(leads, d)
		}
	}
	return leads, partners
}

// aside takes from the nodes what the partners hold of cores and memory, and leaves them out of the plan.
func (in *instance) aside(p policy.Plan) policy.Plan {
	leads, partners := apart(p)
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
