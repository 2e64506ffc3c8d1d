package policy

// quotaHolding is what the jobs of a quota hold together under the plan, as the quota counts it; memory in MiB.
type quotaHolding struct {
	jobs, nodes, gpus, cpus int
	memory                  int64
	granted                 bool // the plan gives one of the jobs something that it did not hold before
}

// chargeQuotas adds a grant to the quotas of a job, one that only goes on as well, since a quota bounds what all its
// jobs hold. An index beyond the snapshot's quotas is no quota.
func (k *checker) chargeQuotas(j *Job, g *Placement) {
	if len(j.Quotas) == 0 || g == nil {
		return
	}
	if k.heldByQuota == nil {
		k.heldByQuota = make([]quotaHolding, len(k.c.Quotas))
	}
	for _, q := range j.Quotas {
		if q < 0 || q >= len(k.heldByQuota) {
			continue
		}
		h, nodes := &k.heldByQuota[q], len(g.Nodes)
		h.jobs, h.nodes = h.jobs+1, h.nodes+nodes
		h.gpus, h.cpus = h.gpus+nodes*g.PerNode.GPUs, h.cpus+nodes*g.PerNode.CPUs
		h.memory += int64(nodes) * int64(g.PerNode.Memory)
		h.granted = h.granted || !keepsPlacement(j, g)
	}
}

// checkQuotas checks the quotas of which the plan gives away something that was not held before. A quota that is
// overdrawn without a new grant is not the plan's doing.
func (k *checker) checkQuotas() {
	for q := range k.heldByQuota {
		h, quota := &k.heldByQuota[q], &k.c.Quotas[q]
		if !h.granted {
			continue
		}
		k.checkQuotaAmount(quota, int64(h.jobs), int64(quota.Jobs), "jobs")
		k.checkQuotaAmount(quota, int64(h.nodes), int64(quota.Nodes), "nodes")
		k.checkQuotaAmount(quota, int64(h.gpus), int64(quota.GPUs), "GPUs")
		k.checkQuotaAmount(quota, int64(h.cpus), int64(quota.CPUs), "cores")
		k.checkQuotaAmount(quota, h.memory, int64(quota.Memory), "MiB of memory")
	}
}

// checkQuotaAmount reports a breach if more of one amount of a quota is used than it leaves; an Unbounded amount never
// is.
func (k *checker) checkQuotaAmount(q *Quota, used, most int64, things string) {
	if most != Unbounded && used > most {
		k.breach(Allowed, "%s: %d %s given away, it leaves %d", q.Name, used, things, most)
	}
}
