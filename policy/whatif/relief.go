package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// relief is changes of one kind that could have a job start, those first that take the least away.
type relief struct {
	name    string
	changes []Change
	// refine makes less of a change that starts the job, where there is something between it and none; nil: there is
	// not.
	refine func(s *search, found Try) Try
}

// reliefs are what is tried for a job, and in which order: what leaves it all that it asked for, then what its user
// would have to write otherwise, then what takes speed away from it, and last what takes something away from others.
func reliefs(c *Case, j *policy.Job) []relief {
	return []relief{
		{name: "another spread over nodes", changes: spreads(c, j)},
		{name: "a shorter time limit", changes: shorter(c, j)},
		{name: "fewer restrictions to nodes", changes: looser(j)},
		{name: "less cores or memory", changes: less(j), refine: (*search).leastLess},
		{name: "a checkpoint", changes: []Change{Checkpoint{j.ID}}},
		{name: "fewer GPUs", changes: fewer(c, j)},
		{name: "sharing a GPU", changes: sharing(c, j)},
		{name: "going first", changes: []Change{First{j.ID}}},
	}
}

// Bounds of what is tried, so that a search is some dozens of plans whatever is asked for.
const (
	mostSpreads = 16
	mostCounts  = 16 // of GPUs
	mostShapes  = 4  // for each of these
	mostLimits  = 6
	mostNames   = 8 // features
)

// spreads are other numbers of nodes for the same GPUs, fewer nodes first: those are closer to each other.
func spreads(c *Case, j *policy.Job) (list []Change) {
	for nodes := 1; nodes <= min(j.GPUs, len(c.Cluster.Nodes)) && len(list) < mostSpreads; nodes++ {
		if divides(c, j.GPUs, nodes) && nodes != j.Nodes && (j.Nodes > 0 || nodes > 1) {
			list = append(list, Proportioned{NewRequest(c, j.ID, 0, nodes)})
		}
	}
	return list
}

// divides says whether so many GPUs are equal parts on so many nodes, each no more than a node of the cluster has.
func divides(c *Case, gpus, nodes int) bool { return gpus%nodes == 0 && gpus/nodes <= largest(c) }

// largest is how many GPUs the largest node has.
func largest(c *Case) (gpus int) {
	for i := range c.Cluster.Nodes {
		gpus = max(gpus, c.Cluster.Nodes[i].Total.GPUs)
	}
	return gpus
}

// fewer are smaller numbers of GPUs, the largest first: the divisors of its own, over which what it trains divides as
// it did. Each is tried on as many nodes as it asked for, and on other numbers, the nearest first.
func fewer(c *Case, j *policy.Job) (list []Change) {
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

// nodesFor are the numbers of nodes to try so many GPUs on; 0 leaves that to the planner, as the job does.
func nodesFor(c *Case, j *policy.Job, gpus int) (list []int) {
	if j.Nodes == 0 {
		list = append(list, 0)
	}
	for nodes := 1; nodes <= min(gpus, len(c.Cluster.Nodes)); nodes++ {
		if divides(c, gpus, nodes) && (j.Nodes > 0 || nodes > 1) {
			list = append(list, nodes)
		}
	}
	slices.SortStableFunc(list, func(x, y int) int { return cmp.Compare(abs(x-j.Nodes), abs(y-j.Nodes)) })
	return list[:min(len(list), mostShapes)]
}

// shorter are time limits that end before reservations begin on nodes, the longest first. A round is left for the
// change to be made. None is shorter than what its user said that it takes.
func shorter(c *Case, j *policy.Job) (list []Change) {
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

// looser drops restrictions one by one, and then all at once.
func looser(j *policy.Job) (list []Change) {
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

// less are requests without cores, without memory, and without either.
func less(j *policy.Job) (list []Change) {
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

// leastLess finds how little less is enough, by halves: the cores to one, the memory to a gigabyte.
func (s *search) leastLess(found Try) Try {
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
		try, can := s.try(found.Kind, Asks{asks.Job, middle, asks.was})
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

// halfway is between two amounts, in whole cores and gigabytes; false: nothing is.
func halfway(less, more gres.Vector) (gres.Vector, bool) {
	middle := gres.Vector{CPUs: (less.CPUs + more.CPUs) / 2,
		Memory: (less.Memory + more.Memory) / 2 / gres.Gigabyte * gres.Gigabyte}
	middle = middle.Max(gres.Vector{CPUs: less.CPUs, Memory: less.Memory})
	return middle, middle.CPUs > less.CPUs || middle.Memory > less.Memory
}

// sharing are ways in which a job could share a GPU: as an important one, and as one that accepts to be slowed down. Of
// one that nobody knows the memory of, half of the largest GPU, a quarter and an eighth are tried.
func sharing(c *Case, j *policy.Job) (list []Change) {
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
