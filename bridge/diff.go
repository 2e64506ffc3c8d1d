package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// diff turns a plan into the steps from the observed state to the planned one, in the order in which a round takes
// them: what frees nodes before what uses them. A job that is as planned has no step. A running job that the plan moves
// or resizes has two, a preemption and a start. A job that the plan starts and that is behind others in Slurm's order
// is only armed, or waits if this round arms no jobs.
func (r *Runner) diff(s *sortedObservation, plan policy.Plan) []Step {
	var release, restore, preempt, start, arm, again []Step
	for _, t := range s.debtors {
		if t.treatmentAt(s.at) != toHandBack {
			continue
		}
		if step := t.handBackStep(s.at, handedBack); step != nil {
			release = append(release, *step)
		}
	}
	for i, t := range s.managed {
		d := &plan.Decisions[i] // the plan was checked to have the same order
		switch {
		case t.untouchedBecause != "": // the job became unplannable in this round
			if step := t.handBackStep(s.at, handedBack+": "+t.untouchedBecause); step != nil {
				release = append(release, *step)
			}
		case t.State == slurm.Running && isUnchanged(t, d):
			if s.expiring[t.ID] {
				preempt = append(preempt, Step{Job: t.ID, Verb: Preempt, Why: timeLimitReason})
			}
		case t.State == slurm.Running:
			cost := r.restartCost(t)
			preempt = append(preempt, Step{Job: t.ID, Verb: Preempt, Why: d.Why, Cost: &cost})
			if d.Grant != nil {
				start = append(start, Step{Job: t.ID, Verb: Start, Grant: d.Grant, Why: d.Why})
			}
		case s.jobsBehindBlocked[t.ID] && s.mayArm:
			if step := s.armsBehind(t, d); step != nil {
				arm = append(arm, *step)
			}
		case d.Grant != nil && !s.jobsBehindBlocked[t.ID]:
			start = append(start, Step{Job: t.ID, Verb: Start, Grant: d.Grant, Why: t.startReason(d)})
		case s.shouldArm(t):
			if next := s.jobsToArm[t.ID]; !t.isArmedAs(next, s.at) {
				arm = append(arm, Step{Job: t.ID, Verb: Arm, Grant: &policy.Placement{PerNode: next.PerNode},
					Why: d.Why})
			}
		default:
			if verb := r.waitingVerb(t, s.at); verb != "" {
				restore = append(restore, Step{Job: t.ID, Verb: verb, Why: withExpectedStart(r.Outlook, t.ID, d.Why)})
			} else if why, other := r.changedReason(t, d); other {
				again = append(again, Step{Job: t.ID, Verb: Renew, Why: why})
			}
		}
	}
	restore = append(restore, s.oldestReasonSteps(again)...)
	return slices.Concat(release, restore, preempt, start, arm)
}

// shouldArm says whether the job is one of the next in line, which are armed.
func (s *sortedObservation) shouldArm(t *managedJob) bool {
	_, next := s.jobsToArm[t.ID]
	return next
}

// isUnchanged says whether the plan leaves a running job as it is, so that it is not preempted. In shadow mode it is
// compared with what the job would hold, and not with what it holds.
func isUnchanged(t *managedJob, d *policy.Decision) bool {
	holds := cmp.Or(t.shadowPlacement, t.placement)
	return d.Grant != nil && (d.Grant == holds || d.Grant.Equal(*holds))
}

// startReason says to the job's user why a waiting job starts, and at which speed relative to the proportional share.
// If the form of its request or the lack of a checkpoint may cost it speed, it says that, too, since the user can
// change both.
func (t *managedJob) startReason(d *policy.Decision) string {
	if d.Gain == 0 {
		return "its turn"
	}
	why := fmt.Sprintf("its turn, at %.2f× the proportional speed", d.Gain)
	// The sum is above 0 if either amount is given for each GPU.
	if own := &t.record.Own; d.Gain < 0.99 && own.MemoryPerGPU+gres.Memory(own.CPUsPerGPU) > 0 {
		why += ", to which the amount that it asks for each GPU holds it"
	}
	if t.profile != nil && !t.canSave() && !t.Interactive && !t.Whole {
		why += "; without synergy-checkpoint it is lent no more than others can do without"
	}
	if d.Why != "" {
		why += "; " + d.Why
	}
	return why
}

