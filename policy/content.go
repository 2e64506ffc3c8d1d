package policy

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Content says that nothing but the coming or going of a job can change this plan of the cluster, however much time passes: every
// job runs and goes on as it was, and none could be faster on any server. It is sure of that on equal, open servers only, and says
// false elsewhere.
func Content(c *Cluster, plan Plan) bool {
	if len(plan.Decisions) != len(c.Jobs) || !equalServers(c.Nodes) {
		return false
	}
	most := fastest{}
	for i := range c.Jobs {
		j, d := &c.Jobs[i], &plan.Decisions[i]
		if d.Job != j.ID || d.Grant == nil || j.Running == nil || !d.Grant.Equal(*j.Running) || d.Gain < most.of(j, c.Nodes[0].Total) {
			return false
		}
	}
	return true
}

// equalServers says whether all servers are alike, open, and not held by anybody else.
func equalServers(nodes []Node) bool {
	for i := range nodes {
		if n := &nodes[i]; n.Closed != "" || n.Foreign != (gres.Vector{}) || n.Total != nodes[0].Total {
			return false
		}
	}
	return len(nodes) > 0
}

// fastest remembers the highest gain that a profile has with so many GPUs of a server.
type fastest map[gang]float64

type gang struct {
	profile *sensitivity.Profile
	gpus    int // on each server
}

func (f fastest) of(j *Job, server gres.Vector) float64 {
	if j.Profile == nil {
		return 0
	}
	key := gang{j.Profile, j.Running.PerNode.GPUs}
	gain, known := f[key]
	if !known {
		gain = j.Profile.Demand(gres.Proportional(server, key.gpus), server).Gain
		f[key] = gain
	}
	return gain
}
