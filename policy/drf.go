package policy

import (
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// DRF is dominant resource fairness (Ghodsi et al., NSDI'11): the user goes first who has been given the smallest
// dominant share, the largest of the parts of the cluster's GPUs, cores and memory. A user's own jobs go in the order
// of FIFO.
//
// The order is that of progressive filling from the empty cluster: serving the user with the least, one job at a time,
// is ordering all jobs by what their users are given before them. So it does not depend on who runs, but for what must
// not be touched, and two users who are owed equally much do not take places from each other in turns. A job counts
// with its proportional share: what it holds beyond is lent, and must not cost its user a turn. Whoever finds no place
// has had its turn all the same. A seat beside others on a GPU counts as a GPU, as in the site's limits: what it takes
// besides, cores and memory, is a share's or less.
func DRF() Policy {
	return Policy{"drf",
		func(i int, v *view) float64 { return v.filled()[i] },
		func(i int, v *view) float64 { return v.dominant(v.owed(i)) * v.loss(i) / v.c.Rules.horizon().Seconds() },
	}
}

// filled is the dominant share, for each job, that its user is given before it.
func (v *view) filled() []float64 {
	if v.before != nil {
		return v.before
	}
	v.before = make([]float64, len(v.jobs))
	given := map[string]gres.Vector{}
	for _, i := range v.queue() {
		if i >= len(v.jobs) {
			user := v.beside[i-len(v.jobs)].User
			given[user] = given[user].Plus(gres.Proportional(v.total, 1))
			continue
		}
		user := v.jobs[i].User
		v.before[i] = v.dominant(given[user])
		if v.jobs[i].Barred == "" || v.jobs[i].Running != nil {
			given[user] = given[user].Plus(v.owed(i))
		}
	}
	return v.before
}

// queue lists the jobs in the order of FIFO, after those that run and are not to be touched: what these hold is given,
// whoever came first. Those who have a seat beside another are among them, with the numbers behind the last job's.
func (v *view) queue() []int {
	var l line
	l.begin(slices.Concat(v.jobs, v.beside))
	p := FIFO()
	for i := range v.jobs {
		switch v.seats[i].standing {
		case fixed:
			l.add(entry{math.Inf(-1), i})
		case loose:
			l.add(entry{p.key(i, v) - p.stake(i, v), i})
		default:
			l.add(entry{p.key(i, v), i})
		}
	}
	for k, j := range v.beside {
		key := math.Inf(-1)
		if j.mayStop(v.c) {
			key = -(v.c.Now.Sub(j.Arrival) + j.restartLoss(v.c.Now)).Seconds()
		}
		l.add(entry{key, len(v.jobs) + k})
	}
	return l.end(nil)
}

// owed is the proportional share of job i, in all, of the servers that it may use; nothing where it cannot run.
func (v *view) owed(i int) gres.Vector {
	k := v.seats[i].class
	if len(k.gangShapes) == 0 || k.gpus > k.eligible.total.GPUs {
		return gres.Vector{}
	}
	return gres.Proportional(k.eligible.total, k.gpus)
}

// dominant is the largest of the parts that an amount is of all that the cluster has.
func (v *view) dominant(amount gres.Vector) float64 {
	part := v.part(amount)
	return max(part.gpus, part.cpus, part.memory)
}

// parts are an amount of each resource, as parts of something; 0 where that has none of it.
type parts struct{ gpus, cpus, memory float64 }

// part is what parts of the whole cluster an amount is.
func (v *view) part(amount gres.Vector) parts {
	all := v.total
	return parts{
		over(float64(amount.GPUs), float64(all.GPUs)), over(float64(amount.CPUs), float64(all.CPUs)),
		over(float64(amount.Memory), float64(all.Memory)),
	}
}

func (p parts) sum() float64 { return p.gpus + p.cpus + p.memory }

// times is how well two are aligned: their inner product.
func (p parts) times(q parts) float64 {
	return float64(p.gpus*q.gpus) + float64(p.cpus*q.cpus) + float64(p.memory*q.memory)
}

// over divides, and is 0 where there is nothing to divide by.
func over(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}
