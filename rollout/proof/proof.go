// Package proof runs the proof of failing open on a site: one small job is submitted and leased, the daemon is ended,
// the lease lapses, Slurm starts the job as its user asked for it, and the daemon is started again, whatever happens.
// It touches no other job. What it saw is a record; whether that proves anything is for package rollout to judge.
package proof

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/rollout"
)

// Slurm is what the proof needs of Slurm, as the user whose job it is.
type Slurm interface {
	// Submit submits the job with a begin time of its own.
	Submit(ctx context.Context) (job int, err error)
	// Look is what Slurm shows of the job.
	Look(ctx context.Context, job int) (Job, error)
	// Cancel cancels the job; one that is over does not mind.
	Cancel(ctx context.Context, job int) error
}

// Job is what Slurm shows of one.
type Job struct {
	State   string // PENDING, RUNNING, COMPLETED, …
	Reason  string // why it waits, in Slurm's word
	Begin   time.Time
	Started time.Time         // zero: not yet
	Leased  bool              // the daemon has written to it
	Own     time.Time         // the begin time that its user asked for; zero: not told
	Asks    map[string]string // its request, in Slurm's words
}

func (j *Job) waits() bool { return j.State == "PENDING" }

// Daemon is the one that is put to the proof.
type Daemon interface {
	// Stop ends it. It may have been stopped although there is an error.
	Stop(ctx context.Context) error
	// Start starts it again; said twice it does no harm.
	Start(ctx context.Context) error
	// Answers says whether it does.
	Answers(ctx context.Context) bool
}

// Clock is the time.
type Clock interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
}

// Trial is one proof.
type Trial struct {
	Slurm  Slurm
	Daemon Daemon
	Clock  Clock
	Say    func(format string, a ...any) // tells whoever watches
	// Patience bounds each of the waits: until the daemon has leased the job, until Slurm has started it once its lease
	// is over, and until the daemon answers again.
	Patience time.Duration
}

// poll is the time between two looks.
const poll = time.Second

// Run runs the proof. The record holds what was seen also where there is an error, and the daemon has been started
// again by then, if it was stopped and could be. about is what of the record is known beforehand.
func (t *Trial) Run(ctx context.Context, about rollout.Proof) (seen rollout.Proof, err error) {
	seen = about
	seen.At = t.Clock.Now().UTC()
	if !t.Daemon.Answers(ctx) {
		return seen, errors.New("the daemon does not answer: nothing would be proved")
	}
	job, err := t.Slurm.Submit(ctx)
	if err != nil {
		return seen, err
	}
	seen.Job = job
	t.Say("job %d is submitted", job)
	// What follows is said although ctx has ended.
	after := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, t.Slurm.Cancel(after, job)) }()
	leased, err := t.untilLeased(ctx, job)
	if err != nil {
		return seen, err
	}
	seen.Begin, seen.Lease, seen.Asked = leased.Own.UTC(), leased.Begin.UTC(), maps.Clone(leased.Asks)
	defer func() { err = errors.Join(err, t.back(after, &seen)) }()
	err = t.without(ctx, &seen)
	return seen, err
}

// untilLeased waits until the daemon has leased the job beyond its own begin time, so that it is the lease that it
// waits for.
func (t *Trial) untilLeased(ctx context.Context, job int) (Job, error) {
	var last Job
	err := t.until(ctx, t.Patience, func() (bool, error) {
		seen, err := t.Slurm.Look(ctx, job)
		last = seen
		switch {
		case err != nil:
			return false, err
		case !seen.waits():
			return false, fmt.Errorf("job %d does not wait any more, but is %s: it was leased by nobody, or its begin "+
				"time came first", job, seen.State)
		}
		return seen.Leased && seen.Begin.After(seen.Own), nil
	})
	if errors.Is(err, errImpatient) {
		return last, fmt.Errorf("the daemon has not leased job %d in %s: is its partition managed, and is it in the "+
			"canary?", job, t.Patience)
	}
	if err == nil {
		t.Say("job %d waits under a lease until %s", job, clock(last.Begin))
	}
	return last, err
}

// without stops the daemon and waits for the job's start.
func (t *Trial) without(ctx context.Context, seen *rollout.Proof) error {
	if err := t.Daemon.Stop(ctx); err != nil {
		return fmt.Errorf("stop the daemon: %w", err)
	}
	seen.Stopped, seen.Silent = t.Clock.Now().UTC(), !t.Daemon.Answers(ctx)
	if !seen.Silent {
		return errors.New("the daemon still answers: it was not stopped, or was started again")
	}
	now, err := t.Slurm.Look(ctx, seen.Job)
	if err != nil {
		return err
	}
	switch {
	case now.Begin.After(seen.Lease): // renewed in the last moment
		seen.Lease = now.Begin.UTC()
	case now.Begin.Before(seen.Lease):
		seen.Moved = now.Begin.UTC()
	}
	t.Say("the daemon is stopped; the job may begin at %s", clock(now.Begin))
	patience := max(0, seen.Lease.Sub(seen.Stopped)) + t.Patience
	err = t.until(ctx, patience, func() (done bool, err error) {
		now, err = t.Slurm.Look(ctx, seen.Job)
		return !now.waits() || now.Begin.After(seen.Lease), err
	})
	if err != nil && !errors.Is(err, errImpatient) {
		return err
	}
	seen.Silent = !t.Daemon.Answers(ctx)
	return t.saw(seen, now)
}

// saw notes how the job was found at the end.
func (t *Trial) saw(seen *rollout.Proof, now Job) error {
	if now.waits() {
		seen.Reason = now.Reason
		if now.Begin.After(seen.Lease) {
			seen.Moved = now.Begin.UTC()
		}
		return seen.Passed()
	}
	seen.Started, seen.Had = now.Started.UTC(), map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(seen.Asked)) {
		seen.Had[key] = now.Asks[key]
	}
	return seen.Passed()
}

// back starts the daemon again.
func (t *Trial) back(ctx context.Context, seen *rollout.Proof) error {
	began := t.Clock.Now()
	if err := t.Daemon.Start(ctx); err != nil {
		return fmt.Errorf("the daemon could not be started again, do it by hand: %w", err)
	}
	err := t.until(ctx, t.Patience, func() (bool, error) { return t.Daemon.Answers(ctx), nil })
	if err != nil {
		return fmt.Errorf("the daemon was started again and does not answer in %s: see its log", t.Patience)
	}
	seen.Back = max(t.Clock.Now().Sub(began).Seconds(), 0.001)
	t.Say("the daemon answers again")
	return nil
}

var errImpatient = errors.New("it took too long")

// until asks again and again, and gives up when ctx ends or it has taken too long.
func (t *Trial) until(ctx context.Context, most time.Duration, holds func() (bool, error)) error {
	for began := t.Clock.Now(); ; {
		if done, err := holds(); done || err != nil {
			return err
		}
		if t.Clock.Now().Sub(began) > most {
			return errImpatient
		}
		if err := t.Clock.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

func clock(at time.Time) string { return at.Local().Format(time.TimeOnly) }
