package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// act carries the round's steps out: what waits goes on waiting, victims are asked to leave, and each start follows as soon as
// its nodes are free. It ends when every step is done or has failed, or when the next round is due. The error is one that ends
// the round; what went wrong with a single job stands in its step.
func (t *turn) act(ctx context.Context) error {
	a := newActing(t)
	if err := a.letWait(ctx); err != nil {
		return err
	}
	t.phase("lease")
	if err := a.ask(ctx); err != nil {
		return err
	}
	t.phase("ask")
	err := a.follow(ctx)
	t.phase("follow")
	return err
}

// stage is how far a step has come.
type stage int

const (
	begun  stage = iota // nothing done yet
	asked               // the victim was signalled, or requeued at once where it cannot save
	forced              // the victim did not leave and was requeued
	sent                // the start was written
	done
	failed // given up; the step's Error says why
)

// step is a Step under way.
type step struct {
	*Step
	tenant *tenant // whose it is, as the round found it
	stage  stage
	since  time.Time // when the stage was reached
	from   []string  // nodes that a victim leaves
}

func (s *step) open() bool { return s.stage != done && s.stage != failed }

// acting is the state of one act.
type acting struct {
	*turn
	steps []step
	at    time.Time // of the last look
	nodes []Node    // as last seen, ascending in name
	until time.Time // when the next round is due
}

func newActing(t *turn) *acting {
	a := &acting{
		turn: t, at: t.scene.at, nodes: t.scene.nodes, until: t.began.Add(t.Settings.Round),
		steps: make([]step, len(t.report.Steps)),
	}
	for k := range a.steps {
		s := &a.steps[k]
		s.Step, s.since = &t.report.Steps[k], t.Clock.Now()
		s.tenant = t.scene.find(s.Job)
		if s.Verb == Preempt {
			s.from = s.tenant.Runs.Nodes
		}
	}
	return a
}

// find is the job that a step is for: managed, or no longer so.
func (s *scene) find(job int) *tenant {
	for _, list := range [][]*tenant{s.tenants, s.lost} {
		if k, found := sort.Find(len(list), func(k int) int { return job - list[k].ID }); found {
			return list[k]
		}
	}
	return nil
}

// letWait says to every job that waits that it waits: its user's own request, and a lease.
func (a *acting) letWait(ctx context.Context) error {
	waiting := a.filter(func(s *step) bool { return s.Verb == Release || s.Verb == Restore || s.Verb == Renew })
	return a.each(ctx, waiting, done, func(s *step) error {
		if s.Verb == Release {
			return a.update(ctx, s, releasing(s.tenant.record, a.report.Round, a.Clock.Now()))
		}
		return a.update(ctx, s, a.leased(s))
	})
}

// leased is the update that lets the step's job wait.
func (a *acting) leased(s *step) Update {
	return a.waiting(s.tenant.record, a.report.Round, s.Why, s.tenant.note, a.Clock.Now())
}

// ask signals the victims, or stops those that have no checkpoint.
func (a *acting) ask(ctx context.Context) error {
	victims := a.filter(func(s *step) bool { return s.Verb == Preempt })
	err := a.each(ctx, victims, asked, func(s *step) error { return a.askOne(ctx, s) })
	for _, s := range victims {
		if s.stage == asked && s.tenant.record.Asked.IsZero() {
			s.tenant.record.Asked = a.Clock.Now()
		}
	}
	return err
}

// askOne asks one job to save and leave. One that was asked in an earlier round is not asked twice, unless nobody lived to
// tell of it; one that has ended meanwhile has left.
func (a *acting) askOne(ctx context.Context, s *step) error {
	word := &s.tenant.said.word
	if h := a.Settings.Hook; h != nil {
		if err := h.Before(ctx, *a.now(s.Job), s.Why); err != nil {
			return fmt.Errorf("checkpoint hook: %w", err)
		}
	}
	var err error
	switch {
	case !word.Saves:
		err = a.Slurm.Requeue(ctx, s.Job)
	case s.tenant.record.Asked.IsZero():
		err = a.Slurm.Signal(ctx, s.Job, word.Signal)
	}
	if errors.Is(err, ErrNotRunning) || errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// now is the job as last seen; the zero job where it is not there any more.
func (a *acting) now(job int) *Job {
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
		if !a.Clock.Now().Before(a.until) {
			return a.giveUp(ctx)
		}
		if err := a.Clock.Sleep(ctx, a.Settings.Poll); err != nil {
			return err
		}
		if err := a.look(ctx); err != nil {
			return err
		}
	}
}

