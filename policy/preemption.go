package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// preemptionPlan is what must happen on one server so that a job fits there: some jobs give back what they hold beyond
// their share (shrinks), others leave (victims). Nothing happens before carryOutPreemption.
type preemptionPlan struct {
	server       int      // the number of the server
	shrinks      []shrink // jobs that restart there with a smaller size
	victims      []int    // jobs that leave the server
	earliestRank int      // the earliest rank among the victims, the later the better; math.MaxInt: none leaves
	cost         float64  // of the restarts, in GPU-seconds at the proportional speed
}

// shrink is a running job and the smaller size that it is restarted with.
type shrink struct {
	job   int                // the number of the job
	to    sensitivity.Option // its new size
	freed gres.Vector        // of what is missing, the part that it gives back
	loss  float64            // relative to what is missing, in GPU-seconds at the proportional speed
}

// makeRoom places job i in shape w by disturbing running jobs: first by calling back what others hold beyond their
// share, since that costs no job its place, and only then by stopping jobs that come later in the order. It reports
// whether it did. If not, b.limit says what forbade it, for the reason that the job is told; it is unchanged if no
// server would have had room either way.
func makeRoom(b *board, i int, w gangShape) bool {
	eligible := b.states[i].class.eligible.servers
	if b.stops <= 0 {
		if b.byReclaimableGPUs.reachesLevel(w.gpus, eligible) {
			b.limit = byRule
		}
		return false
	}
	b.plans = addGiveBackPlans(b, b.plans[:0], i, w)
	if clearAndPlace(b, i, w, b.plans) {
		return true
	}
	if !b.byReclaimableGPUs.reachesLevel(w.gpus, eligible) {
		return false
	}
	b.plans = addLeavePlans(b, b.plans, i, w)
	return clearAndPlace(b, i, w, b.plans)
}

// addGiveBackPlans adds plans for servers with enough free GPUs for one node of the gang, on which no job has to leave:
// there cores or memory alone are missing, and other jobs give them back.
func addGiveBackPlans(b *board, all []preemptionPlan, i int, w gangShape) []preemptionPlan {
	k := b.states[i].class
	b.byFreeGPUs.visitFrom(w.gpus, k.eligible.servers, func(n int) bool {
		if keptFrom(b, i, n) {
			return true
		}
		if plan, can := planPreemption(b, i, n, w, 0); can {
			all = append(all, plan)
		}
		return len(all) < max(maxCompared, 4*w.nodes) // a gang needs w.nodes of one model
	})
	return all
}

// maxVictimPlans bounds how many servers are compared on which jobs would have to leave, so that a search stays short.
// The servers of the last jobs in the order come first.
const maxVictimPlans = 16

// addLeavePlans adds plans for servers that jobs have to leave, beginning with the last jobs in the order. A plan by
// which no job leaves is skipped: addGiveBackPlans has added it already, unless it had enough of them.
func addLeavePlans(b *board, all []preemptionPlan, i int, w gangShape) []preemptionPlan {
	k, most := b.states[i].class, len(all)+max(maxVictimPlans, 4*w.nodes)
	visitLastFirst(b, i, func(n int) bool {
		if !k.eligible.servers.has(n) || b.servers[n].Closed != "" || keptFrom(b, i, n) ||
			b.servers[n].free.GPUs < w.gpus {
			return true
		}
		if plan, can := planPreemption(b, i, n, w, math.MaxInt); can && len(plan.victims) > 0 {
			all = append(all, plan)
		}
		return len(all) < most
	})
	return all
}

