package bridge

import "github.com/synergy-slurmd/synergy-slurmd/policy"

// tellEnds tells the planner when jobs that it does not decide on end by their time limits, and what they give back on
// each node then.
func (r *Runner) tellEnds(s *scene, nodes []policy.Node) {
	for _, t := range r.reader.jobs {
		if t.State != Running || t.Ends.IsZero() || t.standing(s.at) == managed {
			continue
		}
		for _, place := range s.topology.find(t.Runs.Nodes) {
			if place != elsewhere {
				n := &nodes[place]
				n.ForeignEnds = append(n.ForeignEnds, policy.Ending{At: t.Ends, Size: t.Runs.PerNode})
			}
		}
	}
}
