package bridge

import (
	"context"
	"time"
)

// pressing says that the lease of the step's job ends before this round does, or that nothing keeps the job from
// starting as it is.
func (a *acting) pressing(s *step) bool {
	return s.job.Begin.Before(a.now().Add(a.left() + a.Settings.StartTimeout))
}

// deferStarts says to the jobs that wait, and would not do so for long or not as their users asked for it, that they
// wait.
func (a *acting) deferStarts(ctx context.Context) error {
	return a.each(ctx, a.steps.filter(func(s *step) bool {
		return s.stage == begun && (s.Verb == Release || s.Verb == Restore || s.Verb == Renew && a.pressing(s))
	}), done, func(s *step) error { return a.write(ctx, s, a.letting(s)) })
}

// letting is the update that hands the step's job back to Slurm, or lets it wait.
func (t *turn) letting(s *step) Update {
	if s.Verb == Release {
		return releasing(s.job.record, t.report.Round, s.job.alone, t.now())
	}
	return t.leased(s)
}

// leased is the update that lets the step's job wait: its user's own request, and a lease.
func (t *turn) leased(s *step) Update {
	return t.waiting(s.job.record, t.report.Round, s.Why, s.job.note, t.now())
}

// renew tells jobs that wait so, with a new lease, for as long as that, a few at a time.
func (a *acting) renew(ctx context.Context, until time.Duration) error {
	for len(a.untold) > 0 && a.Clock.Elapsed() < until {
		few := a.untold[:min(max(1, a.Settings.Parallel), len(a.untold))]
		a.untold = a.untold[len(few):]
		if err := a.renewEach(ctx, few); err != nil {
			return err
		}
	}
	return nil
}

func (a *acting) renewEach(ctx context.Context, steps []*step) error {
	return a.each(ctx, steps, done, func(s *step) error { return a.write(ctx, s, a.leased(s)) })
}
