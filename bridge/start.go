package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// failBlockedStarts gives up the starts whose nodes a preempted job failed to leave, or whose own last run was not
// stopped: they cannot come about in this round.
func (a *executor) failBlockedStarts() {
	stay := a.steps.filter(func(s *step) bool { return s.Verb == Preempt && s.stage == failed })
	if len(stay) == 0 {
		return
	}
	nodes := a.steps.nodesToLeave()
	for _, s := range a.steps.filter(func(s *step) bool { return s.Verb == Start && s.stage == notBegun }) {
		runsOn := slices.ContainsFunc(stay, func(other *step) bool { return other.Job == s.Job })
		if runsOn || slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return nodes[n] == failed }) {
			a.fail(s, "its place was not freed")
		}
	}
}

// readyStarts lists the starts whose nodes are free: no job has still to leave them, and none is being cleaned up
// there. The nodes must also have room (hasRoom), and a start of whole GPUs waits for starts on shared GPUs of its
// nodes. A restarted job's own last run must be cleaned up, too. None is listed once there is no time to take it back.
// A job that is gone is listed, too: its step ends when the start is sent.
func (a *executor) readyStarts() []*step {
	if a.timeLeft() <= a.rollBackTime() {
		return nil
	}
	nodes, slots := a.steps.nodesToLeave(), a.steps.pendingSlots()
	ready := a.steps.filter(func(s *step) bool {
		if s.Verb != Start || s.stage != notBegun {
			return false
		}
		if j, there := a.find(s.Job); there && !a.lastRunIsOver(s, j) || s.wantsSlotNode(slots) {
			return false
		}
		if !a.hasRoom(s) {
			return false
		}
		return !slices.ContainsFunc(s.Grant.Nodes, func(n string) bool {
			_, busy := nodes[n]
			return busy || a.completing(n)
		})
	})
	return ready
}

// startAll sends these starts, as far as they can all be taken back before the round ends.
func (a *executor) startAll(ctx context.Context, ready []*step) error {
	a.sending.Store(int64(a.startsUnderWay()))
	return a.forEachStep(ctx, ready, sent, func(s *step) error {
		if !a.maySend() {
			return errDue
		}
		return a.start(ctx, s)
	})
}

// maySend reports whether one more start can be sent, and then be taken back with all that are under way before the
// round ends: a start that is left pending would keep its nodes from others. It counts that start as under way, also if
// it says no.
func (a *executor) maySend() bool {
	under := a.sending.Add(1)
	return a.timeLeft() > a.updates.estimate(1, 1)+a.timeToTakeBack(int(under))
}

// startsUnderWay counts the starts that were sent and neither came about nor were taken back.
func (a *executor) startsUnderWay() int {
	under := 0
	for k := range a.steps {
		under += oneIf(a.steps[k].stage == sent)
	}
	return under
}

// hasRoom says that the nodes of a start have room for it. Other jobs may have taken what a preempted job left, and a
// start without room would only keep others from these nodes. A job that Slurm has started itself needs no room. A
// start on a shared GPU always passes: what a node has free says nothing about a GPU that other jobs use already.
func (a *executor) hasRoom(s *step) bool {
	if a.seenNow(s.Job).State != slurm.Pending || s.Grant.Device != "" {
		return true
	}
	return !slices.ContainsFunc(s.Grant.Nodes, func(name string) bool { return !a.hasRoomOn(name, s.Grant) })
}

// lastRunIsOverBy says that a job's last run is over for Slurm at the given time. If a job starts in the very second in
// which its last run was cleaned up, Slurm takes it for the old run and kills it for good. The time of the requeue
// tells that second; one more second allows for clocks that differ.
func lastRunIsOverBy(j *slurm.Job, at time.Time) bool {
	return j.State != slurm.Running && !j.Completing && (j.Restarts == 0 || at.Unix() > j.Submitted.Unix()+1)
}

