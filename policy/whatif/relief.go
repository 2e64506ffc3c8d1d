package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// relief is a kind of change that could let a job start, with the candidates in order: the one that costs its user
// least first.
type relief struct {
	name    string // for Try.Kind
	changes []Change
	// refine reduces a change that starts the job to the smallest that does; nil: there is nothing to reduce.
	refine func(s *search, found Try) Try
}

// reliefs lists what is tried for a job: first changes that leave it all that it asked for, then those for which its
// user would edit the request, then those that slow it down, and last those that take something from other jobs.
func reliefs(c *Case, j *policy.Job) []relief {
	return []relief{
		{name: "another spread over nodes", changes: otherSpreads(c, j)},
		{name: "a shorter time limit", changes: shorterLimits(c, j)},
		{name: "fewer restrictions to nodes", changes: droppedRestrictions(j)},
		{name: "less cores or memory", changes: lowerRequests(j), refine: (*search).smallestReduction},
		{name: "a checkpoint", changes: []Change{Checkpoint{j.ID}}},
		{name: "fewer GPUs", changes: fewerGPUs(c, j)},
		{name: "sharing a GPU", changes: sharingRequests(c, j)},
		{name: "going first", changes: []Change{First{j.ID}}},
	}
}

// Limits of what is tried, so that a search is some dozens of plans whatever is asked for.
const (
	mostSpreads = 16
	mostCounts  = 16 // of GPUs
	mostShapes  = 4  // numbers of nodes for each of these
	mostLimits  = 6
	mostNames   = 8 // features
)

// otherSpreads are other numbers of nodes for the same GPUs. Fewer nodes come first, since those GPUs are closer to
// each other. For a job that leaves the number of nodes to the planner one node is no other spread, since the planner
// uses one where the job fits on it.
func otherSpreads(c *Case, j *policy.Job) (list []Change) {
	for nodes := 1; nodes <= min(j.GPUs, len(c.Cluster.Nodes)) && len(list) < mostSpreads; nodes++ {
		if dividesEvenly(c, j.GPUs, nodes) && nodes != j.Nodes && (j.Nodes > 0 || nodes > 1) {
			list = append(list, Proportioned{NewRequest(c, j.ID, 0, nodes)})
		}
	}
	return list
}

// dividesEvenly reports whether the GPUs divide evenly over the nodes, into parts that fit on a node of the cluster.
func dividesEvenly(c *Case, gpus, nodes int) bool { return gpus%nodes == 0 && gpus/nodes <= largest(c) }

// largest is the number of GPUs of the largest node, open or not.
func largest(c *Case) (gpus int) {
	for i := range c.Cluster.Nodes {
		gpus = max(gpus, c.Cluster.Nodes[i].Total.GPUs)
	}
	return gpus
}

// fewerGPUs are smaller numbers of GPUs, the largest first. They are divisors of the job's own number, so that its work
// divides as before. Each is tried on the requested number of nodes and on others, the nearest first.
func fewerGPUs(c *Case, j *policy.Job) (list []Change) {
	counts := 0
	for gpus := j.GPUs / 2; gpus >= 1 && counts < mostCounts; gpus-- {
		if j.GPUs%gpus != 0 {
			continue
		}
		counts++
		for _, nodes := range nodesFor(c, j, gpus) {
			list = append(list, Proportioned{NewRequest(c, j.ID, gpus, nodes)})
		}
	}
	return list
}

// nodesFor are the numbers of nodes to try for that many GPUs, the nearest to the job's own first. 0 leaves the number
// to the planner; it is tried only if the job leaves it so now. One node is not tried then, since the planner uses one
// where the job fits on it.
func nodesFor(c *Case, j *policy.Job, gpus int) (list []int) {
	if j.Nodes == 0 {
		list = append(list, 0)
	}
	for nodes := 1; nodes <= min(gpus, len(c.Cluster.Nodes)); nodes++ {
		if dividesEvenly(c, gpus, nodes) && (j.Nodes > 0 || nodes > 1) {
			list = append(list, nodes)
		}
	}
	slices.SortStableFunc(list, func(x, y int) int { return cmp.Compare(abs(x-j.Nodes), abs(y-j.Nodes)) })
	return list[:min(len(list), mostShapes)]
}

