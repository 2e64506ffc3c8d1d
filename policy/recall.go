package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// before reports that an unmanaged job is considered before managed job j.
func (u *Unmanaged) before(j *Job) bool {
	if u.Priority != j.Priority {
		return u.Priority > j.Priority
	}
	return u.ID < j.ID
}

// Loans are called back here for unmanaged jobs. What a job holds beyond what keeps its proportional speed is a loan,
// and only a reason why the job cannot be stopped at all protects it: neither rules.min_run nor the cost of its last
// restart does. No job leaves, and no job falls below its proportional share.

// nobody stands for a job outside the snapshot for which a server is cleared.
const nobody = -1

// serveBefore makes and keeps room for the unmanaged jobs, from number next on, that are considered before waiting job
// i. It returns the number of the first that was not served.
func (b recall) serveBefore(i, next int) int {
	if b.seats[i].standing != waits || b.jobs[i].Barred != "" {
		return next
	}
	for next < len(b.c.Unmanaged) && b.c.Unmanaged[next].before(b.jobs[i]) {
		b.serve(&b.c.Unmanaged[next])
		next++
	}
	return next
}

// serveRest does the same for the unmanaged jobs that are left.
func (b recall) serveRest(next int) {
	for ; next < len(b.c.Unmanaged); next++ {
		b.serve(&b.c.Unmanaged[next])
	}
}

// serve keeps room for an unmanaged job where there is room, or else where there is once loans are called back, on the
// servers where that costs least. A job that needs more than that waits for others to end, and is not served.
func (b recall) serve(u *Unmanaged) {
	var roomy []int
	var plans []clearing
	for _, n := range b.serversOf(u.On) {
		sv := &b.servers[n]
		if sv.Closed != "" || len(roomy) >= u.Nodes {
			continue
		}
		missing := u.PerNode.Minus(sv.open())
		if missing.GPUs > 0 {
			continue
		}
		plan := clearing{server: n}
		switch {
		case covered(missing):
			roomy = append(roomy, n)
		case b.stops > 0 && b.callBack(&plan, missing, u):
			plan.shrinks = slices.Clone(plan.shrinks)
			b.weigh(&plan)
			plans = append(plans, plan)
		}
	}
	slices.SortStableFunc(plans, cheapFirst)
	chosen, short := []clearing(nil), u.Nodes-len(roomy)
	for k := 0; k < len(plans) && len(chosen) < short; k++ {
		if !overlap(chosen, &plans[k]) {
			chosen = append(chosen, plans[k])
		}
	}
	if len(chosen) < short || !b.affordable(chosen, math.Inf(1), b.stops) {
		return
	}
	for k := range chosen {
		b.carryOut(&chosen[k], u.ID)
		roomy = append(roomy, chosen[k].server)
	}
	b.called += len(chosen) * max(1, u.PerNode.GPUs)
	for _, n := range roomy {
		b.withhold(n, u.PerNode)
	}
}

// expected is how many GPUs unmanaged jobs may ask for next: as many as they were started on within the last
// rules.horizon, and those for which this round calls loans back.
func (b recall) expected() int { return b.c.UnmanagedGPUs + b.called }

// callBack plans that the jobs on a server give back what unmanaged job u lacks there. If they can, they also give back
// the share of the next GPUs that unmanaged jobs are expected to ask for and do not find free with their share:
// otherwise each such job would have the same jobs restarted again.
func (b recall) callBack(plan *clearing, missing gres.Vector, u *Unmanaged) bool {
	sv := &b.servers[plan.server]
	withShare := b.idle - b.stranded
	next := b.expected() + max(1, u.PerNode.GPUs) - withShare
	for next = max(0, min(next, sv.open().GPUs-u.PerNode.GPUs)); next >= 0; next-- {
		if b.giveBackFrom(b.lenders(plan.server), plan, missing.Plus(sv.share.Times(next)), nobody) {
			return true
		}
	}
	return false
}

// keepShares withholds free GPUs with their share from the plan, as many as unmanaged jobs are expected to ask for,
// first on the servers with the fewest jobs. If these shares were lent, an unmanaged job would wait for a checkpoint.
func (b recall) keepShares() {
	left := b.expected()
	if left == 0 {
		return
	}
	fewestJobs := slices.Clone(b.alone)
	slices.SortStableFunc(fewestJobs, func(x, y int) int {
		return cmp.Compare(len(b.servers[x].jobs), len(b.servers[y].jobs))
	})
	for _, n := range fewestJobs {
		sv := &b.servers[n]
		if keep := min(left, sv.idle-sv.lost); keep > 0 {
			b.withhold(n, sv.share.Times(keep))
			left -= keep
		}
	}
}

// withhold keeps an amount of server n from the jobs of the plan.
func (b recall) withhold(n int, amount gres.Vector) {
	sv := &b.servers[n]
	sv.free, sv.withheld = sv.free.Minus(amount), sv.withheld.Plus(amount)
	b.count(sv)
	b.reshelve(n)
	b.disturbed(n)
}

// callable reports that running job j may be asked for what it was lent although its run is protected: nothing keeps it
// from being stopped but rules.min_run, the cost of its last restart, or Job.Stays.
func (j *Job) callable(c *Cluster) bool {
	return !j.Fixed && j.Saves && c.Rules.allowAfter(j.Restarts) && !j.aboutToEnd(c)
}

// lend lists running job i, which is fixed, among the jobs that can be asked for what they were lent.
func (b layout) lend(i int) {
	for _, n := range b.seats[i].servers {
		b.servers[n].lenders = append(b.servers[n].lenders, i)
	}
}

// callableOn is the most that the jobs on server n would give back.
func (b preemption) callableOn(n int) gres.Vector {
	var sum gres.Vector
	for _, v := range b.lenders(n) {
		s := &b.seats[v]
		if least := b.alloc.sizes(s.menu)[0].Size; b.resizable(v) {
			sum = sum.Plus(s.size.Minus(least).Max(gres.Vector{}))
		}
	}
	return sum
}

// lenders are the jobs on server n that can be asked for what they were lent, ascending: fixed ones, too, for a job
// that is owed GPUs that idle.
func (b preemption) lenders(n int) []int {
	sv := &b.servers[n]
	if len(sv.lenders) == 0 {
		return sv.jobs
	}
	b.calls = append(append(b.calls[:0], sv.jobs...), sv.lenders...)
	slices.SortFunc(b.calls, cmp.Compare[int])
	return b.calls
}