// visitLastFirst calls visit with the servers of the running jobs that come after job i in the order and may be
// displaced, those of the last job first, each server once, until visit returns false. The policy wants the last jobs
// stopped first. As a side effect preemptibleEnd is moved before jobs that are preemptible no more, which the next call
// then skips.
func visitLastFirst(b *board, i int, visit func(n int) bool) {
	for b.preemptibleEnd > 0 && b.states[b.order[b.preemptibleEnd-1]].status != statusPreemptible {
		b.preemptibleEnd--
	}
	seen := b.visitedServers
	clear(seen)
	for at := b.preemptibleEnd - 1; at > b.rank[i]; at-- {
		s := &b.states[b.order[at]]
		if s.status != statusPreemptible {
			continue
		}
		for _, n := range s.servers {
			if seen.has(n) {
				continue
			}
			seen.add(n)
			if !visit(n) {
				return
			}
		}
	}
}

// clearAndPlace makes room for job i by the plans for w.nodes servers of one model and places it there, if the rules
// allow the stops and the place is worth the restarts; it reports whether it did. It takes the servers where the jobs
// that leave are last in the order, or, if that costs too much, where it costs least. As a side effect it sorts plans.
func clearAndPlace(b *board, i int, w gangShape, plans []preemptionPlan) bool {
	for _, order := range []func(x, y preemptionPlan) int{lateFirst, cheapFirst} {
		slices.SortStableFunc(plans, order)
		chosen := pickOneModel(b, plans, w.nodes)
		if chosen == nil {
			return false
		}
		if worthStopping(b, chosen, placeWorth(b, i), b.stops) {
			carryOutAndPlace(b, i, w, chosen)
			return true
		}
	}
	return false
}

// lateFirst puts first the plans that stop only jobs late in the order; of equal ones the cheaper.
func lateFirst(x, y preemptionPlan) int {
	return cmp.Or(cmp.Compare(y.earliestRank, x.earliestRank), cheapFirst(x, y))
}

// cheapFirst puts first the plans that cost least; of equal ones that of the first server by name.
func cheapFirst(x, y preemptionPlan) int {
	return cmp.Or(cmp.Compare(x.cost, y.cost), cmp.Compare(x.server, y.server))
}

// carryOutAndPlace carries out a plan for each of the servers and places job i there with its least size. It marks the
// job as cleared: other jobs were stopped for exactly this place.
func carryOutAndPlace(b *board, i int, w gangShape, plans []preemptionPlan) {
	servers := make([]int, 0, len(plans))
	for k := range plans {
		carryOutPreemption(b, &plans[k], b.jobs[i].ID)
		servers = append(servers, plans[k].server)
	}
	slices.Sort(servers)
	b.placeOn(i, servers, leastSize(b, i, w, servers[0]))
	b.states[i].onClearedPlace = true
}

// pickOneModel takes plans for so many servers of one model, in the order given, that do not contradict each other; nil
// if there are too few. A gang has one size on all its nodes, so these must be equal.
func pickOneModel(b *board, all []preemptionPlan, nodes int) []preemptionPlan {
	for _, first := range all {
		var chosen []preemptionPlan
		for k := range all {
			if b.servers[all[k].server].model == b.servers[first.server].model && !overlap(chosen, &all[k]) {
				chosen = append(chosen, all[k])
			}
			if len(chosen) == nodes {
				return chosen
			}
		}
	}
	return nil
}

// overlap reports whether plan p contradicts one that is chosen already. Two plans on different servers may disagree
// about a gang that runs on both: one has it leave and the other shrink, or they give it two sizes of which neither
// fits in the other.
func overlap(chosen []preemptionPlan, p *preemptionPlan) bool {
	return slices.ContainsFunc(chosen, func(c preemptionPlan) bool { return contradicts(&c, p) || contradicts(p, &c) })
}

// contradicts reports that a job which shrinks by c leaves by p, or shrinks by both to sizes of which neither fits in
// the other. If one fits, the smaller size serves both plans.
func contradicts(c, p *preemptionPlan) bool {
	for _, s := range c.shrinks {
		if slices.Contains(p.victims, s.job) {
			return true
		}
		for _, t := range p.shrinks {
			if t.job == s.job && !t.to.Size.Fits(s.to.Size) && !s.to.Size.Fits(t.to.Size) {
				return true
			}
		}
	}
	return false
}

