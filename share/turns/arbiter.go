package turns

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// phase is the state of a client.
type phase string

const (
	idle    phase = "idle"
	waiting phase = "waiting"
	holding phase = "holding"
	frozen  phase = "frozen" // it held the GPU, was stopped, and wants the GPU back
)

// turn is a slice: one grant of the GPU to a client.
type turn struct {
	began, ends         time.Duration // ends: when the lease ends
	steps               int           // the number of steps that it was meant for; 0: unknown
	forMinShare         bool          // granted because the job was below its least share
	yielding            bool          // the client was told to yield
	yieldedAt, graceEnd time.Duration // when it was told, and the end of its grace
	isGraceOver         bool          // the client did not release within the grace
}

// client is one connection of a job to the arbiter.
type client struct {
	id    Client
	class share.Class
	job   *job
	phase phase

	seq      uint64        // the number of its last request
	since    time.Duration // when it asked, was frozen or released
	declared time.Duration // how long its next step takes, as it said; 0: not said
	deadline time.Duration // 0: none
	within   time.Duration // the deadline counted from when it asked
	turn     turn

	waits          history       // from a request to its grant
	used           time.Duration // GPU time in all its slices
	usedAtAsk      time.Duration // used at its last request
	usedAtIgnored  time.Duration // used at the first yield that it ignored since; less than usedAtAsk: it ignored none
	window         window        // its GPU time lately
	turns          int           // slices granted so far
	freezes        int           // how often it was frozen
	offenceReports int           // offences
}

// Arbiter decides which client may use one GPU. At most one client has the GPU at any time. It is not safe for
// concurrent use.
type Arbiter struct {
	roster
	clients []*client // by ID
	holder  *client   // or nil
	// drainUntil is until when no client is granted the GPU, because kernels of a frozen client may be queued still.
	// drainingClient is that client; nil: nothing drains.
	drainUntil      time.Duration
	drainingClient  *client
	lastForMinShare bool          // the last grant was made because a job was below its least share
	lastClass       share.Class   // the class of the client of the last grant
	lastEnd         time.Duration // when the last slice ended
	effects         []Effect
}

// New returns an arbiter for a GPU without clients. Unset fields of the rules get their defaults.
func New(rules Rules) *Arbiter {
	return &Arbiter{roster: roster{rules: rules.filled()}}
}

// Step takes in an event at the given time and returns the effects to carry out, in order. Impossible events (of an
// unknown client, a second request, a release of what is not held) change nothing. A time before that of the last step
// counts as that time.
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
	case e.Kind == Revise && c.phase == waiting:
		c.declared = max(0, e.Estimate)
		c.job.steps, c.job.releaseDelays = history{}, history{}
	case e.Kind == Leave:
		a.leave(c)
	case e.Kind == Drained && c == a.drainingClient:
		a.drainingClient = nil
	}
	for more := true; more; {
		more = a.applyNext()
	}
	return a.effects
}

// addEffect appends an effect for the client and returns it, so that the caller can set its lease or grace.
func (a *Arbiter) addEffect(verb Verb, c *client) *Effect {
	a.effects = append(a.effects, Effect{Verb: verb, Client: c.id, Seq: c.seq})
	return &a.effects[len(a.effects)-1]
}

// client returns the client with this ID; nil: there is none.
func (a *Arbiter) client(id Client) *client {
	at, found := slices.BinarySearchFunc(a.clients, id, byID)
	if !found {
		return nil
	}
	return a.clients[at]
}

// byID compares a client with an ID, for searches in the clients.
func byID(c *client, id Client) int {
	switch {
	case c.id < id:
		return -1
	case c.id > id:
		return 1
	}
	return 0
}

// join adds a client. A class other than High counts as Low.
func (a *Arbiter) join(e Event) {
	at, _ := slices.BinarySearchFunc(a.clients, e.Client, byID)
	class := e.Class
	if class != share.High {
		class = share.Low
	}
	a.clients = slices.Insert(a.clients, at, &client{id: e.Client, class: class, job: a.joinJob(e, class), phase: idle})
}

// ask makes the client wait for the GPU. It sets usedAtIgnored to less than usedAtAsk, which says that no yield has
// been ignored since this request.
func (a *Arbiter) ask(c *client, e Event) {
	a.addActive(c.job)
	c.phase, c.seq, c.since = waiting, e.Seq, a.now
	c.usedAtAsk, c.usedAtIgnored = c.used, c.used-1
	c.declared, c.deadline, c.within = max(0, e.Estimate), max(0, e.Deadline), max(0, e.Deadline-a.now)
}

