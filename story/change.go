package story

import (
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// passesCheck reports whether the round's plan would still pass policy.Check if it also gave the job this size on the
// nodes with these indexes in q.room.nodes. The daemon carries out no plan that fails Check, so only then could it use
// the room. Check gets a small cluster with this job alone, as if it were new and not barred from starting. What the
// plan uses on the nodes counts there as foreign, and the quotas are what the plan leaves of the job's own.
func (q *question) passesCheck(on []int, size gres.Vector) bool {
	snapshot := &q.report.Snapshot
	c := policy.Cluster{Now: snapshot.Now, Rules: snapshot.Rules}
	grant := policy.Placement{PerNode: size}
	for i := range q.room.nodes {
		if here := slices.Contains(on, i); here || len(on) > 1 { // a gang's share depends on all nodes
			n := q.room.nodes[i]
			n.Foreign = n.Total.Minus(q.room.free[i])
			c.Nodes = append(c.Nodes, n)
			if here {
				grant.Nodes = append(grant.Nodes, n.Name)
			}
		}
	}
	slices.Sort(grant.Nodes)
	job := *q.job
	job.Running, job.Barred, job.Quotas, c.Quotas = nil, "", nil, q.quotasLeft
	for k := range q.quotasLeft {
		job.Quotas = append(job.Quotas, k)
	}
	c.Jobs = []policy.Job{job}
	return policy.Check(c, policy.Plan{Decisions: []policy.Decision{{Job: job.ID, Grant: &grant}}}) == nil
}

// findRoom looks for room for the job as requested, in what the plan leaves free. It tries the job's shapes in turn,
// those with the fewest nodes first, and returns the nodes and the size on each of them. ok is false if it finds no
// room.
func (q *question) findRoom() (nodes []string, each gres.Vector, ok bool) {
	for _, w := range shapesOf(q.job, q.largestNode(q.job)) {
		if on, size, found := q.findRoomAs(w); found {
			for _, i := range on {
				nodes = append(nodes, q.room.nodes[i].Name)
			}
			return nodes, size, true
		}
	}
	return nil, each, false
}

// findRoomAs looks for room for the job in shape w, and returns the indexes of the nodes and the size on each of them.
// A job has the same size on each of its nodes, so it combines only nodes with equal GPUs, cores, GPU type and size for
// the job. Of each such group it checks the first nodes with room, as many as the shape has, and no other set of them.
// So false does not prove that there is no room.
func (q *question) findRoomAs(w shape) (on []int, size gres.Vector, ok bool) {
	type make struct {
		gpus, cores int
		kind        string
		size        gres.Vector
	}
	together := map[make][]int{}
	for i := range q.room.nodes {
		lack, v := q.firstLack(i, w)
		if lack != LacksNothing {
			continue
		}
		n := &q.room.nodes[i]
		key := make{n.Total.GPUs, n.Total.CPUs, n.GPUType, v}
		together[key] = append(together[key], i)
		if on := together[key]; len(on) == w.nodes && q.passesCheck(on, v) {
			return on, v, true
		}
	}
	return nil, size, false
}

// withChange returns the same question about a copy of the job with a changed request, to find out whether there is
// room for the changed job. The copy has no answer of its own, since only its findRoom is used.
func (q *question) withChange(change func(*policy.Job)) *question {
	job := *q.job
	change(&job)
	return &question{report: q.report, job: &job, decision: q.decision, room: q.room, quotasLeft: q.quotasLeft}
}

// helpfulChanges lists changes of the job's request with which there would be room beside this plan, as sentences for
// its user. For each change findRoom found room. The list is empty if there is room without a change: then the job
// waits for another reason than its request.
func (q *question) helpfulChanges() (all []string) {
	if _, _, ok := q.findRoom(); ok {
		return nil
	}
	for _, find := range []func() string{q.tryOtherSpread, q.tryFewerNodes, q.tryFewerGPUs, q.tryOtherNodes,
		q.tryNoDemands, q.tryShorterLimit} {
		if text := find(); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// wouldFit begins the sentence of each change.
const wouldFit = "there would be room now"

// tryOtherSpread tries the job's GPUs on another number of nodes, since they may be free on more or fewer nodes than
// the job asks for. It returns the first division with room, as a sentence. The sentence is empty if none has room.
func (q *question) tryOtherSpread() string {
	for _, w := range evenShapes(q.job.GPUs, 1, q.largestNode(q.job), len(q.room.nodes)) {
		if w.nodes == q.job.Nodes {
			continue
		}
		if nodes, _, ok := q.withChange(func(j *policy.Job) { j.Nodes = w.nodes }).findRoom(); ok {
			return fmt.Sprintf("%s for its %s as %s with %d each: %s", wouldFit, countText(q.job.GPUs, "GPU"),
				countText(w.nodes, "node"), w.gpus, Nodes(nodes))
		}
	}
	return ""
}

// tryFewerNodes tries the job on fewer nodes with as many GPUs on each as now, and so with fewer GPUs in all. It begins
// with the number of nodes that have room, tries up to four numbers, and returns the first with which there is room, as
// a sentence; the sentence is empty if none has. It stops at two nodes, since tryFewerGPUs tries one.
func (q *question) tryFewerNodes() string {
	w, rooms := q.smallestShape(), 0
	for i := range q.room.nodes {
		if lack, _ := q.firstLack(i, w); lack == LacksNothing {
			rooms++
		}
	}
	const tries = 4 // nodes with room may differ in capacity, so not every count is possible
	for n := min(w.nodes-1, rooms); n > max(1, min(w.nodes-1, rooms)-tries); n-- {
		less := q.withChange(func(j *policy.Job) { j.GPUs, j.Nodes = n*w.gpus, n })
		if nodes, _, ok := less.findRoom(); ok {
			return fmt.Sprintf("%s with %s on %s in place of %d: %s", wouldFit, countText(n*w.gpus, "GPU"),
				countText(n, "node"), q.job.GPUs, Nodes(nodes))
		}
	}
	return ""
}

// tryFewerGPUs tries the job with fewer GPUs, all on one node. It returns the largest number for which there is room,
// as a sentence. The sentence is empty if there is room for none.
func (q *question) tryFewerGPUs() string {
	for gpus := min(q.job.GPUs-1, q.largestNode(q.job), searchBound); gpus > 0; gpus-- {
		less := q.withChange(func(j *policy.Job) { j.GPUs, j.Nodes = gpus, 1 })
		if nodes, _, ok := less.findRoom(); ok {
			return fmt.Sprintf(
				"%s with %s on one node in place of %d: %s",
				wouldFit,
				countText(gpus, "GPU"),
				q.job.GPUs,
				Nodes(nodes),
			)
		}
	}
	return ""
}

// tryOtherNodes tries nodes that the request rules out, by leaving out one of its constraints at a time. It returns the
// first constraint without which there is room, as a sentence. The sentence is empty if there is none.
func (q *question) tryOtherNodes() string {
	for _, without := range []struct {
		is     bool
		what   string
		change func(*policy.Job)
	}{
		{q.job.GPUType != "", "if it did not ask for GPUs of type " + q.job.GPUType,
			func(j *policy.Job) { j.GPUType = "" }},
		{len(q.job.Features) > 0, "without its constraint on features", func(j *policy.Job) { j.Features = nil }},
		{len(q.job.Except) > 0, "if it excluded no nodes", func(j *policy.Job) { j.Except = nil }},
		{len(q.job.Only) > 0, "on a node that it does not name, or of another partition",
			func(j *policy.Job) { j.Only = nil }},
	} {
		if !without.is {
			continue
		}
		if nodes, _, ok := q.withChange(without.change).findRoom(); ok {
			return fmt.Sprintf("%s %s: %s", wouldFit, without.what, Nodes(nodes))
		}
	}
	return ""
}

// tryNoDemands tries the job without its user's demands for cores and memory (Floor and Pace). It returns a sentence
// with the size for which there is room then. The sentence is empty if there is no room either, or if the job has no
// such demands.
func (q *question) tryNoDemands() string {
	if q.job.Floor == (gres.Vector{}) && q.job.Pace == (gres.Vector{}) {
		return ""
	}
	less := q.withChange(func(j *policy.Job) { j.Floor, j.Pace = gres.Vector{}, gres.Vector{} })
	nodes, each, ok := less.findRoom()
	if !ok {
		return ""
	}
	return fmt.Sprintf(
		"%s if it asked for no more than %s and %s on a node: %s",
		wouldFit,
		countText(each.CPUs, "core"),
		each.Memory,
		Nodes(nodes),
	)
}

// tryShorterLimit tries a shorter time limit, in whole minutes, with which the job ends before a reservation that
// blocks a node. It returns a sentence for the first reservation before which there is room. The sentence is empty if
// there is none. Reservations that begin within a minute, or have begun, are left out.
func (q *question) tryShorterLimit() string {
	now := q.report.Snapshot.Now
	for i := range q.room.nodes {
		r := q.blockingReservation(q.job, &q.room.nodes[i])
		if r == nil {
			continue
		}
		most := r.From.Sub(now).Truncate(time.Minute)
		if most <= 0 {
			continue
		}
		if nodes, _, ok := q.withChange(func(j *policy.Job) { j.TimeLimit = most }).findRoom(); ok {
			return fmt.Sprintf("%s with a time limit of at most %s, before reservation %s begins: %s", wouldFit, most,
				r.Name, Nodes(nodes))
		}
	}
	return ""
}
