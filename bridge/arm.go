package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Slurm's scheduler does not see a job under a lease, so a later job without one would run first. Therefore the next
// jobs in line are armed: eligible on any node, with the size that they are to have. Slurm's order and limits apply to
// them as to any job, backfill plans for them, and they run as soon as there is that much room, without us. If less
// comes free, a small round starts them with less. All other jobs keep their leases, since the plan may still choose
// when, where and with how much they run.
//
// An armed job carries a size that is not its user's. That is a debt like any other, and it fails open: the size fits
// existing nodes, and no node is named.

// mayArm says whether jobs may be armed in this round, besides those for which others are preempted (secure). An armed
// job is eligible and takes whatever comes free. So none may be armed during a preemption, or while idle GPUs are kept
// for a job until its other nodes are free (isClearing). Nor may one while the plan starts a job on a shared GPU, which
// is not armed itself. Slurm's main scheduler stops at the first job for which it has no room, and would not reach that
// job behind an armed one.
func mayArm(t *activeRound, plan policy.Plan) bool {
	return t.runner.Settings.Ahead > 0 && len(t.victims()) == 0 && !slices.ContainsFunc(plan.Decisions, isClearing) &&
		!grantsSharedGPU(t, plan)
}

// grantsSharedGPU says whether the plan starts a job on a GPU that it may share with others.
func grantsSharedGPU(t *activeRound, plan policy.Plan) bool {
	for i, tn := range t.observation.managed {
		if g := plan.Decisions[i].Grant; tn.State == slurm.Pending && g != nil && g.Device != "" {
			return true
		}
	}
	return false
}

// jobsToArm lists the jobs to be armed, by ID, with the size that each is to have: the first Settings.Ahead jobs in
// line that only lack room or whose starts failed. Jobs that are armed already stay so up to twice that number in line,
// so that a job whose position changes a little is not leased and armed again each time. It is nil if no job may be
// armed in this round (mayArm).
func jobsToArm(t *activeRound, plan policy.Plan) map[int]policy.Next {
	most := t.runner.Settings.Ahead
	if !t.observation.mayArm {
		return nil
	}
	ahead := map[int]policy.Next{}
	snapshot, failing := snapshotWithFailing(t)
	place := 0 // position in line
	for next := range t.runner.queuePlanner.Ahead(snapshot, t.roundPolicy(), t.runner.Settings.Allocator) {
		if !failing[next.Job] && !waitsForRoom(plan, next.Job) {
			continue
		}
		if place++; place > 2*most {
			break
		}
		if place <= most || t.observation.find(next.Job).isArmed(t.observation.at) {
			ahead[next.Job] = next
		}
	}
	return ahead
}

// isClearing says whether idle GPUs are kept for the job until running jobs have left its other nodes, too.
func isClearing(d policy.Decision) bool { return d.Reason == policy.Clearing }

// snapshotWithFailing is the snapshot in which jobs are not barred because our starts of them failed, and the set of
// these jobs; nil: there are none. Such jobs may be armed all the same. Slurm may know a reason that a round does not,
// such as another user's job that goes first; an eligible job keeps its position in Slurm's queue and starts when Slurm
// lets it.
func snapshotWithFailing(t *activeRound) (policy.Cluster, map[int]bool) {
	c := t.report.Snapshot
	var failing map[int]bool // most rounds have none
	for i, tn := range t.observation.managed {
		why := t.runner.failingReason(tn.record, t.observation.at)
		if why == "" || c.Jobs[i].Barred != why {
			continue
		}
		if failing == nil {
			failing, c.Jobs = map[int]bool{}, slices.Clone(c.Jobs)
		}
		failing[tn.ID], c.Jobs[i].Barred = true, ""
	}
	return c, failing
}

