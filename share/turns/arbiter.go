package turns

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// phase is what a client does.
type phase string

const (
	idle    phase = "idle"
	waiting phase = "waiting"
	holding phase = "holding"
	frozen  phase = "frozen" // it had the GPU, was stopped, and wants it back
)

// turn is what a client was granted.
type turn struct {
	began, ends time.Duration // ends: the lease
	steps       int           // how many steps it was to be; 0: not said
	guard       bool          // granted because its job had had less than its least share
	yielding    bool          // it was told to yield
	told, until time.Duration // when, and until when it has grace
	ignored     bool          // the grace ended before it released
}

type client struct {
	id    Client
	class share.Class
	job   *job
	phase phase

	seq      uint64
	since    time.Duration // when it asked, was frozen or released
	declared time.Duration
	deadline time.Duration // 0: none
	within   time.Duration // the same, from when it asked
	turn     turn

	waits   recent
	used    time.Duration // GPU time
	began   time.Duration // the same when it asked last
	ignored time.Duration // the same when it was told the yield that it ignored since then; before began: it was not
	window  window
	turns   int
	freezes int
	reports int
}

// Arbiter decides whose turn it is on one GPU. At most one client has the GPU at any time. It is not safe for
// concurrent use.
type Arbiter struct {
	roster
	clients []*client // by their number
	holder  *client   // or nil
	// drains is until when nobody is granted the GPU, since stopped is frozen with kernels queued; nil: nobody is.
	drains  time.Duration
	stopped *client
	guarded bool          // the last turn was given since a job had had less than its least share
	last    share.Class   // of whom it was given to
	ended   time.Duration // when it did end
	effects []Effect
}

// New is an arbiter of a GPU that nobody uses.
func New(rules Rules) *Arbiter {
	return &Arbiter{roster: roster{rules: rules.filled()}}
}

// Step takes in what happened at the given time and returns what is to be done, in order. What cannot have happened (an
// event of an unknown client, a second request, a release of what is not held) changes nothing. A time before that of
// the last step counts as that.
func (a *Arbiter) Step(now time.Duration, e Event) []Effect {
	a.advance(max(now, a.now))
	a.effects = nil
	c := a.client(e.Client)
	switch {
	case e.Kind == Join && c == nil:
		a.join(e)
	case c == nil:
	case e.Kind == Ask && c.phase == idle:
		a.ask(c, e)
	case e.Kind == Release && (c.phase == holding || c.phase == frozen) && e.Seq == c.seq:
		a.release(c, e)
	case e.Kind == Leave:
		a.leave(c)
	case e.Kind == Drained && c == a.stopped:
		a.stopped = nil
	}
	for more := true; more; {
		more = a.settle()
	}
	return a.effects
}

func (a *Arbiter) do(verb Verb, c *client) *Effect {
	a.effects = append(a.effects, Effect{Verb: verb, Client: c.id, Seq: c.seq})
	return &a.effects[len(a.effects)-1]
}

func (a *Arbiter) client(id Client) *client {
	at, found := slices.BinarySearchFunc(a.clients, id, byID)
	if !found {
		return nil
	}
	return a.clients[at]
}

func byID(c *client, id Client) int {
	switch {
	case c.id < id:
		return -1
	case c.id > id:
		return 1
	}
	return 0
}

func (a *Arbiter) join(e Event) {
	at, _ := slices.BinarySearchFunc(a.clients, e.Client, byID)
	class := e.Class
	if class != share.High {
		class = share.Low
	}
	a.clients = slices.Insert(a.clients, at, &client{id: e.Client, class: class, job: a.enter(e, class), phase: idle})
}

func (a *Arbiter) ask(c *client, e Event) {
	a.begin(c.job)
	c.phase, c.seq, c.since = waiting, e.Seq, a.now
	c.began, c.ignored = c.used, c.used-1
	c.declared, c.deadline, c.within = max(0, e.Estimate), max(0, e.Deadline), max(0, e.Deadline-a.now)
}

func (a *Arbiter) release(c *client, e Event) {
	a.letGo(c, e.Used)
	c.phase, c.since = idle, a.now
}

// letGo ends what a client has of the GPU or wants of it, however that ended: one that hung up is learned from like one
// that released.
func (a *Arbiter) letGo(c *client, used time.Duration) {
	switch c.phase {
	case idle:
		return
	case frozen:
		a.do(Thaw, c)
		a.had(c.job)
	case holding:
		c.learn(a.now, used)
		a.had(c.job)
	}
	a.free(c)
	a.end(c.job)
}

// free takes the GPU from a client that has no more use for it.
func (a *Arbiter) free(c *client) {
	if a.holder == c {
		a.holder, a.ended = nil, a.now
	}
	if a.stopped == c {
		a.stopped = nil
	}
}

