package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Policy says who goes first. A new one is a key of a few lines.
type Policy struct {
	Name string
	// key is what jobs are ordered by, smaller first; equal keys by arrival, then by ID.
	key func(j *Job, v view) float64
	// stake is what one restart of j is worth in the key's unit. A running job is ordered by key less stake, so that a
	// waiting one takes its place only when it is ahead by more than the restart costs.
	stake func(j *Job, v view) float64
}

// view is what a key may know beside its job.
type view struct {
	now   time.Time
	share float64 // of the cluster's GPUs, if every job had as many
}

func viewOf(c *Cluster) view {
	gpus := 0
	for i := range c.Nodes {
		gpus += c.Nodes[i].Total.GPUs
	}
	return view{c.Now, float64(gpus) / float64(max(1, len(c.Jobs)))}
}

// Policies are the ones that can be named in a configuration.
func Policies() []Policy { return []Policy{FIFO(), SRTF(), LAS(), FTF()} }

// ParsePolicy finds a policy by its name, whatever the case. The error lists the names.
func ParsePolicy(name string) (Policy, error) {
	var names []string
	for _, p := range Policies() {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Policy{}, fmt.Errorf("policy %q: want one of %s", name, strings.Join(names, ", "))
}

// FIFO is first come, first served.
func FIFO() Policy {
	return Policy{"fifo",
		func(j *Job, v view) float64 { return -v.now.Sub(j.Arrival).Seconds() },
		func(j *Job, v view) float64 { return j.restartLoss(v.now).Seconds() },
	}
}

// SRTF is shortest remaining time first, at the proportional share. A job of unknown length goes last.
func SRTF() Policy {
	return Policy{"srtf",
		func(j *Job, _ view) float64 { return remaining(j).Seconds() },
		func(j *Job, v view) float64 { return j.restartLoss(v.now).Seconds() },
	}
}

// LAS is least attained service first, in GPU-seconds (Tiresias, NSDI'19). It needs no lengths.
func LAS() Policy {
	return Policy{"las",
		func(j *Job, _ view) float64 { return j.Attained },
		func(j *Job, v view) float64 { return j.restartLoss(v.now).Seconds() * float64(j.GPUs) },
	}
}

// FTF is finish-time fairness (Themis, NSDI'20): the job with the largest ρ goes first, its expected finish time in the shared
// cluster over that on a private 1/n of it. A job of unknown length is taken to be half done.
func FTF() Policy {
	return Policy{"ftf",
		func(j *Job, v view) float64 {
			elapsed := v.now.Sub(j.Arrival)
			return -(elapsed + remainingOrHalf(j)).Seconds() / alone(j, v)
		},
		func(j *Job, v view) float64 { return j.restartLoss(v.now).Seconds() / alone(j, v) },
	}
}

// alone is how long j would take, in seconds, on a private 1/n share of the cluster's GPUs, n being the number of jobs.
func alone(j *Job, v view) float64 {
	length := j.Done + remainingOrHalf(j)
	return math.Max(1, length.Seconds()) * math.Max(1, float64(j.GPUs)/v.share)
}

// unknown stands for a remaining time that nobody declared; it is longer than any that somebody did.
const unknown = time.Duration(math.MaxInt64)

// remaining is how much longer j runs at the proportional share. A job that has outrun its declared length is about to end,
// as far as anybody knows.
func remaining(j *Job) time.Duration {
	if j.Length == 0 {
		return unknown
	}
	return max(j.Length-j.Done, 0)
}

// restartLoss is the running time that a restart of j costs: of one that does not save, all of this run.
func (j *Job) restartLoss(now time.Time) time.Duration {
	if j.Saves {
		return j.Restart
	}
	return j.Restart + max(now.Sub(j.Started), 0)
}

func remainingOrHalf(j *Job) time.Duration {
	if j.Length == 0 {
		return max(j.Done, time.Second)
	}
	return remaining(j)
}

// turns lists the jobs in the order of p, and the turn of each. Every order ends in the job ID, in which the jobs come.
func (p Policy) turns(jobs []*Job, v view) (order, rank []int) {
	entries := make([]entry, len(jobs))
	for i, j := range jobs {
		entries[i] = entry{p.key(j, v), j.Arrival, i}
		if j.Running != nil {
			entries[i].key -= p.stake(j, v)
		}
	}
	slices.SortFunc(entries, entry.compare)
	order, rank = make([]int, len(jobs)), make([]int, len(jobs))
	for at, e := range entries {
		order[at], rank[e.job] = e.job, at
	}
	return order, rank
}

// entry is a job in line.
type entry struct {
	key     float64
	arrival time.Time
	job     int
}

func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.key, f.key), e.arrival.Compare(f.arrival), cmp.Compare(e.job, f.job))
}
