package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// keptNodes is the job that has been passed over for too long, and the nodes that are kept for it so that it starts at
// last: a job that starts there meanwhile must be able to give way again, or end before the waiting job could start.
// Only one job of a round has kept nodes. Slurm's reservations are of type Reservation.
type keptNodes struct {
	job     int // the number of the job
	shape   gangShape
	nodes   []int // in the order in which they were chosen
	servers serverSet
	// shadowTime is the time before which the nodes cannot all have room for the job, see shadowTimeOf.
	shadowTime time.Time
	// closed says that no other job may start on the nodes, while they are cleared, see clearKeptNodes. Otherwise jobs
	// may that give way again, or end in time (keptOffNodes).
	closed   bool
	idleGPUs int         // idle GPUs that are kept on them meanwhile
	idle     map[int]int // the same by server; looked up by number only
}

// idleGPUsOn is how many idle GPUs of server n are withheld for the job, for the reasons of others that wait; r may be
// nil.
func (r *keptNodes) idleGPUsOn(n int) int {
	if r == nil {
		return 0
	}
	return r.idle[n]
}

// keptFrom reports whether job i may not start on server n although there is room: the server is kept for another job,
// or a reservation begins there before job i would end.
func keptFrom(b *board, i, n int) bool {
	if b.states[i].class.isReservedNow(n) {
		return true
	}
	return yieldsServer(b, i, n)
}

// yieldsServer reports whether server n is kept for another job in such a way that job i may not start there.
func yieldsServer(b *board, i, n int) bool {
	if b.keptNodes == nil || b.keptNodes.job == i || !b.keptNodes.servers.has(n) {
		return false
	}
	return b.keptNodes.closed || keptOffNodes(b, i)
}

// staysForGood reports that the policy lets job i, once it runs, give way to no other job (its stake is infinite).
func staysForGood(b *board, i int) bool { return math.IsInf(b.stake(i), 1) }

// keepNodes keeps nodes for waiting job i, if it is the first in the order to have waited longer than rules.patience,
// and reports whether it did. Nodes on which its quotas would not let it run are not kept. A running job that was
// stopped in this round gets none. If too few nodes suit the job, its class notes that (cannotKeepNodes), so that the
// nodes are not searched again for each of its jobs.
func keepNodes(b *board, i int) bool {
	if b.keptNodes != nil || b.states[i].stopped || totalWait(b, b.jobs[i]) < b.c.Rules.patience() ||
		b.states[i].class.cannotKeepNodes {
		return false
	}
	for _, w := range b.states[i].class.gangShapes {
		if servers := soonestNodes(b, i, w); servers != nil {
			b.keptNodes = &keptNodes{job: i, shape: w, nodes: servers, servers: newServerSet(len(b.servers))}
			for _, n := range servers {
				b.keptNodes.servers.add(n)
			}
			b.keptNodes.shadowTime = shadowTimeOf(b, b.keptNodes)
			return true
		}
	}
	b.states[i].class.cannotKeepNodes = true
	return false
}

// totalWait is how long j has waited in all, not counting the time in which it ran. A job that was preempted thus keeps
// what it had waited before.
func totalWait(b *board, j *Job) time.Duration {
	served := time.Duration(j.Attained / float64(max(1, j.GPUs)) * float64(time.Second))
	return b.c.Now.Sub(j.Arrival) - served
}

// couldHold reports whether server n, if it were empty, could hold one node's part of job i now, as far as size,
// reservations, quotas and the number of equal servers go. Only such servers are worth keeping for the job.
func couldHold(b *board, i int, w gangShape, n int) bool {
	k := b.states[i].class
	return !tooFewOfModel(b, w, n) && !k.isReservedNow(n) && b.holdsLeast(k, w, n) &&
		(len(k.quotas) == 0 || affords(b, k, w.nodes, b.leastOf(k, w, n).Size))
}

// compareLack puts servers first that lack less of the least size of job i once every job that may be displaced has
// left. Only a job with terms, such as a floor, can need more than its share of a resource; for others all servers are
// equal (0).
func compareLack(b *board, i int, w gangShape, x, y int) int {
	if b.states[i].class.terms == (terms{}) {
		return 0
	}
	lack := func(n int) gres.Vector { return leastSize(b, i, w, n).Size.Minus(b.servers[n].free).Max(gres.Vector{}) }
	v, u := lack(x), lack(y)
	return cmp.Or(cmp.Compare(v.GPUs, u.GPUs), cmp.Compare(v.CPUs, u.CPUs), cmp.Compare(v.Memory, u.Memory))
}

// soonestNodes picks the nodes of one model on which job i is likely to start first, to be kept for it; nil if too few
// could hold it.
func soonestNodes(b *board, i int, w gangShape) []int {
	z := b.states[i].class.eligible
	var able []int
	for n := range b.servers {
		sv := &b.servers[n]
		if z.servers.has(n) && sv.Closed == "" && sv.Total.GPUs >= w.gpus && couldHold(b, i, w, n) {
			able = append(able, n)
		}
	}
	slices.SortStableFunc(
		able,
		func(x, y int) int { return cmp.Or(compareLack(b, i, w, x, y), compareExpectedWaits(b, w, x, y)) },
	)
	found := modelCollector{nodes: w.nodes}
	for _, n := range able {
		if found.add(b.servers[n].model, n); found.servers != nil {
			break
		}
	}
	return found.servers
}
