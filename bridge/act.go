package bridge

import (
	"context"
	"slices"
	"time"
)

// act carries the round's steps out: what must not wait is let wait, victims are asked to leave, each start follows as
// soon as its nodes are free, and those who wait are told so in what time that leaves. It ends when every step is done
// or has failed, or when the next round is due: nothing is begun after that. The error is one that ends the round; what
// went wrong with a single job stands in its step.
func (t *turn) act(ctx context.Context) error {
	a := newActing(t)
	defer a.putOff()
	defer a.noteDisplaced()
	if err := a.deferStarts(ctx); err != nil {
		return err
	}
	if err := a.secure(ctx); err != nil {
		return err
	}
	a.callOff()
	if err := a.callOffMoves(ctx); err != nil {
		return err
	}
	t.phase("lease")
	if err := (preempting{a}).ask(ctx); err != nil {
		return err
	}
	t.phase("ask")
	err := a.follow(ctx)
	a.mournVictims()
	if err != nil {
		return err
	}
	t.phase("follow")
	if err := a.armAll(ctx); err != nil {
		return err
	}
	t.phase("arm")
	err = a.renewEach(ctx, a.untold) // what is left of them, until the next round is due
	t.phase("renew")
	return err
}

// acting is the state of one act.
type acting struct {
	*turn
	sight
	steps  steps
	untold []*step       // those that can wait to be told that they wait, the most urgent first
	admits time.Duration // when newcomers may be admitted next
	until  time.Duration // when the next round is due
	update longest       // of the updates so far
	sights int           // how many looks there were
	looks  int           // since something was sent or asked last
	gaze   time.Duration // the longest of the looks so far
}

func newActing(t *turn) *acting {
	a := &acting{
		turn: t, sight: sight{at: t.scene.at, jobs: t.seen, nodes: t.scene.nodes}, until: t.began + t.span(),
		admits: t.Clock.Elapsed() + admitEvery,
	}
	a.take(0, false)
	return a
}

// take takes up the steps of the report from one on.
func (a *acting) take(from int, admitted bool) {
	for k := range a.report.Steps {
		if k < from {
			a.steps[k].Step = &a.report.Steps[k] // the list may have moved
			continue
		}
		s := &step{Step: &a.report.Steps[k], since: a.Clock.Elapsed(), admitted: admitted}
		s.job = a.scene.find(s.Job)
		s.expires = s.Verb == Preempt && a.scene.expiring[s.Job]
		s.aside = s.expires && a.Settings.Watched
		if s.Verb == Preempt && !s.expires {
			s.from = s.job.Runs.Nodes
		}
		a.steps = append(a.steps, s)
	}
	a.untold = append(a.untold, a.steps[from:].filter(func(s *step) bool { return s.Verb == Renew && !a.pressing(s) })...)
	slices.SortStableFunc(a.untold, func(x, y *step) int { return x.job.Begin.Compare(y.job.Begin) })
}

// foresight is how far ahead a round looks at what time limits will demand before it is over: no small one can be held
// meanwhile. A small one is over soon.
func (t *turn) foresight() time.Duration {
	if t.small || t.Settings.Shadow || !t.Settings.Watched {
		return 0
	}
	return t.span()
}

// span is how long the round may take.
func (t *turn) span() time.Duration {
	if t.small {
		return min(2*smallStart, t.Settings.Round)
	}
	return t.Settings.Round
}

// left is the time until the next round is due.
func (a *acting) left() time.Duration { return a.until - a.Clock.Elapsed() }

// now is Slurm's time.
func (t *turn) now() time.Time { return t.watch.now(t.Clock) }

// putOff notes what was not begun: a later round does it. What was begun and not seen through is said to be so, unless
// no round waits for it. What was foreseen and whose moment has not come is no step of this round.
func (a *acting) putOff() {
	early := map[int]bool{}
	for _, s := range a.steps.filter((*step).open) {
		switch {
		case s.stage == begun && !a.isTime(s):
			early[s.Job] = true
		case s.stage == begun:
			s.PutOff = true
		case s.aside:
			a.reach(s, done)
		default:
			a.fail(s, "the round ended before it was done")
		}
	}
	if len(early) > 0 {
		a.report.Steps = slices.DeleteFunc(a.report.Steps,
			func(s Step) bool { return s.Verb == Preempt && early[s.Job] })
	}
}

// follow looks again and again until every step has come to its end.
func (a *acting) follow(ctx context.Context) error {
	for {
		if err := a.advance(ctx); err != nil {
			return err
		}
		if !a.steps.anyOpen() {
			return nil
		}
		if a.left() <= 0 {
			return a.giveUp(ctx)
		}
		if err := a.pause(ctx); err != nil {
			return err
		}
		// the last word to who waits took longer than there was: a look would be a second call beyond the end
		if a.left() < 0 {
			return a.giveUp(ctx)
		}
		if err := a.look(ctx); err != nil {
			return err
		}
		if err := (admission{acting: a}).admit(ctx); err != nil {
			return err
		}
	}
}

// pause lets the time until the next look pass, and uses it to tell those who wait.
func (a *acting) pause(ctx context.Context) error {
	until := a.Clock.Elapsed() + min(a.poll(), a.left())
	if end := a.until - a.retreat(); a.Clock.Elapsed() < end {
		until = min(until, end)
	}
	if err := a.renew(ctx, until); err != nil {
		return err
	}
	if rest := until - a.Clock.Elapsed(); rest > 0 {
		return a.Clock.Sleep(ctx, rest)
	}
	return nil
}

// parts of Settings.Poll are the times between the first looks; together they are one.
var parts = []time.Duration{4, 4, 2}

// poll is the time until the next look. What was sent comes about within half a second where it does, and somebody may
// wait for that; so the first looks follow sooner, unless a look itself takes so long that slurmrestd would do little
// else.
func (a *acting) poll() time.Duration {
	soon := a.Settings.Poll
	if a.looks < len(parts) {
		soon /= parts[a.looks]
	}
	return min(a.Settings.Poll, max(soon, 10*a.gaze))
}

// look observes the jobs and nodes anew.
func (a *acting) look(ctx context.Context) error {
	began := a.Clock.Elapsed()
	seen, err := a.turn.look(ctx, a.records)
	if err != nil {
		return err
	}
	a.looked, a.gaze, a.looks, a.sights = began, max(a.gaze, a.Clock.Elapsed()-began), a.looks+1, a.sights+1
	a.at, a.jobs, a.nodes, a.reservations = seen.At, seen.Jobs, seen.Nodes, seen.Reservations
	return nil
}

// advance takes every step as far as it can go now: victims first, since they free what the starts need.
func (a *acting) advance(ctx context.Context) error {
	a.noteSecured()
	if err := (preempting{a}).advance(ctx); err != nil {
		return err
	}
	a.dropHopeless()
	a.turnBack()
	ready := a.startable()
	if err := a.stepAside(ctx, ready); err != nil {
		return err
	}
	if err := a.each(ctx, ready, sent, func(s *step) error { return a.start(ctx, s) }); err != nil {
		return err
	}
	if err := a.verify(ctx); err != nil {
		return err
	}
	return a.secure(ctx)
}

// giveUp ends the round because the next one is due. Victims that are still saving go on doing so; the next round knows
// that they were asked.
func (a *acting) giveUp(ctx context.Context) error {
	err := a.rollBack(ctx, a.steps.filter(a.seenSince))
	for _, s := range a.steps.filter((*step).awaited) {
		if s.stage == sent {
			s.PutOff = true // it may still start: the next round looks
			continue
		}
		a.fail(s, "not done before the next round was due")
	}
	return err
}
