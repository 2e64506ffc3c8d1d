package bridge

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// tellEnds tells the planner when jobs on which it does not decide end by their time limits, and what they free on each
// node.
func (r *Runner) tellEnds(s *sortedObservation, nodes []policy.Node) {
	for _, t := range r.cache.jobs {
		if t.State != slurm.Running || t.Ends.IsZero() || t.treatmentAt(s.at) == managed {
			continue
		}
		for _, place := range s.topology.find(t.Runs.Nodes) {
			if place != unmanagedPlace {
				n := &nodes[place]
				n.ForeignEnds = append(n.ForeignEnds, policy.Ending{At: t.Ends, Size: t.Runs.PerNode})
			}
		}
	}
}
