package bridge

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A grant is written in the form in which the user spoke: another form is another environment, other steps and other
// jobs that are submitted from inside of this one.

// resized is the user's own request with what a round grants on each of so many nodes. What follows the GPUs is
// Slurm's to reckon: that stays as it is.
func resized(rec *Record, nodes int, perNode gres.Vector) Request {
	q := rec.Own
	q.Nodes = nodes
	if rec.Whole {
		return q
	}
	if q.CPUsPerGPU == 0 {
		q.giveCores(perNode.CPUs)
	}
	switch {
	case q.MemoryPerGPU > 0, rec.wholeMemory():
	case rec.byTheCore():
		q.Memory, q.MemoryPerCPU = 0, max(1, perNode.Memory/gres.Memory(max(1, perNode.CPUs)))
	default:
		q.Memory, q.MemoryPerCPU = perNode.Memory, 0
	}
	return q
}

// giveCores gives so many cores on each node, in equal parts for the tasks. Where the user named the least of a node
// (--mincpus) and nothing for its tasks, that is what grows.
func (q *Request) giveCores(perNode int) {
	q.CPUs = perNode * q.Nodes
	if q.CPUsPerTask == 1 && q.CPUsPerNode > tasksPerNode(q) {
		q.CPUsPerNode = perNode
		return
	}
	q.CPUsPerTask = perNode / tasksPerNode(q)
	q.CPUsPerNode = q.CPUsPerTask
}

// byTheCore says that a job is given memory by the core. So it is where its user or its partition says an amount for
// each core. Where neither names any, Slurm would give whole nodes and each step all of its job's memory: by the core,
// steps still run side by side.
func (r *Record) byTheCore() bool {
	return r.Own.MemoryPerCPU > 0 || r.Own.Memory == 0 && r.Own.MemoryPerGPU == 0 && !r.wholeMemory()
}

// wholeMemory says that the user asked for all the memory of his nodes (--mem=0).
func (r *Record) wholeMemory() bool {
	own := &r.Own
	return r.Explicit.Memory && own.Memory == 0 && own.MemoryPerCPU == 0 && own.MemoryPerGPU == 0
}

// inForm brings what a planner of the site's own grants into whole MiB for each core, where memory is given so, as far
// as the job's floor allows. The built-in one plans so.
func inForm(c *policy.Cluster, plan policy.Plan) {
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
