package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Policy decides which job goes first. A new one is a key of a few lines.
type Policy struct {
	Name string
	// key is what jobs are ordered by, smaller first; equal keys by arrival, then by ID.
	key func(i int, v *view) float64
	// stake is what one restart of job i is worth in the key's unit. A running job is ordered by key less stake, so
	// that a waiting job takes its place only when it is ahead by more than the restart costs.
	stake func(i int, v *view) float64
}

// view is what a key may use beside its job: the board before the first turn, with every running job in its place, and
// what some policies compute from all jobs before the first key.
type view struct {
	*board
	share        float64   // the cluster's GPUs divided by the number of jobs
	cachedShares []float64 // of each job, see sharesBefore; nil until a key asks for it
	pack         *packing  // see jobPacking; nil until a key asks for it
}

// policyView is what the keys of a policy may use in this round.
func policyView(b *board) *view {
	return &view{board: b, share: float64(b.total.GPUs) / float64(max(1, len(b.jobs)+len(b.hiddenJobs)))}
}

// lossSeconds is the running time, in seconds, that a restart of job i costs. Most policies make their stake of it.
func (v *view) lossSeconds(i int) float64 { return v.jobs[i].restartLoss(v.c.Now).Seconds() }

// Policies lists the ones that a configuration can name.
func Policies() []Policy {
	return []Policy{FIFO(), SRTF(), SRSF(), LAS(), FTF(), DRF(), Tetris(), Slurm()}
}

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

// By is a custom policy: the job with the smallest key goes first, equal keys by arrival, then by ID. A job whose key
// is NaN goes last. stake is what one restart of a running job is worth in the key's unit. Within the rules, a waiting
// job takes the place of a running one when its key is smaller by more than the stake, and never if the stake is
// infinite. stake is called for waiting jobs, too, and must answer as if they ran. A nil stake makes restarts worth
// nothing.
func By(name string, key, stake func(c *Cluster, j *Job) float64) Policy {
	if stake == nil {
		stake = func(*Cluster, *Job) float64 { return 0 }
	}
	return Policy{name,
		func(i int, v *view) float64 {
			if k := key(v.c, v.jobs[i]); !math.IsNaN(k) {
				return k
			}
			return math.Inf(1)
		},
		func(i int, v *view) float64 {
			if s := stake(v.c, v.jobs[i]); s > 0 { // so that NaN counts as nothing
				return s
			}
			return 0
		},
	}
}

// First is this policy with one job, by ID, before all others, overdue ones included. A running job that is never
// stopped for another, as under Slurm's order, stays.
func (p Policy) First(job int) Policy {
	key := p.key
	p.key = func(i int, v *view) float64 {
		if v.jobs[i].ID == job {
			return math.Inf(-1)
		}
		return key(i, v)
	}
	return p
}

// Slurm goes by Slurm's own priority, the larger first, so what the site has made of age, fair share, QOS and nice
// stays in force. Running jobs stay, since Slurm alone would not stop them either. Loans are called back and jobs may
// move for their own gain all the same, since that is no question of order.
func Slurm() Policy {
	return By("slurm",
		func(_ *Cluster, j *Job) float64 { return -float64(j.Priority) },
		func(*Cluster, *Job) float64 { return math.Inf(1) },
	)
}

// FIFO is first come, first served.
func FIFO() Policy {
	return Policy{"fifo",
		func(i int, v *view) float64 { return -v.c.Now.Sub(v.jobs[i].Arrival).Seconds() },
		func(i int, v *view) float64 { return v.lossSeconds(i) },
	}
}

// SRTF is shortest remaining time first, at the proportional share. A job of unknown length goes last.
func SRTF() Policy {
	return Policy{"srtf",
		func(i int, v *view) float64 { return remaining(v.jobs[i]).Seconds() },
		func(i int, v *view) float64 { return v.lossSeconds(i) },
	}
}

// SRSF is shortest remaining service first: the remaining time at the proportional share, times GPUs. A job of unknown
// length goes last.
func SRSF() Policy {
	return Policy{"srsf",
		func(i int, v *view) float64 { return remaining(v.jobs[i]).Seconds() * float64(v.jobs[i].GPUs) },
		func(i int, v *view) float64 { return v.lossSeconds(i) * float64(v.jobs[i].GPUs) },
	}
}

