package bridge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Slurm's main scheduler goes through a partition by priority and stops at the first job that it has no room for: who
// is behind that one is started by backfill, once in every bf_interval, if he delays nobody. To write a start for such
// a job and wait for it keeps everybody else waiting in vain, and a victim would have been stopped for nothing. So it
// is armed with what the plan gives it, and the rest is Slurm's; where nobody is armed it is started all the same,
// since it has no other way.

// rank is a place in Slurm's order within a partition.
type rank struct {
	priority int64
	job      int
}

func rankOf(j *Job) rank { return rank{j.Priority, j.ID} }

// before says that a rank is considered first.
func (r rank) before(other rank) bool { return r.compare(other) < 0 }

// compare puts the rank first that Slurm considers first.
func (r rank) compare(other rank) int {
	return cmp.Or(cmp.Compare(other.priority, r.priority), cmp.Compare(r.job, other.job))
}

// behind are the jobs that a plan starts although Slurm has no room for one that it considers first, in the partition
// where each would start. Jobs that cannot be armed are none of them.
func (t queue) behind(plan policy.Plan) map[int]bool {
	if t.Settings.Ahead <= 0 {
		return nil
	}
	first := t.blocked(plan)
	if len(first) == 0 {
		return nil
	}
	var behind map[int]bool
	for i, tn := range t.scene.managed {
		grant := plan.Decisions[i].Grant
		if tn.State != Pending || grant == nil || grant.Device != "" ||
			t.report.Snapshot.Rationed(&t.report.Snapshot.Jobs[i]) {
			continue
		}
		in := cmp.Or(t.scene.startsIn(tn, grant.Nodes), tn.Partition)
		if r, any := first[in]; any && r.before(rankOf(tn.Job)) {
			if behind == nil {
				behind = map[int]bool{}
			}
			behind[tn.ID] = true
		}
	}
	return behind
}

// blocked is the first job of each partition that waits for nothing but room and that the plan does not start.
func (t queue) blocked(plan policy.Plan) map[string]rank {
	var first map[string]rank
	note := func(j *Job) {
		if first == nil {
			first = map[string]rank{}
		}
		for part := range strings.SplitSeq(j.Partition, ",") {
			if r, any := first[part]; !any || rankOf(j).before(r) {
				first[part] = rankOf(j)
			}
		}
	}
	for _, tn := range t.reader.jobs {
		if tn.contends(&t.scene) {
			note(tn.Job)
		}
	}
	for i, tn := range t.scene.managed {
		if plan.Decisions[i].Grant == nil && tn.armed(t.scene.at) && !t.scene.secured[tn.ID] &&
			slices.Contains(roomAlone, tn.Reason) {
			note(tn.Job)
		}
	}
	return first
}

// armsBehind is the step for a job that is behind: to be armed with its grant. One that is armed with no more than that
// waits well as it is. nil: there is nothing to do.
func (s *scene) armsBehind(t *managedJob, d *policy.Decision) *Step {
	next := policy.Next{Job: t.ID, Nodes: len(d.Grant.Nodes), PerNode: d.Grant.PerNode}
	if t.armed(s.at) && t.told() && len(t.Request.Pin) == 0 && t.Request.perNode().Fits(d.Grant.PerNode) ||
		t.armedAs(next, s.at) {
		return nil
	}
	return &Step{
		Job: t.ID, Verb: Arm, Grant: &policy.Placement{PerNode: next.PerNode},
		Why: "others go first in Slurm's order: it starts as soon as Slurm finds that it delays nobody",
	}
}