// planPreemption plans how job i could fit on server n as one node of shape w with at most so many jobs leaving, the
// last in the order first; false if it cannot. Before each further job that leaves it tries whether those that stay can
// give back enough cores and memory, since that stops fewer.
func planPreemption(b *board, i, n int, w gangShape, most int) (preemptionPlan, bool) {
	sv := &b.servers[n]
	plan := preemptionPlan{server: n}
	if tooFewOfModel(b, w, n) {
		return plan, false
	}
	need := leastSize(b, i, w, n).Size
	// Job i starts only when the others have saved and left, about a round from now.
	if k := b.states[i].class; k.isReservedSoon(n) || !affords(b, k, w.nodes, need) {
		return plan, false
	}
	left := sv.available()
	for !need.Fits(left) {
		if need.GPUs <= left.GPUs && addGiveBackBy(b, giveBackSources(b, &plan), &plan, need.Minus(left), i) {
			break
		}
		v := nextToLeave(b, sv, plan.victims, i)
		if v < 0 || len(plan.victims) >= most {
			return plan, false
		}
		plan.victims = append(plan.victims, v)
		left = left.Plus(b.states[v].size)
	}
	spareFromPlan(b, &plan, need, left)
	costPlan(b, &plan)
	return plan, true
}

// spareFromPlan takes jobs off the plan that need not leave after all, the earliest in the order first. There are some
// where a job that was chosen later frees so much that an earlier choice is superfluous. left is what is free once all
// victims have left.
func spareFromPlan(b *board, plan *preemptionPlan, need, left gres.Vector) {
	for _, s := range plan.shrinks {
		left = left.Plus(s.freed)
	}
	for k := len(plan.victims) - 1; k >= 0; k-- {
		if without := left.Minus(b.states[plan.victims[k]].size); need.Fits(without) {
			left = without
			plan.victims = slices.Delete(plan.victims, k, k+1)
		}
	}
}

// costPlan computes what the restarts of the plan cost and the earliest rank among the jobs that leave, by which plans
// are compared.
func costPlan(b *board, plan *preemptionPlan) {
	plan.earliestRank = math.MaxInt
	for _, v := range plan.victims {
		plan.earliestRank = min(plan.earliestRank, b.rank[v])
		plan.cost += b.restartCost(v)
	}
	for _, s := range plan.shrinks {
		plan.cost += b.restartCost(s.job)
	}
}

// nextToLeave is the last job in the order, of those on the server that may be displaced for job i and are not gone
// yet; -1 if there is none. Jobs that go before job i however long it waits (precedes) are not displaced.
func nextToLeave(b *board, sv *server, gone []int, i int) int {
	last := -1
	for _, v := range sv.jobs {
		if b.states[v].status != statusPreemptible || slices.Contains(gone, v) || b.precedes(v, i) {
			continue
		}
		if last < 0 || b.rank[v] > b.rank[last] {
			last = v
		}
	}
	return last
}

// addGiveBack adds to the plan jobs on its server that shrink until what is missing for job i is free, those first that
// lose least for what they give. It reports whether they can free it.
func addGiveBack(b *board, plan *preemptionPlan, missing gres.Vector, i int) bool {
	return addGiveBackBy(b, b.servers[plan.server].jobs, plan, missing, i)
}

// addGiveBackBy adds to the plan shrinks of the given jobs until what is missing for job i is free, those first that
// lose least for what they give. It reports whether they can free it; if not, the plan is left without shrinks. Only
// cores and memory can be given back.
func addGiveBackBy(b *board, jobs []int, plan *preemptionPlan, missing gres.Vector, i int) bool {
	able := listShrinks(b, jobs, plan, missing, i)
	left := missing
	for k := range able {
		s := shrinkOf(b, able[k].job, left, i)
		if s.freed.Max(gres.Vector{}) == (gres.Vector{}) {
			continue // others have freed what it could
		}
		plan.shrinks, left = append(plan.shrinks, s), left.Minus(s.freed)
		if covered(left) {
			return true
		}
	}
	plan.shrinks = plan.shrinks[:0]
	return false
}

