package limits

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Job is what limits depend on in a job.
type Job struct {
	ID        int
	User      string
	Account   string
	QOS       string
	Partition string
	Choice    []string      // partitions in which it may start; none if it asked for one partition or runs
	TimeLimit time.Duration // 0: none

	Managed bool        // the daemon chooses its size; other jobs only count towards limits
	Nodes   int         // requested, at least 1
	GPUs    int         // requested, on all nodes together
	GPUType string      // requested; empty: any
	Asks    gres.Vector // cores and memory on each node in its user's own request; 0: not given

	Running bool        // it counts towards limits: it runs and is not completing
	Holds   gres.Vector // on all nodes together, while it runs
	On      []string    // nodes that it holds
	Type    string      // of the GPUs that it holds
}

// Terms are what the site allows one managed job.
type Terms struct {
	Job     int
	Ceiling gres.Vector // on each node; 0 in a field: no bound
	Quotas  []int       // indices in Verdict.Quotas, ascending
	Shut    []string    // its partitions in which it must not start now; never all of them
	Tier    int         // the highest PriorityTier of its partitions
	Never   string      // the limit under which the job can never start as requested, in words; empty: it can
}

// Verdict is what a site's limits allow the jobs of one moment.
type Verdict struct {
	Terms  []Terms        // of each managed job, in the order of the jobs
	Quotas []policy.Quota // what is left of the shared limits, after what jobs outside each quota hold
}

// Modest is the verdict when the limits are unknown: no job is given more than its user's request, which Slurm has
// checked against the limits itself.
func Modest(jobs []Job) Verdict {
	var v Verdict
	for i := range jobs {
		if j := &jobs[i]; j.Managed {
			t := Terms{Job: j.ID}
			t.modest(j)
			v.Terms = append(v.Terms, t)
		}
	}
	return v
}

// modest bounds a job by its user's own request, which Slurm has checked against the limits. An amount that the request
// leaves open stays without this bound.
func (t *Terms) modest(j *Job) {
	t.lower(j.Asks)
}

// lower applies a further bound; 0 in a field means no bound.
func (t *Terms) lower(most gres.Vector) {
	t.Ceiling.CPUs = stricter(t.Ceiling.CPUs, most.CPUs)
	t.Ceiling.Memory = stricter(t.Ceiling.Memory, most.Memory)
	t.Ceiling.GPUs = stricter(t.Ceiling.GPUs, most.GPUs)
}

// stricter returns the smaller of two bounds, where 0 means no bound.
func stricter[N int | gres.Memory](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
