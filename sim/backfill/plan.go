package backfill

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// stretch is a time for which some nodes may be planned with. Nodes that are kept for a job that waits are not among
// them, all of each: so does Slurm, whatever part of them the job will use.
type stretch struct {
	from, to time.Duration
	nodes    set
}

// calendar is stretches one behind the other, from now to the end of the window.
type calendar []stretch

// backfill gives each job in turn the earliest place that no job before it is kept: one that can begin at once does,
// and the others have nodes kept for them. It goes by limits, since nobody knows how long a job really takes.
func (c *controller) backfill() {
	c.plan = c.now + c.Slurm.Interval
	c.changed = false
	free := calendar{{c.now, c.now + c.Slurm.Window, all(len(c.total))}}
	var waiting []*job
	for i, j := range c.queue {
		if i >= c.Slurm.Tested || !c.place(j, &free) {
			waiting = append(waiting, j)
		}
	}
	c.queue = waiting
}

// place starts the job, or keeps nodes for it. It says whether it started.
func (c *controller) place(j *job, free *calendar) bool {
	for begin := c.now; begin < never; {
		nodes, next := free.throughout(begin, begin+j.limit)
		at, on := c.earliest(j, nodes)
		at = max(at, begin)
		switch {
		case on == nil || next < at: // there may be a sooner place on nodes that are kept until then
			begin = next
			continue
		case at == c.now:
			c.start(j, on)
			return true
		case at > c.now+c.Slurm.Window:
			return false
		case free.overlaps(on, at, at+j.limit):
			begin = at
			continue
		}
		down := at / c.Slurm.Resolution * c.Slurm.Resolution
		up := (at + j.limit + c.Slurm.Resolution - 1) / c.Slurm.Resolution * c.Slurm.Resolution
		free.keep(on, max(down, c.now), up)
		return false
	}
	return false
}

// earliest is when the job could begin on some of the nodes, if everybody who runs left at the limit, and on which: at
// the end of somebody, or now.
//
// Slurm lets those who end close to each other leave together, and looks only then: within half a minute at first, and
// within twice that each further time.
func (c *controller) earliest(j *job, nodes set) (time.Duration, []int) {
	if on := choose(j, c.free, nodes); on != nil {
		return c.now, on
	}
	free, left := slices.Clone(c.free), c.leaving(nodes)
	for together := 30 * time.Second; len(left) > 0; together *= 2 {
		last := left[0]
		for until := left[0].due + together; len(left) > 0 && left[0].due <= until; left = left[1:] {
			last = left[0]
			give(free, last)
		}
		if on := choose(j, free, nodes); on != nil {
			return max(last.due, c.now+time.Second), on
		}
	}
	return never, nil
}

// leaving are the jobs on the nodes in the order of their limits.
func (c *controller) leaving(nodes set) []*job {
	var list []*job
	for _, j := range c.running {
		if slices.ContainsFunc(j.nodes, nodes.has) {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, func(a, b *job) int { return cmp.Compare(a.due, b.due) })
	return list
}

func give(free []gres.Vector, j *job) {
	for _, n := range j.nodes {
		free[n] = free[n].Plus(j.PerNode)
	}
}

// throughout are the nodes that nobody is kept from one moment to another, and when that may change next.
func (l calendar) throughout(from, to time.Duration) (nodes set, next time.Duration) {
	next = never
	for i, s := range l {
		if s.to <= from || s.from > to {
			continue
		}
		if i+1 < len(l) {
			next = min(next, s.to)
		}
		nodes = nodes.and(s.nodes)
	}
	if nodes == nil { // beyond the window
		nodes = set{}
	}
	return nodes, next
}

// overlaps says whether somebody else is kept one of the nodes meanwhile.
func (l calendar) overlaps(on []int, from, to time.Duration) bool {
	return slices.ContainsFunc(l, func(s stretch) bool {
		return s.from < to && from < s.to && slices.ContainsFunc(on, func(n int) bool { return !s.nodes.has(n) })
	})
}

// keep takes the nodes out of the calendar for a time.
func (l *calendar) keep(on []int, from, to time.Duration) {
	var kept calendar
	for _, s := range *l {
		for _, part := range s.cut(from, to) {
			if part.from >= from && part.to <= to {
				part.nodes = part.nodes.without(on)
			}
			kept = append(kept, part)
		}
	}
	*l = kept
}

// cut is the stretch in pieces, none of which goes across one of the moments.
func (s stretch) cut(moments ...time.Duration) calendar {
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
