package bridge

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Shadow mode plans the site as it would be. A job that Slurm started counts as if we had sized it at its start: on the
// nodes on which it runs, with what its neighbours left at that time. It keeps that size. A job that declared a
// checkpoint, or is assumed to have, is sized again in each round. If such sizes become impossible, because Slurm has
// started a job that would have found no room, all jobs on these nodes count with what they really hold.
//
// For the ledger of savings the same is computed twice more: as if no job could be sized again after its start, and as
// if every job could. No plan uses these two.
//
// Sizes are lost when the process ends. The first round of the next process sizes all jobs as if they had started then.

// sizedRun is the size that a run of a job would have, and the run's start, by which it is known to be the same run.
type sizedRun struct {
	started   time.Time // by which a later run of the same job is told apart
	wouldHold *policy.Placement
}

// whatIfSizes are the sizes of runs, by job, under three assumptions about which jobs declared a checkpoint: those that
// did, none, and all.
type whatIfSizes struct{ declared, noneDeclared, allDeclared map[int]sizedRun }

// counterfactual sizes running jobs under one assumption about which of them declared a checkpoint.
type counterfactual struct {
	round             *activeRound
	snapshotCopy      *policy.Cluster        // the snapshot in which the sizes are put
	assumesCheckpoint func(*managedJob) bool // which jobs are assumed to have declared a checkpoint
	sizes             *map[int]sizedRun      // sizes of the last round; replaced by those of this one
	toSize            []int                  // indices, in the observation and the snapshot, of the jobs to be sized
	restoredSizes     []int                  // indices of the jobs that keep an earlier size
}

// applyCounterfactualSizes puts the sizes that running jobs would have into the snapshot of a shadow round, so that its
// plan is made for the site as it would be. Jobs without a checkpoint become fixed there: the plan cannot size them
// again. The sizes under the other two assumptions are noted in the jobs, for the ledger of savings only.
func applyCounterfactualSizes(t *activeRound) {
	real := t.report.Snapshot.Jobs
	if t.runner.Settings.Savings {
		nobody, everybody := func(*managedJob) bool { return false }, func(*managedJob) bool { return true }
		for i, placed := range counterfactualSizes(t, slices.Clone(real), nobody, &t.runner.sizes.noneDeclared) {
			t.observation.managed[i].noSavePlacement = placed
		}
		for i, placed := range counterfactualSizes(t, slices.Clone(real), everybody, &t.runner.sizes.allDeclared) {
			t.observation.managed[i].allSavePlacement = placed
		}
	}
	for i, placed := range counterfactualSizes(t, real, (*managedJob).canSave, &t.runner.sizes.declared) {
		tn := t.observation.managed[i]
		tn.shadowPlacement = placed
		real[i].Fixed = real[i].Fixed || !tn.canSave() // it keeps the size of its start
	}
}

// counterfactualSizes replaces, in jobs, what the running jobs hold by the sizes under one assumption: saves says which
// jobs declared a checkpoint. sizes are those of the last round under that assumption, and are replaced. It returns
// what each job would hold, by its index in jobs.
func counterfactualSizes(t *activeRound, jobs []policy.Job, saves func(*managedJob) bool,
	sizes *map[int]sizedRun) map[int]*policy.Placement {
	c := t.report.Snapshot
	c.Jobs = jobs
	return (&counterfactual{round: t, snapshotCopy: &c, assumesCheckpoint: saves, sizes: sizes}).sizeRuns()
}

// sizeRuns sizes the running jobs, and returns what each would hold, by index. Jobs that keep their real size
// (restoreSizes) have no entry.
func (s *counterfactual) sizeRuns() map[int]*policy.Placement {
	s.restoreSizes()
	s.sizeFresh()
	// A real size may be larger than the one that it replaces, and overcommit another node.
	for s.revertOvercommitted() {
	}
	return s.storeSizes()
}

// actualPlacement is what a running job holds in Slurm, as opposed to what it would hold.
func (t *managedJob) actualPlacement() *policy.Placement {
	return &policy.Placement{Nodes: t.Runs.Nodes, PerNode: t.Runs.PerNode}
}