// shorterLimits are time limits with which the job would end before a reservation begins, the longest first. One round
// is left for making the change. None is shorter than the remaining length that the user declared.
func shorterLimits(c *Case, j *policy.Job) (list []Change) {
	round := cmp.Or(c.Cluster.Rules.Round, policy.DefaultRound)
	var limits []time.Duration
	for i := range c.Cluster.Nodes {
		for _, r := range c.Cluster.Nodes[i].Reserved {
			limit := (r.From.Sub(c.Cluster.Now) - round).Truncate(time.Minute)
			if limit >= time.Minute && (j.TimeLimit == 0 || limit < j.TimeLimit) && limit >= j.Length-j.Done {
				limits = append(limits, limit)
			}
		}
	}
	slices.Sort(limits)
	limits = slices.Compact(limits)
	slices.Reverse(limits)
	for _, limit := range limits[:min(len(limits), mostLimits)] {
		list = append(list, Within{Job: j.ID, Limit: limit, was: j.TimeLimit})
	}
	return list
}

// droppedRestrictions drops the job's restrictions to nodes one by one, and then, if there are several, all at once.
func droppedRestrictions(j *policy.Job) (list []Change) {
	drop := func(which Restriction, feature string) {
		list = append(list, Without{Job: j.ID, Which: which, Feature: feature, was: *j})
	}
	if j.GPUType != "" {
		drop(OfType, "")
	}
	for _, feature := range j.Features[:min(len(j.Features), mostNames)] {
		drop(OfFeature, feature)
	}
	if len(j.Only) > 0 {
		drop(OfNodes, "")
	}
	if len(j.Except) > 0 {
		drop(OfExcluded, "")
	}
	if len(list) > 1 {
		list = append(list, Free{j.ID})
	}
	return list
}

// lowerRequests are requests without cores, without memory, and without both. If one of the first two starts the job,
// smallestReduction looks for the largest request that does. A request without both is not reduced: it is all or
// nothing.
func lowerRequests(j *policy.Job) (list []Change) {
	was := j.Floor.Max(j.Pace)
	if was.CPUs > 0 {
		list = append(list, Asks{j.ID, gres.Vector{Memory: was.Memory}, was})
	}
	if was.Memory > 0 {
		list = append(list, Asks{j.ID, gres.Vector{CPUs: was.CPUs}, was})
	}
	if was.CPUs > 0 && was.Memory > 0 {
		list = append(list, Modest{j.ID})
	}
	return list
}

// smallestReduction reduces a change that starts the job, by bisection, to the smallest reduction that still does, down
// to one core or one gigabyte, so that its user gives up no more than needed. The change must be an Asks, which lowers
// cores or memory; any other is returned as it is. If a step cannot be tried, the smallest reduction so far is
// returned.
func (s *search) smallestReduction(found Try) Try {
	asks, one := found.Made.(Asks)
	if !one {
		return found
	}
	enough, tooMuch := asks.Most, asks.was
	for {
		middle, between := halfway(enough, tooMuch)
		if !between {
			return found
		}
		try, can := s.tryChange(found.Kind, Asks{asks.Job, middle, asks.was})
		switch {
		case !can:
			return found
		case try.Starts:
			found, enough = try, middle
		default:
			tooMuch = middle
		}
	}
}

// halfway is the middle of two amounts, in whole cores and gigabytes; false if there is none between them, which ends
// the bisection.
func halfway(less, more gres.Vector) (gres.Vector, bool) {
	middle := gres.Vector{CPUs: (less.CPUs + more.CPUs) / 2,
		Memory: (less.Memory + more.Memory) / 2 / gres.Gigabyte * gres.Gigabyte}
	middle = middle.Max(gres.Vector{CPUs: less.CPUs, Memory: less.Memory})
	return middle, middle.CPUs > less.CPUs || middle.Memory > less.Memory
}

// sharingRequests are ways in which a job with one GPU could share it, first as class high, then as class low; none if
// no node has GPUs that can be shared. The GPU memory that the job needs is left to its profile (0) if that tells it.
// Otherwise half, a quarter and an eighth of the largest GPU are tried.
func sharingRequests(c *Case, j *policy.Job) (list []Change) {
	var largest gres.Memory
	for i := range c.Cluster.Nodes {
		for _, d := range c.Cluster.Nodes[i].Devices {
			largest = max(largest, d.Memory)
		}
	}
	if largest == 0 || j.GPUs != 1 || j.Share != nil {
		return nil
	}
	amounts := []gres.Memory{0}
	if j.Profile == nil || j.Profile.GPUMemory == 0 {
		amounts = nil
		for _, part := range []gres.Memory{2, 4, 8} {
			if gib := largest / part / gibibyte; gib > 0 {
				amounts = append(amounts, gib*gibibyte)
			}
		}
	}
	for _, class := range []share.Class{share.High, share.Low} {
		for _, amount := range amounts {
			list = append(list, Shares{j.ID, share.Request{Class: class, Memory: amount}})
		}
	}
	return list
}
