package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// slurmClock reads Slurm's clock between two observations. All times of jobs are by that clock, and so are all times
// that a round writes. The host's own clock may be wrong or be set at any time.
type slurmClock struct {
	set     bool
	at      time.Time     // Slurm's time
	elapsed time.Duration // the host's monotonic clock at that time
}

// clockTolerance is by how much Slurm's clock may seem to differ from the time that has passed. A larger difference
// means that it was set.
const clockTolerance = 2 * time.Second

// now is the present time by Slurm's clock: the time of the last observation plus what has passed on the host since.
func (w *slurmClock) now(c Clock) time.Time { return w.at.Add(c.Elapsed() - w.elapsed) }

// read notes the time at of an observation that was made between two moments of the host's monotonic clock. It returns
// by how much Slurm's clock was set since the last observation. 0 means that it was not set, or by less than
// clockTolerance, or that this is the first observation.
func (w *slurmClock) read(at time.Time, before, after time.Duration) (step time.Duration) {
	at = at.Round(0) // a monotonic reading would hide that the clock was set
	if !w.set {
		*w = slurmClock{true, at, before}
		return 0
	}
	moment := min(max(w.elapsed+at.Sub(w.at), before), after) // host time of the observation, by the last reading
	step = at.Sub(w.at.Add(moment - w.elapsed))
	*w = slurmClock{true, at, moment}
	if step.Abs() < clockTolerance {
		return 0
	}
	return step
}

// observeOnce observes once, with pools in place of nodes that have several GPU types. If Slurm's clock was set since
// the last observation, the times in the records are shifted with it: the difference was neither service nor grace nor
// waiting. records is called only then.
func (t *activeRound) observeOnce(ctx context.Context, records func() Records) (slurm.Observed, error) {
	before := t.runner.Clock.Elapsed()
	seen, err := t.runner.Slurm.Observe(ctx)
	if err != nil {
		return slurm.Observed{}, fmt.Errorf("observe: %w", err)
	}
	seen = t.runner.cache.dividePools(seen)
	if step := t.runner.watch.read(seen.At, before, t.runner.Clock.Elapsed()); step != 0 {
		t.report.ClockStep += step
		t.runner.cache.shift(step)
		for _, r := range records() {
			r.shift(step)
		}
	}
	// Round(0) drops the monotonic reading, so that the dates are compared.
	t.report.ClockAhead = t.runner.watch.now(t.runner.Clock).Sub(t.runner.Clock.Now().Round(0))
	return seen, nil
}

// shift moves the record's times when Slurm's clock was set by step. The user's own begin time is a date and stays.
func (r *Record) shift(step time.Duration) {
	for _, at := range []*time.Time{&r.First, &r.Until, &r.FailedAt, &r.Refused.At, &r.ReturnedAt, &r.Asked,
		&r.NoPlace.Since, &r.Beside.Since} {
		if !at.IsZero() {
			*at = at.Add(step)
		}
	}
	for k := range r.Avoids {
		r.Avoids[k].Until = r.Avoids[k].Until.Add(step)
	}
}

// shift moves the starts of the known runs, which are by Slurm's clock before it was set.
func (r *observationCache) shift(step time.Duration) {
	for _, t := range r.jobs {
		t.since = t.since.Add(step)
	}
}

// restartGraces starts the grace anew of jobs that another process asked to leave. Slurm's clock may have been set
// since that process ended, and a job without its full grace could be stopped while it saves.
func (t *activeRound) restartGraces(now time.Time) {
	for _, tn := range t.observation.managed {
		if r := tn.record; !r.Asked.IsZero() {
			r.Asked = now
		}
	}
}
