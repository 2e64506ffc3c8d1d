package policy

import (
	"cmp"
	"slices"
)

// overdueShare is the part of the cluster's GPUs for which overdue jobs go before all others.
const overdueShare = 1.0 / 8

// findOverdue marks the overdue jobs, which go first whatever the policy. A job is overdue if all its waits together
// have lasted for rules.patience and, if it waits, a job that came later runs: before that, no job has passed it. The
// first of these to arrive are overdue, until they hold an eighth of the cluster's GPUs; the last one may be larger
// than what is left of the eighth, so that gangs are promoted as well. A running overdue job keeps its place. Left out
// are jobs that could not run (couldRun), and jobs that the policy never stops once they run (staysForGood).
//
// So no job starves: under every policy that preempts, it has its turn at the latest when the overdue jobs that came
// before it have ended. Multi-level feedback queues do the same (Tiresias, NSDI'19, §3.2: PROMOTEKNOB). The bound is
// for overloaded clusters, where all jobs wait for too long: to promote all of them would be FIFO.
//
// A job stays overdue until it ends. If running made it less overdue, two jobs would take a place from each other in
// turns. An overdue job goes only before jobs that have passed it, see precedes.
func findOverdue(b *board) {
	late, last := b.overdueList[:0], youngestRunning(b)
	for i, j := range b.jobs {
		if b.states[i].overdue = false; (j.Running != nil || j.Barred == "") &&
			totalWait(b, j) >= b.c.Rules.patience() &&
			(j.Running != nil || last >= 0 && b.compareArrivals(i, last) < 0) {
			late = append(late, i)
		}
	}
	b.overdueList = late
	slices.SortFunc(late, b.compareArrivals)
	room := overdueShare * float64(b.total.GPUs)
	for _, i := range late {
		if room <= 0 {
			return
		}
		if !staysForGood(b, i) && couldRun(b, i) {
			b.states[i].overdue = true
			room -= float64(b.jobs[i].GPUs)
		}
	}
}

// compareArrivals puts the job that came earlier first, then the smaller ID.
func (b *board) compareArrivals(x, y int) int {
	return cmp.Or(b.jobs[x].Arrival.Compare(b.jobs[y].Arrival), cmp.Compare(x, y))
}

// youngestRunning is the number of the running job that came last; -1: none runs. Each waiting job that came before it
// has been passed over by it.
func youngestRunning(b *board) int {
	last := -1
	for i, j := range b.jobs {
		if j.Running != nil && (last < 0 || b.compareArrivals(i, last) > 0) {
			last = i
		}
	}
	return last
}

// precedes reports that job v keeps its place from job i however long i has waited: i is overdue, v came first, and the
// policy has v first or both equal. To stop v would swap two jobs for nothing, and back again when v is overdue in
// turn.
func (b *board) precedes(v, i int) bool {
	return b.states[i].overdue && b.states[v].key <= b.states[i].key && b.compareArrivals(v, i) < 0
}

// couldRun reports whether job i runs, or could if there were room: no constraint, reservation or quota keeps it from
// that. A job that could not run is not made overdue: it would only use up the part of the GPUs for which overdue jobs
// go first. The answer for waiting jobs is found once a round for each class.
func couldRun(b *board, i int) bool {
	if b.jobs[i].Running != nil {
		return true
	}
	k := b.states[i].class
	if k.couldRound != b.round {
		k.couldRound, k.couldRunNow = b.round, false
		if len(k.gangShapes) > 0 {
			_, k.couldRunNow = anyServerFor(b, k)
		}
	}
	return k.couldRunNow
}
