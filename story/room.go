package story

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Holder is a job on a node, and what it has there by the plan.
type Holder struct {
	Job  int         `json:"job"` // 0: all jobs that no round plans, together
	User string      `json:"user,omitempty"`
	Has  gres.Vector `json:"has"`
	// GivesBack says that the job can be asked to give something back: it has a checkpoint and may be stopped now.
	GivesBack bool `json:"gives_back,omitempty"`
}

// room is what each node has left after a plan, and who holds the rest.
type room struct {
	nodes        []policy.Node  // of the snapshot; free, holders and gangCapacity have the same indexes
	free         []gres.Vector  // what the plan leaves; never negative
	holders      [][]Holder     // the job with the most GPUs first
	nodeIndex    map[string]int // the index of a node, by name
	gangCapacity []gres.Vector  // what gangTotals returned; nil: not computed yet
}

// roomOf returns what each node has free after a round's plan, and who holds the rest, to find out what a job lacks
// there. Jobs without a grant in the plan, such as those that it stops, hold nothing. Free amounts are at least 0,
// although unmanaged jobs may overfill a node.
func roomOf(report *bridge.Report) room {
	nodes := report.Snapshot.Nodes
	r := room{nodes: nodes, free: make([]gres.Vector, len(nodes)), holders: make([][]Holder, len(nodes)),
		nodeIndex: make(map[string]int, len(nodes))}
	for i := range nodes {
		r.nodeIndex[nodes[i].Name] = i
		r.free[i] = nodes[i].Total.Minus(nodes[i].Foreign)
		if nodes[i].Foreign != (gres.Vector{}) {
			r.holders[i] = append(r.holders[i], Holder{Has: nodes[i].Foreign})
		}
	}
	jobs := jobsByID(report)
	for i := range report.Plan.Decisions {
		if d := &report.Plan.Decisions[i]; d.Grant != nil {
			r.subtractGrant(d, jobs[d.Job])
		}
	}
	for i := range r.free {
		r.free[i] = r.free[i].Max(gres.Vector{})
		slices.SortStableFunc(r.holders[i], func(a, b Holder) int { return b.Has.GPUs - a.Has.GPUs })
	}
	return r
}

// subtractGrant subtracts a grant from its nodes, and adds its job to their holders. job is nil if the snapshot does
// not have it: the resources are subtracted all the same, since the plan gave them away. Nodes that the snapshot does
// not have are left out.
func (r *room) subtractGrant(d *policy.Decision, job *policy.Job) {
	h := Holder{Job: d.Job, Has: d.Grant.PerNode}
	if job != nil {
		h.User, h.GivesBack = job.User, job.Saves && !job.Fixed
	}
	for _, name := range d.Grant.Nodes {
		if i, known := r.nodeIndex[name]; known {
			r.free[i] = r.free[i].Minus(d.Grant.PerNode)
			r.holders[i] = append(r.holders[i], h)
		}
	}
}

// jobsByID returns the jobs of a report's snapshot by ID.
func jobsByID(report *bridge.Report) map[int]*policy.Job {
	jobs := make(map[int]*policy.Job, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		jobs[report.Snapshot.Jobs[i].ID] = &report.Snapshot.Jobs[i]
	}
	return jobs
}

// suits says whether a node meets a job's constraints, whether it is open or not.
func suits(job *policy.Job, n *policy.Node) bool { return unmetConstraint(job, n) == "" }

// unmetConstraint returns the first constraint of a job's request that a node does not meet, or an empty Lack if it
// meets all. Such a lack is told before all others, since no amount of free room helps against it.
func unmetConstraint(job *policy.Job, n *policy.Node) Lack {
	lacks := func(feature string) bool { return !n.Has(feature) }
	switch {
	case len(job.Only) > 0 && !slices.Contains(job.Only, n.Name):
		return LacksPlace
	case slices.Contains(job.Except, n.Name):
		return LacksLeave
	case job.GPUType != "" && job.GPUType != n.GPUType:
		return LacksType
	case slices.ContainsFunc(job.Features, lacks):
		return LacksFeature
	}
	return ""
}

