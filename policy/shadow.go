package policy

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A job whose time limit ends before the nodes that are kept for another one can all have room may use them meanwhile,
// as Slurm's backfill lets it: the other one starts no later for that. The time by which it must have ended is the
// shadow time of EASY backfill (Lifka, JSSPP'95), of the one job that nodes are kept for. A job without time limit may
// end at any moment and is assumed to go on for rules.horizon: by so much the other one may start later.

// heldUntil is an amount that a job holds on a server until some time. Ending is the same for foreign jobs, in the
// snapshot.
type heldUntil struct {
	at   time.Time
	size gres.Vector
}

// shadowTimeOf is the earliest time at which all kept nodes could have room for their job: when the jobs that may be
// asked to leave have left, and enough of the others have reached their time limits. Other jobs may use the nodes until
// then.
func shadowTimeOf(b *board, r *keptNodes) time.Time {
	held, latest := heldOnKept(b, r), b.c.Now
	for _, n := range r.nodes {
		if at := roomTime(b, n, leastSize(b, r.job, r.shape, n).Size, held[n]); at.After(latest) {
			latest = at
		}
	}
	return latest
}

// heldOnKept lists, by server, what is held on the kept nodes by jobs that cannot be asked to leave for the job that
// they are kept for, and until when. The map is looked up by number only, so its order does not matter.
func heldOnKept(b *board, r *keptNodes) map[int][]heldUntil {
	held := map[int][]heldUntil{}
	for v := range b.states {
		s := &b.states[v]
		if s.status == statusWaiting || mayGiveWay(b, v, r.job) {
			continue
		}
		for _, n := range s.servers {
			if r.servers.has(n) {
				held[n] = append(held[n], heldUntil{endOf(b, v), s.size})
			}
		}
	}
	for _, n := range r.nodes {
		for _, e := range b.servers[n].ForeignEnds {
			held[n] = append(held[n], heldUntil{notBeforeNow(b, e.At), e.Size})
		}
	}
	return held
}

// mayGiveWay reports that running job v may be asked to leave for job i, now or in a later round: job i comes first in
// the order, and neither the rules nor v's own waiting (precedes) forbid it.
func mayGiveWay(b *board, v, i int) bool {
	return (b.states[v].status == statusPreemptible || stopsLater(b, v)) && b.rank[v] > b.rank[i] && !b.precedes(v, i)
}

// roomTime is the time at which server n could have room for need. held are the amounts that jobs hold there, each of
// which becomes free at its end. server.foreign contains the foreign jobs with a known end, which are in held, too, so
// they are added back first. Foreign jobs without one count as jobs without time limit (unlimitedEnd).
func roomTime(b *board, n int, need gres.Vector, held []heldUntil) time.Time {
	sv := &b.servers[n]
	left := sv.Total.Minus(sv.foreign)
	for _, e := range sv.ForeignEnds {
		left = left.Plus(e.Size)
	}
	for _, e := range held {
		left = left.Minus(e.size)
	}
	slices.SortStableFunc(held, func(x, y heldUntil) int { return x.at.Compare(y.at) })
	at := b.c.Now
	for _, e := range held {
		if need.Fits(left) {
			return at
		}
		left, at = left.Plus(e.size), e.at
	}
	if need.Fits(left) {
		return at
	}
	return unlimitedEnd(b)
}

// unlimitedEnd is when a job without time limit is assumed to end.
func unlimitedEnd(b *board) time.Time { return b.c.Now.Add(b.c.Rules.horizon()) }

// endOf is when the time limit of job v ends, which runs or starts now; not before now, should it have exceeded its
// limit.
func endOf(b *board, v int) time.Time {
	if b.jobs[v].TimeLimit == 0 {
		return unlimitedEnd(b)
	}
	return notBeforeNow(b, runBegan(b, v).Add(b.jobs[v].TimeLimit))
}

// notBeforeNow is a time, or now if that is later.
func notBeforeNow(b *board, at time.Time) time.Time {
	if at.Before(b.c.Now) {
		return b.c.Now
	}
	return at
}

// endsBeforeKept reports that job i, if it starts now, has ended by its time limit before the kept nodes can have room
// for their job, so it may use them. A job without time limit has not; false, too, if no nodes are kept.
func endsBeforeKept(b *board, i int) bool {
	j := b.jobs[i]
	return b.keptNodes != nil && j.TimeLimit > 0 && !b.c.Now.Add(j.TimeLimit).After(b.keptNodes.shadowTime)
}

// keptOffNodes reports that job i may not start on nodes that are kept for another one: it could not be asked to give
// way (or the policy would never let it), and may not have ended in time.
func keptOffNodes(b *board, i int) bool {
	return (!b.states[i].class.canGiveBack || staysForGood(b, i)) && !endsBeforeKept(b, i)
}