// LAS is least attained service first, in GPU-seconds, by discrete queues (Tiresias, NSDI'19, §3.2): the first has the
// jobs with less service than firstQueue, and each next one those with up to twice as much as the one before. It needs
// no lengths. Within a queue running jobs go on, and waiting jobs come in the order of arrival: by the exact service
// two jobs would take each other's place for ever.
func LAS() Policy {
	return Policy{"las",
		func(i int, v *view) float64 {
			first := firstQueue(v.c)
			if v.jobs[i].Attained < first {
				return 0
			}
			return levelOf(v.jobs[i].Attained/first, 1) * first
		},
		// The 1 lets a running job go before the waiting ones of its queue even if a restart costs nothing.
		func(i int, v *view) float64 { return float64(v.lossSeconds(i)*float64(v.jobs[i].GPUs)) + 1 },
	}
}

// firstQueue is the service, in GPU-seconds, until which a job is in the first queue, before all that have had more. It
// is three quarters of what a job with one GPU gets in a round, so after one whole round a job is beyond it. If the
// rounds' length is unknown, a round is taken to last five minutes.
func firstQueue(c *Cluster) float64 {
	round := c.Rules.Round
	if round <= 0 {
		round = 5 * time.Minute
	}
	return 0.75 * round.Seconds()
}

// levelOf rounds a number down to a power of two, or to one of so many even steps on the way to the next one; exactly,
// on every machine.
func levelOf(x float64, steps int) float64 {
	part, power := math.Frexp(x) // 0.5 ≤ part < 1
	return math.Ldexp(math.Floor(part*float64(2*steps))/float64(2*steps), power)
}

// FTF is finish-time fairness (Themis, NSDI'20): the job with the largest ρ goes first, its expected finish time in the
// shared cluster over that on a private 1/n of it, in steps of a third to a half. Within a step running jobs go on: by
// the exact ρ, which rises only for waiting jobs, two jobs would take each other's place for ever. A job of unknown
// length counts as half done.
func FTF() Policy {
	return Policy{"ftf",
		func(i int, v *view) float64 {
			elapsed := v.c.Now.Sub(v.jobs[i].Arrival)
			return -levelOf((elapsed+remainingOrHalf(v.jobs[i])).Seconds()/v.aloneSeconds(i), 2)
		},
		func(i int, v *view) float64 { return v.lossSeconds(i)/v.aloneSeconds(i) + rhoTolerance },
	}
}

// rhoTolerance is enough of ρ for a running job to go before a waiting one on the same step, and less than any step of
// a job that waits for a while.
const rhoTolerance = 1e-9

// aloneSeconds is how long job i would take, in seconds, on a private 1/n of the cluster's GPUs, n being the number of
// jobs. It is what the job's finish time is compared with in finish-time fairness; at least a second, so that it can be
// divided by.
func (v *view) aloneSeconds(i int) float64 {
	j := v.jobs[i]
	length := j.Done + remainingOrHalf(j)
	return math.Max(1, length.Seconds()) * math.Max(1, float64(j.GPUs)/v.share)
}

// unknownLength stands for a remaining time that was not declared; it is longer than any declared one.
const unknownLength = time.Duration(math.MaxInt64)

// remaining is how much longer j runs at the proportional share; unknownLength if no length was declared. It is 0 for a
// job that has exceeded its declared length, which is about to end as far as is known.
func remaining(j *Job) time.Duration {
	if j.Length == 0 {
		return unknownLength
	}
	return max(j.Length-j.Done, 0)
}

// restartLoss is the running time that a restart of j costs: saving and starting, and for a job that does not save the
// whole run so far.
func (j *Job) restartLoss(now time.Time) time.Duration {
	if j.Saves {
		return j.Restart
	}
	return j.Restart + max(now.Sub(j.Started), 0)
}

// remainingOrHalf is how much longer j runs at the proportional share. A job of unknown length is taken to be half
// done: as much as it has done is left, at least a second.
func remainingOrHalf(j *Job) time.Duration {
	if j.Length == 0 {
		return max(j.Done, time.Second)
	}
	return remaining(j)
}

