package bridge

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A user may explicitly ask for more than the share of the job's GPUs. The other GPUs of that node then lack their
// share as long as the job runs. Slurm alone would start jobs there that ask for no more than what is left, and so does
// a round: if no node could give a job its share, and one has idle GPUs beside such a job, the job is owed what is left
// there, as if that were its ceiling, provided it is at least what it asked for.

// nodeLeftover is what running jobs leave of a node if each has only what it must have.
type nodeLeftover struct {
	idleGPUs        int         // idle
	freeable        gres.Vector // free, with what resized jobs would give back
	hasOversizedJob bool        // some job must have more than its share
}

// nodeLeftovers is the nodeLeftover of each node, by name; nil if no running job must have more than its share, since
// all other jobs can then have theirs. A job that can be resized must have only its share, or its floor if that is
// more; any other job must have all that it holds. A shared GPU is in use once, however many jobs are on it, and these
// jobs keep what they hold.
func nodeLeftovers(c *policy.Cluster) map[string]*nodeLeftover {
	nodes, any := map[string]*nodeLeftover{}, false
	for i := range c.Nodes {
		n := &c.Nodes[i]
		free := n.Total.Minus(n.Foreign)
		nodes[n.Name] = &nodeLeftover{idleGPUs: free.GPUs, freeable: free}
	}
	totals := make(map[string]gres.Vector, len(c.Nodes))
	for i := range c.Nodes {
		totals[c.Nodes[i].Name] = c.Nodes[i].Total
	}
	var counted policy.GPUCount
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if j.Running == nil {
			continue
		}
		held := j.Running.PerNode
		held.GPUs = counted.More(*j.Running)
		for _, name := range j.Running.Nodes {
			n := nodes[name]
			if n == nil {
				continue
			}
			must := held
			if j.Running.Device == "" {
				share := gres.Proportional(totals[name], held.GPUs)
				if j.Saves && !j.Fixed {
					must = minVector(held, share.Max(j.Floor))
				}
				if j.Floor.CPUs > share.CPUs || j.Floor.Memory > share.Memory {
					n.hasOversizedJob, any = true, true
				}
			}
			n.idleGPUs, n.freeable = n.idleGPUs-held.GPUs, n.freeable.Minus(must)
		}
	}
	if !any {
		return nil
	}
	return nodes
}

// minVector is the smaller amount of each resource.
func minVector(v, w gres.Vector) gres.Vector {
	return gres.Vector{GPUs: min(v.GPUs, w.GPUs), CPUs: min(v.CPUs, w.CPUs), Memory: min(v.Memory, w.Memory)}
}

// lowerCeilings lowers the ceilings of waiting one-node jobs to which no node could give their share, because running
// jobs must have more than theirs. Otherwise such a job would wait for its share beside idle GPUs as long as these jobs
// run, although its user asked for no more than what is left.
func (s *sortedObservation) lowerCeilings(c *policy.Cluster) {
	nodes := nodeLeftovers(c)
	if nodes == nil {
		return
	}
	for i, t := range s.managed {
		j := &c.Jobs[i]
		if j.Running != nil || j.Barred != "" || j.Nodes > 1 {
			continue
		}
		if ceiling, found := leftoverCeiling(c, nodes, j, t.record.Own.PerNode()); found {
			j.Ceiling = ceiling
		}
	}
}

// leftoverCeiling is the ceiling of a one-node job on the node that leaves it most memory, and of these most cores. On
// that node it can then have what is left in place of its share. asked is what its user asked for, and the least that
// the job gets. found is false if some node can give the job its share, or if none leaves it enough: its ceiling then
// stays as it is.
func leftoverCeiling(c *policy.Cluster, nodes map[string]*nodeLeftover, j *policy.Job, asked gres.Vector) (
	best gres.Vector, found bool) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		here := nodes[n.Name]
		if n.Closed != "" || here.idleGPUs < j.GPUs || !mayUse(j, n) {
			continue
		}
		share := belowCeiling(gres.Proportional(n.Total, j.GPUs).Max(j.Floor), j.Ceiling)
		ceiling := j.Ceiling
		if share.CPUs > here.freeable.CPUs {
			ceiling.CPUs = here.freeable.CPUs - here.freeable.CPUs%max(1, j.Tasks)
		}
		if share.Memory > here.freeable.Memory {
			ceiling.Memory = here.freeable.Memory
		}
		switch {
		case ceiling == j.Ceiling:
			// This node can give it its share.
			return best, false
		case !here.hasOversizedJob, share.CPUs > here.freeable.CPUs && ceiling.CPUs < max(1, asked.CPUs, j.Floor.CPUs),
			share.Memory > here.freeable.Memory && ceiling.Memory < max(1, asked.Memory, j.Floor.Memory):
			continue
		}
		if !found || ceiling.Memory > best.Memory || ceiling.Memory == best.Memory && ceiling.CPUs > best.CPUs {
			best, found = ceiling, true
		}
	}
	return best, found
}

// belowCeiling is v, lowered to the ceiling of each resource that has one (0: none).
func belowCeiling(v, ceiling gres.Vector) gres.Vector {
	return gres.Vector{GPUs: v.GPUs, CPUs: min(v.CPUs, cmp.Or(ceiling.CPUs, v.CPUs)),
		Memory: min(v.Memory, cmp.Or(ceiling.Memory, v.Memory))}
}

// mayUse says whether a node meets the job's request for GPU type, features and node names, whatever is free there.
func mayUse(j *policy.Job, n *policy.Node) bool {
	lacks := func(f string) bool { return !n.Has(f) }
	return (j.GPUType == "" || j.GPUType == n.GPUType) && !slices.ContainsFunc(j.Features, lacks) &&
		(len(j.Only) == 0 || slices.Contains(j.Only, n.Name)) && !slices.Contains(j.Except, n.Name)
}