// giveBackSources are the jobs that may give back for the plan. If no job has to leave, GPUs are free for the waiting
// job and would idle for want of cores or memory; so runs that the rules protect give back loans, too (borrowersOn).
// They do not on kept nodes that are emptied over several rounds, where the job does not start in this one.
func giveBackSources(b *board, plan *preemptionPlan) []int {
	clearedLater := b.keptNodes != nil && b.keptNodes.closed && b.keptNodes.servers.has(plan.server)
	if len(plan.victims) == 0 && !clearedLater {
		return borrowersOn(b, plan.server)
	}
	return b.servers[plan.server].jobs
}

// listShrinks lists which of the jobs may be asked to shrink for job i, and how far each can, least loss first relative
// to what it frees. If job i would only be faster than it is owed, a job shrinks only if its size is free to choose or
// its last restart has paid off (sizeIsFree). The list is in reused memory (b.shrinkList), valid until the next call.
func listShrinks(b *board, jobs []int, plan *preemptionPlan, missing gres.Vector, i int) []shrink {
	able := b.shrinkList[:0]
	for _, v := range jobs {
		if v == i || slices.Contains(plan.victims, v) {
			continue
		}
		if !sizeIsFree(b, v) && !needsOwedRoom(b, i) {
			continue
		}
		if s := shrinkOf(b, v, missing, i); s.freed.Max(gres.Vector{}) != (gres.Vector{}) && resizable(b, v) {
			s.loss = -netOver(b, v, s.to.Gain, b.c.Rules.horizon()) / amountWeight(s.freed.Max(gres.Vector{}), missing)
			able = append(able, s)
		}
	}
	slices.SortFunc(
		able,
		func(x, y shrink) int { return cmp.Or(cmp.Compare(x.loss, y.loss), cmp.Compare(x.job, y.job)) },
	)
	b.shrinkList = able
	return able
}

// needsOwedRoom reports that job i needs room for what it is owed: it waits, runs below its proportional speed, or has
// to go back to its share. An unmanaged job always does. For such a job other jobs give back loans even if they
// restarted lately; false means that the job would only be faster still.
func needsOwedRoom(b *board, i int) bool {
	return i == unmanagedJob || b.states[i].status == statusWaiting || b.states[i].gain < 1 || b.jobs[i].Owed
}

// covered reports that neither cores nor memory are missing.
func covered(missing gres.Vector) bool { return missing.CPUs <= 0 && missing.Memory <= 0 }

// shrinkOf is the largest size of running job v that frees what is missing for job i, or else the one that frees most
// of it; freed is zero if none frees anything. A job that restarts to be faster (growing) may end up slower than it was
// before the round if job i waits for a place, but not if job i is only to grow.
func shrinkOf(b *board, v int, missing gres.Vector, i int) shrink {
	s := &b.states[v]
	slowest := 0.0
	if s.growing() && i != unmanagedJob && b.states[i].status != statusWaiting {
		slowest = s.speedBefore
	}
	best := shrink{job: v}
	sizes := b.alloc.sizes(s.menu)
	for k := len(sizes) - 1; k >= 0; k-- {
		less := s.size.Minus(sizes[k].Size)
		if less.CPUs < 0 || less.Memory < 0 && !memoryRoundsUp(b, v, less) || sizes[k].Gain*s.menu.unit < slowest {
			continue
		}
		freed := gres.Vector{CPUs: min(less.CPUs, max(missing.CPUs, 0)),
			Memory: min(less.Memory, max(missing.Memory, 0))}
		if freed.CPUs >= best.freed.CPUs && max(freed.Memory, 0) >= max(best.freed.Memory, 0) &&
			freed.Max(gres.Vector{}) != best.freed.Max(gres.Vector{}) {
			best.to, best.freed = sizes[k], freed // no less of either, and more of one
		}
		if covered(missing.Minus(best.freed)) {
			break // a smaller one frees no more of it
		}
	}
	return best
}