// waitsForRoom says whether a job waits only for room, so that arming it helps. A job that waits for limits, a
// dependency or a node that is down gains nothing from being eligible with another size. It is false for a job that the
// plan starts or does not know.
func waitsForRoom(plan policy.Plan, job int) bool {
	k, found := slices.BinarySearchFunc(plan.Decisions, job, func(d policy.Decision, id int) int { return d.Job - id })
	if !found || plan.Decisions[k].Grant != nil {
		return false
	}
	switch plan.Decisions[k].Reason {
	case policy.Turn, policy.Gang, policy.Cores, policy.RAM, policy.HeldBack, policy.Limit:
		return true
	}
	return false
}

// isArmed says whether a waiting job is armed: eligible at now with a size that is not its user's.
func (t *managedJob) isArmed(now time.Time) bool {
	return t.State == slurm.Pending && !t.WaitsAt(now) && !t.Request.Equal(&t.record.Own)
}

// isArmedAs says whether a waiting job is armed with the size of next, in all partitions in which it may start now, and
// has our annotation. If so, there is nothing to write, and no step is made.
func (t *managedJob) isArmedAs(next policy.Next, now time.Time) bool {
	want := resizedRequest(t.record, next.Nodes, next.PerNode)
	// Equal passes over the partition if want names none, so the list is compared by itself, too.
	want.Partition = slurm.Several(t.partitionList())
	in := t.partitionList() == "" || slurm.SamePartitions(t.Partition, t.partitionList())
	return !t.WaitsAt(now) && in && t.Request.Equal(&want) && t.hasOurAnnotation()
}

// armUpdate is the update that arms a job: eligible at now, or when its user wants it to begin, with the size of g on
// each of so many nodes, and on no particular ones unless its user named some. why and note are for its annotation.
func armUpdate(rec *Record, g policy.Placement, nodes, round int, why, note string, now time.Time) slurm.Update {
	return slurm.Update{
		Job: rec.Job, Begin: later(rec.NotBefore, now), Request: resizedRequest(rec, nodes, g.PerNode),
		Extra: annotationOf(rec, round, why, note).String(),
	}
}

// armAll arms the next jobs in line (the steps with verb Arm) after all else is done, so that they cannot take the
// place of a job that this round starts. Jobs that have started, ended or been held meanwhile are left as they are.
func (a *executor) armAll(ctx context.Context) error {
	err := a.forEachStep(ctx, a.steps.filter(func(s *step) bool { return s.Verb == Arm && s.stage == notBegun }), done,
		func(s *step) error {
			rec := s.job.record
			u := armUpdate(rec, *s.Grant, rec.Own.Nodes, a.round.report.Round, s.Why, s.job.note, a.round.now())
			u.Request.Partition = s.job.partitionList()
			err := a.write(ctx, s, u)
			s.startedByItself = errors.Is(err, slurm.ErrNotPending)
			if s.startedByItself || errors.Is(err, slurm.ErrGone) || errors.Is(err, slurm.ErrHeld) {
				return nil
			}
			a.refuseSize(s, err)
			return err
		})
	if err != nil {
		return err
	}
	return a.noteRacedSizes(ctx)
}

// noteRacedSizes notes for the report with which size jobs run that Slurm started just when they were to be armed
// again: it is the size with which they were armed before. This takes another observation.
func (a *executor) noteRacedSizes(ctx context.Context) error {
	raced := a.steps.filter(func(s *step) bool { return s.Verb == Arm && s.startedByItself })
	if len(raced) == 0 {
		return nil
	}
	if err := a.observeAgain(ctx); err != nil {
		return err
	}
	for _, s := range raced {
		s.noteActualSize(a.seenNow(s.Job))
	}
	return nil
}

// noteActualSize notes in the step, for the report, that its job runs with another size than the step's grant: Slurm
// had just started it by itself. Jobs that do not run, or have whole nodes, are left out.
func (s *step) noteActualSize(j *slurm.Job) {
	if j.State != slurm.Running || j.Runs.PerNode == s.Grant.PerNode || j.Whole {
		return
	}
	s.Got = &j.Runs.PerNode
	s.Why += fmt.Sprintf("; Slurm had just started it by itself with %s, and not with the %s that were planned", *s.Got,
		s.Grant.PerNode)
}
