package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// handedBack is the reason in the annotation of a job that is Slurm's alone again. Later rounds know such a job by this
// text (needsHandBack, isReleased).
const handedBack = "handed back to Slurm"

// releaseWait is how long Release waits for jobs that are about to come back to the queue.
const releaseWait = 30 * time.Second

// Release hands all our waiting jobs back to Slurm: with their users' own requests, no required nodes and no lease.
// Jobs that have their own request already and wait only for the lease job are freed together when that ends. Running
// jobs are not touched, nor jobs that a round would leave alone. If the settings name no partitions, a job in any
// partition is ours if it has our directive and a record or annotation of ours. Profiles are not looked up.
//
// It observes until nothing is left to do, so repeating it repairs an interrupted release. Records are read and not
// written: a daemon that is started later takes the jobs up again. The report has one step for each job; the error is
// one that ended the release.
func (r *Runner) Release(ctx context.Context) (Report, error) {
	l := &releaser{Runner: r, until: r.Clock.Elapsed() + releaseWait, tried: map[int]bool{},
		ended: r.Leases == nil || r.Settings.Shadow}
	l.report = Report{Round: r.Last, Began: r.Clock.Now(), Shadow: r.Settings.Shadow}
	var err error
	if l.known, l.intent, err = r.Ledger.Load(); err != nil {
		return l.report, fmt.Errorf("read the ledger: %w", err)
	}
	l.known = debts(l.known, l.intent)
	return l.report, l.run(ctx)
}

// endLease ends the lease job, so that all jobs that depend on it may start. Jobs with a request that is not their
// user's were updated before. If that failed, the lease is ended all the same, since it would soon end by itself. The
// annotations follow afterwards.
func (l *releaser) endLease(ctx context.Context) error {
	l.ended = true
	if err := l.Leases.End(ctx); err != nil {
		return fmt.Errorf("end the lease: %w", err)
	}
	return nil
}

// releaser is a release of all our jobs under way, over several passes.
type releaser struct {
	*Runner
	known  Records
	intent *Intent       // of a round that died; nil: none
	until  time.Duration // on the host's monotonic clock
	tried  map[int]bool  // jobs whose release was written or refused; not tried again, whatever Slurm's clock says
	ended  bool          // the lease job has ended, or there is none: the jobs that waited for it are told now
	report Report
}

// run repeats passes until nothing is left to do soon, or releaseWait is over, and ends the lease job after the first
// one: jobs with a size of ours have their own request by then.
func (l *releaser) run(ctx context.Context) error {
	for {
		coming, err := l.pass(ctx)
		if !l.ended && !errors.Is(err, slurm.ErrNotLeader) {
			err, coming = errors.Join(err, l.endLease(ctx)), true
		}
		if err != nil || !coming || l.Settings.Shadow || l.Clock.Elapsed() >= l.until {
			return err
		}
		if err := l.Clock.Sleep(ctx, l.Settings.Poll); err != nil {
			return err
		}
	}
}

// pass observes once and hands back what it can. coming says that it did something, or that jobs will come back to the
// queue soon: then another pass follows.
func (l *releaser) pass(ctx context.Context) (coming bool, err error) {
	t := &activeRound{runner: l.Runner, began: l.Clock.Elapsed()}
	seen, err := t.observeOnce(ctx, func() Records { return l.known })
	if err != nil {
		return false, err
	}
	t.seen, t.observation = seen.Jobs, l.sort(seen)
	t.report.Round, t.report.Steps = l.report.Round, l.steps(&t.observation)
	l.report.Outside, l.report.Notes = t.observation.outside, l.notReadyNotes(&t.observation, seen.Jobs)
	if !l.Settings.Shadow {
		err = newExecutor(t).handBackAll(ctx)
	}
	l.note(t.report.Steps)
	return len(t.report.Steps) > 0 || len(l.report.Notes) > 0, err
}

// sort makes a sortedObservation of which managed are the waiting jobs to be handed back, and outside those that a
// round would leave alone. It differs from Runner.sort in that it needs no profiles, no topology and no rules.
func (l *releaser) sort(seen slurm.Observed) sortedObservation {
	s := sortedObservation{at: seen.At}
	debts := recordCursor{l.known}
	for _, t := range l.read(seen.Jobs) {
		t.record = debts.recordOf(t.ID)
		t.record.syncWithJob(t.Job)
		switch {
		case t.State != slurm.Pending || !l.wasOurs(t):
		case leftAlone(t.Job) != "" && !t.needsHandBack(seen.At):
			s.outside = append(s.outside, Outside{t.ID, leftAlone(t.Job)})
		default:
			s.managed = append(s.managed, t)
		}
	}
	updateRecords(s.managed, seen.At)
	return s
}

