package policy

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// DRF is dominant resource fairness (Ghodsi et al., NSDI'11): the job of the user with the smallest dominant share goes
// first, which is the largest of the parts of the cluster's GPUs, cores and memory that the user was given. A user's
// own jobs go in the order of FIFO.
//
// The order is that of progressive filling from the empty cluster: to serve the user with the least, one job at a time,
// is to order all jobs by what their users are given before them. So it does not depend on which jobs run, apart from
// those that must not be touched, and two users who are owed equally much do not take places from each other in turns.
// A job counts with its proportional share: what it holds beyond is a loan, and must not cost its user a turn. A job
// that finds no place has had its turn all the same. A slot on a shared GPU counts as a GPU, as in the site's limits;
// the cores and memory that it takes are at most a share.
func DRF() Policy {
	return Policy{"drf",
		func(i int, v *view) float64 { return v.sharesBefore()[i] },
		func(i int, v *view) float64 {
			return v.dominant(v.owed(i)) * v.lossSeconds(i) / v.c.Rules.horizon().Seconds()
		},
	}
}

// sharesBefore is, for each job, the dominant share that its user is given before it, which is the job's key. It is
// computed for all jobs at once, in the order of FIFO, when the first key of a round is asked for. Jobs that share a
// GPU with a leader (hiddenJobs) have no key, but what they are given counts for their users. A waiting job that may
// not start (Barred) counts for nothing.
func (v *view) sharesBefore() []float64 {
	if v.cachedShares != nil {
		return v.cachedShares
	}
	v.cachedShares = make([]float64, len(v.jobs))
	given := map[string]gres.Vector{}
	for _, i := range v.fifoOrder() {
		if i >= len(v.jobs) {
			user := v.hiddenJobs[i-len(v.jobs)].User
			given[user] = given[user].Plus(gres.Proportional(v.total, 1))
			continue
		}
		user := v.jobs[i].User
		v.cachedShares[i] = v.dominant(given[user])
		if v.jobs[i].Barred == "" || v.jobs[i].Running != nil {
			given[user] = given[user].Plus(v.owed(i))
		}
	}
	return v.cachedShares
}

// fifoOrder lists the jobs in the order in which DRF gives each user shares. Running jobs that must not be stopped come
// first, since what these hold is given away whichever job came first. The others follow in the order of FIFO, running
// ones earlier by their stake. Jobs that share a GPU with a leader (hiddenJobs) are included, numbered behind the last
// job of the board.
func (v *view) fifoOrder() []int {
	var l jobSorter
	l.begin(slices.Concat(v.jobs, v.hiddenJobs))
	p := FIFO()
	for i := range v.jobs {
		switch v.states[i].status {
		case statusFixed:
			l.add(sortEntry{math.Inf(-1), i})
		case statusPreemptible:
			l.add(sortEntry{p.key(i, v) - p.stake(i, v), i})
		default:
			l.add(sortEntry{p.key(i, v), i})
		}
	}
	for k, j := range v.hiddenJobs {
		key := math.Inf(-1)
		if j.mayStop(v.c) {
			key = -(v.c.Now.Sub(j.Arrival) + j.restartLoss(v.c.Now)).Seconds()
		}
		l.add(sortEntry{key, len(v.jobs) + k})
	}
	return l.sortedJobs(nil)
}

// owed is the proportional share of job i over all its nodes, in the mean over the servers that it may use: by so much
// its turn adds to what its user was given. It is zero if the job cannot run.
func (v *view) owed(i int) gres.Vector {
	k := v.states[i].class
	if len(k.gangShapes) == 0 || k.gpus > k.eligible.total.GPUs {
		return gres.Vector{}
	}
	return gres.Proportional(k.eligible.total, k.gpus)
}

// dominant is the dominant share of an amount: the largest of the fractions of the cluster's GPUs, cores and memory
// that it is.
func (v *view) dominant(amount gres.Vector) float64 {
	part := v.fractionsOf(amount)
	return max(part.gpus, part.cpus, part.memory)
}

// fractions is an amount as a fraction of a whole, by resource; 0 where the whole has none.
type fractions struct{ gpus, cpus, memory float64 }

// fractionsOf is an amount as fractions of the whole cluster, in which GPUs, cores and memory can be compared.
func (v *view) fractionsOf(amount gres.Vector) fractions {
	all := v.total
	return fractions{
		ratio(float64(amount.GPUs), float64(all.GPUs)), ratio(float64(amount.CPUs), float64(all.CPUs)),
		ratio(float64(amount.Memory), float64(all.Memory)),
	}
}

func (p fractions) sum() float64 { return p.gpus + p.cpus + p.memory }

// innerProduct is the inner product of p and q, a measure of how well two amounts are aligned.
func (p fractions) innerProduct(q fractions) float64 {
	return float64(p.gpus*q.gpus) + float64(p.cpus*q.cpus) + float64(p.memory*q.memory)
}

// ratio is x/y; 0 if y is 0.
func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}
