package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// couldStartBeforeNextRound says whether Slurm could start the step's job before the next round: it does not depend on
// the lease job, and its begin time comes before this round ends, or less than StartTimeout later. Such a job is
// renewed before anything else is done; other renewals can wait.
func (a *executor) couldStartBeforeNextRound(s *step) bool {
	return s.job.Lease == 0 && s.job.Begin.Before(a.round.now().Add(a.timeLeft()+a.runner.Settings.StartTimeout))
}

// deferStarts writes to the waiting jobs that cannot wait until the round has time: those that are to be handed back or
// restored, and those whose lease ends so soon that they could start too early.
func (a *executor) deferStarts(ctx context.Context) error {
	return a.forEachStep(ctx, a.steps.filter(func(s *step) bool {
		return s.stage == notBegun &&
			(s.Verb == Release || s.Verb == Restore || s.Verb == Renew && a.couldStartBeforeNextRound(s))
	}), done, func(s *step) error { return a.writeWaitOrRelease(ctx, s) })
}

// writeWaitOrRelease hands the step's job back to Slurm (Release), or restores or renews it. If Slurm has just started
// a job that was to be restored, there is no error and the step is done (startedByItself is set): the job runs with the
// size that it carried.
func (a *executor) writeWaitOrRelease(ctx context.Context, s *step) error {
	err := a.write(ctx, s, a.round.waitOrReleaseUpdate(s))
	if s.startedByItself = s.Verb == Restore && errors.Is(err, slurm.ErrNotPending); s.startedByItself {
		return nil
	}
	return err
}

// waitOrReleaseUpdate is the update that hands the step's job back to Slurm, or, unless the verb is Release, gives it
// its own request and a lease.
func (t *activeRound) waitOrReleaseUpdate(s *step) slurm.Update {
	if s.Verb == Release {
		return releaseUpdate(s.job.record, t.report.Round, s.job.untouchedBecause, t.now())
	}
	return t.leaseUpdate(s)
}

// leaseUpdate is the update that lets the step's job wait: its user's own request, and a lease.
func (t *activeRound) leaseUpdate(s *step) slurm.Update {
	return t.runner.waitUpdate(s.job, t.report.Round, s.Why, t.now())
}

// renewUntil writes a.renewals, a few at a time, until the given moment on the host's monotonic clock or until none is
// left. Each gives a job a new lease and the reason why it waits. Those that were not written wait for the next call.
func (a *executor) renewUntil(ctx context.Context, until time.Duration) error {
	for len(a.renewals) > 0 && a.runner.Clock.Elapsed() < until {
		few := a.renewals[:min(max(1, a.runner.Settings.Parallel), len(a.renewals))]
		a.renewals = a.renewals[len(few):]
		if err := a.renewAll(ctx, few); err != nil {
			return err
		}
	}
	return nil
}

// renewRest writes the renewals for which there was no time while the round waited. Where small rounds are held it
// stops after maxRenewTime, since no small round can start a job meanwhile; the later rounds write the rest. Without a
// lease job the leases are the begin times that are renewed here, so it takes all the time until the next round is due.
func (a *executor) renewRest(ctx context.Context) error {
	switch {
	case a.round.small:
		return a.renewUntil(ctx, a.runner.Clock.Elapsed()+maxRenewTime/2)
	case a.runner.Settings.Watched && a.runner.leasing.job != 0:
		return a.renewUntil(ctx, a.runner.Clock.Elapsed()+maxRenewTime)
	}
	return a.renewAll(ctx, a.renewals)
}

// maxRenewTime is how long a full round writes renewals after all else is done; a small round takes half of it.
const maxRenewTime = 2 * time.Second

// renewAll writes to the jobs of these steps their lease and the reason why they wait, until the next round is due.
// Steps that were not begun by then stay as they are.
func (a *executor) renewAll(ctx context.Context, steps []*step) error {
	return a.forEachStep(ctx, steps, done, func(s *step) error { return a.write(ctx, s, a.round.leaseUpdate(s)) })
}
