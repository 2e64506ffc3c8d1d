package bridge

import (
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// addForeignEnds adds to the planner's nodes when unmanaged jobs that run on them end by their time limits, and what
// they then free on each node. With that a plan can tell when room comes for a job that waits.
func (r *Runner) addForeignEnds(s *sortedObservation, nodes []policy.Node) {
	for _, t := range r.cache.jobs {
		if t.State != slurm.Running || t.Ends.IsZero() || t.treatmentAt(s.at) == managed {
			continue
		}
		for _, place := range s.topology.placesOf(t.Runs.Nodes) {
			if place != unmanagedPlace {
				n := &nodes[place]
				n.ForeignEnds = append(n.ForeignEnds, policy.Ending{At: t.Ends, Size: t.Runs.PerNode})
			}
		}
	}
}
