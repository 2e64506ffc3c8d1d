package bridge

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// act carries out the round's steps. Jobs that must not start yet get their lease first, and those with a start are
// made eligible or leased (secure). What has become impossible by then is called off. Then jobs are preempted, each
// start follows as soon as its nodes are free, and waiting jobs are told why they wait in the time that is left.
//
// It ends when every step is done or has failed, or when the next round is due; nothing is begun after that. It returns
// only errors that end the round, such as an unreachable Slurm; an error with one job stands in its step.
func (t *activeRound) act(ctx context.Context) error {
	a := newExecutor(t)
	defer a.closeOpenSteps()
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
	if err := askVictims(ctx, a); err != nil {
		return err
	}
	t.phase("ask")
	err := a.followSteps(ctx)
	a.reportLostVictims()
	if err != nil {
		return err
	}
	t.phase("follow")
	if err := a.armAll(ctx); err != nil {
		return err
	}
	t.phase("arm")
	err = a.renewRest(ctx)
	t.phase("renew")
	return err
}

// executor is the state of one call of act: the steps and how far each has come, the last observation, and how long
// calls to Slurm take.
type executor struct {
	runner *Runner
	round  *activeRound
	lastObservation
	steps          steps
	renewals       []*step       // renewals that are not urgent, the earliest begin time first
	nextAdmission  time.Duration // when newly possible starts may be planned next, on the host's monotonic clock
	nextRoundDue   time.Duration // when the next round is due, on the same clock
	updates        callTimes     // of this round
	sending        atomic.Int64  // starts under way, those that are just being sent included, see maySend
	lookCount      int           // observations so far
	looksSinceSend int           // observations since something was last sent or asked
	slowestLook    time.Duration // the slowest observation so far
}

// newExecutor is the state with which a round begins to act: all steps of the report, none begun, and the observation
// from which the plan was made.
func newExecutor(t *activeRound) *executor {
	a := &executor{
		runner:          t.runner,
		round:           t,
		lastObservation: lastObservation{at: t.observation.at, jobs: t.seen, nodes: t.observation.nodes},
		nextRoundDue:    t.began + t.maxDuration(),
		nextAdmission:   t.runner.Clock.Elapsed() + admitEvery,
	}
	a.appendSteps(0, false)
	return a
}

// appendSteps makes a step of each entry of report.Steps from index from on, and adds those that are renewals and not
// urgent to a.renewals. Steps of earlier entries only get new pointers into the list, since appending may have moved
// it. admitted marks steps that were added while the round waits for others: they are no reason to wait longer and add
// further ones (hasAwaitedSteps).
func (a *executor) appendSteps(from int, admitted bool) {
	for k := range a.round.report.Steps {
		if k < from {
			a.steps[k].Step = &a.round.report.Steps[k] // appending may have moved the list
			continue
		}
		s := &step{Step: &a.round.report.Steps[k], since: a.runner.Clock.Elapsed(), admitted: admitted}
		s.job = a.round.observation.find(s.Job)
		s.expires = s.Verb == Preempt && a.round.observation.expiring[s.Job]
		// With small rounds, a preemption before a time limit is finished by them, and nothing is planned for its
		// nodes.
		s.unawaited = s.expires && a.runner.Settings.Watched
		if s.Verb == Preempt && !s.expires { // no start is planned on what a job leaves at its time limit
			s.freedNodes = s.job.Runs.Nodes
		}
		a.steps = append(a.steps, s)
	}
	a.renewals = append(
		a.renewals,
		a.steps[from:].filter(func(s *step) bool { return s.Verb == Renew && !a.couldStartBeforeNextRound(s) })...)
	slices.SortStableFunc(a.renewals, func(x, y *step) int { return x.job.Begin.Compare(y.job.Begin) })
}

// expiryHorizon is how far ahead a round asks or stops jobs whose time limit comes. A full round does so until its own
// end, because no small round can be held meanwhile. It is 0, so that only jobs that are due now are asked or stopped,
// in three cases. Small rounds and shadow rounds are soon over; and without small rounds, jobs are asked one round
// earlier anyway (saveLeadTime).
func (t *activeRound) expiryHorizon() time.Duration {
	if t.small || t.runner.Settings.Shadow || !t.runner.Settings.Watched {
		return 0
	}
	return t.maxDuration()
}

// maxDuration is how long the round may take: a full one until the next round is due. A small round gets twice the time
// that it waits for a start (startTimeout), so that a start that cannot be sent at once still has its time.
func (t *activeRound) maxDuration() time.Duration {
	if t.small {
		return min(2*max(smallStart, t.runner.Settings.Looks), t.runner.Settings.Round)
	}
	return t.runner.Settings.Round
}

// timeLeft is the time until the next round is due; negative if it is overdue.
func (a *executor) timeLeft() time.Duration { return a.nextRoundDue - a.runner.Clock.Elapsed() }

// now is the present time by Slurm's clock.
func (t *activeRound) now() time.Time { return t.runner.watch.now(t.runner.Clock) }