// shape is one way to divide a job's GPUs: over so many nodes, with gpus of them on each.
type shape struct{ nodes, gpus int }

// shapesOf lists the shapes that a job allows, those with the fewest nodes first. largest is the number of GPUs of the
// largest suitable node. A job that names its number of nodes has one shape, or none if its GPUs cannot be divided
// equally. Any other job gets one node if one is large enough, and several only otherwise. A job without GPUs has no
// shape.
func shapesOf(job *policy.Job, largest int) (all []shape) {
	switch {
	case job.Nodes > 0 && job.GPUs%job.Nodes != 0, job.GPUs < 1:
		return nil
	case job.Nodes > 0:
		return []shape{{job.Nodes, job.GPUs / job.Nodes}}
	case job.GPUs <= largest:
		return []shape{{1, job.GPUs}}
	}
	return evenShapes(job.GPUs, 2, largest, searchBound)
}

// searchBound is the most nodes over which a job is divided here. A bound is needed because a report may contain any
// number.
const searchBound = 4096

// evenShapes lists the ways to divide gpus equally over several nodes, those with the fewest nodes first. least and
// nodes bound the number of nodes from below and above, and most bounds the GPUs on each.
func evenShapes(gpus, least, most, nodes int) (all []shape) {
	for n := least; n <= min(gpus, nodes); n++ {
		if gpus%n == 0 && gpus/n <= most {
			all = append(all, shape{n, gpus / n})
		}
	}
	return all
}

// startSizes lists the sizes with which a job could start with gpus GPUs on node n, by ascending cores. total is the
// capacity from which its share is computed. The first candidate is what it is owed: the share within the job's ceiling
// and floor, and no less than its Pace (see policy.Job). With a profile also the smaller sizes count that are as fast
// as the share. There is room for the job if one of the sizes fits. GPUs in Pace and Floor are ignored, since the
// number of a job's GPUs is fixed.
func startSizes(job *policy.Job, n *policy.Node, total gres.Vector, gpus int) []gres.Vector {
	fair := gres.Proportional(total, gpus)
	owed := clampSize(job, fair)
	pace := job.Pace
	pace.GPUs = 0
	all := []gres.Vector{clampSize(job, owed.Max(pace))}
	profile := policy.ProfileOn(job.Profile, n.GPUType)
	if profile == nil || !fair.Fits(total) {
		return all
	}
	for _, o := range profile.Options(fair, total) {
		all = append(all, clampSize(job, o.Size))
	}
	slices.SortStableFunc(all, func(a, b gres.Vector) int { return a.CPUs - b.CPUs })
	return all
}

// clampSize applies a job's ceiling and floor to a size. Each task gets the same number of cores, at least one, so
// cores and floor are rounded up to a multiple of the tasks, and the ceiling is rounded down. The floor is applied last
// and wins over the ceiling: what the user asked for is not cut.
func clampSize(job *policy.Job, v gres.Vector) gres.Vector {
	tasks := max(1, job.Tasks)
	v.CPUs = max(1, v.CPUs+tasks-1) / tasks * tasks
	v.CPUs = max(v.CPUs, tasks)
	if job.Ceiling.CPUs > 0 {
		v.CPUs = min(v.CPUs, job.Ceiling.CPUs/tasks*tasks)
	}
	if job.Ceiling.Memory > 0 {
		v.Memory = min(v.Memory, job.Ceiling.Memory)
	}
	floor := job.Floor
	floor.GPUs, floor.CPUs = 0, (floor.CPUs+tasks-1)/tasks*tasks
	return v.Max(floor)
}

// gangTotals returns for each node the capacity from which the share of a gang, a job on several nodes, is computed
// there (policy.GangTotals). It may be less than the node's own, since a gang has one size on all its nodes. The result
// is kept in gangCapacity, since it is asked for once for each node.
func (r *room) gangTotals() []gres.Vector {
	if r.gangCapacity == nil {
		r.gangCapacity = policy.GangTotals(r.nodes)
	}
	return r.gangCapacity
}
