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
	key func(i int, v *view) float64
	// stake is what one restart of job i is worth in the key's unit. A running job is ordered by key less stake, so
	// that a waiting one takes its place only when it is ahead by more than the restart costs.
	stake func(i int, v *view) float64
}

// view is what a key may know beside its job: the board before the first turn, on which every running job has its seat,
// and what some policies compute from all jobs before the first key.
type view struct {
	*board
	share  float64   // of the cluster's GPUs, if every job had as many
	before []float64 // of each job, see filled
	pack   *packing  // see packed
}

func (b turns) view() *view {
	return &view{board: b.board, share: float64(b.total.GPUs) / float64(max(1, len(b.jobs)+len(b.beside)))}
}

// loss is the running time, in seconds, that a restart of job i costs.
func (v *view) loss(i int) float64 { return v.jobs[i].restartLoss(v.c.Now).Seconds() }

// Policies are the ones that can be named in a configuration.
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

// By is a policy of one's own: the job with the smallest key goes first, equal keys by arrival, then by ID. stake is
// what one restart of a running job is worth in the key's unit: a waiting job takes its place, within the rules, when
// its key is smaller by more than that, and never where the stake is infinite. Jobs that wait are asked, too, for what
// it would be worth if they ran. nil is a policy to which restarts are worth nothing. Whoever has no number as key goes
// last.
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
			if s := stake(v.c, v.jobs[i]); s > 0 { // written so that NaN is nothing
				return s
			}
			return 0
		},
	}
}

// First is this policy with one job before all others, those too that have waited too long. Who is never stopped for
// another, as by Slurm's order, stays.
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

// Slurm goes by Slurm's own priority, the larger first: whatever the site has made of age, fair share, QOS and nice
// stays in force. Who runs stays, since Slurm alone would not stop it either; that what it was lent is taken back, or
// that it moves for its own good, is no question of turns.
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

// SRSF is shortest remaining service first: what is left to do, at the proportional share, times the GPUs that it
// takes. A job of unknown length goes last.
func SRSF() Policy {
	return Policy{"srsf",
		func(i int, v *view) float64 { return remaining(v.jobs[i]).Seconds() * float64(v.jobs[i].GPUs) },
		func(i int, v *view) float64 { return v.loss(i) * float64(v.jobs[i].GPUs) },
	}
}

// LAS is least attained service first, in GPU-seconds, by discrete queues (Tiresias, NSDI'19, §3.2): the first is of
// jobs with less than firstQueue says, and each holds what has attained up to twice as much as the one before. It needs
// no lengths. Within a queue who runs goes on, and who waits comes in the order of arrival: by the bare service two
// jobs would take each other's place for ever.
func LAS() Policy {
	return Policy{"las",
		func(i int, v *view) float64 {
			first := firstQueue(v.c)
			if v.jobs[i].Attained < first {
				return 0
			}
			return levelOf(v.jobs[i].Attained/first, 1) * first
		},
		func(i int, v *view) float64 { return float64(v.loss(i)*float64(v.jobs[i].GPUs)) + 1 },
	}
}

// firstQueue is the service, in GPU-seconds, until which a newcomer goes before everybody who has had more: three
// quarters of what a job of one GPU gets in a round, or in five minutes where the rounds' length is not known.
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
	part, power := math.Frexp(x) // part is at least a half
	return math.Ldexp(math.Floor(part*float64(2*steps))/float64(2*steps), power)
}

// FTF is finish-time fairness (Themis, NSDI'20): the job with the largest ρ goes first, its expected finish time in the
// shared cluster over that on a private 1/n of it, in steps of a third to a half. Within a step who runs goes on: by
// the bare ρ, which rises for who waits alone, two jobs would take each other's place for ever. A job of unknown length
// is taken to be half done.
func FTF() Policy {
	return Policy{"ftf",
		func(i int, v *view) float64 {
			elapsed := v.c.Now.Sub(v.jobs[i].Arrival)
			return -levelOf((elapsed+remainingOrHalf(v.jobs[i])).Seconds()/v.alone(i), 2)
		},
		func(i int, v *view) float64 { return v.loss(i)/v.alone(i) + sliver },
	}
}

