package policy

import "slices"

// givesBack says that a plan does nothing to running job j but take from it, where it is, what others need there who do
// not run yet: a job that the plan starts, or an unmanaged one. What a job was lent is not protected by the rules that
// protect its run; that it keeps its share is checked as of any grant.
func (k *checker) givesBack(j *Job, g *Placement) bool {
	if g == nil || !j.Saves || g.Device != j.Running.Device || g.PerNode.GPUs != j.Running.PerNode.GPUs ||
		!g.PerNode.Fits(j.Running.PerNode) || !slices.Equal(g.Nodes, j.Running.Nodes) {
		return false
	}
	return slices.ContainsFunc(g.Nodes, k.awaited)
}

// awaited says that somebody may start on a node who does not run.
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
			if at, known := k.find(d.Job); known && d.Grant != nil && k.job(at).Running == nil {
				for _, n := range d.Grant.Nodes {
					k.wanted[n] = true
				}
			}
		}
	}
	return k.wanted[node]
}
