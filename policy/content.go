package policy

import (
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Contentment tells when a plan can no longer change, so that a round need not be planned; the simulator skips such
// rounds. It caches the highest gain that a profile has on a server, so profiles must not change under their pointers.
// The zero value works.
type Contentment struct{ highestGains map[gainKey]float64 }

// Of reports that nothing but the arrival or the end of a job can change this plan of the cluster, however much time
// passes: every job runs and goes on as it was, and none could be faster on any server. It can tell only if all servers
// are equal and open, and returns false otherwise.
func (m *Contentment) Of(c *Cluster, plan Plan) bool {
	if len(plan.Decisions) != len(c.Jobs) || !equalServers(c.Nodes) {
		return false
	}
	for i := range c.Jobs {
		if !isUnchanged(&c.Jobs[i], &plan.Decisions[i]) {
			return false
		}
	}
	for i := range c.Jobs {
		if plan.Decisions[i].Gain < m.highestGain(&c.Jobs[i], &c.Nodes[0]) {
			return false
		}
	}
	return true
}

// isUnchanged reports that d is the decision on job j and leaves it running as it is.
func isUnchanged(j *Job, d *Decision) bool {
	return d.Job == j.ID && d.Grant != nil && j.Running != nil && d.Grant.Equal(*j.Running)
}

// equalServers reports whether all servers are equal, open, and without foreign jobs, so that a gain is the same on
// each; false if there are none.
func equalServers(nodes []Node) bool {
	for i := range nodes {
		if n := &nodes[i]; n.Closed != "" || n.Foreign != (gres.Vector{}) || n.Total != nodes[0].Total ||
			n.GPUType != nodes[0].GPUType {
			return false
		}
	}
	return len(nodes) > 0
}

// gainKey is the key of the cache: a profile, a number of GPUs, and the total amounts of a server.
type gainKey struct {
	profile *sensitivity.Profile
	gpus    int
	server  gres.Vector
}

// highestGain is the highest gain that running job j could have on server n with the GPUs that it has. It is 0 without
// a profile of the server's GPU: more cores or memory are then not known to make the job faster.
func (m *Contentment) highestGain(j *Job, n *Node) float64 {
	p, server := ProfileOn(j.Profile, n.GPUType), n.Total
	if p == nil {
		return 0
	}
	key := gainKey{p, j.Running.PerNode.GPUs, server}
	gain, known := m.highestGains[key]
	if !known {
		gain = p.Demand(gres.Proportional(server, key.gpus), server).Gain
		m.cacheGain(key, gain)
	}
	return gain
}

// cacheGain caches the highest gain of a key.
func (m *Contentment) cacheGain(key gainKey, gain float64) {
	if m.highestGains == nil {
		m.highestGains = map[gainKey]float64{}
	}
	m.highestGains[key] = gain
}