// orderJobs puts the jobs in the order of p, in which they have their turns: it sets b.order, b.rank and the key of
// each job. Overdue jobs go before all others (findOverdue). Every order ends in the job ID, in which the jobs come, so
// that no two jobs are equal.
func orderJobs(b *board, p Policy) {
	v := policyView(b)
	b.line.begin(b.jobs)
	b.stake = func(i int) float64 { return p.stake(i, v) }
	findOverdue(b) // by the stakes
	for _, i := range lastOrder(b) {
		key := p.key(i, v)
		if b.jobs[i].Running != nil {
			key = lessStake(key, b.stake(i))
		}
		if b.states[i].key = key; b.states[i].overdue {
			key = math.Min(key, -math.MaxFloat64) // before any key, and behind the job of First
		}
		b.line.add(sortEntry{key, i})
	}
	b.order = b.line.sortedJobs(b.order)
	b.rank = resized(b.rank, len(b.order))
	for at, i := range b.order {
		b.rank[i] = at
	}
	b.preemptibleEnd = len(b.order)
}

// lessStake is the key of a running job. The stake puts it before waiting jobs whose lead is not worth its restart. One
// that no job may displace (an infinite stake) goes before all waiting jobs, even if its key is that of a job that goes
// last, where the difference would be no number.
func lessStake(key, stake float64) float64 {
	if math.IsInf(stake, 1) {
		return math.Inf(-1)
	}
	return key - stake
}

// lastOrder is the order of the last round, without jobs that have left and followed by those that have come since. The
// new order is nearly the same, so jobs are sorted faster in this order.
func lastOrder(b *board) []int {
	order := b.lastPositions[:0]
	for _, was := range b.lastPositions {
		if i := b.currentIndex[was]; i >= 0 {
			order = append(order, i)
		}
	}
	return append(order, b.newJobs...)
}

// jobSorter sorts jobs by a key, equal ones by arrival, then by ID; it is fast if they come almost in order. It begins
// with begin; each job is then added, and sortedJobs lists them.
type jobSorter struct {
	jobs                       []*Job      // that entries are of, by number
	inOrderEntries, farEntries []sortEntry // in order; put aside by add
}

// sortEntry is a job in line.
type sortEntry struct {
	key float64 // policy key, the stake taken off if the job runs
	job int     // its number
}

// maxInsertion is how many places from the end an entry may belong to be put there at once.
const maxInsertion = 16

// add puts an entry in its place among those added before, or aside (farEntries) if that place is more than
// maxInsertion from the end: moving so many entries for each job would take too long.
func (l *jobSorter) add(e sortEntry) {
	at := len(l.inOrderEntries)
	for ; at > 0 && l.compare(e, l.inOrderEntries[at-1]) < 0; at-- {
		if len(l.inOrderEntries)-at == maxInsertion {
			l.farEntries = append(l.farEntries, e)
			return
		}
	}
	l.inOrderEntries = append(l.inOrderEntries, e)
	if at < len(l.inOrderEntries)-1 {
		copy(l.inOrderEntries[at+1:], l.inOrderEntries[at:])
		l.inOrderEntries[at] = e
	}
}

// begin empties the line.
func (l *jobSorter) begin(jobs []*Job) {
	l.jobs, l.inOrderEntries, l.farEntries = jobs, l.inOrderEntries[:0], l.farEntries[:0]
}

// sortedJobs lists the jobs in order, those put aside merged in. The result uses the memory of order.
func (l *jobSorter) sortedJobs(order []int) []int {
	slices.SortFunc(l.farEntries, l.compare)
	order, strays := order[:0], l.farEntries
	for _, e := range l.inOrderEntries {
		for len(strays) > 0 && l.compare(strays[0], e) < 0 {
			order, strays = append(order, strays[0].job), strays[1:]
		}
		order = append(order, e.job)
	}
	for _, e := range strays {
		order = append(order, e.job)
	}
	return order
}

// compare puts the smaller key first, then the earlier arrival, then the smaller number, which is the order of IDs.
func (l *jobSorter) compare(e, f sortEntry) int {
	switch { // if neither key is less, cmp.Compare below decides: they are equal, or one is not a number
	case e.key < f.key:
		return -1
	case e.key > f.key:
		return 1
	}
	return cmp.Or(cmp.Compare(e.key, f.key), l.jobs[e.job].Arrival.Compare(l.jobs[f.job].Arrival),
		cmp.Compare(e.job, f.job))
}
