package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// comesBefore reports that an unmanaged job is considered before managed job j, as in Slurm's queue: the larger
// priority first, then the smaller ID. Room is kept for it before job j has its turn.
func (u *Unmanaged) comesBefore(j *Job) bool {
	if u.Priority != j.Priority {
		return u.Priority > j.Priority
	}
	return u.ID < j.ID
}

// Loans are called back here for unmanaged jobs. What a job holds beyond what keeps its proportional speed is a loan,
// and it is protected only if the job cannot be stopped at all: neither rules.min_run nor the cost of its last restart
// protects it. No job leaves, and no job falls below its proportional speed.

// unmanagedJob stands in for the number of a job where room is made for an unmanaged job, which is not in the snapshot.
const unmanagedJob = -1

// serveUnmanagedBefore makes and keeps room for the unmanaged jobs, from number next on, that are considered before job
// i, if that waits and may start. A running or barred job takes no free GPU, so they need not come before it. It
// returns the number of the first unmanaged job that has not had its turn.
func serveUnmanagedBefore(b *board, i, next int) int {
	if b.states[i].status != statusWaiting || b.jobs[i].Barred != "" {
		return next
	}
	for next < len(b.c.Unmanaged) && b.c.Unmanaged[next].comesBefore(b.jobs[i]) {
		serveUnmanaged(b, &b.c.Unmanaged[next])
		next++
	}
	return next
}

// serveUnmanagedRest makes and keeps room for the unmanaged jobs from number next on, which come after all waiting
// managed jobs.
func serveUnmanagedRest(b *board, next int) {
	for ; next < len(b.c.Unmanaged); next++ {
		serveUnmanaged(b, &b.c.Unmanaged[next])
	}
}

// serveUnmanaged keeps room for an unmanaged job, so that no job of the plan takes it and Slurm can start the job
// there. It takes servers with room, or else servers that have room once loans are called back, those first where that
// costs least. A job that needs more than that has to wait for others to end: nothing is kept for it.
func serveUnmanaged(b *board, u *Unmanaged) {
	var roomy []int
	var plans []preemptionPlan
	for _, n := range b.serversOf(u.On) {
		sv := &b.servers[n]
		if sv.Closed != "" || len(roomy) >= u.Nodes {
			continue
		}
		missing := u.PerNode.Minus(sv.available())
		if missing.GPUs > 0 {
			continue // loans have no GPUs
		}
		plan := preemptionPlan{server: n}
		switch {
		case covered(missing):
			roomy = append(roomy, n)
		case b.stops > 0 && planCallBack(b, &plan, missing, u):
			plan.shrinks = slices.Clone(plan.shrinks)
			costPlan(b, &plan)
			plans = append(plans, plan)
		}
	}
	slices.SortStableFunc(plans, cheapFirst)
	chosen, short := []preemptionPlan(nil), u.Nodes-len(roomy)
	for k := 0; k < len(plans) && len(chosen) < short; k++ {
		if !overlap(chosen, &plans[k]) {
			chosen = append(chosen, plans[k])
		}
	}
	// What restarts cost does not matter here, since only loans are called back; the number of stops does.
	if len(chosen) < short || !worthStopping(b, chosen, math.Inf(1), b.stops) {
		return
	}
	for k := range chosen {
		carryOutPreemption(b, &chosen[k], u.ID)
		roomy = append(roomy, chosen[k].server)
	}
	b.calledBackGPUs += len(chosen) * max(1, u.PerNode.GPUs)
	for _, n := range roomy {
		withhold(b, n, u.PerNode)
	}
}

// expectedUnmanaged is how many GPUs unmanaged jobs may ask for next: as many as they were started on within the last
// rules.horizon, and those for which this round calls loans back.
func expectedUnmanaged(b *board) int { return b.c.UnmanagedGPUs + b.calledBackGPUs }

// planCallBack adds to the plan that jobs on its server give back what unmanaged job u lacks there, and reports whether
// they can. If they can, they also give back the share of the next GPUs, as far as they have it: of as many as
// unmanaged jobs are expected to ask for and do not find free with their share. Otherwise each such job would have the
// same jobs restarted again.
func planCallBack(b *board, plan *preemptionPlan, missing gres.Vector, u *Unmanaged) bool {
	sv := &b.servers[plan.server]
	withShare := b.idle - b.stranded
	next := expectedUnmanaged(b) + max(1, u.PerNode.GPUs) - withShare
	for next = max(0, min(next, sv.available().GPUs-u.PerNode.GPUs)); next >= 0; next-- {
		if addGiveBackBy(b, borrowersOn(b, plan.server), plan, missing.Plus(sv.share.Times(next)), unmanagedJob) {
			return true
		}
	}
	return false
}

// keepShares withholds from the plan free GPUs with their share, as many as unmanaged jobs are expected to ask for,
// first on the servers with the fewest jobs. If these shares were lent, an unmanaged job would have to wait until their
// borrowers have saved.
func keepShares(b *board) {
	left := expectedUnmanaged(b)
	if left == 0 {
		return
	}
	fewestJobs := slices.Clone(b.singleServers)
	slices.SortStableFunc(fewestJobs, func(x, y int) int {
		return cmp.Compare(len(b.servers[x].jobs), len(b.servers[y].jobs))
	})
	for _, n := range fewestJobs {
		sv := &b.servers[n]
		if keep := min(left, sv.idle-sv.strandedPart); keep > 0 {
			withhold(b, n, sv.share.Times(keep))
			left -= keep
		}
	}
}

// withhold keeps an amount of server n, which is free, from the jobs of the plan.
func withhold(b *board, n int, amount gres.Vector) {
	sv := &b.servers[n]
	sv.free, sv.withheld = sv.free.Minus(amount), sv.withheld.Plus(amount)
	b.updateSums(sv)
	b.reindex(n)
	b.noteDisturbed(n)
}

// isCallable reports that running job j may be asked for what it was lent although it may not be stopped in this round:
// nothing protects it but rules.min_run, the cost of its last restart, or Job.Stays.
func (j *Job) isCallable(c *Cluster) bool {
	return !j.Fixed && j.Saves && c.Rules.allowAfter(j.Restarts) && !j.aboutToEnd(c)
}

// listBorrower lists running job i, which is fixed, on its servers among the jobs that can be asked for what they were
// lent (borrowersOn).
func listBorrower(b *board, i int) {
	for _, n := range b.states[i].servers {
		b.servers[n].borrowers = append(b.servers[n].borrowers, i)
	}
}

// callableAmount is the most that the jobs on server n would give back if each that may be restarted went down to its
// least size. A waiting job is told only what it lacks beyond that, since loans would be called back for it.
func callableAmount(b *board, n int) gres.Vector {
	var sum gres.Vector
	for _, v := range borrowersOn(b, n) {
		s := &b.states[v]
		if least := b.alloc.sizes(s.menu)[0].Size; resizable(b, v) {
			sum = sum.Plus(s.size.Minus(least).Max(gres.Vector{}))
		}
	}
	return sum
}

// borrowersOn are the jobs on server n that can be asked for what they were lent, ascending. Other than server.jobs,
// they include fixed jobs (isCallable): a job that is owed GPUs that idle may call their loans back, too. The list may
// be in reused memory, valid until the next call.
func borrowersOn(b *board, n int) []int {
	sv := &b.servers[n]
	if len(sv.borrowers) == 0 {
		return sv.jobs
	}
	b.borrowerList = append(append(b.borrowerList[:0], sv.jobs...), sv.borrowers...)
	slices.SortFunc(b.borrowerList, cmp.Compare[int])
	return b.borrowerList
}
