package bridge

import (
	"context"
	"slices"
	"sort"
	"time"
)

// act carries the round's steps out: what must not wait is let wait, victims are asked to leave, each start follows as soon as its
// nodes are free, and those who wait are told so in what time that leaves. It ends when every step is done or has failed, or when the
// next round is due: nothing is begun after that. The error is one that ends the round; what went wrong with a single job stands in
// its step.
func (t *turn) act(ctx context.Context) error {
	a := newActing(t)
	defer a.putOff()
	if err := a.letWait(ctx); err != nil {
		return err
	}
	t.phase("lease")
	if err := a.ask(ctx); err != nil {
		return err
	}
	t.phase("ask")
	if err := a.follow(ctx); err != nil {
		return err
	}
	t.phase("follow")
	err := a.tellAll(ctx)
	t.phase("tell")
	return err
}

// acting is the state of one act.
type acting struct {
	*turn
	steps  []step
	untold []*step       // those that can wait to be told that they wait, the most urgent first
	at     time.Time     // of the last look
	nodes  []Node        // as last seen, ascending in name
	until  time.Duration // when the next round is due
	update longest       // of the updates so far
	gaze   time.Duration // the longest of the looks so far
}

func newActing(t *turn) *acting {
	a := &acting{
		turn: t, at: t.scene.at, nodes: t.scene.nodes, until: t.began + t.Settings.Round,
		steps: make([]step, len(t.report.Steps)),
	}
	for k := range a.steps {
		s := &a.steps[k]
		s.Step, s.since = &t.report.Steps[k], t.Clock.Elapsed()
		s.tenant = t.scene.find(s.Job)
		if s.Verb == Preempt {
			s.from = s.tenant.Runs.Nodes
		}
	}
	a.untold = a.filter(func(s *step) bool { return s.Verb == Renew && !a.pressing(s) })
	slices.SortStableFunc(a.untold, func(x, y *step) int { return x.tenant.Begin.Compare(y.tenant.Begin) })
	return a
}

// left is the time until the next round is due.
func (a *acting) left() time.Duration { return a.until - a.Clock.Elapsed() }

// now is Slurm's time.
func (a *acting) now() time.Time { return a.watch.now(a.Clock) }

// putOff notes what was not begun: a later round does it. What was begun and not seen through is said to be so.
func (a *acting) putOff() {
	for _, s := range a.filter((*step).open) {
		if s.stage == begun {
			s.PutOff = true
		} else {
			a.fail(s, "the round ended before it was done")
		}
	}
}

// seenNow is the job as last seen; the zero job where it is not there any more.
func (a *acting) seenNow(job int) *Job {
	j, _ := a.find(job)
	return j
}

// find also tells whether the job is there.
func (a *acting) find(job int) (*Job, bool) {
	k, found := sort.Find(len(a.seen), func(k int) int { return job - a.seen[k].ID })
	if !found {
		return &Job{}, false
	}
	return a.seen[k], true
}

// follow looks again and again until every step has come to its end.
func (a *acting) follow(ctx context.Context) error {
	for {
		if err := a.advance(ctx); err != nil {
			return err
		}
		if !a.anyOpen() {
			return nil
		}
		if a.left() <= 0 {
			return a.giveUp(ctx)
		}
		if err := a.pause(ctx); err != nil {
			return err
		}
		if err := a.look(ctx); err != nil {
			return err
		}
	}
}

// pause lets the time until the next look pass, and uses it to tell those who wait.
func (a *acting) pause(ctx context.Context) error {
	until := a.Clock.Elapsed() + min(a.Settings.Poll, a.left())
	if end := a.until - a.retreat(); a.Clock.Elapsed() < end {
		until = min(until, end)
	}
	if err := a.tell(ctx, until); err != nil {
		return err
	}
	if rest := until - a.Clock.Elapsed(); rest > 0 {
		return a.Clock.Sleep(ctx, rest)
	}
	return nil
}

func (a *acting) anyOpen() bool {
	for k := range a.steps {
		if s := &a.steps[k]; s.open() && s.Verb != Renew {
			return true
		}
	}
	return false
}

// look observes the jobs and nodes anew.
func (a *acting) look(ctx context.Context) error {
	began := a.Clock.Elapsed()
	seen, err := a.turn.look(ctx, a.records)
	if err != nil {
		return err
	}
	a.gaze = max(a.gaze, a.Clock.Elapsed()-began)
	a.at, a.seen, a.nodes = seen.At, seen.Jobs, seen.Nodes
	return nil
}

// advance takes every step as far as it can go now: victims first, since they free what the starts need.
func (a *acting) advance(ctx context.Context) error {
	err := a.each(ctx, a.overstayed(), forced, func(s *step) error { return a.Slurm.Requeue(ctx, s.Job) })
	if err != nil {
		return err
	}
	gone := a.departed()
	for _, s := range gone {
		a.closeAccount(s)
		s.from = nil // its nodes are free, whatever becomes of the rest
	}
	if err := a.each(ctx, gone, done, func(s *step) error { return a.seeOff(ctx, s) }); err != nil {
		return err
	}
	if err := a.after(ctx, gone); err != nil {
		return err
	}
	a.dropHopeless()
	if err := a.each(ctx, a.startable(), sent, func(s *step) error { return a.start(ctx, s) }); err != nil {
		return err
	}
	return a.verify(ctx)
}

// giveUp ends the round because the next one is due. Victims that are still saving go on doing so; the next round knows that
// they were asked.
func (a *acting) giveUp(ctx context.Context) error {
	err := a.takeBack(ctx, a.filter(func(s *step) bool { return s.stage == sent }))
	for _, s := range a.filter(func(s *step) bool { return s.open() && s.Verb != Renew }) {
		a.fail(s, "not done before the next round was due")
	}
	return err
}
