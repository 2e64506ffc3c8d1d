package turns

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// classes are all classes, the more important first.
var classes = []share.Class{share.High, share.Low}

// rank returns the class's position in classes; a lower rank goes first.
func rank(class share.Class) int {
	return slices.Index(classes, class)
}

// weight returns by what the GPU time of a job of the class is divided under Weighted: a job with four times the weight
// may use four times as much.
func (r Rules) weight(class share.Class) float64 {
	if class == share.High {
		return r.HighWeight
	}
	return 1
}

// wants reports whether a client wants the GPU that the other holds or may get; a nil other means that no client has
// it. A frozen client wants it, too. It is false for two clients of one job: they do not displace each other, since
// stopping one stops both.
func (a *Arbiter) wants(c, other *client) bool {
	if c.phase != waiting && c.phase != frozen || c == other {
		return false
	}
	return other == nil || c.job != other.job
}

// compare orders two clients by the policy: negative if c goes first. If it is 0, the job that is longer in the queue
// goes first.
func (r Rules) compare(c, other *client) int {
	switch r.Policy {
	case Weighted:
		return cmp.Compare(c.job.weightedTime, other.job.weightedTime)
	case SLO:
		if byDeadline := cmp.Compare(c.latestStart(), other.latestStart()); byDeadline != 0 {
			return byDeadline
		}
	}
	return cmp.Compare(rank(c.class), rank(other.class))
}

// latestStart returns the latest time at which the client can begin and still meet its deadline; forever if it has
// none. SLO serves the client with the earliest one first. If the job's last slice ended after the request, the
// deadline counts from that end, since the job itself had the GPU before.
//
// A job could jump the queue by declaring long steps, so only the observed step is deducted, which is 0 for a new job.
// At most maxGrace is deducted, since a job that was alone may have held the GPU as long as it liked, and at most all
// the time until the deadline.
func (c *client) latestStart() time.Duration {
	if c.deadline == 0 {
		return forever
	}
	return max(c.deadline, c.job.queued+c.within) - min(c.job.observedStep(), maxGrace, c.within)
}

// outranks reports whether a client displaces the other without waiting for the end of the other's quantum. Under
// Weighted it must be clearly behind, since the two would otherwise displace each other all the time.
func (r Rules) outranks(c, other *client) bool {
	if r.Policy == Weighted {
		return c.job.weightedTime+r.displaceLead() < other.job.weightedTime
	}
	return r.compare(c, other) < 0
}

// displaceLead returns how much less weighted GPU time a client must have had to displace another before its quantum is
// over.
func (r Rules) displaceLead() time.Duration { return r.Quantum / 2 }

// dueAt returns when the holder h must yield to the client c if h keeps the GPU until then; forever if c never makes it
// yield. That is now if c outranks h, and at the end of the lease for an equal. Under Weighted, the charge of the
// holder (weightedTime) grows with the time divided by its weight, and ahead returns when it will have grown by the
// given amount. The holder must yield when its charge exceeds that of c by displaceLead, or earlier if its lease has
// ended and the charges are equal.
func (a *Arbiter) dueAt(c, h *client) time.Duration {
	switch {
	case a.rules.outranks(c, h):
		return a.now
	case a.rules.Policy == Weighted:
		weight := a.rules.weight(h.class)
		ahead := func(by time.Duration) time.Duration { return a.now + time.Duration(float64(by)*weight) }
		behind := c.job.weightedTime - h.job.weightedTime
		return min(ahead(behind+a.rules.displaceLead()), max(h.turn.ends, ahead(behind)))
	case a.rules.compare(c, h) <= 0:
		return h.turn.ends
	}
	return forever
}

// nextClient returns the client that should have the GPU now; nil: none. Clients whose step would not fit before a more
// important job comes back are left out, unless they are below their least share or the delay is conceded. If no client
// is left and the GPU is free, a frozen one may go on (onlyFrozen).
//
// The bool says that the client should have the GPU only because its job is below its least share, which lets it
// displace a holder of another class and makes its slice short. If that job is first in the ordinary order, too, and
// the GPU is free, the bool is false: it gets an ordinary slice.
func (a *Arbiter) nextClient() (*client, bool) {
	var best, starving *client
	all := a.candidates()
	for _, c := range all {
		if (best == nil || a.rules.before(c, best)) && (a.neededGap(c) <= a.gap(c) || a.isConceded(c)) {
			best = c
		}
	}
	for _, class := range classes {
		c := a.rules.first(all, class)
		if c != nil && a.minShareDueAt(c) <= a.now &&
			(starving == nil || c.job.minShareCredit > starving.job.minShareCredit) {
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

// before reports whether a client goes before the other. Equal jobs take turns, and the clients of a job go in the
// order in which they asked, so many connections give no more slices than one.
func (r Rules) before(c, other *client) bool {
	return cmp.Or(r.compare(c, other), cmp.Compare(c.job.place, other.job.place),
		cmp.Compare(c.since, other.since)) < 0
}

// first returns the client of a class that goes first, whether its slice fits into a gap or not; nil if none of the
// class is among all.
func (r Rules) first(all []*client, class share.Class) *client {
	var first *client
	for _, c := range all {
		if c.class == class && (first == nil || r.before(c, first)) {
			first = c
		}
	}
	return first
}

// candidates returns all clients that want the GPU and could use it. A job is stopped as a whole, so while a client of
// it is frozen, its other clients cannot use the GPU. If several of its clients are frozen, only the one with the
// lowest ID is returned.
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

// onlyFrozen returns the frozen client to thaw if no client waits; nil if one waits or none is frozen. It is thawed
// although its step may not fit into the gaps of more important jobs: if one of these comes back, it is frozen again at
// once (graceEnds).
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

// minShareDueAt returns when the client, which must be the first of its class, is due the GPU because its job is below
// its least share; forever if it is not. The job must have earned the length of its step. If the last slice did not end
// just now it must have earned a little more, so that it waits for the beginning of a gap, where it delays others less.
// A client is not due while its own class has the GPU, nor if the last grant was for a least share or went to its class
// and the other class wants the GPU: that one goes first.
func (a *Arbiter) minShareDueAt(c *client) time.Duration {
	again := a.lastForMinShare || a.lastClass == c.class
	if a.rules.MinShare == 0 || a.holder != nil && a.holder.class == c.class || again && a.otherClassWants(c) {
		return forever
	}
	part := a.jobMinShare(c.class)
	need := min(max(c.expectedStep(), oneStep).Seconds(), float64(part*a.rules.Window.Seconds()))
	if a.rules.LookAhead && a.holder == nil && a.now-a.lastEnd > promptWindow {
		need += float64(part * maxMinShareDelay.Seconds()) // cheaper for the others right after they released the GPU
	}
	short := (need - c.job.minShareCredit) / part
	if short <= 1e-9 {
		return a.now
	}
	return a.now + time.Duration(short*1e9) + time.Microsecond
}

// otherClassWants reports whether a client of the other class wants the GPU.
func (a *Arbiter) otherClassWants(c *client) bool {
	return slices.ContainsFunc(a.clients, func(other *client) bool {
		return a.wants(other, c) && other.class != c.class
	})
}
