package limits

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Job is a job as limits see it.
type Job struct {
	ID        int
	User      string
	Account   string
	QOS       string
	Partition string
	Choice    []string      // of partitions, in which it may start; of a job that has one or runs: none
	TimeLimit time.Duration // 0: none

	Managed bool        // its size is ours to choose; any other job only counts
	Nodes   int         // that it asks for, at least 1
	GPUs    int         // that it asks for on all of them
	GPUType string      // that it asks for; empty: any
	Asks    gres.Vector // cores and memory on each node of its user's own request; 0: not said

	Running bool        // it counts against limits: it runs, and is not being torn down
	Holds   gres.Vector // all nodes together, while it runs
	On      []string    // nodes that it holds
	Type    string      // of the GPUs that it holds
}

// Terms are what the site allows a managed job.
type Terms struct {
	Job     int
	Ceiling gres.Vector // on each node; zero in a field: no bound
	Quotas  []int       // numbers in Verdict.Quotas, ascending
	Shut    []string    // those of its partitions in which it must not start now; never all
	Tier    int         // the highest of its partitions'
	Never   string      // the limit under which it cannot start as it is, in words; empty: it may
}

// Verdict is what follows from a site's limits for the jobs of a moment.
type Verdict struct {
	Terms  []Terms        // of each managed job, in the order of the jobs
	Quotas []policy.Quota // that they count against, less what others hold
}

// Modest is the verdict where nothing is known of limits: no job is given more than its user asked for, which Slurm has
// checked.
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

// modest bounds a job by its user's own request.
func (t *Terms) modest(j *Job) {
	t.lower(j.Asks)
}

// lower bounds a job by this too; zero in a field: no bound.
func (t *Terms) lower(most gres.Vector) {
	t.Ceiling.CPUs = stricter(t.Ceiling.CPUs, most.CPUs)
	t.Ceiling.Memory = stricter(t.Ceiling.Memory, most.Memory)
	t.Ceiling.GPUs = stricter(t.Ceiling.GPUs, most.GPUs)
}

// stricter is the smaller of two bounds of which 0 is none.
func stricter[N int | gres.Memory](a, b N) N {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