func (a *Arbiter) leave(c *client) {
	a.letGo(c, 0)
	a.exit(c.job)
	a.clients = slices.DeleteFunc(a.clients, func(other *client) bool { return other == c })
}

// learn takes from a turn that ended how long the steps of the client's job are. What it says that it used is believed
// for as long only as clients keep the GPU after a step: the others waited for all of the turn.
func (c *client) learn(now, used time.Duration) {
	t := c.turn
	if t.ignored {
		return // part of it the client was stopped
	}
	took := now - t.began
	if used > 0 {
		took = min(took, max(used, took-mostKept))
	}
	switch { // where nobody came to wait, a yield is ignored for as long as the client likes: that is no step
	case t.yielding:
		c.job.drains.add(min(now-t.told, mostGrace))
	case now > t.ends:
		c.job.drains.add(min(now-t.ends, mostGrace))
	}
	if t.steps == 1 || t.steps > 1 && !t.yielding && now >= t.ends {
		c.job.steps.add(took / time.Duration(t.steps))
	}
}

// draining says whether nobody may be granted the GPU, since kernels of a frozen client may be on it. Where nobody else
// wants it, that client itself goes on.
func (a *Arbiter) draining() bool {
	return a.stopped != nil && a.now < a.drains && a.othersWant(a.stopped)
}

func (a *Arbiter) othersWant(c *client) bool {
	return slices.ContainsFunc(a.clients, func(other *client) bool { return a.wants(other, c) })
}

// settle does the next thing that is to be done now, and says whether there was one.
func (a *Arbiter) settle() bool {
	if a.draining() {
		return false
	}
	a.stopped = nil
	next, guard := a.next()
	if a.holder == nil {
		return next != nil && a.give(next, guard)
	}
	h := a.holder
	switch {
	case next == nil:
		return false
	case !h.turn.yielding:
		return a.mustYield(h, next, guard) && a.yield(h)
	case a.now >= a.graceEnds(h, next):
		return a.freeze(h)
	}
	return false
}

// mustYield says whether the holder has to let the other go first.
func (a *Arbiter) mustYield(h, next *client, guard bool) bool {
	return guard && next.class != h.class || a.rules.outranks(next, h) ||
		a.now >= h.turn.ends && a.rules.compare(next, h) <= 0
}

// give gives the free GPU to a client that waits, or back to one that was frozen.
func (a *Arbiter) give(c *client, guard bool) bool {
	a.holder, a.guarded, a.last = c, guard, c.class
	if c.phase == frozen {
		a.thaw(c, guard)
		return true
	}
	lease, steps := a.lease(c, guard)
	c.phase = holding
	c.turn = turn{began: a.now, ends: a.now + lease, steps: steps, guard: guard}
	c.waits.add(a.now - c.since)
	c.turns++
	a.do(Grant, c).Lease = lease
	return true
}

// lease is for how long the client has the GPU, and how many steps that is if it is known. Where somebody more
// important waits or is expected, it ends in the middle of the last step that fits, so that a client which looks at the
// end of each step whether its lease is over stops after that one, though its steps vary.
func (a *Arbiter) lease(c *client, guard bool) (time.Duration, int) {
	gap, step := a.gap(c), c.step()
	switch {
	case a.contested(c) || guard && gap < forever:
		return oneStep, 1
	case gap == forever:
		return a.rules.Quantum, 0
	case c.job.seen() == 0: // what it says of its steps is looked at first
		return oneStep, 1
	}
	steps := max(1, min(gap, a.rules.Quantum)/step)
	return min(max(oneStep, steps*step-step/2), a.rules.Quantum), int(steps)
}

// contested says whether somebody waits that would go before the client, or, under SLO, whether each of its steps has
// a deadline of its own.
func (a *Arbiter) contested(c *client) bool {
	if a.rules.Policy == SLO && c.deadline > 0 {
		return true
	}
	return slices.ContainsFunc(a.clients, func(other *client) bool {
		return a.wants(other, c) && a.rules.outranks(other, c)
	})
}

// thaw lets a client go on that was stopped in its step. It has used up its grace, and has the least one again, and no
// less than the drain that stopping it costs, so that it gets on with its step beside others of its class.
func (a *Arbiter) thaw(c *client, guard bool) {
	c.phase = holding
	c.turn.guard = guard
	c.turn.until = a.now + max(leastGrace, a.drain(c))
	a.do(Thaw, c)
}

// graceEnds is until when the holder, which was told to yield, has time to: none of it any more for who outranks it
// once it was frozen for the same yield.
func (a *Arbiter) graceEnds(h, next *client) time.Duration {
	if h.turn.ignored && !h.turn.guard && a.rules.outranks(next, h) {
		return a.now
	}
	return h.turn.until
}