func (a *acting) anyOpen() bool {
	for k := range a.steps {
		if a.steps[k].open() {
			return true
		}
	}
	return false
}

// look observes the jobs and nodes anew.
func (a *acting) look(ctx context.Context) error {
	seen, err := a.Slurm.Observe(ctx)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
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
	a.dropHopeless()
	if err := a.each(ctx, a.startable(), sent, func(s *step) error { return a.start(ctx, s) }); err != nil {
		return err
	}
	return a.verify(ctx)
}

// overstayed lists the victims that were asked and have not left within their grace.
func (a *acting) overstayed() []*step {
	return a.filter(func(s *step) bool {
		word := &s.tenant.said.word
		return s.stage == asked && word.Saves && a.now(s.Job).State == Running &&
			a.Clock.Now().Sub(s.tenant.record.Asked) >= word.Grace
	})
}

// departed lists the victims that run no more.
func (a *acting) departed() []*step {
	return a.filter(func(s *step) bool {
		return (s.stage == asked || s.stage == forced) && a.now(s.Job).State != Running
	})
}

// closeAccount credits a victim's run up to its end.
func (a *acting) closeAccount(s *step) {
	j, there := a.find(s.Job)
	if !there || j.State != Pending {
		return
	}
	left := *s.tenant
	left.Job = j
	left.record.credit(&left, a.Clock.Now())
}

// seeOff gives a victim that has left its user's own request back, with a lease. The lease is said first, while the last run is
// still being cleaned up: Slurm then keeps it in place of its own penalty. A job that has ended meanwhile needs nothing, and one
// that somebody holds is left as it is.
func (a *acting) seeOff(ctx context.Context, s *step) error {
	j := *a.now(s.Job)
	if j.State == Pending {
		err := a.update(ctx, s, a.leased(s))
		if err != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrNotPending) && !errors.Is(err, ErrHeld) {
			return err
		}
	}
	h := a.Settings.Hook
	if h == nil {
		return nil
	}
	j.ID, j.Runs = s.Job, s.tenant.Runs
	if err := h.After(ctx, j, s.Why); err != nil {
		s.Error = fmt.Sprintf("checkpoint hook: %v", err) // to be told, but the job has left and has its lease
	}
	return nil
}

// blocked maps the nodes that a victim has still to leave, or will not leave, to the stage of its step.
func (a *acting) blocked() map[string]stage {
	var nodes map[string]stage // most rounds have no victims
	for k := range a.steps {
		s := &a.steps[k]
		if s.Verb != Preempt || s.stage == done {
			continue
		}
		if nodes == nil {
			nodes = map[string]stage{}
		}
		for _, n := range s.from {
			nodes[n] = max(nodes[n], s.stage)
		}
	}
	return nodes
}

// dropHopeless gives up the starts whose place a victim will not leave, or whose own last run was not stopped.
func (a *acting) dropHopeless() {
	stay := a.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == failed })
	if len(stay) == 0 {
		return
	}
	nodes := a.blocked()
	for _, s := range a.filter(func(s *step) bool { return s.Verb == Start && s.stage == begun }) {
		runsOn := slices.ContainsFunc(stay, func(other *step) bool { return other.Job == s.Job })
		if runsOn || slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return nodes[n] == failed }) {
			a.fail(s, "its place was not freed")
		}
	}
}

// startable lists the starts whose nodes nobody has to leave any more and on which nothing is being torn down. A job that is
// restarted must itself be through with its last run.
func (a *acting) startable() []*step {
	nodes := a.blocked()
	return a.filter(func(s *step) bool {
		if s.Verb != Start || s.stage != begun {
			return false
		}
		if j, there := a.find(s.Job); there && !settled(j, a.at) {
			return false
		}
		return !slices.ContainsFunc(s.Grant.Nodes, func(n string) bool {
			_, busy := nodes[n]
			return busy || a.completing(n)
		})
	})
}

// completing says that something is being torn down on a node.
func (a *acting) completing(name string) bool {
	k, found := sort.Find(len(a.nodes), func(k int) int { return strings.Compare(name, a.nodes[k].Name) })
	return found && a.nodes[k].Completing
}

