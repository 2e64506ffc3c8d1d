package testbed

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// turn is the state of a job's slice. It behaves like the clients of the broker.
type turn struct {
	seq         uint64
	hasGPU      bool          // it has the GPU
	ends        time.Duration // when its lease ends
	yield       bool          // it was told to yield
	busy        bool          // a step is under way
	frozen      bool
	released    int    // counts the moments at which it could have been released, so that an old plan is ignored
	whenGranted func() // what the job does with the slice that it asked for
}

// tell passes an event to the arbiter and carries out the effects. Messages to a job take half a round trip; freezing
// and thawing act at once, since a broker does them itself.
func (e *engine) tell(event turns.Event) {
	for _, effect := range e.arbiter.Step(e.now, event) {
		j := e.jobs[effect.Client-1]
		switch effect.Verb {
		case turns.Freeze:
			j.turn.frozen = true
		case turns.Thaw:
			j.turn.frozen = false
			e.after(0, j.goOn)
		case turns.Grant, turns.Yield:
			e.after(e.RoundTrip/2, func() { j.handleEffect(effect) })
		case turns.Offence:
		}
	}
	e.wake()
}

// wake plans the arbiter's next tick. A tick that is planned no later serves as well, and plans the next one. A planned
// tick that an earlier one has replaced does nothing.
func (e *engine) wake() {
	at, ok := e.arbiter.Wake()
	if !ok || e.tick > e.now && e.tick <= at {
		return
	}
	e.tick = at
	e.after(at-e.now, func() {
		if e.tick == at {
			e.tick = 0
			e.tell(turns.Event{Kind: turns.Tick})
		}
	})
}

// acquire gets the GPU for the job and then calls then.
func (j *job) acquire(then func()) {
	j.turn.released++
	if j.turn.hasGPU {
		j.turn.busy = true
		then()
		return
	}
	j.turn.seq++
	j.turn.whenGranted = then
	ask := turns.Event{Kind: turns.Ask, Client: j.id, Seq: j.turn.seq}
	if !j.Undeclared {
		ask.Estimate = j.Client.Step()
	}
	if j.SLO > 0 {
		ask.Deadline = j.now + j.SLO
	}
	j.after(j.RoundTrip/2, func() { j.tell(ask) })
}

// handleEffect handles a grant or a yield when it has reached the job.
func (j *job) handleEffect(effect turns.Effect) {
	switch {
	case effect.Seq != j.turn.seq:
	case effect.Verb == turns.Yield && j.turn.hasGPU:
		j.turn.yield = true
		if !j.turn.busy {
			j.release()
		}
	case effect.Verb == turns.Grant:
		j.turn.hasGPU, j.turn.busy, j.turn.yield = true, true, false
		j.turn.ends = j.now + effect.Lease
		j.turn.whenGranted()
	}
}

// stepEnded releases the GPU if the job was told to yield or its lease is over, and otherwise after it was idle for a
// while. If the gap is no longer than that, the slice is kept for the next step.
func (j *job) stepEnded(gap time.Duration) {
	j.turn.busy = false
	if j.turn.yield || j.now >= j.turn.ends || j.Idle == 0 {
		j.release()
		return
	}
	if gap <= j.Idle {
		return
	}
	j.turn.released++
	plan := j.turn.released
	j.after(j.Idle, func() {
		if plan == j.turn.released {
			j.release()
		}
	})
}

// release gives the slice back. The arbiter hears of it after half a round trip.
func (j *job) release() {
	j.turn.hasGPU = false
	j.turn.released++
	event := turns.Event{Kind: turns.Release, Client: j.id, Seq: j.turn.seq}
	j.after(j.RoundTrip/2, func() { j.tell(event) })
}

// quit ends a job that begins no further step. The first job that ends keeps the arbiter's state for the Result, since
// afterwards fewer jobs share.
func (j *job) quit() {
	if j.arbiter == nil {
		return
	}
	if j.state == nil {
		state := j.arbiter.State()
		j.state = &state
	}
	j.turn.released++
	j.after(j.RoundTrip/2, func() { j.tell(turns.Event{Kind: turns.Leave, Client: j.id}) })
}