// waitingVerb is the step that a job needs to wait on: Restore if it carries another request than its user's, Renew if
// it needs a lease or has not been told why it waits. Empty: none.
func (r *Runner) waitingVerb(t *managedJob, now time.Time) Verb {
	switch {
	case !t.Request.Equal(&t.record.Own):
		return Restore
	case r.needsLease(t, now), !t.hasOurAnnotation():
		return Renew
	}
	return ""
}

// changedReason is why a waiting job waits now. is says whether the job is to be told: it was told another reason, half
// a lease ago or earlier. A job whose lease is a begin time is not told here, since it is told whenever its begin time
// is renewed.
func (r *Runner) changedReason(t *managedJob, d *policy.Decision) (why string, is bool) {
	said := t.parsedAnnotation()
	if t.Lease == 0 || time.Duration(r.Last-said.Round)*r.Settings.Round < r.Settings.Lease/2 {
		return "", false
	}
	why = withExpectedStart(r.Outlook, t.ID, d.Why)
	return why, why != said.Why
}

// maxReasonUpdates is how many jobs a round tells a changed reason, so that the cost does not grow with the queue.
const maxReasonUpdates = 32

// oldestReasonSteps are those of the steps whose jobs were told their reason longest ago, at most maxReasonUpdates,
// ascending in job. The other jobs have their turn in later rounds.
func (s *sortedObservation) oldestReasonSteps(steps []Step) []Step {
	if len(steps) <= maxReasonUpdates {
		return steps
	}
	round := func(step Step) int { return s.find(step.Job).parsedAnnotation().Round }
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(round(a), round(b)) })
	steps = steps[:maxReasonUpdates]
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Job, b.Job) })
	return steps
}

// startUpdate is the update that starts a job with its grant at now: size, node names and begin time in one. slot is
// its slot on a shared GPU; nil: none. why and note are for its annotation.
func startUpdate(
	rec *Record,
	g policy.Placement,
	round int,
	why, note string,
	now time.Time,
	slot *slotGrant,
) slurm.Update {
	annotation := annotationOf(rec, round, why, note)
	annotation.Share = slot
	return slurm.Update{Job: rec.Job, Begin: now, Request: grantedRequest(rec, g), Extra: annotation.String()}
}

// grantedRequest is the request with which a job starts: its user's own, with the granted amounts and nodes, and the
// granted GPU if it is a shared one.
func grantedRequest(rec *Record, g policy.Placement) slurm.Request {
	q := resizedRequest(rec, len(g.Nodes), g.PerNode)
	q.Pin, q.Shard = hostsOf(g.Nodes), g.Device
	narrowToType(&q, g.Nodes)
	return q
}

// releaseUpdate is the update that hands a job back to Slurm for good. note is what its user should correct, if
// anything. For a job without a place the annotation says so, too, so that a daemon without this ledger does not take
// the job up again (leftToSlurm).
func releaseUpdate(rec *Record, round int, note string, now time.Time) slurm.Update {
	annotation := annotationOf(rec, round, handedBack, note)
	if p := &rec.NoPlace; p.Slurms {
		annotation.Slurms = &handBackMark{p.Cause, p.Wait}
	}
	return slurm.Update{Job: rec.Job, Begin: later(rec.NotBefore, now), Request: rec.Own, Extra: annotation.String()}
}

// requestChanges appends to changes the fields in which two requests differ, under the names that the audit log uses;
// none if they are equal. Partitions are compared only if to names any.
func requestChanges(changes []Change, old, to *slurm.Request) []Change {
	if old.Equal(to) {
		return changes
	}
	changes = slices.Grow(changes, 8) // room for all of them and the begin time
	add := func(field, a, b string) {
		if a != b {
			changes = append(changes, Change{field, a, b})
		}
	}
	add("cpus_per_task", strconv.Itoa(old.CPUsPerTask), strconv.Itoa(to.CPUsPerTask))
	add("cpus", strconv.Itoa(old.CPUs), strconv.Itoa(to.CPUs))
	add("cpus_per_node", strconv.Itoa(old.CPUsPerNode), strconv.Itoa(to.CPUsPerNode))
	if !old.SameMemory(to) {
		add("memory_per_node", old.MemoryText(), to.MemoryText())
	}
	add("gpu_type", old.GPUType, to.GPUType)
	if old.Shard != to.Shard {
		add("tres_per_node", old.PerNodeGRES(), to.PerNodeGRES())
	}
	add("nodes", strconv.Itoa(old.Nodes), strconv.Itoa(to.Nodes))
	add("required_nodes", strings.Join(old.Pin, ","), strings.Join(to.Pin, ","))
	if !to.Allows(old) {
		add("partition", old.Partition, to.Partition)
	}
	return changes
}
