package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// clearKeptNodes empties the nodes that are kept for a job, over as many rounds as the rules require. In each round as
// many jobs leave as may be stopped, and what they leave is closed to all other jobs until the job starts. Otherwise
// jobs that can be asked to leave would fill the nodes faster than a round may empty them, and a gang with more GPUs
// than rules.max_preemptions would never start.
//
// It begins when every job left on these nodes can be asked to leave: before that, GPUs would idle for as long as
// another job runs. The nodes that are nearest to being empty are chosen first, in each round anew, so the next round
// chooses again the nodes that one round has begun to clear.
func clearKeptNodes(b *board) {
	r := b.keptNodes
	if !keptNodesClearable(b) {
		return
	}
	r.closed = true
	for _, plan := range planPreemptions(b) {
		clearWithinRules(b, &plan)
	}
	for _, n := range r.nodes {
		withholdIdle(b, n)
	}
}

// keptNodesClearable reports whether each of the kept nodes could hold the least size of the job that they are kept for
// if all jobs left that may be asked to leave, now or in a later round. If not, clearing them now would only leave GPUs
// idle.
func keptNodesClearable(b *board) bool {
	r, stays := b.keptNodes, stayingOnKept(b)
	return !slices.ContainsFunc(r.nodes, func(n int) bool {
		return !leastSize(
			b,
			r.job,
			r.shape,
			n,
		).Size.Fits(
			b.servers[n].free.Plus(pinnedByServer(b)[n].stoppableLater).Minus(stays[n]),
		)
	})
}

// stayingOnKept is what is held on the kept nodes by jobs that could be asked to leave, but not for the job that the
// nodes are kept for, since they come before it (mayGiveWay); by server. The map is never ranged over, so its order
// cannot influence the plan.
func stayingOnKept(b *board) map[int]gres.Vector {
	r, stays := b.keptNodes, map[int]gres.Vector{}
	for v := range b.states {
		s := &b.states[v]
		if s.status != statusPreemptible && !stopsLater(b, v) || mayGiveWay(b, v, r.job) {
			continue
		}
		for _, n := range s.servers {
			if r.servers.has(n) {
				stays[n] = stays[n].Plus(s.size)
			}
		}
	}
	return stays
}

// stopsLater reports that running job v may not be stopped in this round, but may in a later one: it is protected only
// for a time, as by rules.min_run. What it holds can be counted on when nodes are cleared over several rounds. It is
// false for a job that could not be started again.
func stopsLater(b *board, v int) bool {
	s, j := &b.states[v], b.jobs[v]
	return s.status == statusFixed && (j.Saves || !j.Fixed) && b.c.Rules.allowAfter(j.Restarts) &&
		s.class.impossibleWhy == "" &&
		mayRestartLater(b, v, s.class)
}

// pinnedJobs describes the jobs on a server that cannot be displaced in this round.
type pinnedJobs struct {
	stoppableLater gres.Vector // held by those that may be asked in a later round: most have just started
	lastEnd        int64       // the last end of the others, see endOrder; 0: there are none
}

// pinnedByServer describes, for each server, the jobs that cannot be displaced in this round: apart from each other
// those that may be stopped in a later round (stopsLater) and the rest. By that kept nodes are chosen. It is computed
// when first used in a round.
func pinnedByServer(b *board) []pinnedJobs {
	if b.tenures.round == b.round {
		return b.tenures.of
	}
	b.tenures.round, b.tenures.of = b.round, resized(b.tenures.of, len(b.servers))
	clear(b.tenures.of)
	for i := range b.states {
		s := &b.states[i]
		if s.status == statusWaiting || s.status == statusPreemptible {
			continue
		}
		brief := stopsLater(b, i)
		for _, n := range s.servers {
			if t := &b.tenures.of[n]; brief {
				t.stoppableLater = t.stoppableLater.Plus(s.size)
			} else {
				t.lastEnd = max(t.lastEnd, endOrder(b, i))
			}
		}
	}
	return b.tenures.of
}

