package bridge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Slurm's main scheduler goes through a partition by priority and stops at the first job for which it has no room. Jobs
// behind that one are started by backfill only, once in every bf_interval, and only if they delay no job. A start
// written for such a job would make all others wait in vain, and a job preempted for it would have been stopped for
// nothing. So the job is armed with what the plan gives it, and the rest is left to Slurm. While a round arms no jobs
// (mayArm), the job goes on waiting. Where the site arms none at all (Settings.Ahead is 0), the job is started all
// the same, since there is no other way.

// rank is a place in Slurm's order within a partition.
type rank struct {
	priority int64 // Slurm's
	job      int   // its ID
}

// rankOf is the place of a job in Slurm's order.
func rankOf(j *slurm.Job) rank { return rank{j.Priority, j.ID} }

// before says whether Slurm considers the job of r first.
func (r rank) before(other rank) bool { return r.compare(other) < 0 }

// compare orders ranks as Slurm does: the higher priority first, then the lower job ID.
func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(other.priority, r.priority), cmp.Compare(r.job, other.job))
}

// jobsBehindBlocked are the jobs that a plan starts although, in the partition in which each would start, Slurm has no
// room for a job that it considers first. Slurm's main scheduler would not reach them, so they are armed and not
// started. Jobs that cannot be armed are left out: those that get a shared GPU, since the request of an armed job names
// no GPU, and those that count in a quota of cores or memory (policy.Cluster.Rationed). Nil: there are none, or the
// site arms no jobs.
func jobsBehindBlocked(t *activeRound, plan policy.Plan) map[int]bool {
	if t.runner.Settings.Ahead <= 0 {
		return nil
	}
	first := firstBlocked(t, plan)
	if len(first) == 0 {
		return nil
	}
	var behind map[int]bool
	for i, tn := range t.observation.managed {
		grant := plan.Decisions[i].Grant
		if tn.State != slurm.Pending || grant == nil || grant.Device != "" ||
			t.report.Snapshot.Rationed(&t.report.Snapshot.Jobs[i]) {
			continue
		}
		in := cmp.Or(t.observation.startsIn(tn, grant.Nodes), tn.Partition)
		if r, any := first[in]; any && r.before(rankOf(tn.Job)) {
			if behind == nil {
				behind = map[int]bool{}
			}
			behind[tn.ID] = true
		}
	}
	return behind
}

// firstBlocked is, for each partition, the first job in Slurm's order that only waits for room and is not started by
// the plan: Slurm's main scheduler stops there. It is an unmanaged job, or one that is armed. Jobs that this round has
// armed for its own starts do not count, since it leases them again when they are in the way (leaseBlockers). All other
// managed jobs wait under leases, where Slurm passes over them. A partition without such a job has no entry.
func firstBlocked(t *activeRound, plan policy.Plan) map[string]rank {
	var first map[string]rank
	note := func(j *slurm.Job) {
		if first == nil {
			first = map[string]rank{}
		}
		for part := range strings.SplitSeq(j.Partition, ",") {
			if r, any := first[part]; !any || rankOf(j).before(r) {
				first[part] = rankOf(j)
			}
		}
	}
	for _, tn := range t.runner.cache.jobs {
		if tn.isContender(&t.observation) {
			note(tn.Job)
		}
	}
	for i, tn := range t.observation.managed {
		if plan.Decisions[i].Grant == nil && tn.isArmed(t.observation.at) && !t.observation.secured[tn.ID] &&
			slices.Contains(roomOnlyReasons, tn.Reason) {
			note(tn.Job)
		}
	}
	return first
}

// armsBehind is the step that arms a job with what the plan grants it, because other jobs go first in Slurm's order. It
// is nil if there is nothing to write: the job is armed with that size already, or with one that fits into it.
func (s *sortedObservation) armsBehind(t *managedJob, d *policy.Decision) *Step {
	next := policy.Next{Job: t.ID, Nodes: len(d.Grant.Nodes), PerNode: d.Grant.PerNode}
	if t.isArmed(s.at) && t.hasOurAnnotation() && len(t.Request.Pin) == 0 &&
		t.Request.PerNode().Fits(d.Grant.PerNode) ||
		t.isArmedAs(next, s.at) {
		return nil
	}
	return &Step{
		Job: t.ID, Verb: Arm, Grant: &policy.Placement{PerNode: next.PerNode},
		Why: "others go first in Slurm's order: it starts as soon as Slurm finds that it delays nobody",
	}
}