// memoryRoundsUp reports that the memory of running job v grows by rounding alone when its cores shrink, and that its
// servers have room for that. less is what the size gives back, with negative memory. Such a size may still be taken: a
// job whose memory is given by the core has whole MiB for each, so 12 cores of 20,833 MiB are more than 18 of 13,888.
func memoryRoundsUp(b *board, v int, less gres.Vector) bool {
	s := &b.states[v]
	return b.jobs[v].PerCore && int(-less.Memory) < s.size.CPUs &&
		!slices.ContainsFunc(s.servers, func(n int) bool { return b.servers[n].available().Memory < -less.Memory })
}

// mostGivenBack is an upper bound on what the jobs on server n could give back: what each has beyond the least cores
// and the least memory on its menu. If more than that is missing for a trade, no search for the jobs to give it is
// needed (bestTrade).
func mostGivenBack(b *board, n int) gres.Vector {
	var sum gres.Vector
	for _, v := range b.servers[n].jobs {
		s := &b.states[v]
		least := s.size
		for _, o := range b.alloc.sizes(s.menu) {
			least = atMost(least, o.Size)
		}
		sum = sum.Plus(s.size.Minus(least))
	}
	return sum
}

// resizable reports whether job i may be restarted where it is with another size: it saves, it could be started there
// today, its quotas are not overdrawn, and all its nodes are of one model. On a server where more is held than it has
// it may not either: Check would take a changed grant there for one that gives away too much.
func resizable(b *board, i int) bool {
	j, s := b.jobs[i], &b.states[i]
	if !restartable(b, i) || j.Barred != "" || !affordsMore(b, i, gres.Vector{}) ||
		s.size.GPUs*len(s.servers) != j.GPUs ||
		j.Nodes > 0 && len(s.servers) != j.Nodes {
		return false
	}
	for _, n := range s.servers {
		sv := &b.servers[n]
		if sv.Closed != "" || s.class.isReservedNow(n) || sv.model != b.servers[s.servers[0]].model ||
			!s.class.eligible.servers.has(n) ||
			!(gres.Vector{}).Fits(sv.available()) {
			return false
		}
	}
	return true
}

// restartable reports whether job i could be restarted with another size without losing progress: a running job if it
// saves, one that the plan starts only now if it can be asked to give back later.
func restartable(b *board, i int) bool {
	if s := &b.states[i]; s.status == statusStarting {
		return s.class.canGiveBack
	}
	return b.jobs[i].Saves
}

// worthStopping reports whether the plans stop no more than stops jobs and their restarts cost no more than due, in
// GPU-seconds at the proportional speed. If not, b.limit says which of the two was exceeded, for the reason that the
// waiting job is told. A job that has been stopped already counts for neither. What a job holds beyond its share is a
// loan, so the speed that it loses does not count.
func worthStopping(b *board, plans []preemptionPlan, due float64, stops int) bool {
	cost := 0.0
	var stopped []int
	count := func(v int) {
		if !slices.Contains(stopped, v) && !b.states[v].stopped {
			stopped = append(stopped, v)
			cost += b.restartCost(v)
		}
	}
	for k := range plans {
		for _, v := range plans[k].victims {
			count(v)
		}
		for _, s := range plans[k].shrinks {
			count(s.job)
		}
	}
	switch {
	case len(stopped) > stops:
		b.limit = byRule
	case cost > due:
		b.limit = byCost
	default:
		return true
	}
	return false
}

