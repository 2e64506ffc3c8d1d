package bridge

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A grant is written in the form of the user's request. Another form would change the environment, the steps, and the
// jobs that are submitted from inside the job.

// resizedRequest is the user's own request with the granted amounts on each of so many nodes. Amounts per GPU stay as
// they are, since Slurm computes the job's cores or memory from them. All else that the user asked for stays as well:
// all memory of the nodes (--mem=0), and every amount of a job that gets whole nodes.
func resizedRequest(rec *Record, nodes int, perNode gres.Vector) slurm.Request {
	q := rec.Own
	q.Nodes = nodes
	if rec.Whole {
		return q
	}
	if q.CPUsPerGPU == 0 {
		q.GiveCores(perNode.CPUs)
	}
	switch {
	case q.MemoryPerGPU > 0, rec.asksAllMemory():
	case rec.hasMemoryPerCore():
		q.Memory, q.MemoryPerCPU = 0, max(1, perNode.Memory/gres.Memory(max(1, perNode.CPUs)))
	default:
		q.Memory, q.MemoryPerCPU = perNode.Memory, 0
	}
	return q
}

// hasMemoryPerCore says whether a job is given memory per core. This is so if its user or its partition gives an amount
// per core, or if neither gives any amount. Without an amount Slurm would give the job the memory of whole nodes, and
// each step all memory of the job; with one per core, steps still run side by side. Grants of such jobs are whole MiB
// per core.
func (r *Record) hasMemoryPerCore() bool {
	return r.Own.MemoryPerCPU > 0 || r.Own.Memory == 0 && r.Own.MemoryPerGPU == 0 && !r.asksAllMemory()
}

// asksAllMemory says whether the user is known to have asked for all memory of the nodes (--mem=0).
func (r *Record) asksAllMemory() bool {
	own := &r.Own
	return r.Explicit.Memory && own.Memory == 0 && own.MemoryPerCPU == 0 && own.MemoryPerGPU == 0
}

// roundMemoryPerCore rounds the memory in the grants of a site's own planner down to whole MiB per core, for jobs that
// are given memory per core: Slurm can give such a job nothing else. A grant stays as it is if rounding would take it
// below the job's floor. So does that of a running job that keeps what it holds, since another amount would be a
// restart. The built-in planner rounds by itself.
func roundMemoryPerCore(c *policy.Cluster, plan policy.Plan) {
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		k, known := slices.BinarySearchFunc(c.Jobs, d.Job, func(j policy.Job, id int) int { return j.ID - id })
		if !known || d.Grant == nil || !c.Jobs[k].PerCore || d.Grant.PerNode.CPUs < 1 {
			continue
		}
		j, g := &c.Jobs[k], *d.Grant
		g.PerNode.Memory -= g.PerNode.Memory % gres.Memory(g.PerNode.CPUs)
		if runsOn := j.Running != nil && d.Grant.Equal(*j.Running); !runsOn && g.PerNode.Memory >= j.Floor.Memory {
			d.Grant = &g
		}
	}
}
