package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// stage is how far a step has come.
type stage int

// The stages. asked and forced are for preemptions only, sent for starts only.
const (
	notBegun stage = iota // nothing has been done yet
	asked                 // the job was signalled, or requeued at once if it cannot save
	forced                // the job did not leave in time and was requeued
	sent                  // the start was written
	done
	failed // given up; the step's Error says why
)

// step is a Step under way.
type step struct {
	*Step
	job            *managedJob // as the round found it, or found it again when it admitted starts (adoptSteps)
	stage          stage
	since          time.Duration // when the stage was reached (Clock.Elapsed)
	stageLookCount int           // number of observations by then
	startSent      time.Time     // when a start was written, by Slurm's clock
	runOverSince   time.Duration // when the job's last run was first seen to be over; 0: not yet
	freedNodes     []string      // nodes that a preempted job leaves and for which other steps may wait

	expires   bool // the preemption is because of the job's time limit
	unawaited bool // it is such a preemption, and the round does not wait for it

	admitted        bool // it was admitted while the round waited for other steps
	secured         bool // of a start that was not begun: the job is eligible with the size of its grant
	leased          bool // of a start that was not begun: this round gave the job its lease again
	startedByItself bool // Slurm had just started the job when it was to be armed or leased
	startedLate     bool // the job had started when its start was to be taken back
}

// steps are the steps of a round.
type steps []*step

// filter lists the steps for which keep is true.
func (list steps) filter(keep func(*step) bool) []*step {
	var kept []*step
	for _, s := range list {
		if keep(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// anyOpen says that the round still waits for a step, and so must observe again.
func (list steps) anyOpen() bool {
	return slices.ContainsFunc(list, (*step).awaited)
}

// nodesToLeave maps the nodes that a preempted job has still to leave, or failed to leave, to the furthest stage of
// these preemptions; failed means that no start there can come about. Nil: there are none.
func (list steps) nodesToLeave() map[string]stage {
	var nodes map[string]stage // most rounds preempt no job
	for _, s := range list {
		if s.Verb != Preempt || s.stage == done {
			continue
		}
		if nodes == nil {
			nodes = map[string]stage{}
		}
		for _, n := range s.freedNodes {
			nodes[n] = max(nodes[n], s.stage)
		}
	}
	return nodes
}

// open says that the step has neither been done nor failed.
func (s *step) open() bool { return s.stage != done && s.stage != failed }

// awaited says that the round waits for the step. It does not wait for renewals and arming, which need no effect that
// is observed, nor for jobs that save because of their time limits.
func (s *step) awaited() bool { return s.open() && s.Verb != Renew && s.Verb != Arm && !s.unawaited }

// find is the job of a step: a managed job, or one on which no plan decides and to which a round owes something by its
// record (debtors). Nil: the observation has no such job.
func (s *sortedObservation) find(job int) *managedJob {
	for _, list := range [][]*managedJob{s.managed, s.debtors} {
		if k, found := sort.Find(len(list), func(k int) int { return job - list[k].ID }); found {
			return list[k]
		}
	}
	return nil
}

// fail gives a step up, with the error that the report shows.
func (a *executor) fail(s *step, why string) {
	s.Error = why
	a.setStage(s, failed)
}

// setStage puts a step into a stage, and adds the time in the stage before to the step's Took. The wait for the next
// observation is short again after something was sent or asked.
func (a *executor) setStage(s *step, to stage) {
	now := a.runner.Clock.Elapsed()
	if to == sent || to == asked {
		a.looksSinceSend = 0
	}
	s.Took += now - s.since
	s.stage, s.since, s.stageLookCount = to, now, a.lookCount
}

// write sends an update of the step's job and notes in the step what it changed, for the audit log. The annotation that
// it wrote is remembered, so that it need not be parsed when it is observed.
func (a *executor) write(ctx context.Context, s *step, u slurm.Update) error {
	began := a.runner.Clock.Elapsed()
	err := a.runner.Slurm.Update(ctx, u)
	a.updates.note(a.runner.Clock.Elapsed() - began)
	if err != nil {
		return err
	}
	s.job.written = u.Extra
	j := a.seenNow(s.Job)
	s.Changes = append(requestChanges(s.Changes, &j.Request, &u.Request),
		Change{"begin_time", beginText(j.Begin), beginText(u.Begin)})
	if j.Lease != u.Lease {
		s.Changes = append(s.Changes, Change{"lease_job", jobText(j.Lease), jobText(u.Lease)})
	}
	return nil
}

// jobText is the ID of a job in words; "none" for 0.
func jobText(job int) string {
	if job == 0 {
		return "none"
	}
	return strconv.Itoa(job)
}

// beginText is a begin time in the audit log; "at once" for zero.
func beginText(t time.Time) string {
	if t.IsZero() {
		return "at once"
	}
	return t.UTC().Format(time.RFC3339)
}

// forEachStep calls f for every step, a bounded number at a time, and puts those that succeed into stage to. An error
// with one job fails its step and is not returned. An error that would be the same for every job (concernsAll) is
// returned, and ends the round: no further step is begun. Nor is one begun once the next round is due. Steps that were
// not begun stay as they are.
func (a *executor) forEachStep(ctx context.Context, steps []*step, to stage, f func(*step) error) error {
	if len(steps) == 0 {
		return ctx.Err()
	}
	var broken atomic.Bool
	errs := runParallel(a.runner.Settings.Parallel, len(steps), func(k int) error {
		if broken.Load() || ctx.Err() != nil || a.timeLeft() < 0 {
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
			a.setStage(s, to)
		case errors.Is(err, errDue):
		case concernsAll(err):
			if fatal == nil { // the first error stands for all
				fatal = fmt.Errorf("%s job %d: %w", s.Verb, s.Job, err)
			}
			fallthrough
		default:
			a.fail(s, err.Error())
		}
	}
	return errors.Join(fatal, ctx.Err())
}

// errDue is the result of a step that was not begun because the round is over.
var errDue = errors.New("the next round is due")

// callTimes are the durations of one kind of call in this round. They may be noted concurrently.
type callTimes struct {
	mu      sync.Mutex
	calls   int
	sum     time.Duration
	slowest time.Duration
}

// note adds the duration of one call.
func (c *callTimes) note(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls, c.sum, c.slowest = c.calls+1, c.sum+d, max(c.slowest, d)
}

// estimate estimates how long so many calls will take, atOnce of them at a time; 0 before the first call. It counts the
// slowest call so far once, and the mean for the others: if each counted as the slowest, one slow call would keep a
// round from starting more than a few jobs.
func (c *callTimes) estimate(n, atOnce int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		return 0
	}
	return c.slowest + c.sum/time.Duration(c.calls)*time.Duration((n-1)/max(1, atOnce))
}

// concernsAll says that an error would be the same for every job: no rights, no controller, or no lead. Then nothing
// more is tried.
func concernsAll(err error) bool {
	return errors.Is(err, slurm.ErrDenied) || errors.Is(err, slurm.ErrUnreachable) || errors.Is(err, slurm.ErrNotLeader)
}