// wasOurs says that a waiting job may carry something of ours, so that it has to be handed back. A job that lost our
// directive is known by its record. Without configured partitions a job with our directive needs an annotation as well.
func (l *releaser) wasOurs(t *managedJob) bool {
	recorded := t.record != nil
	if len(l.Settings.Partitions) > 0 {
		return recorded || t.directives.Managed && l.manages(t.Partition)
	}
	return recorded || t.directives.Managed && t.parsedAnnotation().V != 0
}

// steps lists what is still to be done. Jobs that were tried already have no step, nor before the lease job ends those
// that its end alone frees: one request then does for all of them.
func (l *releaser) steps(s *sortedObservation) []Step {
	var steps []Step
	for _, t := range s.managed {
		if l.tried[t.ID] || !l.ended && l.waitsOnlyForLease(t, s.at) {
			continue
		}
		if step := t.handBackStep(s.at, handedBack); step != nil {
			steps = append(steps, *step)
		}
	}
	return steps
}

// waitsOnlyForLease says that the end of the lease job is all that a job needs to be its user's again: it has its own
// request and no begin time of ours, and its last run is over.
func (l *releaser) waitsOnlyForLease(t *managedJob, now time.Time) bool {
	return t.Lease != 0 && lastRunIsOverBy(t.Job, now) && t.record != nil && t.Request.Equal(&t.record.Own) &&
		!t.Begin.After(later(t.record.NotBefore, now))
}

// notReadyNotes lists the jobs that can be handed back soon: their last run is being cleaned up, or they were asked to
// save and still run.
func (l *releaser) notReadyNotes(s *sortedObservation, jobs []*slurm.Job) []Note {
	var notes []Note
	for _, t := range s.managed {
		if !lastRunIsOverBy(t.Job, s.at) && !l.tried[t.ID] {
			notes = append(notes, Note{t.ID,
				"its last run is still being cleaned up: it waits with its user's request, and a lease"})
		}
	}
	for _, j := range jobs {
		if rec := l.known.Of(j.ID); j.State == slurm.Running && (rec != nil && rec.Asked.After(j.Started) ||
			l.intent.preempts(j)) {
			notes = append(notes, Note{j.ID,
				"it was asked to save and still runs: it will come back with the size and the nodes of this run"})
		}
	}
	return notes
}

// preempts says that the round of this intent, which died, may have asked the job to leave: it meant to, and the job
// has run since. False for no intent.
func (i *Intent) preempts(j *slurm.Job) bool {
	return i != nil && j.Started.Before(i.At) &&
		slices.ContainsFunc(i.Steps, func(s Step) bool { return s.Job == j.ID && s.Verb == Preempt })
}

// note puts the steps of a pass into the report: one step for each job, with the changes of all passes and the last
// result. A job that only got a lease, because its last run is still being cleaned up, is looked at again in the next
// pass.
func (l *releaser) note(steps []Step) {
	for _, s := range steps {
		l.tried[s.Job] = s.Verb == Release || s.Error != ""
		k, again := slices.BinarySearchFunc(l.report.Steps, s, func(a, b Step) int { return cmp.Compare(a.Job, b.Job) })
		if !again {
			l.report.Steps = slices.Insert(l.report.Steps, k, s)
			continue
		}
		s.Changes = slices.Concat(l.report.Steps[k].Changes, s.Changes)
		l.report.Steps[k] = s
	}
}

// handBackAll takes all steps without a time limit, since no round is due. If Slurm is unreachable or denies us, the
// rest is not tried.
func (a *executor) handBackAll(ctx context.Context) error {
	a.nextRoundDue = math.MaxInt64
	err := a.forEachStep(ctx, a.steps.filter((*step).open), done, func(s *step) error {
		err := a.write(ctx, s, a.round.waitOrReleaseUpdate(s))
		if errors.Is(err, slurm.ErrNotPending) || errors.Is(err, slurm.ErrGone) || errors.Is(err, slurm.ErrHeld) {
			return nil // it has started, ended or been held meanwhile
		}
		return err
	})
	for _, s := range a.steps.filter((*step).open) {
		a.fail(s, err.Error()) // only an error for all of them leaves one open
	}
	return err
}
