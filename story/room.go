package story

import (
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Holder is a job on a node, and what it has there under the plan.
type Holder struct {
	Job  int         `json:"job"` // 0: jobs that no round plans, together
	User string      `json:"user,omitempty"`
	Has  gres.Vector `json:"has"`
	// GivesBack says that it can be asked to: it has declared a checkpoint, and is not to be left alone now.
	GivesBack bool `json:"gives_back,omitempty"`
}

// room is what each node has left under a plan, and who has the rest.
type room struct {
	nodes   []policy.Node
	free    []gres.Vector // never negative
	holders [][]Holder    // who has most GPUs first
	at      map[string]int
	totals  []gres.Vector // see gangs
}

// roomOf books the grants of a round. Whoever is to leave by its plan has left.
func roomOf(report *bridge.Report) room {
	nodes := report.Snapshot.Nodes
	r := room{nodes: nodes, free: make([]gres.Vector, len(nodes)), holders: make([][]Holder, len(nodes)),
		at: make(map[string]int, len(nodes))}
	for i := range nodes {
		r.at[nodes[i].Name] = i
		r.free[i] = nodes[i].Total.Minus(nodes[i].Foreign)
		if nodes[i].Foreign != (gres.Vector{}) {
			r.holders[i] = append(r.holders[i], Holder{Has: nodes[i].Foreign})
		}
	}
	jobs := jobsOf(report)
	for i := range report.Plan.Decisions {
		if d := &report.Plan.Decisions[i]; d.Grant != nil {
			r.book(d, jobs[d.Job])
		}
	}
	for i := range r.free {
		r.free[i] = r.free[i].Max(gres.Vector{})
		slices.SortStableFunc(r.holders[i], func(a, b Holder) int { return b.Has.GPUs - a.Has.GPUs })
	}
	return r
}

// book takes a grant off its nodes. A job that the snapshot does not have holds it as well.
func (r *room) book(d *policy.Decision, job *policy.Job) {
	h := Holder{Job: d.Job, Has: d.Grant.PerNode}
	if job != nil {
		h.User, h.GivesBack = job.User, job.Saves && !job.Fixed
	}
	for _, name := range d.Grant.Nodes {
		if i, known := r.at[name]; known {
			r.free[i] = r.free[i].Minus(d.Grant.PerNode)
			r.holders[i] = append(r.holders[i], h)
		}
	}
}

func jobsOf(report *bridge.Report) map[int]*policy.Job {
	jobs := make(map[int]*policy.Job, len(report.Snapshot.Jobs))
	for i := range report.Snapshot.Jobs {
		jobs[report.Snapshot.Jobs[i].ID] = &report.Snapshot.Jobs[i]
	}
	return jobs
}

// suits says whether a job asks for such a node, open or not.
func suits(job *policy.Job, n *policy.Node) bool { return unsuited(job, n) == "" }

// unsuited says what of its request keeps a job from a node, in a word; empty: nothing.
func unsuited(job *policy.Job, n *policy.Node) Lack {
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

// shape is one manner of dividing a job's GPUs: so many on each of so many nodes.
type shape struct{ nodes, gpus int }

// shapesOf are the manners that a job allows where the largest node that suits it has so many GPUs, the fewest nodes
// first.
func shapesOf(job *policy.Job, largest int) (all []shape) {
	switch {
	case job.Nodes > 0 && job.GPUs%job.Nodes != 0, job.GPUs < 1:
		return nil
	case job.Nodes > 0:
		return []shape{{job.Nodes, job.GPUs / job.Nodes}}
	case job.GPUs <= largest:
		return []shape{{1, job.GPUs}}
	}
	return spread(job.GPUs, 2, largest, widest)
}

// widest is over how many nodes a job is tried to be divided. A report may come from anywhere, and say anything.
const widest = 4096

// spread divides GPUs equally over nodes, over so many at least and at most, with no more than most on each.
func spread(gpus, least, most, nodes int) (all []shape) {
	for n := least; n <= min(gpus, nodes); n++ {
		if gpus%n == 0 && gpus/n <= most {
			all = append(all, shape{n, gpus / n})
		}
	}
	return all
}

// sizes are what a job could be started with on a node of that capacity, the one that needs least cores first: what it
// is owed, and where its profile is there, what trains as fast with less.
func sizes(job *policy.Job, n *policy.Node, total gres.Vector, gpus int) []gres.Vector {
	fair := gres.Proportional(total, gpus)
	owed := bounded(job, fair)
	pace := job.Pace
	pace.GPUs = 0
	all := []gres.Vector{bounded(job, owed.Max(pace))}
	profile := policy.ProfileOn(job.Profile, n.GPUType)
	if profile == nil || !fair.Fits(total) {
		return all
	}
	for _, o := range profile.Options(fair, total) {
		all = append(all, bounded(job, o.Size))
	}
	slices.SortStableFunc(all, func(a, b gres.Vector) int { return a.CPUs - b.CPUs })
	return all
}

// bounded puts a size under the terms of a job, in whole cores for each of its tasks.
func bounded(job *policy.Job, v gres.Vector) gres.Vector {
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

// gangs is for each node what the share of a job on several nodes is reckoned with.
func (r *room) gangs() []gres.Vector {
	if r.totals == nil {
		r.totals = policy.GangTotals(r.nodes)
	}
	return r.totals
}