// carryOutPreemption stops and shrinks the jobs of a plan, for the job with an ID, which their owners are told. Jobs of
// other plans may have left or shrunk already; these are not touched again.
func carryOutPreemption(b *board, p *preemptionPlan, id int) {
	for _, v := range p.victims {
		b.stop(v, GivesWay, fmt.Sprintf("gives way to job %d", id))
		b.takeOff(v) // does nothing if a gang has left with another server already
	}
	for _, s := range p.shrinks {
		st := b.states[s.job].status
		if b.states[s.job].size.Fits(s.to.Size) {
			continue // a gang has shrunk enough for another server
		}
		// It keeps its status: a job whose turn has not come may still be asked to leave.
		if st != statusStarting {
			b.stop(s.job, Shrinks, shrinkText(b, s, id))
		}
		b.setSize(s.job, st, s.to)
	}
}

// shrinkText says, as the reason of its decision, why a job shrinks for the job with an ID.
func shrinkText(b *board, s shrink, id int) string {
	if s.to.Gain >= b.states[s.job].gain {
		return fmt.Sprintf("gives what makes it no faster to job %d", id)
	}
	return fmt.Sprintf("gives back what it held beyond its share, for job %d", id)
}

// shrinkToShare restarts running job i with exactly its proportional share where it is, see Job.Owed: its profile has
// proved wrong, so it is unknown what another size does to it. Mostly it shrinks. Where it holds less than its share it
// grows, by what is free or by what other jobs give back. The share is in whole cores for each task and within the
// job's terms (menu.owed, a list of one).
//
// No cost of other jobs' restarts is too high for that (math.Inf), since the share is promised to job i, and they give
// back loans. The rules still count: one of the stops left in this round is for job i itself, the others may be theirs.
// Where they do not suffice, nothing changes in this round.
func shrinkToShare(b *board, i int) {
	s := &b.states[i]
	to := s.menu.owed[0]
	if s.size == to.Size || b.stops <= 0 || !resizable(b, i) || !affordsMore(b, i, to.Size.Minus(s.size)) {
		return
	}
	plans, can := planResize(b, i, to.Size)
	if !can || !worthStopping(b, plans, math.Inf(1), b.stops-1) {
		return
	}
	for k := range plans {
		carryOutPreemption(b, &plans[k], b.jobs[i].ID)
	}
	b.stop(i, Shrinks, "goes back to its proportional share, since its speed contradicts its profile")
	b.setSize(i, statusStarting, to)
}

// planResize plans, on each server of running job i, how the job gets to a size there from what is free or was lent, so
// that no job leaves for that; false if it cannot. A plan that is free of shrinks means that there is room already.
func planResize(b *board, i int, to gres.Vector) (plans []preemptionPlan, can bool) {
	s := &b.states[i]
	for _, n := range s.servers {
		plan := preemptionPlan{server: n}
		missing := to.Minus(s.size).Minus(b.servers[n].available())
		if !covered(missing) && !addGiveBack(b, &plan, missing, i) || overlap(plans, &plan) {
			return nil, false
		}
		costPlan(b, &plan)
		plans = append(plans, plan)
	}
	return plans, true
}

// raiseToOwed raises running job i, if it is slower than with its proportional share (gain below 1), to the least size
// that is no slower, from what is free or was lent. It does so only if what the job gains until it ends, or within
// rules.horizon, exceeds the cost of its own restart (net > 0) and those of others. As in shrinkToShare one stop is for
// job i itself.
func raiseToOwed(b *board, i int) {
	s := &b.states[i]
	if s.gain >= 1 || b.stops <= 0 || !resizable(b, i) {
		return
	}
	to := b.alloc.sizes(s.menu)[0]
	plans, can := planResize(b, i, to.Size)
	if net := netOver(b, i, to.Gain, timeUntilEnd(b, i, b.c.Rules.horizon())); !can ||
		!affordsMore(b, i, to.Size.Minus(s.size)) || net <= 0 || !worthStopping(b, plans, net, b.stops-1) {
		return
	}
	for k := range plans {
		carryOutPreemption(b, &plans[k], b.jobs[i].ID)
	}
	resize(b, i, to)
}