// endOrder orders jobs by when they are expected to end. For a job with a time limit it is its latest end in
// nanoseconds since the epoch. All jobs without one come behind these: they are put at never, and among them the
// earliest start comes first. Starts count in whole units of rules.patience, so that jobs which started at about the
// same time are equal and compareExpectedWaits goes on to the next criterion.
func endOrder(b *board, i int) int64 {
	const never = math.MaxInt64 / 2 // the other half is room for the starts
	if b.jobs[i].TimeLimit == 0 {
		return never + runBegan(b, i).UnixNano()/int64(b.c.Rules.patience())
	}
	return min(never, endOf(b, i).UnixNano())
}

// runBegan is when the run of job i began; now, if it starts in this round.
func runBegan(b *board, i int) time.Time {
	if b.states[i].status == statusStarting {
		return b.c.Now
	}
	return b.jobs[i].Started
}

// compareExpectedWaits orders servers x and y by how soon jobs that cannot be asked to leave are likely to free them
// for a part of a job in shape w. Servers where foreign jobs hold too many GPUs come last. Next come the servers whose
// last such job ends first by its time limit, or, if it has none, started first, in units of rules.patience, so that no
// server that has begun to empty is given up for one that began later. Among equals, those where such jobs hold the
// fewest GPUs come first, then those with most idle GPUs.
func compareExpectedWaits(b *board, w gangShape, x, y int) int {
	s, t, u, v := &b.servers[x], &b.servers[y], &pinnedByServer(b)[x], &pinnedByServer(b)[y]
	foreign := func(s *server) int { return max(0, s.foreign.GPUs+w.gpus-s.Total.GPUs) }
	return cmp.Or(
		cmp.Compare(foreign(s), foreign(t)),
		cmp.Compare(u.lastEnd, v.lastEnd),
		cmp.Compare(
			t.free.GPUs+v.stoppableLater.GPUs,
			s.free.GPUs+u.stoppableLater.GPUs,
		),
		cmp.Compare(t.available().GPUs, s.available().GPUs),
	)
}

// planPreemptions plans what has to happen on each of the kept nodes, as far as it can happen in this round; a node
// where it cannot has no plan. The plans with the fewest jobs come first, so that as many nodes as possible are cleared
// before the round may stop no more.
func planPreemptions(b *board) []preemptionPlan {
	var plans []preemptionPlan
	for _, n := range b.keptNodes.nodes {
		if plan, can := planPreemption(b, b.keptNodes.job, n, b.keptNodes.shape, len(b.servers[n].jobs)); can {
			plans = append(plans, plan)
		}
	}
	slices.SortStableFunc(plans, func(x, y preemptionPlan) int {
		return cmp.Compare(len(x.victims)+len(x.shrinks), len(y.victims)+len(y.shrinks))
	})
	return plans
}

// clearWithinRules carries out as much of a plan as the rules allow in this round, job by job; the next rounds go on
// with it.
func clearWithinRules(b *board, plan *preemptionPlan) {
	id := b.jobs[b.keptNodes.job].ID
	for _, v := range plan.victims {
		if b.stops > 0 && b.states[v].status == statusPreemptible { // a gang may have left with another server already
			carryOutPreemption(b, &preemptionPlan{server: plan.server, victims: []int{v}}, id)
		}
	}
	for _, s := range plan.shrinks {
		if b.stops > 0 && b.states[s.job].status != statusWaiting {
			carryOutPreemption(b, &preemptionPlan{server: plan.server, shrinks: []shrink{s}}, id)
		}
	}
}

// withholdIdle withholds from all other jobs what is idle on server n, as far as the job needs it that the server is
// kept for. How many GPUs that are is noted (keptNodes.idleGPUs), since waiting jobs are told so.
func withholdIdle(b *board, n int) {
	sv := &b.servers[n]
	idle := atMost(sv.available(), leastSize(b, b.keptNodes.job, b.keptNodes.shape, n).Size).Max(gres.Vector{})
	sv.free = sv.free.Minus(idle)
	b.keptNodes.idleGPUs += idle.GPUs
	if b.keptNodes.idle == nil {
		b.keptNodes.idle = map[int]int{}
	}
	b.keptNodes.idle[n] = idle.GPUs
	b.updateSums(sv)
	b.reindex(n)
	b.noteDisturbed(n)
}
