package policy

// held is what the jobs of a quota hold together under the plan, as the quota counts it; memory in MiB.
type held struct {
	jobs, nodes, gpus, cpus int
	memory                  int64
	granted                 bool // the plan gives one of the jobs something that it did not hold before
}

// charge adds a grant to the quotas of a job, one that only goes on as well, since a quota bounds what all its jobs
// hold. An index beyond the snapshot's quotas is no quota.
func (k *checker) charge(j *Job, g *Placement) {
	if len(j.Quotas) == 0 || g == nil {
		return
	}
	if k.held == nil {
		k.held = make([]held, len(k.c.Quotas))
	}
	for _, q := range j.Quotas {
		if q < 0 || q >= len(k.held) {
			continue
		}
		h, nodes := &k.held[q], len(g.Nodes)
		h.jobs, h.nodes = h.jobs+1, h.nodes+nodes
		h.gpus, h.cpus = h.gpus+nodes*g.PerNode.GPUs, h.cpus+nodes*g.PerNode.CPUs
		h.memory += int64(nodes) * int64(g.PerNode.Memory)
		h.granted = h.granted || !keepsPlacement(j, g)
	}
}

// overdrawn checks the quotas of which the plan gives away something that was not held before. A quota that is
// overdrawn without a new grant is not the plan's doing.
func (k *checker) overdrawn() {
	for q := range k.held {
		h, quota := &k.held[q], &k.c.Quotas[q]
		if !h.granted {
			continue
		}
		k.bounded(quota, int64(h.jobs), int64(quota.Jobs), "jobs")
		k.bounded(quota, int64(h.nodes), int64(quota.Nodes), "nodes")
		k.bounded(quota, int64(h.gpus), int64(quota.GPUs), "GPUs")
		k.bounded(quota, int64(h.cpus), int64(quota.CPUs), "cores")
		k.bounded(quota, h.memory, int64(quota.Memory), "MiB of memory")
	}
}

// bounded reports a breach if more of one amount of a quota is used than it leaves; an Unbounded amount never is.
func (k *checker) bounded(q *Quota, used, most int64, things string) {
	if most != Unbounded && used > most {
		k.breach(Allowed, "%s: %d %s given away, it leaves %d", q.Name, used, things, most)
	}
}