// lastRunIsOver says that the last run of a step's job is over for Slurm, so that the job can be started. If the time
// of the requeue is useless because the clock was set, it is enough that the last run was seen to be over more than 3 s
// ago, which is longer than lastRunIsOverBy waits. For this it notes in the step when the run was first seen to be over
// (runOverSince).
func (a *executor) lastRunIsOver(s *step, j *slurm.Job) bool {
	if j.State == slurm.Running || j.Completing {
		s.runOverSince = 0
		return false
	}
	if s.runOverSince == 0 {
		s.runOverSince = max(1, a.runner.Clock.Elapsed())
	}
	return lastRunIsOverBy(j, a.at) || a.runner.Clock.Elapsed()-s.runOverSince > 3*time.Second
}

// start writes the start of the step's job, and notes in the step when. If Slurm refuses it in one of several
// partitions, that partition is avoided; if no other one is left, the refusal counts as a failed start of the job. If
// Slurm has just started the job itself there is no error.
func (a *executor) start(ctx context.Context, s *step) error {
	s.startSent, s.secured = a.round.now(), false
	u := startUpdate(s.job.record, *s.Grant, a.round.report.Round, s.Why, s.job.note, s.startSent,
		sharedGrantOf(a.round.runner, s.job, s.Grant))
	u.Request.Partition = a.round.observation.startsIn(s.job, s.Grant.Nodes)
	err := a.write(ctx, s, u)
	if errors.Is(err, slurm.ErrNotPending) {
		return nil // Slurm has just started it itself: the next observation says with what
	}
	// This partition may be drained, and another one may not.
	part := u.Request.Partition
	if errors.Is(err, slurm.ErrRefused) && part != "" && s.job.avoid(part, "", a.round.now()) {
		return err
	}
	// No other partition is left, so the refusal counts against the job.
	if errors.Is(err, slurm.ErrRefused) && part != "" {
		r := s.job.record
		r.Failed, r.FailedAt = r.Failed+1, a.round.now()
	}
	a.refuseSize(s, err)
	return err
}

// observedSinceSent says that a start was sent, and that the last observation began after that. Only such an
// observation tells whether it came about.
func (a *executor) observedSinceSent(s *step) bool {
	return s.stage == sent && a.lookCount > s.stageLookCount
}

// verify closes the starts that happened, and takes back those that did not. A job that is gone has started, too: it
// has run and ended since, or was cancelled, and there is nothing to take back. A start that the last observation still
// shows as pending is taken back for one of four causes: the round ends, the time for a start is over (startTimeout),
// Slurm gives a reason that does not pass by itself (startRefusal), or a reservation keeps its nodes (reservedFrom).
func (a *executor) verify(ctx context.Context) error {
	for _, s := range a.steps.filter(a.observedSinceSent) {
		if j, there := a.find(s.Job); !there || j.State != slurm.Pending {
			a.closeStarted(s)
		}
	}
	out := a.timeLeft() <= a.rollBackTime()
	late := a.steps.filter(func(s *step) bool {
		return a.observedSinceSent(s) &&
			(out || a.runner.Clock.Elapsed()-s.since >= a.round.startTimeout() || a.startRefusal(s) != "" ||
				a.reservedFrom(s) != "")
	})
	return a.rollBack(ctx, late)
}

// startTimeout is how long a start may take: one that has not come about that long after it was sent is taken back. It
// is never shorter than Slurm's schedulers need to look at the job (Settings.Looks). In a small round it is shorter,
// since that round delays others.
func (t *activeRound) startTimeout() time.Duration {
	within := t.runner.Settings.StartTimeout
	if t.small {
		within = min(smallStart, within)
	}
	return max(within, t.runner.Settings.Looks)
}