// release ends the client's slice. A frozen client is thawed: it had released before it was stopped.
func (a *Arbiter) release(c *client, e Event) {
	a.endRequest(c, e.Used)
	c.phase, c.since = idle, a.now
}

// endRequest ends the client's slice or request, however it ended: the arbiter learns from a client that hung up as
// from one that released. used is the GPU time that the client reports; 0: none. Of a waiting client only the request
// ends.
func (a *Arbiter) endRequest(c *client, used time.Duration) {
	switch c.phase {
	case idle:
		return
	case frozen:
		a.addEffect(Thaw, c)
		a.recordSlice(c.job)
	case holding:
		c.learn(a.now, used)
		a.recordSlice(c.job)
	}
	a.freeGPU(c)
	a.removeActive(c.job)
}

// freeGPU takes the GPU from a client that no longer needs it, and lets the arbiter wait no longer for the client's
// kernels to leave the GPU after a freeze.
func (a *Arbiter) freeGPU(c *client) {
	if a.holder == c {
		a.holder, a.lastEnd = nil, a.now
	}
	if a.drainingClient == c {
		a.drainingClient = nil
	}
}

// leave removes a client, whatever it held.
func (a *Arbiter) leave(c *client) {
	a.endRequest(c, 0)
	a.leaveJob(c.job)
	a.clients = slices.DeleteFunc(a.clients, func(other *client) bool { return other == c })
}

// learn records from a slice that ended how long the steps of the client's job are, and how long it took to release
// when told to, to predict its next ones. The GPU time that the client reports is believed only down to maxKept below
// the whole slice, since that is how long clients keep the GPU after a step; the other jobs waited for all of it. The
// length of a step follows only from a slice whose number of steps is known: one that was meant for one step, or that
// lasted to the end of its lease without a yield.
func (c *client) learn(now, used time.Duration) {
	t := c.turn
	if t.isGraceOver {
		return // the client was stopped for a part of it
	}
	took := now - t.began
	if used > 0 {
		took = min(took, max(used, took-maxKept))
	}
	switch { // bounded by maxGrace: while no other client waits, a client may go on after a yield as long as it likes
	case t.yielding:
		c.job.releaseDelays.add(min(now-t.yieldedAt, maxGrace))
	case now > t.ends:
		c.job.releaseDelays.add(min(now-t.ends, maxGrace))
	}
	if t.steps == 1 || t.steps > 1 && !t.yielding && now >= t.ends {
		c.job.steps.add(took / time.Duration(t.steps))
	}
}

// draining reports whether the GPU may be granted to no client, because kernels of a frozen client may still be on it.
// If no other client wants the GPU it is false, and the frozen one can go on.
func (a *Arbiter) draining() bool {
	return a.drainingClient != nil && a.now < a.drainUntil && a.othersWant(a.drainingClient)
}

// othersWant reports whether a client of another job wants the GPU.
func (a *Arbiter) othersWant(c *client) bool {
	return slices.ContainsFunc(a.clients, func(other *client) bool { return a.wants(other, c) })
}

// applyNext carries out the next change that is due now and reports whether there was one: Step repeats it until
// nothing is due. A holder is first told to yield, and is frozen when its grace is over. While kernels of a frozen
// client may be on the GPU, nothing is due.
func (a *Arbiter) applyNext() bool {
	if a.draining() {
		return false
	}
	a.drainingClient = nil
	next, guard := a.nextClient()
	if a.holder == nil {
		return next != nil && a.grantOrThaw(next, guard)
	}
	h := a.holder
	switch {
	case next == nil:
		return false
	case !h.turn.yielding:
		return a.mustYield(h, next, guard) && a.tellToYield(h)
	case a.now >= a.graceEnds(h, next):
		return a.freeze(h)
	}
	return false
}

// mustYield reports whether the holder must now be told to yield to next: at once if next outranks it, or is of another
// class and below its least share (guard); and for an equal when the lease is over.
func (a *Arbiter) mustYield(h, next *client, guard bool) bool {
	return guard && next.class != h.class || a.rules.outranks(next, h) ||
		a.now >= h.turn.ends && a.rules.compare(next, h) <= 0
}

