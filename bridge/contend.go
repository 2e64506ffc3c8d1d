package bridge

import (
	"context"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// When a job is preempted, its place stays free for some seconds before the planned job can start, and Slurm gives it
// to the job that it considers first. So no job is preempted for a place that another job would get before the planned
// one. Jobs later in Slurm's order are no obstacle, since the planned job is in Slurm's queue before any job is asked
// to leave.

// contenders are the unmanaged jobs of an observation that only wait for room, in Slurm's order. Slurm may give them
// what a preempted job leaves.
func contenders(jobs []*managedJob, s *sortedObservation) (list []*managedJob) {
	for _, t := range jobs {
		if t.isContender(s) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(x, y *managedJob) int { return rankOf(x.Job).compare(rankOf(y.Job)) })
	return list
}

// isContender says whether the job is not managed and Slurm may start it as soon as there is room.
func (t *managedJob) isContender(s *sortedObservation) bool {
	if t.State != slurm.Pending || t.Held || t.Dependency || t.Completing || t.WaitsAt(s.at) ||
		t.treatmentAt(s.at) == managed {
		return false
	}
	return slices.Contains(roomOnlyReasons, t.Reason)
}

// roomOnlyReasons are Slurm's reasons that do not keep a job from starting when there is room. Some are stale: Slurm
// corrects the reason only when it next considers the job, so a job that was released, lost its dependency or reached
// its begin time keeps the old reason until then.
var roomOnlyReasons = []string{"", "Resources", "Priority", "BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin"}

// blockedByForeignCleanup says whether the place of a running job could not be used again for an unknown time: an
// unmanaged job is completing on one of its nodes, and Slurm starts nothing there until that is over. The running job
// then stays, since it would be preempted for nothing. Cleanup of managed jobs is no obstacle.
func (s *sortedObservation) blockedByForeignCleanup(t *managedJob) bool {
	return slices.ContainsFunc(t.nodePlaces, func(place int) bool {
		if place == unmanagedPlace {
			return false
		}
		n := &s.nodes[s.topology.managed[place]]
		return n.Completing && !s.completingNodes[hostOf(n.Name)]
	})
}

// maxReplans is how often a plan is made again because other jobs would get what the preempted ones leave. After that
// the plan is made once more, with no job preempted.
const maxReplans = 4

// replanWithoutContended makes the plan again as long as unmanaged jobs would get what preempted jobs leave. In each
// new plan these preempted jobs stay. It may preempt other jobs in their place, so the new plan is examined again.
// After maxReplans, all running jobs stay. A first plan must have been made.
func replanWithoutContended(ctx context.Context, t *activeRound) error {
	for n := 1; len(t.observation.contenders) > 0 && fixContended(t); n++ {
		if n > maxReplans {
			fixRunning(&t.report.Snapshot)
		}
		if err := t.makePlan(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fixContended fixes, in the snapshot, the jobs whose preemption is wasted on one of their nodes (preemptionIsWasted):
// the next plan keeps them running. It says whether there are any; if not, the plan can be kept.
func fixContended(t *activeRound) (any bool) {
	handovers := handoversByPlace(t)
	for _, i := range t.victims() {
		if slices.ContainsFunc(t.observation.managed[i].nodePlaces, func(place int) bool {
			return place != unmanagedPlace && preemptionIsWasted(t, place, handovers[place])
		}) {
			t.report.Snapshot.Jobs[i].Fixed, any = true, true
		}
	}
	return any
}

// victims are the managed jobs that the plan preempts, to move, resize or stop them, as indices in the observation and
// the snapshot.
func (t *activeRound) victims() (list []int) {
	for i, tn := range t.observation.managed {
		if tn.State == slurm.Running && !isUnchanged(tn, &t.report.Plan.Decisions[i]) {
			list = append(list, i)
		}
	}
	return list
}

// handover is what happens to a node that preempted jobs leave, by the plan: what starts there, and what the preempted
// jobs themselves take again.
type handover struct {
	freedRoom     gres.Vector    // free after all preempted jobs have left
	starts        []plannedStart // in Slurm's order
	retaken       gres.Vector    // taken again by preempted jobs that restart there with another size or place
	givesBackLoan bool           // a preempted job restarts smaller there and gives back a loan
}

// plannedStart is a job that the plan starts on a node.
type plannedStart struct {
	rank
	armed bool        // it is in Slurm's queue before any job is asked to leave
	size  gres.Vector // on the node
}

// handoversByPlace are the handovers of all nodes that preempted jobs leave, by place: the node's index among the
// managed nodes. Nodes that are not managed are left out.
func handoversByPlace(t *activeRound) map[int]*handover {
	all := map[int]*handover{}
	for _, i := range t.victims() {
		tn := t.observation.managed[i]
		for _, place := range tn.nodePlaces {
			if place == unmanagedPlace {
				continue
			}
			h := all[place]
			if h == nil {
				n := &t.observation.nodes[t.observation.topology.managed[place]]
				h = &handover{freedRoom: n.Total.Minus(n.Allocated)}
				all[place] = h
			}
			h.freedRoom = h.freedRoom.Plus(tn.Runs.PerNode)
		}
	}
	for i, tn := range t.observation.managed {
		if d := &t.report.Plan.Decisions[i]; d.Grant != nil && (tn.State != slurm.Running || !isUnchanged(tn, d)) {
			for _, place := range t.observation.topology.placesOf(d.Grant.Nodes) {
				if h := all[place]; h != nil {
					addHandoverGrant(t, h, i, d)
				}
			}
		}
	}
	for _, h := range all {
		slices.SortFunc(h.starts, func(x, y plannedStart) int { return x.compare(y.rank) })
	}
	return all
}

// addHandoverGrant adds to h what the plan grants job i on the node, d being its decision. A waiting job is armed
// before any job is asked to leave, unless arming is switched off, its grant is a shared GPU, or it counts in a quota
// of cores or memory. What a preempted job takes again is added to retaken, unless the job shrinks: that only gives a
// loan back and needs no free room.
func addHandoverGrant(t *activeRound, h *handover, i int, d *policy.Decision) {
	tn := t.observation.managed[i]
	switch {
	case tn.State == slurm.Pending:
		armed := t.runner.Settings.Ahead > 0 && d.Grant.Device == "" &&
			!t.report.Snapshot.Rationed(&t.report.Snapshot.Jobs[i])
		h.starts = append(h.starts, plannedStart{rankOf(tn.Job), armed, d.Grant.PerNode})
	case d.Reason == policy.Shrinks:
		h.givesBackLoan = true
	default:
		h.retaken = h.retaken.Plus(d.Grant.PerNode)
	}
}

// preemptionIsWasted says whether preemption on a node would be for nothing. That is so if unmanaged jobs leave too
// little for the plan's jobs, or if loans are given back there and no job uses them. It serves the queue in Slurm's
// order, as Slurm will: the plan's armed jobs at their ranks. The plan's other jobs come last, since they become
// eligible only after the preempted jobs have left.
func preemptionIsWasted(t *activeRound, place int, h *handover) bool {
	n := &t.observation.nodes[t.observation.topology.managed[place]]
	left, taken, next := h.freedRoom, false, 0
	// serve gives the plan's next jobs for which before holds their room; false: one of them finds none.
	serve := func(before func(x plannedStart) bool) (all bool) {
		for ; next < len(h.starts) && before(h.starts[next]); next++ {
			if !h.starts[next].size.Fits(left) {
				return false
			}
			left = left.Minus(h.starts[next].size)
		}
		return true
	}
	for _, r := range t.observation.contenders {
		if !isInPartitions(n, r.Partition) || r.Request.GPUType != "" && r.Request.GPUType != n.GPUType {
			continue
		}
		if !serve(func(x plannedStart) bool { return x.armed && x.before(rankOf(r.Job)) }) {
			return true
		}
		if need := r.needsOn(n); need.Fits(left) {
			left, taken = left.Minus(need), true
		}
	}
	if !serve(func(plannedStart) bool { return true }) || !h.retaken.Fits(left) {
		return true
	}
	return h.givesBackLoan && !taken && len(h.starts) == 0 && h.retaken == (gres.Vector{})
}