// closeStarted closes a start that happened. In the job's record it counts the start, and clears the failed starts and
// refusals before it and the mark Displaced. In the step it notes if the job runs with another size than its grant. How
// long Slurm took is noted only for a restart whose start this round has sent. While nodes are being resumed, the time
// of the start is not final.
func (a *executor) closeStarted(s *step) {
	a.setStage(s, done)
	a.clearRefusals(s)
	r := s.job.record
	r.Starts, r.Failed, r.FailedAt, r.Displaced = r.Starts+1, 0, time.Time{}, false
	j, there := a.find(s.Job)
	s.noteActualSize(j)
	if there && j.State == slurm.Running && !j.Configuring && j.Restarts > 0 && !s.secured {
		r.Cost.noteLaunch(j.Started.Sub(s.startSent))
	}
}

// rollBack gives jobs that did not start their user's own request and a lease again. A job that has started meanwhile
// keeps its start. What kept the others from starting is noted in their records, by which the next rounds put off
// further tries: a refusal, or else a failed start, but not a reservation, which the next plan knows.
func (a *executor) rollBack(ctx context.Context, late []*step) error {
	// Why the starts did not come about is read now, since it is known only as long as a step is in stage sent.
	why, reserved := make(map[*step]string, len(late)), map[*step]bool{}
	for _, s := range late {
		why[s], reserved[s] = a.whyLate(s), a.reservedFrom(s) != ""
	}
	err := a.forEachStep(ctx, late, failed, func(s *step) error {
		u := a.round.leaseUpdate(s)
		u.Extra = annotationOf(s.job.record, a.round.report.Round, why[s]+"; it is tried again", s.job.note).String()
		err := a.write(ctx, s, u)
		if s.startedLate = errors.Is(err, slurm.ErrNotPending); s.startedLate {
			return nil
		}
		return err
	})
	for _, s := range late {
		if s.startedLate { // it had only been late
			a.closeStarted(s)
			continue
		}
		if s.stage == sent {
			continue // there was no time to take it back
		}
		// It was taken back because of this reason, and not for lack of time.
		if reason := baseReason(a.seenNow(s.Job).Reason); why[s] == refusalText(reason) {
			a.noteRefusal(s, reason)
			continue
		}
		if reserved[s] { // the next plan knows the reservation, and the job has not failed
			s.Error = cmp.Or(s.Error, why[s])
			continue
		}
		r := s.job.record
		r.Failed, r.FailedAt = r.Failed+1, a.round.now()
		s.Error = cmp.Or(s.Error, why[s])
	}
	return err
}

// whyLate says, for the report and the user, why a start is taken back: Slurm's reason if it refuses the start, the
// reservation that keeps its nodes, or how long the round waited.
func (a *executor) whyLate(s *step) string {
	if reason := a.startRefusal(s); reason != "" {
		return refusalText(reason)
	}
	if name := a.reservedFrom(s); name != "" {
		return fmt.Sprintf("Slurm does not start it there: reservation %.40q keeps %s for others", name,
			strings.Join(s.Grant.Nodes, ","))
	}
	why := fmt.Sprintf("did not start within %s", (a.runner.Clock.Elapsed() - s.since).Round(100*time.Millisecond))
	if reason := baseReason(a.seenNow(s.Job).Reason); transientReasons[reason] != "" {
		why += fmt.Sprintf(" (%s: %s)", reason, transientReasons[reason])
	}
	return why
}

// rollBackTime is the time needed to take back the starts under way and one more.
func (a *executor) rollBackTime() time.Duration { return a.timeToTakeBack(a.startsUnderWay() + 1) }

// timeToTakeBack is the time needed to take so many starts back: an observation as slow as the slowest so far, and the
// updates. It is at most half a round, and 0 if calls take no noticeable time.
func (a *executor) timeToTakeBack(starts int) time.Duration {
	return min(a.slowestLook+a.updates.estimate(starts, a.runner.Settings.Parallel), a.runner.Settings.Round/2)
}

// oneIf is 1 for true and 0 for false.
func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}
