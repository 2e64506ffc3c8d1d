package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A job that waits under a lease is invisible to Slurm's scheduler, and whoever comes later and is visible runs first.
// So the jobs whose turn is next are armed: eligible, on any node, with the size that they are to have. Slurm's order
// and limits then hold for them as for anybody, backfill reserves for them, and the moment that so much is free they
// run, without us. Where less than that comes free a small round starts them with less. All others keep their leases,
// since the plan may still choose when, where and with how much they run.
//
// An armed job carries a size that is not its user's. That is a debt like any other, and it fails open: the size fits
// nodes that there are, and no node is named.

// queue is the part of a turn that looks after the place of jobs in Slurm's own queue.
type queue struct{ *turn }

// arms says that somebody may be armed beside those who are to have what victims leave, see secure. While victims
// leave, or nodes are cleared over several rounds, nobody is: whoever is eligible would take what is freed for another.
// Nor is anybody while a job sits down on a GPU that it may share: Slurm's main scheduler stops at the first that it
// has no room for, and never comes to the seat behind.
func (t queue) arms(plan policy.Plan) bool {
	return t.Settings.Ahead > 0 && len(t.victims()) == 0 && !slices.ContainsFunc(plan.Decisions, clearing) &&
		!t.sitsDown(plan)
}

// sitsDown says that the plan starts a job on a GPU that it may share.
func (t queue) sitsDown(plan policy.Plan) bool {
	for i, tn := range t.scene.managed {
		if g := plan.Decisions[i].Grant; tn.State == Pending && g != nil && g.Device != "" {
			return true
		}
	}
	return false
}

// aheadOf lists the jobs that are to be armed, by ID: the first in line that nothing but room keeps from running, and
// those that are armed already and not far behind.
func (t queue) aheadOf(plan policy.Plan) map[int]policy.Next {
	most := t.Settings.Ahead
	if !t.scene.arms {
		return nil
	}
	ahead := map[int]policy.Next{}
	snapshot, failing := t.withFailing()
	place := 0 // in line
	for next := range t.line.Ahead(snapshot, t.order(), t.Settings.Allocator) {
		if !failing[next.Job] && !wantsRoom(plan, next.Job) {
			continue
		}
		if place++; place > 2*most {
			break
		}
		if place <= most || t.scene.find(next.Job).armed(t.scene.at) {
			ahead[next.Job] = next
		}
	}
	return ahead
}

// clearing says that idle GPUs are kept until others have left, too.
func clearing(d policy.Decision) bool { return d.Reason == policy.Clearing }

// withFailing is the snapshot in which jobs are not barred for starts of ours that failed, and who these are. Slurm may
// know better why, a job of somebody else's that goes first say; being eligible they keep their place, and start when
// Slurm lets them.
func (t queue) withFailing() (policy.Cluster, map[int]bool) {
	c := t.report.Snapshot
	var failing map[int]bool // most rounds have none
	for i, tn := range t.scene.managed {
		why := t.failing(tn.record, t.scene.at)
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

// wantsRoom says that a job waits for room alone. One that waits for its site's limits, its dependency or a node that
// is down gains nothing by being eligible with another size.
func wantsRoom(plan policy.Plan, job int) bool {
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

// armed says that a waiting job is eligible with another size than its user's.
func (t *managedJob) armed(now time.Time) bool {
	return t.State == Pending && !t.Begin.After(now) && !sameRequest(&t.Request, &t.record.Own)
}

// armedAs says that a waiting job is armed with that size.
func (t *managedJob) armedAs(next policy.Next, now time.Time) bool {
	want := resized(t.record, next.Nodes, next.PerNode)
	want.Partition = Several(t.listed())
	in := t.listed() == "" || SamePartitions(t.Partition, t.listed())
	return !t.Begin.After(now) && in && sameRequest(&t.Request, &want) && t.told()
}

// arming is the update that arms a job.
func arming(rec *Record, g policy.Placement, nodes, round int, why, note string, now time.Time) Update {
	return Update{
		Job: rec.Job, Begin: later(rec.NotBefore, now), Request: resized(rec, nodes, g.PerNode),
		Extra: annotationOf(rec, round, why, note).String(),
	}
}

// armAll arms those whose turn is next, when everything else is done: what was to start has started. One that Slurm has
// started or somebody has taken hold of meanwhile needs nothing.
func (a *acting) armAll(ctx context.Context) error {
	err := a.each(ctx, a.steps.filter(func(s *step) bool { return s.Verb == Arm && s.stage == begun }), done,
		func(s *step) error {
			rec := s.job.record
			u := arming(rec, *s.Grant, rec.Own.Nodes, a.report.Round, s.Why, s.job.note, a.now())
			u.Request.Partition = s.job.listed()
			err := a.write(ctx, s, u)
			s.raced = errors.Is(err, ErrNotPending)
			if s.raced || errors.Is(err, ErrGone) || errors.Is(err, ErrHeld) {
				return nil
			}
			a.refuseSize(s, err)
			return err
		})
	if err != nil {
		return err
	}
	return a.compareRaced(ctx)
}

// compareRaced looks at those that Slurm started while they were to be armed anew: they have the size of before.
func (a *acting) compareRaced(ctx context.Context) error {
	raced := a.steps.filter(func(s *step) bool { return s.Verb == Arm && s.raced })
	if len(raced) == 0 {
		return nil
	}
	if err := a.look(ctx); err != nil {
		return err
	}
	for _, s := range raced {
		s.compare(a.seenNow(s.Job))
	}
	return nil
}

// compare takes note of a job that runs with another size than it was to have.
func (s *step) compare(j *Job) {
	if j.State != Running || j.Runs.PerNode == s.Grant.PerNode || j.Whole {
		return
	}
	s.Got = &j.Runs.PerNode
	s.Why += fmt.Sprintf("; Slurm had just started it by itself with %s, and not with the %s that were planned", *s.Got,
		s.Grant.PerNode)
}
