package policy

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// givesBack reports that the plan only makes running job j smaller where it is, and that another job may start on one
// of its nodes: one that the plan starts there, or an unmanaged one. Such a change is allowed although rules.min_run or
// Job.Stays protects the run, since loans are given back when another job needs them. That the job keeps its share is
// checked as for any grant. Memory by the core is in whole MiB, so fewer cores may come with a few MiB more. False if j
// does not save, or stops (g is nil).
func (k *checker) givesBack(j *Job, g *Placement) bool {
	had := j.Running.PerNode
	if j.PerCore {
		had.Memory += gres.Memory(had.CPUs - 1) // the most that rounding down took from it
	}
	if g == nil || !j.Saves || g.Device != j.Running.Device || g.PerNode.GPUs != had.GPUs ||
		!g.PerNode.Fits(had) || !slices.Equal(g.Nodes, j.Running.Nodes) {
		return false
	}
	return slices.ContainsFunc(g.Nodes, k.expectsStart)
}

// expectsStart reports that a job may start on a node on which it does not run now: the plan starts it there, or it is
// a waiting unmanaged job that may use the node. There a loan could be in its way. All such nodes are found at first
// use.
func (k *checker) expectsStart(node string) bool {
	if k.startNodes == nil {
		k.startNodes = map[string]bool{}
		for i := range k.c.Unmanaged {
			for _, n := range k.c.Unmanaged[i].On {
				k.startNodes[n] = true
			}
		}
		for i := range k.plan.Decisions {
			d := &k.plan.Decisions[i]
			at, known := k.findJob(d.Job)
			if !known || d.Grant == nil {
				continue
			}
			for _, n := range d.Grant.Nodes {
				on := k.jobAt(at).Running
				k.startNodes[n] = k.startNodes[n] || on == nil || !slices.Contains(on.Nodes, n)
			}
		}
	}
	return k.startNodes[node]
}