func (c *client) grace() time.Duration {
	return max(leastGrace, min(mostGrace, 2*c.step()))
}

func (a *Arbiter) yield(h *client) bool {
	h.turn.yielding, h.turn.told, h.turn.until = true, a.now, a.now+h.grace()
	a.do(Yield, h).Grace = h.grace()
	return true
}

func (a *Arbiter) freeze(h *client) bool {
	h.phase, h.since = frozen, a.now
	h.freezes++
	a.holder, a.stopped, a.drains = nil, h, a.now+a.drain(h)
	a.had(h.job)
	a.do(Freeze, h)
	if h.turn.ignored {
		return true
	}
	h.turn.ignored = true
	h.job.drains.add(min(a.now-h.turn.told, mostGrace)) // its step is that long at least
	if h.offends(a.now-h.turn.told) && h.job.offended(a.now) {
		h.reports++
		a.do(Offence, h)
	}
	return true
}

// offends says whether a yield that was ignored counts, told so long ago. A step is one offence, however often it is
// stopped in it, unless it goes on for longer than any grace. And who says truly that its steps are longer than that
// commits none: that they are stopped is all that turns have for them.
func (c *client) offends(ago time.Duration) bool {
	first := c.ignored < c.began
	if first {
		c.ignored = max(c.began, c.used-ago)
	}
	switch since := c.used - c.ignored; {
	case c.declared > mostGrace && since <= 2*c.declared:
		return false
	case c.declared <= mostGrace && !first && since < mostGrace:
		return false
	}
	if !first {
		c.ignored = c.used
	}
	return true
}

// drain is for how long kernels of a client that is frozen may still be on the GPU: what it had launched is a step at
// most.
func (a *Arbiter) drain(h *client) time.Duration {
	return max(a.rules.Drain, min(mostGrace, h.job.seen()))
}

// advance lets time pass: whoever has the GPU has used it, and jobs that want it earn their least share.
func (a *Arbiter) advance(now time.Duration) {
	passed := now - a.now
	a.now = now
	if passed == 0 {
		return
	}
	a.earn(passed.Seconds())
	a.concede(passed.Seconds())
	h := a.holder
	if h == nil {
		return
	}
	h.used += passed
	h.job.spent += time.Duration(float64(passed) / a.rules.weight(h.class))
	h.window.add(now, passed, a.rules.Window)
	left := h.job.credit - passed.Seconds()
	if !h.turn.guard { // what it had besides its least share is no debt beyond one window
		left = max(left, min(h.job.credit, -float64(a.leastPart(h.class)*a.rules.Window.Seconds())))
	}
	h.job.credit = left
}

// concede lets every job earn what it may lose, and counts what it does lose while it waits for one that is less
// important.
func (a *Arbiter) concede(seconds float64) {
	most := float64(a.rules.Concede * a.rules.Window.Seconds())
	for _, j := range a.jobs {
		if !j.away {
			continue
		}
		left := min(most, j.conceded+float64(a.rules.Concede*seconds))
		if a.holder != nil && rank(a.holder.class) > rank(j.class) && a.waits(j) {
			left = max(-most, left-seconds)
		}
		j.conceded = left
	}
}

func (a *Arbiter) waits(j *job) bool {
	return slices.ContainsFunc(a.clients, func(c *client) bool { return c.job == j && c.phase == waiting })
}

// Wake is when a Tick is due, if any is.
func (a *Arbiter) Wake() (time.Duration, bool) {
	if a.stopped != nil {
		return max(a.drains, a.now+time.Microsecond), true
	}
	at := forever
	all := a.candidates()
	next, _ := a.next()
	for _, class := range classes {
		first := a.rules.first(all, class)
		for _, c := range all {
			if c.class != class {
				continue
			}
			guard := forever
			if c == first {
				guard = a.guardAt(c)
			}
			at = min(at, a.turnAt(c, next, guard))
		}
	}
	if at == forever {
		return 0, false
	}
	return max(at, a.now+time.Microsecond), true
}

// turnAt is when something may have to be done for a client that wants the GPU, if nothing else happens before; guard
// is when its job's least share is its, and next who would have the GPU now.
func (a *Arbiter) turnAt(c, next *client, guard time.Duration) time.Duration {
	h := a.holder
	switch {
	case h == nil:
		return min(a.fits(c), guard)
	case h.turn.yielding:
		if c == next {
			return a.graceEnds(h, c)
		}
		if at := min(a.fits(c), guard); at > a.now {
			return at
		}
		return forever // others go before it
	}
	return min(max(a.fits(c), a.dueAt(c, h)), guard)
}
