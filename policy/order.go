package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Policy says who goes first. A new one is a key of a few lines.
type Policy struct {
	Name string
	// key is what jobs are ordered by, smaller first; equal keys by arrival, then by ID.
	key func(i int, v *view) float64
	// stake is what one restart of job i is worth in the key's unit. A running job is ordered by key less stake, so that a
	// waiting one takes its place only when it is ahead by more than the restart costs.
	stake func(i int, v *view) float64
}

// view is what a key may know beside its job: the board before the first turn, on which every running job has its seat, and what
// some policies compute from all jobs before the first key.
type view struct {
	*board
	whole  gres.Vector // what the cluster has
	share  float64     // of its GPUs, if every job had as many
	before []float64   // of each job, see filled
	pack   *packing    // see packed
}

func (b *board) view() *view {
	whole := b.total()
	return &view{board: b, whole: whole, share: float64(whole.GPUs) / float64(max(1, len(b.jobs)))}
}

// loss is the running time, in seconds, that a restart of job i costs.
func (v *view) loss(i int) float64 { return v.jobs[i].restartLoss(v.c.Now).Seconds() }

// Policies are the ones that can be named in a configuration.
func Policies() []Policy { return []Policy{FIFO(), SRTF(), SRSF(), LAS(), FTF(), DRF(), Tetris()} }

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
		func(i int, v *view) float64 { return -v.c.Now.Sub(v.jobs[i].Arrival).Seconds() },
		func(i int, v *view) float64 { return v.loss(i) },
	}
}

// SRTF is shortest remaining time first, at the proportional share. A job of unknown length goes last.
func SRTF() Policy {
	return Policy{"srtf",
		func(i int, v *view) float64 { return remaining(v.jobs[i]).Seconds() },
		func(i int, v *view) float64 { return v.loss(i) },
	}
}

// SRSF is shortest remaining service first: what is left to do, at the proportional share, times the GPUs that it takes. A job
// of unknown length goes last.
func SRSF() Policy {
	return Policy{"srsf",
		func(i int, v *view) float64 { return remaining(v.jobs[i]).Seconds() * float64(v.jobs[i].GPUs) },
		func(i int, v *view) float64 { return v.loss(i) * float64(v.jobs[i].GPUs) },
	}
}

// LAS is least attained service first, in GPU-seconds (Tiresias, NSDI'19). It needs no lengths.
func LAS() Policy {
	return Policy{"las",
		func(i int, v *view) float64 { return v.jobs[i].Attained },
		func(i int, v *view) float64 { return v.loss(i) * float64(v.jobs[i].GPUs) },
	}
}

// FTF is finish-time fairness (Themis, NSDI'20): the job with the largest ρ goes first, its expected finish time in the shared
// cluster over that on a private 1/n of it. A job of unknown length is taken to be half done.
func FTF() Policy {
	return Policy{"ftf",
		func(i int, v *view) float64 {
			elapsed := v.c.Now.Sub(v.jobs[i].Arrival)
			return -(elapsed + remainingOrHalf(v.jobs[i])).Seconds() / v.alone(i)
		},
		func(i int, v *view) float64 { return v.loss(i) / v.alone(i) },
	}
}

// alone is how long job i would take, in seconds, on a private 1/n share of the cluster's GPUs, n being the number of jobs.
func (v *view) alone(i int) float64 {
	j := v.jobs[i]
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
func (p Policy) turns(v *view) (order, rank []int) {
	order = v.inLine(func(i int) float64 {
		if v.jobs[i].Running != nil {
			return p.key(i, v) - p.stake(i, v)
		}
		return p.key(i, v)
	})
	rank = make([]int, len(order))
	for at, i := range order {
		rank[i] = at
	}
	return order, rank
}

// inLine lists the jobs by a key, equal ones by arrival, then by ID.
func (v *view) inLine(key func(i int) float64) []int {
	entries := make([]entry, len(v.jobs))
	for i, j := range v.jobs {
		entries[i] = entry{key(i), j.Arrival, i}
	}
	slices.SortFunc(entries, entry.compare)
	order := make([]int, len(entries))
	for at, e := range entries {
		order[at] = e.job
	}
	return order
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
