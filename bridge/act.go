package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
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
	since  time.Duration // when the stage was reached
	quiet  time.Duration // when the job was first seen to be through with its last run; 0: not yet
	from   []string      // nodes that a victim leaves
}

func (s *step) open() bool { return s.stage != done && s.stage != failed }

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

// pressing says that the lease of the step's job ends before this round does, or that nothing keeps the job from starting as it is.
func (a *acting) pressing(s *step) bool {
	return s.tenant.Begin.Before(a.now().Add(a.left() + a.Settings.StartTimeout))
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

// letWait says to the jobs that wait, and would not do so for long or not as their users asked for it, that they wait.
func (a *acting) letWait(ctx context.Context) error {
	return a.each(ctx, a.filter(func(s *step) bool {
		return s.Verb == Release || s.Verb == Restore || s.Verb == Renew && a.pressing(s)
	}), done, func(s *step) error {
		if s.Verb == Release {
			return a.write(ctx, s, releasing(s.tenant.record, a.report.Round, a.now()))
		}
		return a.write(ctx, s, a.leased(s))
	})
}

// leased is the update that lets the step's job wait: its user's own request, and a lease.
func (a *acting) leased(s *step) Update {
	return a.waiting(s.tenant.record, a.report.Round, s.Why, s.tenant.note, a.now())
}

// tell tells jobs that wait so for as long as that, a few at a time.
func (a *acting) tell(ctx context.Context, until time.Duration) error {
	for len(a.untold) > 0 && a.Clock.Elapsed() < until {
		few := a.untold[:min(max(1, a.Settings.Parallel), len(a.untold))]
		a.untold = a.untold[len(few):]
		if err := a.tellEach(ctx, few); err != nil {
			return err
		}
	}
	return nil
}

// tellAll tells what is left of them until the next round is due.
func (a *acting) tellAll(ctx context.Context) error { return a.tellEach(ctx, a.untold) }

func (a *acting) tellEach(ctx context.Context, steps []*step) error {
	return a.each(ctx, steps, done, func(s *step) error { return a.write(ctx, s, a.leased(s)) })
}

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

// ask signals the victims, or stops those that have no checkpoint.
func (a *acting) ask(ctx context.Context) error {
	victims := a.filter(func(s *step) bool { return s.Verb == Preempt })
	err := a.each(ctx, victims, asked, func(s *step) error { return a.askOne(ctx, s) })
	for _, s := range victims {
		if s.stage == asked && s.tenant.record.Asked.IsZero() {
			s.tenant.record.Asked = a.now()
		}
	}
	return err
}

// askOne asks one job to save and leave. One that was asked in an earlier round is not asked twice, unless nobody lived to
// tell of it; one that has ended meanwhile has left.
func (a *acting) askOne(ctx context.Context, s *step) error {
	word := &s.tenant.said.word
	if word.Saves && !s.tenant.record.Asked.IsZero() {
		return nil
	}
	if err := a.before(ctx, s); err != nil {
		return err
	}
	var err error
	if word.Saves {
		err = a.Slurm.Signal(ctx, s.Job, word.Signal)
	} else {
		err = a.Slurm.Requeue(ctx, s.Job)
	}
	if errors.Is(err, ErrNotRunning) || errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// before runs the hook before the job is asked. It may take half of what is left of the round, so that one that hangs leaves time
// for all that does not depend on it.
func (a *acting) before(ctx context.Context, s *step) error {
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

// retreat is the time that it may take to take back the starts that are on their way, and one more: as long as the slowest calls so
// far. Where calls take no time worth mentioning it is none.
func (a *acting) retreat() time.Duration {
	under := 1
	for k := range a.steps {
		under += asInt(a.steps[k].stage == sent)
	}
	width := max(1, a.Settings.Parallel)
	return min(a.gaze+a.update.get()*time.Duration((under+width-1)/width), a.Settings.Round/2)
}

func asInt(is bool) int {
	if is {
		return 1
	}
	return 0
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

// overstayed lists the victims that were asked and have not left within their grace.
func (a *acting) overstayed() []*step {
	return a.filter(func(s *step) bool {
		word := &s.tenant.said.word
		return s.stage == asked && word.Saves && a.seenNow(s.Job).State == Running &&
			a.now().Sub(s.tenant.record.Asked) >= word.Grace
	})
}

// departed lists the victims that run no more.
func (a *acting) departed() []*step {
	return a.filter(func(s *step) bool {
		return (s.stage == asked || s.stage == forced) && a.seenNow(s.Job).State != Running
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
	left.record.credit(&left, a.now())
}

// seeOff gives a victim that has left its user's own request back, with a lease. The lease is said first, while the last run is
// still being cleaned up: Slurm then keeps it in place of its own penalty. A job that has ended meanwhile needs nothing, and one
// that somebody holds is left as it is.
func (a *acting) seeOff(ctx context.Context, s *step) error {
	j := *a.seenNow(s.Job)
	if j.State == Pending {
		err := a.write(ctx, s, a.leased(s))
		if err != nil && !errors.Is(err, ErrGone) && !errors.Is(err, ErrNotPending) && !errors.Is(err, ErrHeld) {
			return err
		}
	}
	return nil
}

// after runs the hook for the victims that were seen off: once all of them have their leases, since Slurm's own penalty may be over
// before a hook is.
func (a *acting) after(ctx context.Context, gone []*step) error {
	h := a.Settings.Hook
	if h == nil {
		return nil
	}
	off := slices.DeleteFunc(gone, func(s *step) bool { return s.stage != done })
	return a.each(ctx, off, done, func(s *step) error {
		j := *a.seenNow(s.Job)
		j.ID, j.Runs = s.Job, s.tenant.Runs
		if err := h.After(ctx, j, s.Why, a.left()/2); err != nil {
			s.Error = fmt.Sprintf("checkpoint hook: %v", err) // to be told, but the job has left and has its lease
		}
		return nil
	})
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
// restarted must itself be through with its last run. None is begun that might not be taken back before the round ends.
func (a *acting) startable() []*step {
	if a.left() <= a.retreat() {
		return nil
	}
	nodes := a.blocked()
	return a.filter(func(s *step) bool {
		if s.Verb != Start || s.stage != begun {
			return false
		}
		if j, there := a.find(s.Job); there && !a.through(s, j) {
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

// through says that the job of a step is settled. Where the time of the requeue says nothing, since the clock was set, it is enough that so
// long has passed since the job was seen to be through with its last run.
func (a *acting) through(s *step, j *Job) bool {
	if j.State == Running || j.Completing {
		s.quiet = 0
		return false
	}
	if s.quiet == 0 {
		s.quiet = max(1, a.Clock.Elapsed())
	}
	return settled(j, a.at) || a.Clock.Elapsed()-s.quiet > 3*time.Second
}

func (a *acting) start(ctx context.Context, s *step) error {
	u := starting(s.tenant.record, *s.Grant, a.report.Round, s.Why, s.tenant.note, a.now())
	return a.write(ctx, s, u)
}

// verify closes the starts that came about, and takes back those that did not in time.
func (a *acting) verify(ctx context.Context) error {
	for _, s := range a.filter(func(s *step) bool { return s.stage == sent }) {
		if j, there := a.find(s.Job); s.since < a.Clock.Elapsed() && (!there || j.State != Pending) {
			a.started(s)
		}
	}
	out := a.left() <= a.retreat()
	late := a.filter(func(s *step) bool {
		return s.stage == sent && (out || a.Clock.Elapsed()-s.since >= a.Settings.StartTimeout)
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
		err := a.write(ctx, s, u)
		if errors.Is(err, ErrNotPending) {
			return nil // it has started after all: the next round sees it run
		}
		return err
	})
	for _, s := range late {
		if s.stage == sent {
			continue // there was no time to
		}
		r := s.tenant.record
		r.Failed, r.FailedAt = r.Failed+1, a.now()
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
	for _, s := range a.filter(func(s *step) bool { return s.open() && s.Verb != Renew }) {
		a.fail(s, "not done before the next round was due")
	}
	return err
}

func (a *acting) fail(s *step, why string) {
	s.Error = why
	a.reach(s, failed)
}

func (a *acting) reach(s *step, to stage) {
	now := a.Clock.Elapsed()
	s.Took += now - s.since
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

// write says an update and notes in the step what it changed.
func (a *acting) write(ctx context.Context, s *step, u Update) error {
	began := a.Clock.Elapsed()
	err := a.Slurm.Update(ctx, u)
	a.update.note(a.Clock.Elapsed() - began)
	if err != nil {
		return err
	}
	s.tenant.written = u.Extra
	j := a.seenNow(s.Job)
	s.Changes = append(requestChanges(s.Changes, &j.Request, &u.Request), Change{"begin_time", moment(j.Begin), moment(u.Begin)})
	return nil
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "at once"
	}
	return t.UTC().Format(time.RFC3339)
}

// each does f for every step, a bounded number at a time, and takes those for which it went well to the stage. None is begun once the
// next round is due, or one has failed in a way that concerns them all: such steps stay as they are. An error with one job is that
// step's; the error returned is one that concerns them all.
func (a *acting) each(ctx context.Context, steps []*step, to stage, f func(*step) error) error {
	if len(steps) == 0 {
		return ctx.Err()
	}
	var broken atomic.Bool
	errs := parallel(a.Settings.Parallel, len(steps), func(k int) error {
		if broken.Load() || ctx.Err() != nil || a.left() < 0 {
			return errDue
		}
		err := f(steps[k])
		if concernsAll(err) {
			broken.Store(true)
		}
		return err
	})
	var fatal error
	for k, s := range steps {
		switch err := errs[k]; {
		case err == nil:
			a.reach(s, to)
		case errors.Is(err, errDue):
		case concernsAll(err):
			if fatal == nil { // what it says of one it says of all
				fatal = fmt.Errorf("%s job %d: %w", s.Verb, s.Job, err)
			}
			fallthrough
		default:
			a.fail(s, err.Error())
		}
	}
	return errors.Join(fatal, ctx.Err())
}

// errDue is the end of a step that was not begun because the round is over.
var errDue = errors.New("the next round is due")

// longest is the longest of several times, which may be noted at once.
type longest struct{ nanoseconds atomic.Int64 }

func (l *longest) note(d time.Duration) {
	for {
		most := l.nanoseconds.Load()
		if int64(d) <= most || l.nanoseconds.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

func (l *longest) get() time.Duration { return time.Duration(l.nanoseconds.Load()) }

func concernsAll(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotLeader)
}
