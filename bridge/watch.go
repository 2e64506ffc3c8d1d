package bridge

import (
	"context"
	"fmt"
	"time"
)

// watch reads Slurm's clock between two looks. All times of jobs are by that clock, and so is all that a round writes
// to them: what the clock of our own host says does not matter, whether it is wrong or is set in the middle of a round.
type watch struct {
	set     bool
	at      time.Time     // Slurm's time
	elapsed time.Duration // our own at that moment
}

// steady is by how much Slurm's clock may seem to differ from the time that has passed here. What is beyond that is a
// step.
const steady = 2 * time.Second

// now is Slurm's time.
func (w *watch) now(c Clock) time.Time { return w.at.Add(c.Elapsed() - w.elapsed) }

// read takes over the time of a look that was taken between two moments of ours. It answers by how much Slurm's clock
// was set since the last look.
func (w *watch) read(at time.Time, before, after time.Duration) (step time.Duration) {
	at = at.Round(0) // a monotonic reading would say that no clock was ever set
	if !w.set {
		*w = watch{true, at, before}
		return 0
	}
	moment := min(max(w.elapsed+at.Sub(w.at), before), after) // as the last look has it, if that can be
	step = at.Sub(w.at.Add(moment - w.elapsed))
	*w = watch{true, at, moment}
	if step.Abs() < steady {
		return 0
	}
	return step
}

// look observes. When Slurm's clock was set meanwhile, the times of the records are set with it: what has passed since
// has passed, whatever the clock says, and was neither service nor grace nor patience.
func (t *turn) look(ctx context.Context, records func() Records) (Observed, error) {
	before := t.Clock.Elapsed()
	seen, err := t.Slurm.Observe(ctx)
	if err != nil {
		return Observed{}, fmt.Errorf("observe: %w", err)
	}
	seen = t.reader.divide(seen)
	if step := t.watch.read(seen.At, before, t.Clock.Elapsed()); step != 0 {
		t.report.ClockStep += step
		t.reader.shift(step)
		for _, r := range records() {
			r.shift(step)
		}
	}
	// without the monotonic reading, which may say otherwise
	t.report.ClockAhead = t.watch.now(t.Clock).Sub(t.Clock.Now().Round(0))
	return seen, nil
}

// shift sets the record's times. The user's own begin time is a date and stays.
func (r *Record) shift(step time.Duration) {
	for _, at := range []*time.Time{&r.First, &r.Until, &r.FailedAt, &r.Refused.At, &r.Asked, &r.NoPlace.Since} {
		if !at.IsZero() {
			*at = at.Add(step)
		}
	}
	for k := range r.Avoids {
		r.Avoids[k].Until = r.Avoids[k].Until.Add(step)
	}
}

// shift notes that the runs known so far began by another clock than Slurm's is now.
func (r *reader) shift(step time.Duration) {
	for _, t := range r.jobs {
		t.since = t.since.Add(step)
	}
}

// believeNoGrace begins the grace of victims anew that another process asked to leave: nobody knows what was done to
// the clock since, and one that has not had its grace would be stopped while it saves.
func (t *turn) believeNoGrace(now time.Time) {
	for _, tn := range t.scene.managed {
		if r := tn.record; !r.Asked.IsZero() {
			r.Asked = now
		}
	}
}
