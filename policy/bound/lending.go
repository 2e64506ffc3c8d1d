package bound

import (
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Lending is the cost of jobs that cannot be asked to give back: what they lack because rules.stranded and the expected
// demand limit what is lent to them, and what they cost other jobs where they hold more than their share.
type Lending struct {
	// Jobs is how many of them would be faster with the idle cores and memory on their nodes.
	Jobs int `json:"jobs,omitempty"`
	// Kept is what they would gain by that together, taken in the order of the plan, in units of value. Without the
	// limit the plan would be worth at least that much more.
	Kept float64 `json:"kept,omitempty"`
	// Lent is how many GPUs are free without their share of cores and memory on nodes where such a job holds more than
	// its share. No other job can have that share before the job ends.
	Lent int `json:"lent,omitempty"`
}

// LendingCost is Lending.Kept relative to the bound of the plan; 0 if the bound is 0.
func (c *Certificate) LendingCost() float64 {
	if c.Bound <= 0 {
		return 0
	}
	return c.Lending.Kept / c.Bound
}

// describe appends the lending costs, if any, to a sentence.
func (l *Lending) describe(s *strings.Builder, bound float64) {
	if l.Jobs > 0 && bound > 0 {
		fmt.Fprintf(s, "; what idles beside %s that cannot give back would be worth %s", jobsText(l.Jobs),
			gainText(l.Kept/bound))
	}
	if l.Lent > 0 {
		fmt.Fprintf(s, "; %s free without their share, which is lent for good", gpusText(l.Lent))
	}
}

// jobsText is a number of jobs with its noun.
func jobsText(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// lending computes the Lending of a plan: what it costs that jobs which cannot be asked to give back are lent little,
// and what others lose where they hold more than their share. Jobs gain in the order of the plan, and none gains by
// what an earlier one took (couldGain).
func (in *instance) lending(p policy.Plan) (l Lending) {
	free := make([]gres.Vector, len(in.nodes))
	for n := range in.nodes {
		free[n] = in.nodes[n].open.Minus(in.nodes[n].used).Max(gres.Vector{})
	}
	beyond := make([]bool, len(in.nodes)) // by node: a job that cannot give back holds more than its share there
	byID := indexOf(in.cluster.Jobs)      // decisions ascend in ID, and the jobs of a snapshot have any order
	for i := range p.Decisions {
		d := &p.Decisions[i]
		at, known := byID[d.Job]
		if d.Grant == nil || !known || !in.isPlaced(d.Grant) {
			continue
		}
		j := &in.cluster.Jobs[at]
		if in.givesBack(j) || in.partners[j.ID] {
			continue
		}
		for _, name := range d.Grant.Nodes {
			n := in.byName[name]
			beyond[n] = beyond[n] || !d.Grant.PerNode.Fits(gres.Proportional(in.totalFor(d.Grant, n),
				d.Grant.PerNode.GPUs))
		}
		if more := in.couldGain(j, d.Grant, free); more > 0 {
			l.Jobs, l.Kept = l.Jobs+1, l.Kept+more
		}
	}
	for n := range free {
		if beyond[n] && in.cluster.Nodes[n].Closed == "" {
			l.Lent += gpusWithoutShare(free[n], gres.Proportional(in.cluster.Nodes[n].Total, 1))
		}
	}
	return l
}

// givesBack reports whether a job can be asked to give back what it holds beyond its share.
func (in *instance) givesBack(j *policy.Job) bool {
	most := in.cluster.Rules.MaxRestarts
	return j.Saves && (most == 0 || j.Restarts < most)
}

// couldGain is how much value a job with grant g would gain with the best use of what is free on its nodes. It takes
// that amount from free, so that no two jobs gain by the same cores. It is 0 if nothing free helps the job. It is also
// 0 for a job without a profile or in a quota of cores or memory (Rationed): what these would gain is not computed.
func (in *instance) couldGain(j *policy.Job, g *policy.Placement, free []gres.Vector) float64 {
	first := in.byName[g.Nodes[0]]
	profile := policy.ProfileOn(j.Profile, in.cluster.Nodes[first].GPUType)
	if profile == nil || in.cluster.Rationed(j) { // what such a quota would leave it is not looked at
		return 0
	}
	room := free[first]
	for _, name := range g.Nodes {
		n := in.byName[name]
		room.CPUs, room.Memory = min(room.CPUs, free[n].CPUs), min(room.Memory, free[n].Memory)
	}
	if room.CPUs == 0 && room.Memory == 0 {
		return 0
	}
	most := allowed(j, gres.Vector{GPUs: g.PerNode.GPUs, CPUs: g.PerNode.CPUs + room.CPUs,
		Memory: g.PerNode.Memory + room.Memory})
	if !g.PerNode.Fits(most) {
		return 0
	}
	best := profile.Demand(g.PerNode, most) // its gain is relative to what the job holds now
	tasks := max(1, j.Tasks)
	size := best.Size.Max(g.PerNode)
	size.CPUs = (size.CPUs + tasks - 1) / tasks * tasks
	if best.Gain <= 1+tolerance || !size.Fits(most) {
		return 0
	}
	for _, name := range g.Nodes {
		n := in.byName[name]
		taken := size.Minus(g.PerNode)
		free[n].CPUs, free[n].Memory = free[n].CPUs-taken.CPUs, free[n].Memory-taken.Memory
	}
	fair := gres.Proportional(in.totalFor(g, first), g.PerNode.GPUs)
	now := in.unitOf(profile, fair) * profile.Gain(g.PerNode, fair)
	return float64(g.PerNode.GPUs*len(g.Nodes)) * now * (best.Gain - 1)
}

// gpusWithoutShare counts the free GPUs for which no proportional share of cores and memory is free. share is that of
// one GPU.
func gpusWithoutShare(free, share gres.Vector) int {
	if free.GPUs <= 0 || share.CPUs == 0 {
		return 0
	}
	usable := min(free.GPUs, free.CPUs/share.CPUs)
	if share.Memory > 0 {
		usable = min(usable, int(free.Memory/share.Memory))
	}
	return free.GPUs - usable
}