// settled says that a job is through with its last run at a moment. Slurm takes one that starts in the very second in which that was torn
// down for the old run, and kills it for good; the time of the requeue says when that was. One more second is for clocks that differ.
func settled(j *Job, at time.Time) bool {
	return j.State != Running && !j.Completing && (j.Restarts == 0 || at.Unix() > j.Submitted.Unix()+1)
}

func (a *acting) start(ctx context.Context, s *step) error {
	u := starting(s.tenant.record, *s.Grant, a.report.Round, s.Why, s.tenant.note, a.Clock.Now())
	return a.update(ctx, s, u)
}

// verify closes the starts that came about, and takes back those that did not in time.
func (a *acting) verify(ctx context.Context) error {
	for _, s := range a.filter(func(s *step) bool { return s.stage == sent }) {
		if j, there := a.find(s.Job); s.since.Before(a.Clock.Now()) && (!there || j.State != Pending) {
			a.started(s)
		}
	}
	late := a.filter(func(s *step) bool {
		return s.stage == sent && a.Clock.Now().Sub(s.since) >= a.Settings.StartTimeout
	})
	return a.takeBack(ctx, late)
}

func (a *acting) started(s *step) {
	a.reach(s, done)
	r := s.tenant.record
	r.Starts, r.Failed, r.FailedAt = r.Starts+1, 0, time.Time{}
}

// takeBack gives jobs that did not start their user's own request and a lease again.
func (a *acting) takeBack(ctx context.Context, late []*step) error {
	err := a.each(ctx, late, failed, func(s *step) error {
		u := a.leased(s)
		u.Extra = stampOf(s.tenant.record, a.report.Round, "did not start, is tried again", s.tenant.note).String()
		err := a.update(ctx, s, u)
		if errors.Is(err, ErrNotPending) {
			return nil // it has started after all: the next round sees it run
		}
		return err
	})
	for _, s := range late {
		r := s.tenant.record
		r.Failed, r.FailedAt = r.Failed+1, a.Clock.Now()
		if s.Error == "" {
			s.Error = fmt.Sprintf("did not start within %s", a.Settings.StartTimeout)
		}
	}
	return err
}

// giveUp ends the round because the next one is due. Victims that are still saving go on doing so; the next round knows that
// they were asked.
func (a *acting) giveUp(ctx context.Context) error {
	err := a.takeBack(ctx, a.filter(func(s *step) bool { return s.stage == sent }))
	for _, s := range a.filter((*step).open) {
		a.fail(s, "not done before the next round was due")
	}
	return err
}

func (a *acting) fail(s *step, why string) {
	s.Error = why
	a.reach(s, failed)
}

func (a *acting) reach(s *step, to stage) {
	now := a.Clock.Now()
	s.Took += now.Sub(s.since)
	s.stage, s.since = to, now
}

func (a *acting) filter(keep func(*step) bool) []*step {
	var kept []*step
	for k := range a.steps {
		if s := &a.steps[k]; keep(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// update says an update and notes in the step what it changed.
func (a *acting) update(ctx context.Context, s *step, u Update) error {
	if err := a.Slurm.Update(ctx, u); err != nil {
		return err
	}
	s.tenant.written = u.Extra
	j := a.now(s.Job)
	s.Changes = append(requestChanges(s.Changes, &j.Request, &u.Request), Change{"begin_time", moment(j.Begin), moment(u.Begin)})
	return nil
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "at once"
	}
	return t.UTC().Format(time.RFC3339)
}

// each does f for every step, a bounded number at a time, and takes those for which it went well to the stage. An error with one
// job is that step's; the error returned is one that concerns them all.
func (a *acting) each(ctx context.Context, steps []*step, to stage, f func(*step) error) error {
	if len(steps) == 0 {
		return ctx.Err()
	}
	errs := parallel(a.Settings.Parallel, len(steps), func(k int) error { return f(steps[k]) })
	var fatal error
	for k, s := range steps {
		if errs[k] == nil {
			a.reach(s, to)
			continue
		}
		a.fail(s, errs[k].Error())
		if concernsAll(errs[k]) {
			fatal = errors.Join(fatal, fmt.Errorf("%s job %d: %w", s.Verb, s.Job, errs[k]))
		}
	}
	return errors.Join(fatal, ctx.Err())
}

func concernsAll(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrUnreachable)
}