// sliver is enough of ρ for who runs to go before who waits on the same step, and less than any step of a job that
// waits for a while.
const sliver = 1e-9

// alone is how long job i would take, in seconds, on a private 1/n share of the cluster's GPUs, n being the number of
// jobs.
func (v *view) alone(i int) float64 {
	j := v.jobs[i]
	length := j.Done + remainingOrHalf(j)
	return math.Max(1, length.Seconds()) * math.Max(1, float64(j.GPUs)/v.share)
}

// unknown stands for a remaining time that nobody declared; it is longer than any that somebody did.
const unknown = time.Duration(math.MaxInt64)

// remaining is how much longer j runs at the proportional share. A job that has outrun its declared length is about to
// end, as far as anybody knows.
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

// takeTurns puts the jobs in the order of p. Every order ends in the job ID, in which the jobs come.
func (b turns) takeTurns(p Policy) {
	v := b.view()
	b.line.begin(b.jobs)
	b.stake = func(i int) float64 { return p.stake(i, v) }
	b.findOverdue()
	for _, i := range b.expected() {
		key := p.key(i, v)
		if b.jobs[i].Running != nil {
			key = lessStake(key, b.stake(i))
		}
		if b.seats[i].key = key; b.seats[i].overdue {
			key = math.Min(key, -math.MaxFloat64) // before any key, and behind one job that goes first, see First
		}
		b.line.add(entry{key, i})
	}
	b.order = b.line.end(b.order)
	b.rank = resized(b.rank, len(b.order))
	for at, i := range b.order {
		b.rank[i] = at
	}
	b.tail = len(b.order)
}

// lessStake is what a running job is ordered by. One that nobody may displace goes before all who wait, also where its
// key is that of who goes last.
func lessStake(key, stake float64) float64 {
	if math.IsInf(stake, 1) {
		return math.Inf(-1)
	}
	return key - stake
}

// expected is the order of the last round, and then those who have come since.
func (b turns) expected() []int {
	order := b.turns[:0]
	for _, was := range b.turns {
		if i := b.here[was]; i >= 0 {
			order = append(order, i)
		}
	}
	return append(order, b.come...)
}

// line puts jobs in order by a key, equal ones by arrival, then by ID: fast, where they come almost in order.
type line struct {
	jobs         []*Job
	kept, strays []entry
}

// entry is a job in line.
type entry struct {
	key float64
	job int
}

// nearby is how many places an entry may be from its place to be put there at once.
const nearby = 16

// add puts an entry in its place, or aside where that is too far from the end.
func (l *line) add(e entry) {
	at := len(l.kept)
	for ; at > 0 && l.compare(e, l.kept[at-1]) < 0; at-- {
		if len(l.kept)-at == nearby {
			l.strays = append(l.strays, e)
			return
		}
	}
	l.kept = append(l.kept, e)
	if at < len(l.kept)-1 {
		copy(l.kept[at+1:], l.kept[at:])
		l.kept[at] = e
	}
}

// begin empties the line.
func (l *line) begin(jobs []*Job) { l.jobs, l.kept, l.strays = jobs, l.kept[:0], l.strays[:0] }

// end lists the jobs in order, in the memory of another list.
func (l *line) end(order []int) []int {
	slices.SortFunc(l.strays, l.compare)
	order, strays := order[:0], l.strays
	for _, e := range l.kept {
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

func (l *line) compare(e, f entry) int {
	switch {
	case e.key < f.key:
		return -1
	case e.key > f.key:
		return 1
	}
	return cmp.Or(cmp.Compare(e.key, f.key), l.jobs[e.job].Arrival.Compare(l.jobs[f.job].Arrival),
		cmp.Compare(e.job, f.job))
}