// restoreSizes gives each run the size that it had in the last round, and lists it in restoredSizes. It lists in toSize
// the runs that need a new size: those that have just begun, and in a full round those that could be sized again. Some
// jobs keep what they hold and are in neither list, since no plan could have sized them: those that are completing,
// that hold different numbers of GPUs on their nodes, or that run on nodes that are not managed.
func (s *counterfactual) restoreSizes() {
	for i, tn := range s.round.observation.managed {
		j := &s.snapshotCopy.Jobs[i]
		if j.Running == nil || tn.Completing || !tn.sameGPUsOnEachNode() ||
			slices.Contains(tn.nodePlaces, unmanagedPlace) {
			continue
		}
		was, known := (*s.sizes)[tn.ID]
		known = known && was.started.Equal(tn.Started)
		if known {
			j.Running = was.wouldHold
		}
		if !known || s.assumesCheckpoint(tn) && !s.round.small {
			s.toSize = append(s.toSize, i)
		} else {
			s.restoredSizes = append(s.restoredSizes, i)
		}
	}
}

// topPriority is a priority above any of Slurm's, so that running jobs are sized before waiting ones.
const topPriority = 1 << 62

// sizeFresh sizes the jobs in toSize by a plan in which they are the first in line and all others stay. Each may start
// only on the nodes on which it runs, so it gets the size that it would have been given there. A job that the plan does
// not place on these nodes counts with what it really holds. So does every job if the plan violates a promise.
func (s *counterfactual) sizeFresh() {
	if len(s.toSize) == 0 {
		return
	}
	c := *s.snapshotCopy
	c.Jobs = slices.Clone(c.Jobs)
	fixRunning(&c)
	for _, i := range s.toSize {
		// It is planned as a waiting job that may start only where it runs.
		j := &c.Jobs[i]
		j.Only, j.Nodes, j.Except, j.Features, j.Priority = j.Running.Nodes, len(j.Running.Nodes), nil, nil, topPriority
		j.Running, j.Started, j.Fixed, j.Owed = nil, time.Time{}, false, false
		j.Saves = s.assumesCheckpoint(s.round.observation.managed[i])
	}
	plan := policy.Decide(c, policy.Slurm(), s.round.runner.Settings.Allocator)
	good := policy.Check(c, plan) == nil
	for _, i := range s.toSize {
		g, held := plan.Decisions[i].Grant, s.round.observation.managed[i].actualPlacement()
		if !good || g == nil || !slices.Equal(g.Nodes, held.Nodes) {
			g = held
		}
		s.snapshotCopy.Jobs[i].Running = g
	}
}

// revertOvercommitted gives each job on an overcommitted node its real size, since together the jobs there could not
// have had the sizes assumed. undone says whether any size was changed. The nodes must then be looked at again, because
// a real size may be larger than the assumed one and overcommit another node of the job.
func (s *counterfactual) revertOvercommitted() (undone bool) {
	free := map[string]gres.Vector{}
	for n := range s.snapshotCopy.Nodes {
		free[s.snapshotCopy.Nodes[n].Name] = s.snapshotCopy.Nodes[n].Total.Minus(s.snapshotCopy.Nodes[n].Foreign)
	}
	for i := range s.snapshotCopy.Jobs {
		if g := s.snapshotCopy.Jobs[i].Running; g != nil {
			for _, n := range g.Nodes {
				free[n] = free[n].Minus(g.PerNode)
			}
		}
	}
	for _, i := range slices.Concat(s.toSize, s.restoredSizes) {
		g, held := s.snapshotCopy.Jobs[i].Running, s.round.observation.managed[i].actualPlacement()
		over := slices.ContainsFunc(g.Nodes, func(n string) bool { return free[n].CPUs < 0 || free[n].Memory < 0 })
		if over && !g.Equal(*held) {
			s.snapshotCopy.Jobs[i].Running, undone = held, true
		}
	}
	return undone
}

// storeSizes keeps the sizes for the next round, and returns them by index. Runs that have ended are dropped.
func (s *counterfactual) storeSizes() map[int]*policy.Placement {
	placed := make(map[int]*policy.Placement, len(s.toSize)+len(s.restoredSizes))
	sizes := make(map[int]sizedRun, len(s.toSize)+len(s.restoredSizes))
	for _, i := range slices.Concat(s.toSize, s.restoredSizes) {
		tn, j := s.round.observation.managed[i], &s.snapshotCopy.Jobs[i]
		placed[i], sizes[tn.ID] = j.Running, sizedRun{tn.Started, j.Running}
	}
	*s.sizes = sizes
	return placed
}