// closeOpenSteps settles the steps that are still open when the round ends, so that the report says what became of
// each. A step that was not begun is put off: a later round does it. A start that was sent is put off, too, since it
// may still come about. Any other step that was begun fails, unless the round does not wait for it. Two kinds of steps
// are dropped from the report: preemptions before a time limit whose moment has not come, and renewals for which a
// small round had no time.
func (a *executor) closeOpenSteps() {
	early, untold := map[int]bool{}, map[int]bool{}
	for _, s := range a.steps.filter((*step).open) {
		switch {
		case s.PutOff, s.Verb == Start && s.stage == sent: // it may still take effect: the next round observes that
			s.PutOff = true
		case s.stage == notBegun && !a.isDue(s):
			early[s.Job] = true
		case s.stage == notBegun && a.round.small && s.Verb == Renew:
			untold[s.Job] = true
		case s.stage == notBegun:
			s.PutOff = true
		case s.unawaited:
			a.setStage(s, done)
		default:
			a.fail(s, "the round ended before it was done")
		}
	}
	if len(early)+len(untold) > 0 {
		a.round.report.Steps = slices.DeleteFunc(a.round.report.Steps,
			func(s Step) bool { return s.Verb == Preempt && early[s.Job] || s.Verb == Renew && untold[s.Job] })
	}
}

// followSteps advances the steps and observes, in turn, until every step that the round waits for is done or has
// failed. When the next round is due it ends with endUnfinished. While it waits it also starts what has become possible
// meanwhile (admit).
func (a *executor) followSteps(ctx context.Context) error {
	for {
		if err := a.advanceSteps(ctx); err != nil {
			return err
		}
		if !a.steps.anyOpen() {
			return nil
		}
		if a.timeLeft() <= 0 {
			return a.endUnfinished(ctx)
		}
		if err := a.pauseAndRenew(ctx); err != nil {
			return err
		}
		// Telling jobs took longer than there was time: another observation would be one more call beyond the end.
		if a.timeLeft() < 0 {
			return a.endUnfinished(ctx)
		}
		if err := a.observeAgain(ctx); err != nil {
			return err
		}
		if err := (admission{executor: a}).admit(ctx); err != nil {
			return err
		}
	}
}

// pauseAndRenew waits until the next observation is due, and uses the time to renew leases and to tell jobs why they
// wait. It ends early at the last moment at which the starts under way can still be taken back: verify, which does
// that, follows after the next observation.
func (a *executor) pauseAndRenew(ctx context.Context) error {
	until := a.runner.Clock.Elapsed() + min(a.pollInterval(), a.timeLeft())
	if end := a.nextRoundDue - a.rollBackTime(); a.runner.Clock.Elapsed() < end {
		// Wake up no later than the last moment at which starts can be taken back.
		until = min(until, end)
	}
	if err := a.renewUntil(ctx, until); err != nil {
		return err
	}
	if rest := until - a.runner.Clock.Elapsed(); rest > 0 {
		return a.runner.Clock.Sleep(ctx, rest)
	}
	return nil
}

// pollDivisors are the divisors of Settings.Poll for the first three waits, which add up to one Poll.
var pollDivisors = []time.Duration{4, 4, 2}

// pollInterval is the time until the next observation. What was sent mostly takes effect within half a second, so the
// first observations follow sooner. A wait is at least ten times the slowest observation (but not above Settings.Poll),
// so that slurmrestd has time for other clients.
func (a *executor) pollInterval() time.Duration {
	soon := a.runner.Settings.Poll
	if a.looksSinceSend < len(pollDivisors) {
		soon /= pollDivisors[a.looksSinceSend]
	}
	return min(a.runner.Settings.Poll, max(soon, 10*a.slowestLook))
}

// observeAgain observes jobs, nodes and reservations again, replaces the last observation, and counts it (lookCount,
// looksSinceSend, slowestLook), by which the next pauses are chosen. If Slurm's clock was set, it shifts the times in
// all records.
func (a *executor) observeAgain(ctx context.Context) error {
	began := a.runner.Clock.Elapsed()
	seen, err := a.round.observeOnce(ctx, a.round.records)
	if err != nil {
		return err
	}
	a.looked, a.slowestLook, a.looksSinceSend, a.lookCount = began, max(
		a.slowestLook,
		a.runner.Clock.Elapsed()-began,
	), a.looksSinceSend+1, a.lookCount+1
	a.at, a.jobs, a.nodes, a.reservations = seen.At, seen.Jobs, seen.Nodes, seen.Reservations
	return nil
}

// advanceSteps takes every step as far as the last observation allows. Preemptions come first, since they free what the
// starts need. secure comes last: what has started or failed by then decides which of the other jobs may be eligible.
// An error is one that ends the round.
func (a *executor) advanceSteps(ctx context.Context) error {
	a.noteSecured()
	if err := advancePreemptions(ctx, a); err != nil {
		return err
	}
	a.failBlockedStarts()
	a.revertMoves()
	ready := a.readyStarts()
	if err := a.leaseBlockers(ctx, ready); err != nil {
		return err
	}
	if err := a.startAll(ctx, ready); err != nil {
		return err
	}
	if err := a.verify(ctx); err != nil {
		return err
	}
	return a.secure(ctx)
}

// endUnfinished ends the wait for steps because the next round is due. Starts that the last observation still shows as
// pending are taken back. A start that was sent after that observation may still come about, which the next round
// observes: it is put off, like those that were not sent. All other steps that the round waits for fail. Preempted jobs
// that still save go on with it; their records say that they were asked, so that the next round does not ask them
// again.
func (a *executor) endUnfinished(ctx context.Context) error {
	err := a.rollBack(ctx, a.steps.filter(a.observedSinceSent))
	for _, s := range a.steps.filter((*step).awaited) {
		if s.Verb == Start {
			s.PutOff = true
			continue
		}
		a.fail(s, "not done before the next round was due")
	}
	return err
}
