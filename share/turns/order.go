package turns

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// classes are all there are, the more important first.
var classes = []share.Class{share.High, share.Low}

func rank(class share.Class) int {
	return slices.Index(classes, class)
}

func (r Rules) weight(class share.Class) float64 {
	if class == share.High {
		return r.HighWeight
	}
	return 1
}

// wants says whether a client wants the GPU while the other has it or may have it. Clients of one job do not send each
// other away: to stop one would stop both.
func (a *Arbiter) wants(c, other *client) bool {
	if c.phase != waiting && c.phase != frozen || c == other {
		return false
	}
	return other == nil || c.job != other.job
}

// compare says which of two clients goes first: below 0 the first, 0 if their jobs' places decide.
func (r Rules) compare(c, other *client) int {
	switch r.Policy {
	case Weighted:
		return cmp.Compare(c.job.spent, other.job.spent)
	case SLO:
		if byDeadline := cmp.Compare(c.latest(), other.latest()); byDeadline != 0 {
			return byDeadline
		}
	}
	return cmp.Compare(rank(c.class), rank(other.class))
}

// latest is when the client has to begin at the latest to meet its deadline: its slack, but for the time of day that is
// the same for all. While its job has other turns its own time does not run. What it says of its step would put it
// before others, so only what was seen counts: nothing of a job that is new, and never more than grace lets a step
// last, since one that was alone may have kept the GPU for as long as it liked, or than all the time that it has.
func (c *client) latest() time.Duration {
	if c.deadline == 0 {
		return forever
	}
	return max(c.deadline, c.job.queued+c.within) - min(c.job.seen(), mostGrace, c.within)
}

// outranks says whether a client does not wait until the other's quantum is over.
func (r Rules) outranks(c, other *client) bool {
	if r.Policy == Weighted {
		return c.job.spent+r.lead() < other.job.spent
	}
	return r.compare(c, other) < 0
}

// lead is by how much less GPU time, by weight, a client has to have had to send another away before its quantum is
// over.
func (r Rules) lead() time.Duration { return r.Quantum / 2 }

// dueAt is when the holder has to make way for the client, if it keeps the GPU until then.
func (a *Arbiter) dueAt(c, h *client) time.Duration {
	switch {
	case a.rules.outranks(c, h):
		return a.now
	case a.rules.Policy == Weighted:
		weight := a.rules.weight(h.class)
		ahead := func(by time.Duration) time.Duration { return a.now + time.Duration(float64(by)*weight) }
		behind := c.job.spent - h.job.spent
		return min(ahead(behind+a.rules.lead()), max(h.turn.ends, ahead(behind)))
	case a.rules.compare(c, h) <= 0:
		return h.turn.ends
	}
	return forever
}

// next is who should have the GPU of all who want it, and whether only because its job has had less than its least
// share. Nil: none of them should have it now.
func (a *Arbiter) next() (*client, bool) {
	var best, starving *client
	all := a.candidates()
	for _, c := range all {
		if (best == nil || a.rules.before(c, best)) && (a.need(c) <= a.gap(c) || a.conceded(c)) {
			best = c
		}
	}
	for _, class := range classes {
		c := a.rules.first(all, class)
		if c != nil && a.guardAt(c) <= a.now && (starving == nil || c.job.credit > starving.job.credit) {
			starving = c
		}
	}
	switch {
	case starving != nil && (best == nil || best.job != starving.job || a.holder != nil):
		return starving, true
	case best == nil && a.holder == nil:
		return a.onlyFrozen(), false
	}
	return best, false
}

// before says whether a client goes first. Equals go round by job, and the clients of a job by when they asked: who
// comes by many connections has no more turns than who comes by one.
func (r Rules) before(c, other *client) bool {
	return cmp.Or(r.compare(c, other), cmp.Compare(c.job.place, other.job.place),
		cmp.Compare(c.since, other.since)) < 0
}

// first is who of a class goes first, whether its turn fits or not; nil: there is none.
func (r Rules) first(all []*client, class share.Class) *client {
	var first *client
	for _, c := range all {
		if c.class == class && (first == nil || r.before(c, first)) {
			first = c
		}
	}
	return first
}

// candidates are all who want the GPU and could use it: not those whose job is stopped for another of its clients.
func (a *Arbiter) candidates() []*client {
	var all, stopped []*client
	for _, c := range a.clients {
		if c.phase == frozen {
			stopped = append(stopped, c)
		}
	}
	for _, c := range a.clients {
		mate := func(other *client) bool {
			return other != c && other.job == c.job && (c.phase != frozen || other.id < c.id)
		}
		if a.wants(c, a.holder) && !slices.ContainsFunc(stopped, mate) {
			all = append(all, c)
		}
	}
	return all
}

// onlyFrozen is who is to go on where nobody waits but who was stopped: then no gap is kept free.
func (a *Arbiter) onlyFrozen() *client {
	var first *client
	for _, c := range a.candidates() {
		if c.phase == waiting {
			return nil
		}
		if first == nil || a.rules.before(c, first) {
			first = c
		}
	}
	return first
}

// guardAt is when the client, which is the first of its class, is to have the GPU because its job has had less than its
// least share. It waits until the job has earned the step that it is, and a little longer for the beginning of a gap.
// No class goes a second time in a row before another that waits, by whichever of its jobs.
func (a *Arbiter) guardAt(c *client) time.Duration {
	again := a.guarded || a.last == c.class
	if a.rules.MinShare == 0 || a.holder != nil && a.holder.class == c.class || again && a.othersWait(c) {
		return forever
	}
	part := a.leastPart(c.class)
	need := min(max(c.step(), oneStep).Seconds(), float64(part*a.rules.Window.Seconds()))
	if a.rules.LookAhead && a.holder == nil && a.now-a.ended > promptly {
		need += float64(part * mostLate.Seconds()) // it costs less when the others have just let go
	}
	short := (need - c.job.credit) / part
	if short <= 1e-9 {
		return a.now
	}
	return a.now + time.Duration(short*1e9) + time.Microsecond
}

func (a *Arbiter) othersWait(c *client) bool {
	return slices.ContainsFunc(a.clients, func(other *client) bool {
		return a.wants(other, c) && other.class != c.class
	})
}
