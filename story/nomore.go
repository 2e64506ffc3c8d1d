package story

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// explainRunning answers for a running job to which the plan grants something: that it is restarted with another grant,
// or that it runs and why it has no more cores.
func (q *question) explainRunning() {
	a := &q.answer
	a.State, a.Since = StateRuns, q.job.Started
	if !q.job.Running.Equal(*q.decision.Grant) {
		a.Says = fmt.Sprintf("it is restarted with %s on %s: %s", placementText(*q.decision.Grant),
			Nodes(q.decision.Grant.Nodes), q.decision.Why)
		return
	}
	a.Says = fmt.Sprintf("it runs with %s on %s", placementText(*q.decision.Grant), Nodes(q.decision.Grant.Nodes))
	q.explainSize()
}

// explainSize adds to the answer why a running job has no more cores than it has, and what would help. It also lists up
// to maxOwnNodes of the job's nodes with what is idle there, since the job could grow only there without a move.
func (q *question) explainSize() {
	a, why := &q.answer, q.whyNotLarger()
	a.Says += "; " + why.says
	if why.helps != "" {
		a.Helps = append(a.Helps, why.helps)
	}
	for _, name := range q.decision.Grant.Nodes {
		if i, known := q.room.nodeIndex[name]; known {
			n := &q.room.nodes[i]
			a.Kinds = append(a.Kinds, Kind{Nodes: []string{name}, Each: n.Total, Type: n.GPUType, Nearest: name,
				Free: q.room.free[i], Holders: q.room.holders[i], Says: idleText(q.room.free[i])})
		}
		if len(a.Kinds) == maxOwnNodes {
			break
		}
	}
}

// maxOwnNodes is how many of a job's own nodes are described.
const maxOwnNodes = 8

// idleText says how many GPUs, cores and how much memory are idle on a node.
func idleText(v gres.Vector) string {
	return fmt.Sprintf("%s, %s and %s idle", countText(v.GPUs, "GPU"), countText(v.CPUs, "core"), v.Memory)
}

// sizeReason is why a job has no more cores, and what would help.
type sizeReason struct{ says, helps string }

// whyNotLarger returns why a running job has no more cores, by the first reason that applies: that it has no valid
// profile, the site's ceiling, too few idle cores, a quota, and last what another size would cost (whyNotResized). To
// grow, a job needs at least one more core for each task on each of its nodes, since all tasks get equally many.
func (q *question) whyNotLarger() sizeReason {
	job, has := q.job, q.decision.Grant.PerNode
	tasks := max(1, job.Tasks)
	spare, where := q.fewestIdleCores()
	switch {
	case job.Owed:
		return sizeReason{"it has its share, since it ran far below what its profile claims",
			"measure it again, with synergy profile or synergy-profile=auto"}
	case job.ProfileName == "" && job.Profile == nil:
		return sizeReason{"it has no profile, so nobody knows what more cores are worth to it, and it has its share",
			"name a profile, or have it measured: synergy-profile=auto in its comment"}
	case job.Ceiling.CPUs > 0 && has.CPUs+tasks > job.Ceiling.CPUs:
		return sizeReason{
			fmt.Sprintf("the site allows it no more than %s on a node", countText(job.Ceiling.CPUs, "core")),
			"",
		}
	case spare < tasks && tasks > 1:
		return sizeReason{
			fmt.Sprintf("%s idle on %s, and its %d tasks there get equal parts", countText(spare, "core"), where,
				tasks),
			"",
		}
	case spare < tasks:
		return sizeReason{"no core is idle on " + where, ""}
	}
	if text := q.bindingQuota(tasks * len(q.decision.Grant.Nodes)); text != "" {
		return sizeReason{text, ""}
	}
	return q.whyNotResized(spare)
}

// fewestIdleCores returns the least number of idle cores on one of the job's nodes, and that node's name. This node
// bounds the job's growth, since the job has the same size on each of its nodes. A node that the snapshot does not have
// counts as full.
func (q *question) fewestIdleCores() (least int, where string) {
	for _, name := range q.decision.Grant.Nodes {
		cores := 0
		if i, known := q.room.nodeIndex[name]; known {
			cores = q.room.free[i].CPUs
		}
		if where == "" || cores < least {
			least, where = cores, name
		}
	}
	return least, where
}

// bindingQuota says which of the job's quotas leaves fewer than so many cores, which are the job's further cores on all
// its nodes together. The text is empty if none does.
func (q *question) bindingQuota(cores int) string {
	for _, quota := range q.quotasLeft {
		if quota.CPUs != policy.Unbounded && quota.CPUs < cores {
			return fmt.Sprintf("%s leaves %s", quota.Name, countText(quota.CPUs, "core"))
		}
	}
	return ""
}

// whyNotResized says why a running job beside idle cores keeps its size. Another size takes a restart, so the reason is
// that the job may not be restarted, that it would gain nothing by its profile, or that the plan found the restart not
// worth its cost. spare is the least number of idle cores on one of its nodes.
func (q *question) whyNotResized(spare int) sizeReason {
	job, rules := q.job, q.report.Snapshot.Rules
	beside := fmt.Sprintf("%s idle beside it; ", countText(spare, "core"))
	age := q.report.Snapshot.Now.Sub(job.Started)
	if job.Running == nil { // this round has just started it: the snapshot is from before
		age = 0
	}
	switch {
	case !job.Saves && job.Fixed:
		return sizeReason{beside + "another size takes a restart, and it has declared no checkpoint",
			"declare a checkpoint: synergy-checkpoint=…"}
	case job.Fixed:
		return sizeReason{beside + "another size takes a restart, and it must not be stopped now", ""}
	case age < rules.MinRun:
		return sizeReason{beside + fmt.Sprintf("another size takes a restart, and it was started %s ago: for %s it is "+
			"left alone", age.Round(time.Second), rules.MinRun), ""}
	case rules.MaxRestarts > 0 && job.Restarts >= rules.MaxRestarts:
		return sizeReason{beside + fmt.Sprintf("another size takes a restart, and it has had %d, as many as the rules "+
			"allow", job.Restarts), ""}
	}
	if gain, known := q.gainWithCores(spare); known && gain < q.decision.Gain+minGainShown {
		return sizeReason{beside + "by its profile they would be of no use to it", ""}
	} else if known {
		return sizeReason{beside + fmt.Sprintf("with them it would train %.2f× as fast as with its share, now %.2f×: "+
			"the plan found that not worth a restart, or keeps them for others", gain, q.decision.Gain), ""}
	}
	return sizeReason{
		beside + "by its profile they are of no use to it, or of less than a restart costs, or they are " +
			"kept for others",
		"",
	}
}

// minGainShown is the smallest difference of two gains that is worth mentioning.
const minGainShown = 0.005

// gainWithCores returns the speed that the job would have with this many more cores on each node, relative to its speed
// with the proportional share. It returns false if the job's profile is not in the report. The profile is that for the
// GPU type of the first node: all nodes of a job have one type.
func (q *question) gainWithCores(cores int) (float64, bool) {
	if len(q.decision.Grant.Nodes) == 0 {
		return 0, false
	}
	i, known := q.room.nodeIndex[q.decision.Grant.Nodes[0]]
	if !known {
		return 0, false
	}
	profile := policy.ProfileOn(q.job.Profile, q.room.nodes[i].GPUType)
	if profile == nil {
		return 0, false
	}
	size := q.decision.Grant.PerNode
	size.CPUs += cores
	return profile.Gain(size, q.decision.Fair), true
}
