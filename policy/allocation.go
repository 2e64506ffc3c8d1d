package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Decide plans one round (Synergy, OSDI'22, §4). In the policy's order every job gets a place if there is one; running
// jobs stay where they are unless an earlier-ranked job needs the room; the allocator chooses the sizes. The plan has
// exactly one decision for every job, ascending in ID, and passes Check. The cluster is not changed.
func Decide(c Cluster, p Policy, a Allocator) Plan {
	return new(Planner).Decide(c, p, a)
}

// scheduleJob decides job i when its turn in the policy's order comes. A running job that no earlier one has displaced
// stays. It may be resized to what it is owed: to its proportional share if its profile has proved wrong
// (shrinkToShare), or to more if it is slower than with its share (raiseToOwed). A waiting job gets a place if there is
// one. Jobs that must not be touched (statusFixed) have no turn.
func scheduleJob(b *board, i int) {
	switch s := &b.states[i]; s.status {
	case statusPreemptible:
		b.keepRunning(i)
		if b.jobs[i].Owed {
			shrinkToShare(b, i)
			return
		}
		raiseToOwed(b, i)
	case statusWaiting:
		placeJob(b, i)
	}
}

// placeJob finds a place for waiting job i. If there is none and the job is the first in the order that has waited
// longer than rules.patience, nodes are kept for it and emptied over several rounds (clearKeptNodes), since other jobs
// would otherwise go on taking what becomes free there. A job that waits only for its quotas gets no nodes kept, since
// they would not help it. A job that may not start yet (Barred) is passed over.
func placeJob(b *board, i int) {
	if b.jobs[i].Barred != "" || findPlace(b, i) {
		return
	}
	if !keepNodes(b, i) {
		return
	}
	// To the job that nodes are kept for, a place is worth any restarts (placeWorth), so a second search may succeed
	// where the first one failed by cost. The job then needs no kept nodes. b.keptNodes stays, with an empty set of
	// servers, so that no other job gets nodes kept in this round.
	if b.states[i].limit == byCost && findPlace(b, i) {
		clear(b.keptNodes.servers)
		return
	}
	clearKeptNodes(b)
}

// denial records that the search for a place failed for one job of a class, which saves other jobs of the class a
// search of their own, as far as the record applies to them (see searchDenied).
type denial struct {
	freed int   // board.freedCount at that time: the record holds until something is freed
	limit limit // what kept the denied job from the place of others, for the reason that jobs are told
	// what the place was worth to the denied job; cost does not deny a job to which it is worth more
	denialWorth float64
	keptOff     bool    // the denied job had to keep off kept nodes, so it does not count for jobs that need not
	wasOverdue  bool    // the denied job was overdue and could not stop jobs that precede it
	key         float64 // policy key of the denied job; the smaller, the earlier
}

// searchDenied reports whether a search for a job of the same class has failed, nothing has been freed since, and a
// search for job i would fail for the same cause. The failure says nothing if the denied job had to keep off kept nodes
// and job i need not (keptOff). It says nothing either if the denied job was overdue and the policy key of job i is no
// larger: job i might stop jobs that the overdue one could not (precedes).
func searchDenied(b *board, i int) bool {
	d := &b.states[i].class.denial
	return d.freed == b.freedCount && (!d.keptOff || keptOffNodes(b, i)) &&
		(!d.wasOverdue || b.states[i].key > d.key)
}

// findPlace gives job i a place that is free or can be made free by preemption. If only its quotas are in the way,
// running jobs in the same quotas give back their loans instead. It reports whether job i has a place now. What
// prevented it is noted in the job's limit, for the reason that it is told, and in the denial of its class.
func findPlace(b *board, i int) bool {
	s := &b.states[i]
	if d := &s.class.denial; searchDenied(b, i) && (d.limit != byCost || placeWorth(b, i) <= d.denialWorth) {
		s.limit = d.limit
		return false
	}
	due := placeWorth(b, i)
	if p, _ := blockingQuota(b, s.class); p != nil {
		if slices.ContainsFunc(s.class.gangShapes, func(w gangShape) bool { return placeWithinQuota(b, i, w) }) {
			return true
		}
		s.limit, s.class.denial = byQuota, denial{b.freedCount, byQuota, due, false, s.overdue, s.key}
		return false
	}
	b.limit = noLimit
	for _, w := range s.class.gangShapes {
		if placeInFreeRoom(b, i, w) || makeRoom(b, i, w) {
			return true
		}
	}
	s.limit, s.class.denial = b.limit, denial{b.freedCount, b.limit, due, keptOffNodes(b, i), s.overdue, s.key}
	return false
}

// placeWorth is what a place is worth to waiting job i, in GPU-seconds at the proportional speed: its remaining time,
// at most rules.horizon, on its GPUs. Preemption for the job may cost no more than that in restarts. It is infinite for
// the job that nodes are kept for. A job that has exceeded its declared length counts as one of unknown length.
func placeWorth(b *board, i int) float64 {
	if b.keptNodes != nil && b.keptNodes.job == i {
		return math.Inf(1)
	}
	j, ahead := b.jobs[i], b.c.Rules.horizon()
	if left := remaining(j); left > 0 {
		ahead = min(ahead, left)
	}
	return worth(j, 1, ahead)
}

// placeInFreeRoom places job i, in shape w, where no job is disturbed and its quotas allow it. The fullest servers that
// have room are taken, so that empty servers stay empty. It reports whether there is room.
func placeInFreeRoom(b *board, i int, w gangShape) bool {
	k := b.states[i].class
	servers := serversWithRoom(b, i, w, func(size gres.Vector) bool { return affords(b, k, w.nodes, size) })
	if servers == nil {
		return false
	}
	b.placeOn(i, servers, leastSize(b, i, w, servers[0]))
	return true
}

// serversWithRoom finds as many servers of one model as shape w has nodes, with free room for the least size of job i;
// the fullest are taken, and listed by number. nil: there are too few. may says whether the quotas of the job allow
// that size: not every caller counts all of a quota (placeWithinQuota).
func serversWithRoom(b *board, i int, w gangShape, may func(size gres.Vector) bool) []int {
	k := b.states[i].class
	found := modelCollector{nodes: w.nodes}
	b.byFreeGPUs.visitFrom(w.gpus, k.eligible.servers, func(n int) bool {
		if tooFewOfModel(b, w, n) {
			return true
		}
		if least := leastSize(b, i, w, n).Size; !keptFrom(b, i, n) && least.Fits(b.servers[n].available()) &&
			may(least) {
			found.add(b.servers[n].model, n)
		}
		return found.servers == nil
	})
	slices.Sort(found.servers)
	return found.servers
}

// tooFewOfModel reports that there are fewer servers of the model of server n than the gang needs, so that the gang can
// never run on n: all its nodes must be equal, since Slurm knows one size per job.
func tooFewOfModel(b *board, w gangShape, n int) bool { return b.equals[b.servers[n].model] < w.nodes }

// modelCollector collects servers by model until there are enough of one model for a gang.
type modelCollector struct {
	nodes   int
	groups  map[int][]int // by model
	servers []int         // of one model, enough; nil until then
}

// add adds server n, which is of a model. Once there are enough servers of one model for the gang, g.servers lists
// them, and the caller adds no more.
func (g *modelCollector) add(model, n int) {
	if g.nodes == 1 {
		g.servers = []int{n}
		return
	}
	if g.groups == nil {
		g.groups = map[int][]int{}
	}
	if g.groups[model] = append(g.groups[model], n); len(g.groups[model]) == g.nodes {
		g.servers = g.groups[model]
	}
}

// reuseFreed gives out what has become free: first to stopped jobs that can go on after all, which saves their restart,
// then to waiting jobs. It reports whether any stopped job goes on.
func reuseFreed(b *board) bool {
	reprieved := undoStops(b)
	backfill(b)
	return reprieved
}

// undoStops lets stopped jobs go on unchanged where stopping them has become unnecessary, because others have left
// their place since or need less than was freed. It reports whether any job goes on. All are tried again after one goes
// on, since what that one had been given instead is free then.
//
// Left out are jobs that were stopped to grow or to move, since undoing that would only leave their new place idle, and
// jobs that go back to their share (Job.Owed), since their former size is what has to be corrected.
func undoStops(b *board) bool {
	slices.SortFunc(b.stopped, func(x, y int) int { return cmp.Compare(b.rank[x], b.rank[y]) })
	reprieved := false
	for again := true; again; {
		again = false
		for _, i := range b.stopped {
			s := &b.states[i]
			if s.stopped && s.answer.reason != Grows && s.answer.reason != Moves && !b.jobs[i].Owed &&
				resumeStopped(b, i) {
				again, reprieved = true, true
			}
		}
	}
	return reprieved
}

// resumeStopped puts stopped job i back to its former place and size if servers and quotas have room for that, and
// reports whether they had. Its stop is then given back to the round (stops). What it had been given instead is taken
// off first, and given back to it if there is no room.
func resumeStopped(b *board, i int) bool {
	j, now := b.jobs[i], b.states[i]
	b.vacate(i)
	if was := b.serversOf(j.Running.Nodes); b.allHave(was, j.Running.PerNode) &&
		(len(now.class.quotas) == 0 || quotasAllowReturn(b, i)) {
		s := &b.states[i]
		s.status, s.servers, s.size = statusKept, was, j.Running.PerNode
		if now.status == statusFixed { // it was only asked to give back a loan
			s.status = statusFixed
		}
		s.menu = b.menu(s.class, s.size.GPUs, was[0])
		s.gain = s.menu.gainOf(s.size)
		s.stopped, s.onClearedPlace, s.answer = false, false, nil
		b.occupy(i)
		b.stops++
		b.freedCount++ // the place or size that it had been given instead
		return true
	}
	b.occupy(i)
	return false
}

// allHave reports whether each of the servers has v free, without touching any job.
func (b *board) allHave(servers []int, v gres.Vector) bool {
	for _, n := range servers {
		if !v.Fits(b.servers[n].available()) {
			return false
		}
	}
	return true
}

// backfill places waiting jobs on what became free after their turn, without disturbing any job. It does nothing if
// nothing was freed since the last backfill. For a class that finds no room the denial is renewed. Its limit stays as
// it is: why the class may not preempt others is found only by findPlace.
func backfill(b *board) {
	if b.lastBackfill == b.freedCount {
		return
	}
	b.lastBackfill = b.freedCount
	for _, i := range b.order {
		s := &b.states[i]
		if s.status != statusWaiting || searchDenied(b, i) || b.jobs[i].Barred != "" {
			continue
		}
		if !slices.ContainsFunc(s.class.gangShapes, func(w gangShape) bool { return placeInFreeRoom(b, i, w) }) {
			s.class.denial.freed, s.class.denial.keptOff = b.freedCount, keptOffNodes(b, i)
		}
	}
}

// readPlan reads the plan off the board at the end of a round, one decision for every job in ascending ID.
func readPlan(b *board) Plan {
	decisions := make([]Decision, len(b.states))
	for i := range b.states {
		readDecision(b, i, &decisions[i])
	}
	return Plan{decisions}
}

// readDecision writes the decision of job i into d. A job that goes on as it was is granted the Placement of the
// snapshot itself, which Check recognises by its address, and has no reason.
func readDecision(b *board, i int, d *Decision) {
	s := &b.states[i]
	d.Job = b.ids[i]
	if s.answer != nil {
		d.Reason, d.Why = s.answer.reason, s.answer.why
	}
	if s.status == statusWaiting {
		return
	}
	j := b.jobs[i]
	switch {
	case (s.status == statusFixed || s.status == statusKept) && !s.stopped:
		d.Grant = j.Running
	default:
		d.Grant = &Placement{Nodes: serverNames(b, s.servers), PerNode: s.size}
	}
	d.Gain = s.gain
	if s.menu != nil {
		d.Fair = s.menu.fair
	}
	switch {
	case j.Running == nil:
		d.Reason, d.Why = Starts, otherGPUText(b, i)
	case d.Grant == j.Running || d.Grant.Equal(*j.Running): // stopped on the way, and got back what it had
		d.Grant, d.Reason, d.Why = j.Running, "", ""
	case d.Reason == Grows && s.speed() <= s.speedBefore*(1+gainTie): // a later pass took its gain away
		d.Reason, d.Why = Shrinks, "gives back what others are owed or gain more by"
	case d.Reason == Grows:
		d.Why = speedupText(b, i, *d.Grant)
	}
}

// serverNames lists the names of servers, in the same order.
func serverNames(b *board, servers []int) []string {
	names := make([]string, len(servers))
	for k, n := range servers {
		names[k] = b.servers[n].Name
	}
	return names
}
