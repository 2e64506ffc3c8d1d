package slurmtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// ErrDied is the error of every call of a process that has died.
var ErrDied = errors.New("died")

// Verb is a method of the port.
type Verb string

// The verbs of the port.
const (
	Observe Verb = "observe"
	Update  Verb = "update"
	Signal  Verb = "signal"
	Requeue Verb = "requeue"
	Split   Verb = "split"
	// for the lease job
	Renew Verb = "renew"
	Lapse Verb = "end the lease"
)

// Call is one call over a line.
type Call struct {
	N      int // counts from 1 over the life of the line
	Verb   Verb
	Job    int // 0: observe, and calls for the lease job
	Update slurm.Update
	Signal slurm.Signal
}

// Moment is when a fault occurs: before Slurm receives the call, or after it has carried it out.
type Moment string

// The caller sees the same error at both moments, but Slurm is in different states.
const (
	Before Moment = "before"
	After  Moment = "after"
)

// Fault decides at both moments of each call whether it goes on; the caller gets its error instead of an answer. An
// error that wraps ErrDied ends the line: later calls have no effect.
type Fault func(call Call, moment Moment) error

// FailAt makes call n fail with err at that moment.
func FailAt(n int, moment Moment, err error) Fault {
	return func(call Call, at Moment) error {
		if call.N == n && at == moment {
			return err
		}
		return nil
	}
}

// DieAt makes the caller die in call n at that moment.
func DieAt(n int, moment Moment) Fault { return FailAt(n, moment, ErrDied) }

// Line is the connection of one process to a Slurm. It records the calls and can fail. A process that died leaves its
// line dead; the next process gets a new one. It is also a clock, so that a dead process does not even sleep.
type Line struct {
	slurm slurm.Manager
	clock Sleeper
	fault Fault

	mu    sync.Mutex
	calls []Call
	dead  bool
}

// Sleeper is the clock of a round.
type Sleeper interface {
	Now() time.Time
	Elapsed() time.Duration
	Sleep(ctx context.Context, d time.Duration) error
}

var _ slurm.Manager = (*Line)(nil)

// NewLine connects to the manager; a nil fault makes no call fail.
func NewLine(manager slurm.Manager, clock Sleeper, fault Fault) *Line {
	if fault == nil {
		fault = func(Call, Moment) error { return nil }
	}
	return &Line{slurm: manager, clock: clock, fault: fault}
}

// Observe implements slurm.Manager.
func (l *Line) Observe(ctx context.Context) (observed slurm.Observed, err error) {
	err = l.call(Call{Verb: Observe}, func() error {
		observed, err = l.slurm.Observe(ctx)
		return err
	})
	if err != nil {
		return slurm.Observed{}, err
	}
	return observed, nil
}

// Update implements slurm.Manager.
func (l *Line) Update(ctx context.Context, update slurm.Update) error {
	return l.call(Call{Verb: Update, Job: update.Job, Update: update},
		func() error { return l.slurm.Update(ctx, update) })
}

// Signal implements slurm.Manager.
func (l *Line) Signal(ctx context.Context, job int, signal slurm.Signal) error {
	return l.call(Call{Verb: Signal, Job: job, Signal: signal},
		func() error { return l.slurm.Signal(ctx, job, signal) })
}

// Requeue implements slurm.Manager.
func (l *Line) Requeue(ctx context.Context, job int) error {
	return l.call(Call{Verb: Requeue, Job: job}, func() error { return l.slurm.Requeue(ctx, job) })
}

// Now implements Sleeper.
func (l *Line) Now() time.Time { return l.clock.Now() }

// Elapsed implements Sleeper.
func (l *Line) Elapsed() time.Duration { return l.clock.Elapsed() }

// Sleep implements Sleeper.
func (l *Line) Sleep(ctx context.Context, d time.Duration) error {
	if l.Dead() {
		return ErrDied
	}
	return l.clock.Sleep(ctx, d)
}

// call records one call, lets the fault fail it before or after Slurm has carried it out, and returns what the caller
// sees. On a dead line nothing happens and the error is ErrDied.
func (l *Line) call(call Call, do func() error) error {
	call, alive := l.recordCall(call)
	if !alive {
		return ErrDied
	}
	if err := l.applyFault(call, Before); err != nil {
		return err
	}
	err := do()
	if broken := l.applyFault(call, After); broken != nil {
		return broken
	}
	return err
}

// recordCall numbers and records a call; alive is false if the process has died, and then the call must not be made.
func (l *Line) recordCall(call Call) (numbered Call, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return call, false
	}
	call.N = len(l.calls) + 1
	l.calls = append(l.calls, call)
	return call, true
}

// applyFault asks the fault whether the call fails at that moment; nil: it goes on. ErrDied ends the line for all later
// calls.
func (l *Line) applyFault(call Call, moment Moment) error {
	err := l.fault(call, moment)
	if errors.Is(err, ErrDied) {
		l.Die()
	}
	return err
}

// Die ends the process on this line from outside, between calls.
func (l *Line) Die() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// Dead reports whether the process on this line has died.
func (l *Line) Dead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// Calls are all calls so far in their order, including failed ones. The caller may keep the result.
func (l *Line) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Count is the number of calls of a verb.
func (l *Line) Count(verb Verb) int {
	n := 0
	for _, call := range l.Calls() {
		if call.Verb == verb {
			n++
		}
	}
	return n
}
