package backfill

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// stretch is a period and the nodes that are not reserved in it. A node that is reserved for a waiting job is excluded
// completely: Slurm, too, excludes it whatever part of it the job will use.
type stretch struct {
	from, to time.Duration
	nodes    nodeSet
}

// calendar is a sequence of adjacent stretches, from now to the end of the window.
type calendar []stretch

// backfill goes through the queue and gives each job the earliest start on nodes that are not reserved for a job before
// it. A job that can begin at once starts; for any other, nodes are reserved, so that no job behind it can delay it. It
// plans with time limits, since the scheduler does not know how long jobs will run. Jobs beyond bf_max_job_test wait
// without being tried.
func (c *controller) backfill() {
	c.backfillDue = c.now + c.Slurm.Interval
	c.changedSincePlan = false
	free := calendar{{c.now, c.now + c.Slurm.Window, allNodes(len(c.total))}}
	var waiting []*job
	for i, j := range c.queue {
		if i >= c.Slurm.Tested || !c.place(j, &free) {
			waiting = append(waiting, j)
		}
	}
	c.queue = waiting
}

// place starts the job or reserves nodes for it, and returns whether it started. It looks for an early start on the
// nodes that are unreserved for the whole time limit from begin on, and tries later values of begin until one will do.
// A job that cannot start within the window gets no reservation. A reservation is widened to whole steps of
// bf_resolution, as in Slurm, but never begins in the past.
func (c *controller) place(j *job, free *calendar) bool {
	for begin := c.now; begin < never; {
		nodes, next := free.nodesBetween(begin, begin+j.limit)
		at, on := c.earliest(j, nodes)
		at = max(at, begin)
		switch {
		case on == nil || next < at: // nodes reserved until next may allow an earlier start
			begin = next
			continue
		case at == c.now:
			c.start(j, on)
			return true
		case at > c.now+c.Slurm.Window:
			return false
		// The nodes are unreserved while a job that begins at begin runs. One that begins later runs into later
		// reservations.
		case free.isReserved(on, at, at+j.limit):
			begin = at
			continue
		}
		down := at / c.Slurm.Resolution * c.Slurm.Resolution
		up := (at + j.limit + c.Slurm.Resolution - 1) / c.Slurm.Resolution * c.Slurm.Resolution
		free.reserve(on, max(down, c.now), up)
		return false
	}
	return false
}

// earliest returns when the job could begin on some of these nodes, and on which of them, if all running jobs ended at
// their limits. That is now, or when a running job ends. If there is no room even when all have ended, it returns never
// and no nodes. Reservations are not considered; the caller checks them. A job that is COMPLETING may be past its
// limit, so a later beginning is at least a second from now.
//
// As in Slurm, running jobs that end close to each other are removed together before the job is tried again: those
// within 30 s of the first one, and at each further step within twice the time of the step before.
func (c *controller) earliest(j *job, nodes nodeSet) (time.Duration, []int) {
	if on := chooseNodes(j, c.free, nodes); on != nil {
		return c.now, on
	}
	free, left := slices.Clone(c.free), c.runningOn(nodes)
	for together := 30 * time.Second; len(left) > 0; together *= 2 {
		last := left[0]
		for until := left[0].limitEnd + together; len(left) > 0 && left[0].limitEnd <= until; left = left[1:] {
			last = left[0]
			addFree(free, last)
		}
		if on := chooseNodes(j, free, nodes); on != nil {
			return max(last.limitEnd, c.now+time.Second), on
		}
	}
	return never, nil
}

// runningOn returns the running jobs that hold at least one of the nodes, by ascending end of their limits: the order
// in which earliest expects them to end.
func (c *controller) runningOn(nodes nodeSet) []*job {
	var list []*job
	for _, j := range c.running {
		if slices.ContainsFunc(j.nodes, nodes.has) {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, func(a, b *job) int { return cmp.Compare(a.limitEnd, b.limitEnd) })
	return list
}

// addFree adds what a job holds to the free resources of its nodes.
func addFree(free []gres.Vector, j *job) {
	for _, n := range j.nodes {
		free[n] = free[n].Plus(j.PerNode)
	}
}

// nodesBetween returns the nodes that are not reserved at any time between from and to, or none if the period is beyond
// the window. next is when another answer is possible at the earliest: at the first end of a stretch that overlaps the
// period. It is never if only the window's end follows.
func (l calendar) nodesBetween(from, to time.Duration) (nodes nodeSet, next time.Duration) {
	next = never
	for i, s := range l {
		if s.to <= from || s.from > to {
			continue
		}
		if i+1 < len(l) {
			next = min(next, s.to)
		}
		nodes = nodes.intersect(s.nodes)
	}
	if nodes == nil { // beyond the window
		nodes = nodeSet{}
	}
	return nodes, next
}

// isReserved says whether one of the nodes is reserved at some time between from and to, so that a job cannot have all
// of them for the whole time.
func (l calendar) isReserved(on []int, from, to time.Duration) bool {
	return slices.ContainsFunc(l, func(s stretch) bool {
		return s.from < to && from < s.to && slices.ContainsFunc(on, func(n int) bool { return !s.nodes.has(n) })
	})
}

// reserve reserves the nodes for a period, so that later jobs of the queue are planned around it. It splits the
// stretches at both ends and takes the nodes out of those between.
func (l *calendar) reserve(on []int, from, to time.Duration) {
	var kept calendar
	for _, s := range *l {
		for _, part := range s.splitAt(from, to) {
			if part.from >= from && part.to <= to {
				part.nodes = part.nodes.without(on)
			}
			kept = append(kept, part)
		}
	}
	*l = kept
}

// splitAt splits the stretch at the given times, which ascend, so that reserve can change the nodes of one piece alone.
// Times outside the stretch are ignored. The pieces have the nodes of the stretch.
func (s stretch) splitAt(moments ...time.Duration) calendar {
	pieces := calendar{s}
	for _, m := range moments {
		last := &pieces[len(pieces)-1]
		if m > last.from && m < last.to {
			behind := stretch{m, last.to, last.nodes}
			last.to = m
			pieces = append(pieces, behind)
		}
	}
	return pieces
}
