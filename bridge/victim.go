package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// preempting is the part of an acting that has victims leave.
type preempting struct{ *acting }

// ask signals the victims whose moment has come, or stops those that have no checkpoint.
func (a preempting) ask(ctx context.Context) error {
	victims := a.steps.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == begun && a.isTime(s) })
	err := a.each(ctx, victims, asked, func(s *step) error { return a.askOne(ctx, s) })
	for _, s := range victims {
		if s.stage == asked && s.job.record.Asked.IsZero() {
			s.job.record.Asked = a.now()
		}
	}
	return err
}

// advance takes the victims as far as they can go now.
func (a preempting) advance(ctx context.Context) error {
	if err := a.ask(ctx); err != nil {
		return err
	}
	err := a.each(ctx, a.overstayed(), forced, func(s *step) error { return a.Slurm.Requeue(ctx, s.Job) })
	if err != nil {
		return err
	}
	gone := a.departed()
	for _, s := range gone {
		a.closeAccount(s)
		s.from = nil // its nodes are free, whatever becomes of the rest
	}
	if err := a.each(ctx, gone, done, func(s *step) error { return a.restore(ctx, s) }); err != nil {
		return err
	}
	return a.after(ctx, gone)
}

// askOne asks one job to save and leave. One that was asked in an earlier round is not asked twice, unless nobody lived
// to tell of it; one that has ended meanwhile has left.
func (a preempting) askOne(ctx context.Context, s *step) error {
	word, saves := &s.job.said.word, s.job.saves()
	if saves && !s.job.record.Asked.IsZero() {
		return nil
	}
	if err := a.before(ctx, s); err != nil {
		return err
	}
	var err error
	if saves {
		err = a.Slurm.Signal(ctx, s.Job, word.Signal)
	} else {
		err = a.Slurm.Requeue(ctx, s.Job)
	}
	if errors.Is(err, ErrNotRunning) || errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// pardon forgets that jobs were asked to leave which this round lets go on, and whose grace is over: they did not heed
// the signal. One of them that is picked again later is asked again, and has all of its grace.
func (s *scene) pardon(steps []Step) {
	for _, t := range s.managed {
		asked := t.record.Asked
		if asked.IsZero() || s.at.Sub(asked) < t.said.word.Grace {
			continue
		}
		if !slices.ContainsFunc(steps, func(step Step) bool { return step.Job == t.ID && step.Verb == Preempt }) {
			t.record.Asked = time.Time{}
		}
	}
}

// before runs the hook before the job is asked. It may take half of what is left of the round, so that one that hangs
// leaves time for all that does not depend on it.
func (a preempting) before(ctx context.Context, s *step) error {
	h := a.Settings.Hook
	if h == nil {
		return nil
	}
	if err := h.Before(ctx, *a.seenNow(s.Job), s.Why, a.left()/2); err != nil {
		return fmt.Errorf("checkpoint hook: %w", err)
	}
	if a.left() <= 0 {
		return errDue
	}
	return nil
}

// overstayed lists the victims that were asked and have not left within their grace, or before their time limit ends
// them for good.
func (a preempting) overstayed() []*step {
	return a.steps.filter(func(s *step) bool {
		word := &s.job.said.word
		return s.stage == asked && s.job.saves() && a.seenNow(s.Job).State == Running &&
			(a.now().Sub(s.job.record.Asked) >= word.Grace || a.outOfTime(s))
	})
}

// overstays says that a job was asked to leave, and that its grace is over.
func (t *managedJob) overstays(now time.Time) bool {
	asked := t.record.Asked
	return !asked.IsZero() && now.Sub(asked) >= t.said.word.Grace
}

// departed lists the victims that run no more.
func (a preempting) departed() []*step {
	return a.steps.filter(func(s *step) bool {
		return (s.stage == asked || s.stage == forced) && a.seenNow(s.Job).State != Running
	})
}

// closeAccount credits a victim's run up to its end.
func (a preempting) closeAccount(s *step) {
	j, there := a.find(s.Job)
	if !there || j.State != Pending {
		return
	}
	left := *s.job
	left.Job = j
	left.record.credit(&left, a.now())
}

// restore gives a victim that has left its user's own request back, with a lease. The lease is said first, while the
// last run is still being cleaned up: Slurm then keeps it in place of its own penalty. A job that has ended meanwhile
// needs nothing, and one that somebody holds is left as it is.
func (a preempting) restore(ctx context.Context, s *step) error {
	j := *a.seenNow(s.Job)
	if j.State == Pending {
		err := a.write(ctx, s, a.leased(s))
		if err != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrNotPending) && !errors.Is(err, ErrHeld) {
			return err
		}
	}
	return nil
}

// after runs the hook for the victims that were restored: once all of them have their leases, since Slurm's own penalty
// may be over before a hook is.
func (a preempting) after(ctx context.Context, gone []*step) error {
	h := a.Settings.Hook
	if h == nil {
		return nil
	}
	off := slices.DeleteFunc(gone, func(s *step) bool { return s.stage != done })
	return a.each(ctx, off, done, func(s *step) error {
		j := *a.seenNow(s.Job)
		j.ID, j.Runs = s.Job, s.job.Runs
		if err := h.After(ctx, j, s.Why, a.left()/2); err != nil {
			s.Error = fmt.Sprintf("checkpoint hook: %v", err) // to be told, but the job has left and has its lease
		}
		return nil
	})
}
