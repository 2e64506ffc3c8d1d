package policy

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// givesBack says that a plan does nothing to running job j but take from it, where it is, what others need who do not
// run there yet: a job that the plan starts there, or an unmanaged one. What a job was lent is not protected by the
// rules that protect its run; that it keeps its share is checked as of any grant. Memory by the core is in whole MiB,
// so that of fewer cores may come to some MiB more.
func (k *checker) givesBack(j *Job, g *Placement) bool {
	had := j.Running.PerNode
	if j.PerCore {
		had.Memory += gres.Memory(had.CPUs - 1) // the most that rounding down took from it
	}
	if g == nil || !j.Saves || g.Device != j.Running.Device || g.PerNode.GPUs != had.GPUs ||
		!g.PerNode.Fits(had) || !slices.Equal(g.Nodes, j.Running.Nodes) {
		return false
	}
	return slices.ContainsFunc(g.Nodes, k.awaited)
}

// awaited says that somebody may start on a node who does not run there.
func (k *checker) awaited(node string) bool {
	if k.wanted == nil {
		k.wanted = map[string]bool{}
		for i := range k.c.Unmanaged {
			for _, n := range k.c.Unmanaged[i].On {
				k.wanted[n] = true
			}
		}
		for i := range k.plan.Decisions {
			d := &k.plan.Decisions[i]
			at, known := k.find(d.Job)
			if !known || d.Grant == nil {
				continue
			}
			for _, n := range d.Grant.Nodes {
				on := k.job(at).Running
				k.wanted[n] = k.wanted[n] || on == nil || !slices.Contains(on.Nodes, n)
			}
		}
	}
	return k.wanted[node]
}