// grantOrThaw grants the free GPU to a waiting client, or thaws a frozen one. guard says that its job is below its
// least share, which is why it gets the slice. That and the class are recorded, since the other class may be due next
// (minShareDueAt). It returns true, as something has changed.
func (a *Arbiter) grantOrThaw(c *client, guard bool) bool {
	a.holder, a.lastForMinShare, a.lastClass = c, guard, c.class
	if c.phase == frozen {
		a.thaw(c, guard)
		return true
	}
	lease, steps := a.lease(c, guard)
	c.phase = holding
	c.turn = turn{began: a.now, ends: a.now + lease, steps: steps, forMinShare: guard}
	c.waits.add(a.now - c.since)
	c.turns++
	a.addEffect(Grant, c).Lease = lease
	return true
}

// lease returns how long the client gets the GPU, and how many steps that is (0: unknown). It is the whole quantum if
// no more important client waits or is expected. It is one step if such a client waits or each step has a deadline
// (contested), or if one is expected and the slice is for the least share (guard) or the job's step was never seen.
// Otherwise it is as many steps as fit into the gap, and ends in the middle of the last one. A client checks its lease
// after each step, so it stops after that one although steps vary in length.
func (a *Arbiter) lease(c *client, guard bool) (time.Duration, int) {
	gap, step := a.gap(c), c.expectedStep()
	switch {
	case a.contested(c) || guard && gap < forever:
		return oneStep, 1
	case gap == forever:
		return a.rules.Quantum, 0
	case c.job.observedStep() == 0: // a declared step is not trusted until one was seen
		return oneStep, 1
	}
	steps := max(1, min(gap, a.rules.Quantum)/step)
	return min(max(oneStep, steps*step-step/2), a.rules.Quantum), int(steps)
}

// contested reports whether the client gets only one step at a time, so that the order is decided anew after each: if a
// waiting client would go before it, or if its steps have deadlines (policy SLO).
func (a *Arbiter) contested(c *client) bool {
	if a.rules.Policy == SLO && c.deadline > 0 {
		return true
	}
	return slices.ContainsFunc(a.clients, func(other *client) bool {
		return a.wants(other, c) && a.rules.outranks(other, c)
	})
}

// thaw lets a client go on that was stopped within its step, and gives it the GPU. Its grace is used up; it gets
// minGrace anew, and at least the drain time that stopping it costs, so that it makes progress beside others of its
// class.
func (a *Arbiter) thaw(c *client, guard bool) {
	c.phase = holding
	c.turn.forMinShare = guard
	c.turn.graceEnd = a.now + max(minGrace, a.drainTime(c))
	a.addEffect(Thaw, c)
}

// graceEnds returns when the grace of a holder that was told to yield ends. A holder that was already frozen for the
// same yield has no more grace towards a client that outranks it, unless it was thawed for its least share, which it
// would then not get.
func (a *Arbiter) graceEnds(h, next *client) time.Duration {
	if h.turn.isGraceOver && !h.turn.forMinShare && a.rules.outranks(next, h) {
		return a.now
	}
	return h.turn.graceEnd
}

// grace returns how long the client has to release after a yield: twice its step, within minGrace and maxGrace.
func (c *client) grace() time.Duration {
	return max(minGrace, min(maxGrace, 2*c.expectedStep()))
}

// tellToYield tells the holder to release within its grace. It returns true, as something has changed.
func (a *Arbiter) tellToYield(h *client) bool {
	h.turn.yielding, h.turn.yieldedAt, h.turn.graceEnd = true, a.now, a.now+h.grace()
	a.addEffect(Yield, h).Grace = h.grace()
	return true
}

// freeze takes the GPU from a holder whose grace is over and has its processes stopped. If that counts as an offence
// and the job has had too many, it is reported. It returns true, as something has changed.
func (a *Arbiter) freeze(h *client) bool {
	h.phase, h.since = frozen, a.now
	h.freezes++
	a.holder, a.drainingClient, a.drainUntil = nil, h, a.now+a.drainTime(h)
	a.recordSlice(h.job)
	a.addEffect(Freeze, h)
	if h.turn.isGraceOver {
		return true
	}
	h.turn.isGraceOver = true
	h.job.releaseDelays.add(min(a.now-h.turn.yieldedAt, maxGrace)) // its step takes at least that long
	if h.countsAsOffence(a.now-h.turn.yieldedAt) && h.job.recordIgnoredYield(a.now) {
		h.offenceReports++
		a.addEffect(Offence, h)
	}
	return true
}

