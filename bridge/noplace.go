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

// leftToSlurm says why a job was handed back to Slurm for this wait and the run that follows; nil: it was not, and
// rounds plan it. The ledger's record comes first. Without one the job's annotation counts: the ledger may be lost, the
// round may have died before it settled, or Slurm may have split the task off since. A user who forges an annotation
// only leaves the daemon's care.
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

// handBackMark is the part of an annotation that says that the job was handed back, for which cause, and before which
// wait (Job.Restarts): the mark of an earlier wait does not count.
type handBackMark struct {
	Cause WaitCause `json:"cause"`
	Wait  int       `json:"wait"`
}

// markHandBacks marks the jobs that this round hands back to Slurm because it has no place for them; diff makes the
// steps. The common record of an array is marked if a task of the array is, or was in an earlier round: its tasks all
// have the same request. Shadow mode stores no mark, so there each round says anew what it would do.
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

// findNoPlace is why a waiting job has no place in this round, and since when rounds in a row have found that (Since):
// a job is handed back only when this has lasted (isHandBackDue). Zero: the job has a place, does not wait, waits for
// something that passes, or is managed only by a rule in shadow mode.
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
	if f := &tn.record.Refused; f.isRecent(t.observation.at) && found.Cause == causeOfReason(f.Reason) {
		found.Since = earlier(found.Since, f.At) // the round that tried the start found it already
	}
	return found
}

// whyNoPlace is why a job does not start, as a cause and in words: what Slurm said of the planned size (refusedSize) or
// of the last start, or else what the plan says. Both are empty if the plan starts it. Other causes than noPlaceCauses
// are returned, too; the caller sorts them out.
func whyNoPlace(t *activeRound, tn *managedJob, d *policy.Decision, refusedSize string) (WaitCause, string) {
	f := &tn.record.Refused
	switch {
	case refusedSize != "":
		return CauseRequest, "Slurm refuses the size that the plan gives it: " + refusedSize
	case f.isRecent(t.observation.at) && slices.Contains(noPlaceCauses, causeOfReason(f.Reason)):
		return causeOfReason(f.Reason), refusalText(f.Reason)
	case d.Grant != nil:
		return "", ""
	case tn.bar.why != "":
		return tn.bar.cause, tn.bar.why
	}
	return plannedCauses[d.Reason], d.Why
}

// refuseSize notes in the job's record that Slurm refused an update that gives it a size; other errors are ignored. The
// next full round that is at least half a round later hands the job back, since the plan would choose that size again.
func (a *executor) refuseSize(s *step, err error) {
	if errors.Is(err, slurm.ErrRefused) {
		s.job.record.NoPlace = NoPlace{Since: a.round.now(), Wait: s.job.Restarts, Refused: err.Error()}
	}
}

// isHandBackDue says that a job is to be handed back in this round: it is a full one, and an earlier round, at least
// half a round ago, found no place either. One finding alone may be due to a restarting controller, which shows a part
// of the cluster.
func isHandBackDue(t *activeRound, p *NoPlace) bool {
	return !t.small && !p.Since.IsZero() && t.observation.at.Sub(p.Since) >= t.runner.Settings.Round/2
}

// leaveToSlurm makes the round leave a job to Slurm, and notes it in the record so that later rounds do, too. In shadow
// mode the record stays as it is.
func leaveToSlurm(t *activeRound, tn *managedJob, p NoPlace) {
	tn.untouchedBecause, tn.bar = p.Why, barReason{p.Cause, p.Why}
	if !t.runner.Settings.Shadow {
		p.Slurms = true
		tn.record.NoPlace = p
	}
}

// handBackCause is the cause, for the report, for which a job on which no plan decides is handed back.
func (t *managedJob) handBackCause() WaitCause {
	if !t.isOurs {
		return CauseOther // it lost its directive or its partition
	}
	if p := t.leftToSlurm(); p != nil {
		return p.Cause
	}
	return t.bar.cause
}
