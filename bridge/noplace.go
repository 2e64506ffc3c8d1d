package bridge

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A round may say where and with how much a job starts, and whose turn it is. It never says no for ever: what it knows
// of nodes and requests may be less than what Slurm can start there. So a job that finds no place in two rounds in a
// row, whoever else were to leave, is handed back with its user's own request: Slurm starts it where it can, or says in
// its own word what is missing. Order and room are no such reason, nor is what Slurm itself makes the job wait for
// (limits, licenses, dependencies, reservations): the job would wait as long without us.
//
// It stays Slurm's until it comes back to the queue. To take it up again as soon as a node opens would be to move it to
// and fro with every node that comes and goes, and each time it would lose the place in Slurm's queue that it has
// meanwhile. The run that Slurm starts is left alone like that of any job that is not ours.

// NoPlace is that a waiting job has no place to start at, as far as rounds can tell.
type NoPlace struct {
	Cause WaitCause `json:"cause"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"` // the first round in a row that found none
	Wait  int       `json:"wait"`           // restarts of the job before the wait in which that is so
	// Refused is Slurm's answer to the size that a plan gave the job; empty: it has refused none
	Refused string `json:"refused,omitempty"`
	// Slurms: the job is handed back for it, and Slurm's for this wait and the run that follows.
	Slurms bool `json:"slurms,omitempty"`
}

// noPlaceCauses are those for which a job is handed back: no node could ever hold it, or those that could are closed,
// or Slurm itself says so of a size that we gave it.
var noPlaceCauses = []WaitCause{CauseShape, CauseClosed, CauseRequest, CausePartitionRules}

// HandBackCauses are what a round hands jobs back for, as WaitCauses has them. Other is a job that has lost our
// directive, or its managed partition.
func HandBackCauses() []WaitCause {
	return append(slices.Clone(noPlaceCauses), CauseLeftToSlurm, CauseCanary, CauseOther)
}

// slurms is why a job is Slurm's for this wait and the run that follows; nil: it is not. An annotation says it where
// the ledger was lost, or the round died that wrote it, and of a task that Slurm has split off an array since. Whoever
// forges one opts out.
func (t *managedJob) slurms() *NoPlace {
	if t.record != nil && t.record.NoPlace.Slurms && t.record.NoPlace.Wait == t.Restarts {
		return &t.record.NoPlace
	}
	if !strings.Contains(t.Extra, `"slurms":`) { // most: reading one takes time
		return nil
	}
	said := t.annotated().Slurms
	if said == nil || said.Wait != t.Restarts || !slices.Contains(noPlaceCauses, said.Cause) {
		return nil
	}
	return &NoPlace{Cause: said.Cause, Why: cmp.Or(t.annotated().Note, handedBack), Wait: said.Wait, Slurms: true}
}

// slurms is what an annotation says of that.
type slurms struct {
	Cause WaitCause `json:"cause"`
	Wait  int       `json:"wait"`
}

// placing is the part of a turn that hands back the jobs that have no place.
type placing struct{ *turn }

// handBack marks the jobs that have none, and those that are Slurm's for it from this round on. The shadow writes
// nothing, so there each round says anew what it would do.
func (t placing) handBack() {
	arrays := map[int]*NoPlace{}
	for i, tn := range t.scene.managed {
		if tn.standsForTasks() {
			continue // its tasks tell
		}
		found := t.find(tn, &t.report.Plan.Decisions[i])
		if tn.record.NoPlace = found; t.overdue(&found) {
			t.giveUp(tn, found)
			arrays[tn.Array] = &found
		}
	}
	for _, tn := range t.scene.unplanned {
		if p := tn.slurms(); p != nil {
			arrays[tn.Array] = p
		}
	}
	for _, tn := range t.scene.managed {
		if p := arrays[tn.Array]; tn.standsForTasks() && tn.State == Pending && p != nil {
			found := *p
			found.Wait = tn.Restarts
			t.giveUp(tn, found)
		}
	}
}

// find is what this round finds of a job; the zero value: it has a place, or waits for something else.
func (t placing) find(tn *managedJob, d *policy.Decision) NoPlace {
	if tn.State != Pending || tn.matched {
		return NoPlace{}
	}
	before, found := &tn.record.NoPlace, NoPlace{Since: t.scene.at, Wait: tn.Restarts}
	if !before.Since.IsZero() && before.Wait == tn.Restarts {
		found.Since, found.Refused = earlier(before.Since, t.scene.at), before.Refused
	}
	if found.Cause, found.Why = t.why(tn, d, found.Refused); !slices.Contains(noPlaceCauses, found.Cause) {
		return NoPlace{}
	}
	if f := &tn.record.Refused; f.counts(t.scene.at) && found.Cause == causeOfReason(f.Reason) {
		found.Since = earlier(found.Since, f.At) // the round that tried it found so
	}
	return found
}

// why is why a job does not start: what Slurm said of it in the size of a plan, or what the plan says now.
func (t placing) why(tn *managedJob, d *policy.Decision, refusedSize string) (WaitCause, string) {
	f := &tn.record.Refused
	switch {
	case refusedSize != "":
		return CauseRequest, "Slurm refuses the size that the plan gives it: " + refusedSize
	case f.counts(t.scene.at) && slices.Contains(noPlaceCauses, causeOfReason(f.Reason)):
		return causeOfReason(f.Reason), refused(f.Reason)
	case d.Grant != nil:
		return "", ""
	case tn.bar.why != "":
		return tn.bar.cause, tn.bar.why
	}
	return plannedCauses[d.Reason], d.Why
}

// refuseSize notes that Slurm has refused an update that gives a job a size.
func (a *acting) refuseSize(s *step, err error) {
	if errors.Is(err, ErrRefused) {
		s.job.record.NoPlace = NoPlace{Since: a.now(), Wait: s.job.Restarts, Refused: err.Error()}
	}
}

// overdue says that an earlier round found none either, and not only just now: a controller that restarts, or a look in
// the wrong moment, is no reason.
func (t placing) overdue(p *NoPlace) bool {
	return !t.small && !p.Since.IsZero() && t.scene.at.Sub(p.Since) >= t.Settings.Round/2
}

// giveUp makes a job Slurm's.
func (t placing) giveUp(tn *managedJob, p NoPlace) {
	tn.alone, tn.bar = p.Why, bar{p.Cause, p.Why}
	if !t.Settings.Shadow {
		p.Slurms = true
		tn.record.NoPlace = p
	}
}

// handBackCause is what a job that is not planned is handed back for.
func (t *managedJob) handBackCause() WaitCause {
	if !t.ours {
		return CauseOther // it has lost its directive, or its partition
	}
	if p := t.slurms(); p != nil {
		return p.Cause
	}
	return t.bar.cause
}