// countsAsOffence reports whether an ignored yield, told the given time ago, counts as an offence, and records in
// usedAtIgnored what was counted. A step counts once, however often it is stopped, unless it goes on for longer than
// the longest grace. A client that truthfully declares steps longer than that commits none, since freezing is the only
// way to share with it; it is believed up to twice what it declared.
func (c *client) countsAsOffence(ago time.Duration) bool {
	first := c.usedAtIgnored < c.usedAtAsk
	if first {
		c.usedAtIgnored = max(c.usedAtAsk, c.used-ago)
	}
	switch since := c.used - c.usedAtIgnored; {
	// The client declared a long step, and the step has not taken twice that time yet.
	case c.declared > maxGrace && since <= 2*c.declared:
		return false
	// The step that was already counted still goes on.
	case c.declared <= maxGrace && !first && since < maxGrace:
		return false
	}
	if !first {
		c.usedAtIgnored = c.used
	}
	return true
}

// drainTime returns how long kernels of a frozen client may still be on the GPU, so that no other client is granted it.
// What the client had launched is at most one step.
func (a *Arbiter) drainTime(h *client) time.Duration {
	return max(a.rules.Drain, min(maxGrace, h.job.observedStep()))
}

// advance moves the clock to now. The time that has passed is charged to the holder: to its GPU time in the status, its
// weighted time and its least share. Jobs that want the GPU earn their least share, and all jobs earn what they may
// lose to others (updateConcedeBudgets).
func (a *Arbiter) advance(now time.Duration) {
	passed := now - a.now
	a.now = now
	if passed == 0 {
		return
	}
	a.earnMinShare(passed.Seconds())
	a.updateConcedeBudgets(passed.Seconds())
	h := a.holder
	if h == nil {
		return
	}
	h.used += passed
	h.job.weightedTime += time.Duration(float64(passed) / a.rules.weight(h.class))
	h.window.add(now, passed, a.rules.Window)
	left := h.job.minShareCredit - passed.Seconds()
	if !h.turn.forMinShare {
		// GPU time used beyond the least share counts as debt for one window at most; a deeper debt stays.
		left = max(left, min(h.job.minShareCredit, -float64(a.jobMinShare(h.class)*a.rules.Window.Seconds())))
	}
	h.job.minShareCredit = left
}

// updateConcedeBudgets lets each job earn what it may lose to slices that do not fit into its gaps (Rules.Concede), and
// deducts what it loses while it waits for a less important job. A job that has not had the GPU yet has no gaps, so it
// earns nothing. It can be at most a window's earnings behind.
func (a *Arbiter) updateConcedeBudgets(seconds float64) {
	most := float64(a.rules.Concede * a.rules.Window.Seconds())
	for _, j := range a.jobs {
		if !j.hasReleased {
			continue
		}
		left := min(most, j.concedeBudget+float64(a.rules.Concede*seconds))
		if a.holder != nil && rank(a.holder.class) > rank(j.class) && a.hasWaiting(j) {
			left = max(-most, left-seconds)
		}
		j.concedeBudget = left
	}
}

// hasWaiting reports whether a client of the job waits.
func (a *Arbiter) hasWaiting(j *job) bool {
	return slices.ContainsFunc(a.clients, func(c *client) bool { return c.job == j && c.phase == waiting })
}

// Wake returns when the next Tick is due; false if none is. While kernels of a frozen client may be on the GPU, that is
// the end of that time, since nothing is granted before. It is always after the present time, so that ticks cannot
// follow each other without time passing.
func (a *Arbiter) Wake() (time.Duration, bool) {
	if a.drainingClient != nil {
		return max(a.drainUntil, a.now+time.Microsecond), true
	}
	at := forever
	all := a.candidates()
	next, _ := a.nextClient()
	for _, class := range classes {
		first := a.rules.first(all, class)
		for _, c := range all {
			if c.class != class {
				continue
			}
			guard := forever
			if c == first {
				guard = a.minShareDueAt(c)
			}
			at = min(at, a.turnAt(c, next, guard))
		}
	}
	if at == forever {
		return 0, false
	}
	return max(at, a.now+time.Microsecond), true
}

// turnAt returns when something may be due for a client c that wants the GPU if no event comes before; forever if
// nothing may. A free GPU may be granted, a holder told to yield, or one that was told frozen at the end of its grace.
// guard is when the client's least share is due, and next the client that should have the GPU now.
func (a *Arbiter) turnAt(c, next *client, guard time.Duration) time.Duration {
	h := a.holder
	switch {
	case h == nil:
		return min(a.earliestStart(c), guard)
	case h.turn.yielding:
		if c == next {
			return a.graceEnds(h, c)
		}
		if at := min(a.earliestStart(c), guard); at > a.now {
			return at
		}
		return forever // another client goes first
	}
	return min(max(a.earliestStart(c), a.dueAt(c, h)), guard)
}
