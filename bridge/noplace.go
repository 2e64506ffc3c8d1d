package bridge

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A round decides where, when and with how much a job starts, but it never refuses a job for ever: what it knows of
// nodes and requests may be less than what Slurm can start. So a job that has no place in two rounds in a row, even if
// other jobs left, is handed back with its user's own request. Slurm then starts it where it can, or states in its own
// reason what is missing. Order and lack of room are no such reasons, nor is anything for which Slurm itself makes the
// job wait (limits, licenses, dependencies, reservations), since the job would wait as long without us.
//
// The job stays Slurm's until it returns to the queue. If we took it up again whenever a node opens, it would change
// hands with every node that comes and goes, and lose its place in Slurm's queue each time. The run that Slurm starts
// is left alone like that of any unmanaged job.

// NoPlace says that rounds find no place at which a waiting job could start.
type NoPlace struct {
	Cause WaitCause `json:"cause"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"` // the first round in a row that found none
	Wait  int       `json:"wait"`           // number of restarts before the wait in question
	// Refused is Slurm's refusal of the size that a plan gave the job; empty: it refused none.
	Refused string `json:"refused,omitempty"`
	// Slurms says that the job was handed back for that, and is Slurm's for this wait and the run that follows.
	Slurms bool `json:"slurms,omitempty"`
}

// noPlaceCauses are the causes for which a job is handed back: no node could ever hold it, all nodes that could are
// closed, or Slurm says so of a size that we gave the job.
var noPlaceCauses = []WaitCause{CauseShape, CauseClosed, CauseRequest, CausePartitionRules}

// HandBackCauses are the causes for which rounds hand jobs back. CauseOther is a job that lost our directive or its
// managed partition.
func HandBackCauses() []WaitCause {
	return append(slices.Clone(noPlaceCauses), CauseLeftToSlurm, CauseCanary, CauseOther)
}

// leftToSlurm says why a job is Slurm's for this wait and the run that follows; nil: it is not. The annotation says it
// if the ledger was lost, if the round died that wrote it, and for a task that Slurm has split off since. A user who
// forges one opts out.
func (t *managedJob) leftToSlurm() *NoPlace {
	if t.record != nil && t.record.NoPlace.Slurms && t.record.NoPlace.Wait == t.Restarts {
		return &t.record.NoPlace
	}
	if !strings.Contains(t.Extra, `"slurms":`) { // most have none, and reading an annotation takes time
		return nil
	}
	said := t.parsedAnnotation().Slurms
	if said == nil || said.Wait != t.Restarts || !slices.Contains(noPlaceCauses, said.Cause) {
		return nil
	}
	return &NoPlace{
		Cause:  said.Cause,
		Why:    cmp.Or(t.parsedAnnotation().Note, handedBack),
		Wait:   said.Wait,
		Slurms: true,
	}
}

// handBackMark is the part of an annotation that says this.
type handBackMark struct {
	Cause WaitCause `json:"cause"`
	Wait  int       `json:"wait"`
}

// markHandBacks marks the jobs that become Slurm's in this round, and the tasks of their arrays. Shadow mode stores
// nothing, so there each round says anew what it would do.
func markHandBacks(t *activeRound) {
	// By array; 0 are jobs of none, which is never looked up. The tasks of an array have the same request, so where one
	// has no place, neither has the common record.
	arrays := map[int]*NoPlace{}
	for i, tn := range t.observation.managed {
		if tn.StandsForTasks() {
			continue // its tasks show it
		}
		found := findNoPlace(t, tn, &t.report.Plan.Decisions[i])
		if tn.record.NoPlace = found; isHandBackDue(t, &found) {
			leaveToSlurm(t, tn, found)
			arrays[tn.Array] = &found
		}
	}
	for _, tn := range t.observation.unplanned {
		if p := tn.leftToSlurm(); p != nil {
			arrays[tn.Array] = p
		}
	}
	for _, tn := range t.observation.managed {
		if p := arrays[tn.Array]; tn.StandsForTasks() && tn.State == slurm.Pending && p != nil {
			found := *p
			found.Wait = tn.Restarts
			leaveToSlurm(t, tn, found)
		}
	}
}

// findNoPlace is the finding of this round; zero: the job has a place, or waits for something else.
func findNoPlace(t *activeRound, tn *managedJob, d *policy.Decision) NoPlace {
	if tn.State != slurm.Pending || tn.managedByRule {
		return NoPlace{}
	}
	before, found := &tn.record.NoPlace, NoPlace{Since: t.observation.at, Wait: tn.Restarts}
	if !before.Since.IsZero() && before.Wait == tn.Restarts {
		found.Since, found.Refused = earlier(before.Since, t.observation.at), before.Refused
	}
	if found.Cause, found.Why = whyNoPlace(t, tn, d, found.Refused); !slices.Contains(noPlaceCauses, found.Cause) {
		return NoPlace{}
	}
	if f := &tn.record.Refused; f.counts(t.observation.at) && found.Cause == causeOfReason(f.Reason) {
		found.Since = earlier(found.Since, f.At) // the round that tried the start found it already
	}
	return found
}

// whyNoPlace is why a job does not start: what Slurm said of the planned size, or else what the plan says.
func whyNoPlace(t *activeRound, tn *managedJob, d *policy.Decision, refusedSize string) (WaitCause, string) {
	f := &tn.record.Refused
	switch {
	case refusedSize != "":
		return CauseRequest, "Slurm refuses the size that the plan gives it: " + refusedSize
	case f.counts(t.observation.at) && slices.Contains(noPlaceCauses, causeOfReason(f.Reason)):
		return causeOfReason(f.Reason), refusalText(f.Reason)
	case d.Grant != nil:
		return "", ""
	case tn.bar.why != "":
		return tn.bar.cause, tn.bar.why
	}
	return plannedCauses[d.Reason], d.Why
}

// refuseSize notes that Slurm refused an update that gives a job a size. The next full round that is late enough hands
// the job back (isHandBackDue).
func (a *executor) refuseSize(s *step, err error) {
	if errors.Is(err, slurm.ErrRefused) {
		s.job.record.NoPlace = NoPlace{Since: a.round.now(), Wait: s.job.Restarts, Refused: err.Error()}
	}
}

// isHandBackDue says that an earlier round, at least half a round ago, found no place either. One finding alone may be
// due to a restarting controller.
func isHandBackDue(t *activeRound, p *NoPlace) bool {
	return !t.small && !p.Since.IsZero() && t.observation.at.Sub(p.Since) >= t.runner.Settings.Round/2
}

// leaveToSlurm makes a job Slurm's.
func leaveToSlurm(t *activeRound, tn *managedJob, p NoPlace) {
	tn.untouchedBecause, tn.bar = p.Why, barReason{p.Cause, p.Why}
	if !t.runner.Settings.Shadow {
		p.Slurms = true
		tn.record.NoPlace = p
	}
}

// handBackCause is the cause for which an unplanned job is handed back.
func (t *managedJob) handBackCause() WaitCause {
	if !t.ours {
		return CauseOther // it lost its directive or its partition
	}
	if p := t.leftToSlurm(); p != nil {
		return p.Cause
	}
	return t.bar.cause
}
