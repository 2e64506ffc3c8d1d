package bridge

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A running job that is to move cannot reserve its new nodes, so Slurm may start another job there first. The job must
// not lose its present nodes by that. The new nodes are observed again right before the job is asked to save; if there
// is no room any more, the move is called off. If the room is taken while the job saves, the job restarts where it ran
// before. If that room is gone as well, the job comes first in the order until it runs again.

// movers are the starts, not yet begun, of jobs that ran when the round began and get another place or size. Moves to a
// shared GPU are left out: whether a GPU that other jobs use already has room does not show in what its node has free.
func (a *executor) movers() []*step {
	return a.steps.filter(func(s *step) bool {
		return s.Verb == Start && s.stage == notBegun && s.job.State == slurm.Running && s.Grant.Device == ""
	})
}

// callOffMoves observes once more before any job is asked to leave, if any job is to move to other nodes. Moves to
// places that other jobs have taken meanwhile are put off, together with all steps that were to use the places of the
// jobs that now stay: so no job leaves its place for one that is gone.
func (a *executor) callOffMoves(ctx context.Context) error {
	movers := slices.DeleteFunc(a.movers(), func(s *step) bool { return slices.Equal(s.Grant.Nodes, s.job.Runs.Nodes) })
	if len(movers) == 0 {
		return nil
	}
	if err := a.observeAgain(ctx); err != nil {
		return err
	}
	for _, s := range movers {
		if s.stage == notBegun && a.isPlaceTaken(s) {
			a.callOffOn(slices.Concat(s.job.Runs.Nodes, s.Grant.Nodes), nil)
		}
	}
	return nil
}

// isPlaceTaken says whether other jobs, which do not leave in this round, hold part of a mover's new place. Nodes that
// a preempted job has still to leave are not looked at: their room comes only then.
func (a *executor) isPlaceTaken(s *step) bool {
	leaving := a.steps.nodesToLeave()
	return slices.ContainsFunc(s.Grant.Nodes, func(name string) bool {
		_, waits := leaving[name]
		return !waits && !a.hasRoomOn(name, s.Grant)
	})
}

// hasRoomOn says whether a node had room, when last observed, for what a grant needs of it. A node that Slurm no longer
// lists passes: Slurm itself answers the start.
func (a *executor) hasRoomOn(name string, g *policy.Placement) bool {
	byName := func(n slurm.Node, name string) int { return strings.Compare(n.Name, name) }
	k, found := slices.BinarySearchFunc(a.nodes, name, byName)
	return !found || g.PerNode.Fits(a.nodes[k].Total.Minus(a.nodes[k].Allocated))
}

// revertMoves changes the grants of movers that have left, and whose new place is taken, to their old place, so that
// they run on there and do not wait. Other movers that were to use that place go back to their old places, too
// (revertGroup). A move is not reverted if a waiting job was to get the old place, since it is meant for that job, or
// if the old places are not free together (canRevert). A start whose grant is its job's old placement was reverted
// before.
func (a *executor) revertMoves() {
	for _, s := range a.movers() {
		if s.Grant == s.job.placement || !a.isPlaceTaken(s) {
			continue
		}
		if back := a.revertGroup(s); back != nil && a.canRevert(back) {
			// All reasons first: they name the grant of s, which is one of the group.
			for _, o := range back {
				o.Why = "goes on as it was: others have taken what was meant for job " + strconv.Itoa(s.Job) + " on " +
					strings.Join(s.Grant.Nodes, ",")
			}
			for _, o := range back {
				o.Grant = o.job.placement
			}
		}
	}
}

// revertGroup lists the starts that have to go back to their old nodes if the start s does: s itself, each mover that
// was to use the old nodes of s, each that was to use the old nodes of that mover, and so on. It is nil if one of these
// jobs cannot go back: it still runs, is eligible already, had a shared GPU, or is a waiting job, which has no old
// nodes.
func (a *executor) revertGroup(s *step) []*step {
	movers, group := a.movers(), []*step{s}
	for k := 0; k < len(group); k++ {
		o := group[k]
		j, there := a.find(o.Job)
		if !there || j.State != slurm.Pending || o.secured || a.isEligible(o) || !a.lastRunIsOver(o, j) ||
			o.job.placement == nil ||
			o.job.placement.Device != "" {
			return nil
		}
		for _, next := range a.steps {
			onIt := func(n string) bool { return slices.Contains(o.job.placement.Nodes, n) }
			if next.Verb != Start || next.stage == failed || slices.Contains(group, next) ||
				!slices.ContainsFunc(next.Grant.Nodes, onIt) {
				continue
			}
			if !slices.Contains(movers, next) {
				return nil
			}
			group = append(group, next)
		}
	}
	return group
}

// canRevert says whether the old places of all these jobs are free together.
func (a *executor) canRevert(group []*step) bool {
	for k := range a.nodes {
		n := &a.nodes[k]
		room := n.Total.Minus(n.Allocated)
		for _, s := range group {
			if !slices.Contains(s.job.placement.Nodes, n.Name) {
				continue
			}
			if !s.job.placement.PerNode.Fits(room) {
				return false
			}
			room = room.Minus(s.job.placement.PerNode)
		}
	}
	return true
}

// noteDisplaced notes in the records, when the round ends, which movers have left and do not run again (Displaced), so
// that roundPolicy puts them first in the next round. A job that the plan only stopped, or that left because of its
// time limit, is no mover.
func (a *executor) noteDisplaced() {
	for _, s := range a.steps {
		if s.Verb == Preempt && s.stage == done && !s.PutOff && !s.expires {
			start := slices.IndexFunc(a.steps, func(o *step) bool { return o.Verb == Start && o.Job == s.Job })
			s.job.record.Displaced = start >= 0 && (a.steps[start].stage != done || a.steps[start].PutOff)
		}
	}
}

// roundPolicy is the policy by which this round orders jobs: the site's, preceded by the job that lost its place while
// it moved (Displaced), if it may start. Of several, it is the one that was first submitted; the others follow in later
// rounds.
func (t *activeRound) roundPolicy() policy.Policy {
	var first *managedJob
	for _, tn := range t.observation.managed {
		if tn.record.Displaced && tn.State == slurm.Pending && tn.bar.why == "" &&
			(first == nil || tn.record.First.Before(first.record.First)) {
			first = tn
		}
	}
	if first == nil {
		return t.runner.Settings.Policy
	}
	return t.runner.Settings.Policy.First(first.ID)
}
