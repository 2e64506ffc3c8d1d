package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// askVictims signals the jobs that are to leave now, or requeues those that have no checkpoint, and notes in their
// records when they were asked: from then their grace runs.
func askVictims(ctx context.Context, a *executor) error {
	victims := a.steps.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == notBegun && a.isDue(s) })
	err := a.forEachStep(ctx, victims, asked, func(s *step) error { return askVictim(ctx, a, s) })
	for _, s := range victims {
		if s.stage == asked && s.job.record.Asked.IsZero() {
			s.job.record.Asked = a.round.now()
		}
	}
	return err
}

// advancePreemptions takes the preemptions as far as they can go by the last observation: it asks jobs, requeues those
// whose grace is over, and gives the jobs that have left their own request and a lease. The nodes of these jobs are
// then free for starts.
func advancePreemptions(ctx context.Context, a *executor) error {
	if err := askVictims(ctx, a); err != nil {
		return err
	}
	err := a.forEachStep(
		ctx,
		overdueVictims(a),
		forced,
		func(s *step) error { return a.runner.Slurm.Requeue(ctx, s.Job) },
	)
	if err != nil {
		return err
	}
	gone := departedVictims(a)
	for _, s := range gone {
		creditLastRun(a, s)
		s.freedNodes = nil // its nodes are free, whatever happens to the other steps
	}
	if err := a.forEachStep(ctx, gone, done, func(s *step) error { return restoreVictim(ctx, a, s) }); err != nil {
		return err
	}
	return runAfterHooks(ctx, a, gone)
}

// askVictim asks a job to save and leave. A job that an earlier round asked, according to its record, is not asked
// again. If that round died before it stored the record, the job is asked again. A job without a checkpoint has nothing
// to save and is requeued at once. A job that has ended meanwhile counts as asked: then it is found to have left.
func askVictim(ctx context.Context, a *executor, s *step) error {
	saves := s.job.canSave()
	if saves && !s.job.record.Asked.IsZero() {
		return nil
	}
	if err := runBeforeHook(ctx, a, s); err != nil {
		return err
	}
	var err error
	if saves {
		err = a.runner.Slurm.Signal(ctx, s.Job, s.job.signal())
	} else {
		err = a.runner.Slurm.Requeue(ctx, s.Job)
	}
	if errors.Is(err, slurm.ErrNotRunning) || errors.Is(err, slurm.ErrGone) {
		return nil
	}
	return err
}

// forgetIgnoredRequests clears the request to leave of jobs that ignored it until the end of their grace and that this
// round lets go on. If such a job is chosen again later, it is asked again and has its full grace.
func (s *sortedObservation) forgetIgnoredRequests(steps []Step) {
	for _, t := range s.managed {
		asked := t.record.Asked
		if asked.IsZero() || s.at.Sub(asked) < t.directives.Grace {
			continue
		}
		if !slices.ContainsFunc(steps, func(step Step) bool { return step.Job == t.ID && step.Verb == Preempt }) {
			t.record.Asked = time.Time{}
		}
	}
}

// runBeforeHook runs the hook before a job is asked. The hook gets half of the time that is left of the round, so that
// one that hangs leaves time for other steps.
func runBeforeHook(ctx context.Context, a *executor, s *step) error {
	h := a.runner.Settings.Hook
	if h == nil {
		return nil
	}
	if err := h.Before(ctx, *a.seenNow(s.Job), s.Why, a.timeLeft()/2); err != nil {
		return fmt.Errorf("checkpoint hook: %w", err)
	}
	if a.timeLeft() <= 0 {
		return errDue
	}
	return nil
}

// overdueVictims lists the asked jobs that still run although their grace is over, or their time limit will come before
// its end. They are requeued by force: at its time limit Slurm would end such a job for good.
func overdueVictims(a *executor) []*step {
	return a.steps.filter(func(s *step) bool {
		return s.stage == asked && s.job.canSave() && a.seenNow(s.Job).State == slurm.Running &&
			(a.round.now().Sub(s.job.record.Asked) >= s.job.directives.Grace || limitBeforeGrace(a, s))
	})
}

// isGraceOver says that a job was asked to leave and that its grace is over, so that a round may force it.
func (t *managedJob) isGraceOver(now time.Time) bool {
	asked := t.record.Asked
	return !asked.IsZero() && now.Sub(asked) >= t.directives.Grace
}

// departedVictims lists the preemptions whose jobs no longer run, or are gone; they may still be completing.
func departedVictims(a *executor) []*step {
	return a.steps.filter(func(s *step) bool {
		return (s.stage == asked || s.stage == forced) && a.seenNow(s.Job).State != slurm.Running
	})
}

// creditLastRun credits a preempted job's run up to its end, in its record. The end is the new time of submission that
// Slurm gives a requeued job. For a job that is gone or no longer waits it is unknown, and nothing is done.
func creditLastRun(a *executor, s *step) {
	j, there := a.find(s.Job)
	if !there || j.State != slurm.Pending {
		return
	}
	left := *s.job
	left.Job = j
	left.record.credit(&left, a.round.now())
}

// restoreVictim gives a job that has left its user's own request and a lease. It is written while the last run is still
// being cleaned up: Slurm then keeps the lease in place of its own requeue penalty. Nothing is done about a job that
// has ended, started or been held meanwhile.
func restoreVictim(ctx context.Context, a *executor, s *step) error {
	j := *a.seenNow(s.Job)
	if j.State == slurm.Pending {
		err := a.write(ctx, s, a.round.leaseUpdate(s))
		if err != nil && !errors.Is(err, slurm.ErrGone) && !errors.Is(err, slurm.ErrNotPending) &&
			!errors.Is(err, slurm.ErrHeld) {
			return err
		}
	}
	return nil
}

// runAfterHooks runs the administrator's hook for those jobs of gone that have left and have their leases (stage done).
// It runs after all of them have their leases, since Slurm's own penalty may end before a hook does. An error of the
// hook is only reported.
func runAfterHooks(ctx context.Context, a *executor, gone []*step) error {
	h := a.runner.Settings.Hook
	if h == nil {
		return nil
	}
	off := slices.DeleteFunc(gone, func(s *step) bool { return s.stage != done })
	return a.forEachStep(ctx, off, done, func(s *step) error {
		j := *a.seenNow(s.Job)
		// The hook is told the nodes that the job has left, also if the job is gone.
		j.ID, j.Runs = s.Job, s.job.Runs
		if err := h.After(ctx, j, s.Why, a.timeLeft()/2); err != nil {
			s.Error = fmt.Sprintf("checkpoint hook: %v", err) // reported, but the job has left and has its lease
		}
		return nil
	})
}
