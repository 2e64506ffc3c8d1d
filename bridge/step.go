package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
	"time"
)

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
	job   *managedJob // whose it is, as the round found it
	stage stage
	since time.Duration // when the stage was reached
	sight int           // how many looks there had been by then
	began time.Time     // when a start was written, by Slurm's clock
	quiet time.Duration // when the job was first seen to be through with its last run; 0: not yet
	from  []string      // nodes that a victim leaves, and that somebody may wait for

	expires bool // its time limit is why it is asked
	aside   bool // and no round waits for it

	admitted bool // while the round waited for others
	secured  bool // a start that was not begun: the job is eligible with the size of its grant
	leased   bool // likewise: this round gave it its lease again
	raced    bool // it was to be armed or leased, and Slurm had just started it
	came     bool // a start was to be taken back, and had come about
}

// steps are those of a round.
type steps []*step

// filter lists those for which keep is true.
func (list steps) filter(keep func(*step) bool) []*step {
	var kept []*step
	for _, s := range list {
		if keep(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// anyOpen says that somebody is still to be stopped, started or restored for whom the round waits.
func (list steps) anyOpen() bool {
	return slices.ContainsFunc(list, (*step).awaited)
}

// blocked maps the nodes that a victim has still to leave, or will not leave, to the stage of its step.
func (list steps) blocked() map[string]stage {
	var nodes map[string]stage // most rounds have no victims
	for _, s := range list {
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

func (s *step) open() bool { return s.stage != done && s.stage != failed }

// awaited says that the round waits for the step.
func (s *step) awaited() bool { return s.open() && s.Verb != Renew && s.Verb != Arm && !s.aside }

// find is the job that a step is for: managed, or no longer so.
func (s *scene) find(job int) *managedJob {
	for _, list := range [][]*managedJob{s.managed, s.debtors} {
		if k, found := sort.Find(len(list), func(k int) int { return job - list[k].ID }); found {
			return list[k]
		}
	}
	return nil
}

func (a *acting) fail(s *step, why string) {
	s.Error = why
	a.reach(s, failed)
}

func (a *acting) reach(s *step, to stage) {
	now := a.Clock.Elapsed()
	if to == sent || to == asked {
		a.looks = 0
	}
	s.Took += now - s.since
	s.stage, s.since, s.sight = to, now, a.sights
}

// write says an update and notes in the step what it changed.
func (a *acting) write(ctx context.Context, s *step, u Update) error {
	began := a.Clock.Elapsed()
	err := a.Slurm.Update(ctx, u)
	a.update.note(a.Clock.Elapsed() - began)
	if err != nil {
		return err
	}
	s.job.written = u.Extra
	j := a.seenNow(s.Job)
	s.Changes = append(requestChanges(s.Changes, &j.Request, &u.Request),
		Change{"begin_time", moment(j.Begin), moment(u.Begin)})
	return nil
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "at once"
	}
	return t.UTC().Format(time.RFC3339)
}

// each does f for every step, a bounded number at a time, and takes those for which it went well to the stage. None is
// begun once the next round is due, or one has failed in a way that concerns them all: such steps stay as they are. An
// error with one job is that step's; the error returned is one that concerns them all.
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
