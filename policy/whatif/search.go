package whatif

import (
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Try is one of the changes that were tried for a job.
type Try struct {
	Change string `json:"change"`
	Starts bool   `json:"starts"`        // now
	Why    string `json:"why,omitempty"` // it waits
}

// Found is what would have a job start now.
type Found struct {
	Sentence string `json:"sentence"`
	Now      *Place `json:"job"` // what becomes of it as it is
	Tries    []Try  `json:"tries"`
}

// Search tries a small list of changes by which a job could start now, what costs its user least before what costs him
// or others more: other numbers of nodes for the same GPUs, any node, no floor, fewer GPUs, and going first.
func Search(is Case, job int, o Options) (Found, error) {
	o.Job = job
	j := jobOf(&is.Cluster, job)
	if j == nil {
		return Found{}, fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", job)
	}
	now := is.outcome(o, policy.Reference(is.Cluster.Nodes), &is.Cluster).Job
	found := Found{Now: now, Tries: []Try{}}
	switch {
	case now.Runs:
		found.Sentence = fmt.Sprintf("job %d runs already", job)
		return found, nil
	case now.Grant != nil:
		found.Sentence = fmt.Sprintf("job %d starts now", job)
		return found, nil
	case j.Barred != "":
		found.Sentence = fmt.Sprintf("job %d may not start yet, whatever is free: %s", job, j.Barred)
		return found, nil
	}
	for _, change := range candidates(&is, j) {
		try, err := is.try(change, job)
		if err != nil {
			continue // it is none for this job
		}
		found.Tries = append(found.Tries, try)
		if try.Starts {
			found.Sentence = fmt.Sprintf("job %d would start now %s", job, change)
			return found, nil
		}
	}
	found.Sentence = fmt.Sprintf("job %d waits: %s; none of the %d changes that were tried would start it now", job,
		now.Why, len(found.Tries))
	if now.Words != "" {
		found.Sentence += "; it is " + now.Words
	}
	return found, nil
}

// candidates are the changes in the order in which they are tried.
func candidates(c *Case, j *policy.Job) []Change {
	var list []Change
	ask := func(gpus, nodes int) {
		if gpus == j.GPUs {
			gpus = 0
		}
		list = append(list, NewRequest(c, j.ID, gpus, nodes))
	}
	if j.Nodes > 0 { // the same GPUs on fewer nodes, then on more
		for nodes := 1; nodes <= min(j.GPUs, len(c.Cluster.Nodes), 16); nodes++ {
			if j.GPUs%nodes == 0 && nodes != j.Nodes {
				ask(j.GPUs, nodes)
			}
		}
	}
	if j.GPUType != "" || len(j.Features)+len(j.Only)+len(j.Except) > 0 {
		list = append(list, Free{j.ID})
	}
	if j.Floor != (gres.Vector{}) || j.Pace != (gres.Vector{}) {
		list = append(list, Modest{j.ID})
	}
	for gpus := j.GPUs / 2; gpus >= 1; gpus /= 2 {
		ask(gpus, 1)
		if j.Nodes > 1 && gpus%j.Nodes == 0 {
			ask(gpus, j.Nodes)
		}
	}
	return append(list, First{j.ID})
}

// try plans one change.
func (c Case) try(change Change, job int) (Try, error) {
	would, err := c.With(change)
	if err != nil {
		return Try{}, err
	}
	d := find(policy.Decide(would.Cluster, would.Policy, would.Allocator), job)
	return Try{change.String(), d.Grant != nil, d.Why}, nil
}
