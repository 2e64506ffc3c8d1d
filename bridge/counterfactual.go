package bridge

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// In the shadow the site is planned for as it would be. A job that Slurm started counts as if it could have been sized
// at its start, on the nodes on which it runs, with what its neighbours had left it by then, and goes on with that. One
// that declared a checkpoint, or is taken to have, is sized anew in each round. Where such a size cannot be true any
// more, since Slurm has started somebody who would have found no room, all on those nodes count with what they hold.
//
// For the ledger of savings that is done twice more: as if nobody could be sized again after his start, and as if
// everybody could. Nothing is planned by these.
//
// Sizes are forgotten with the process: the first round of the next sizes everybody anew, as if all had started then.

// sizedRun is what a run would hold.
type sizedRun struct {
	started time.Time
	holds   *policy.Placement
}

// whatIf are the sizes that runs would have, by job, under each assumption about who declared a checkpoint.
type whatIf struct{ declared, nobody, everybody map[int]sizedRun }

// counterfactual is the part of a turn that says what running jobs would hold.
type counterfactual struct {
	*turn
	c     *policy.Cluster
	saves func(*managedJob) bool // who is taken to have declared a checkpoint
	sizes *map[int]sizedRun      // under this assumption; of the last round, and then of this one
	fresh []int                  // the places, in the scene and the snapshot, of those who are to be sized
	sized []int                  // of those who were before
}

// supposing is the part of a turn that sizes runs under each assumption.
type supposing struct{ *turn }

// all puts what running jobs would hold into the snapshot.
func (t supposing) all() {
	real := t.report.Snapshot.Jobs
	if t.Settings.Savings {
		nobody, everybody := func(*managedJob) bool { return false }, func(*managedJob) bool { return true }
		for i, placed := range t.sized(slices.Clone(real), nobody, &t.sizes.nobody) {
			t.scene.managed[i].unsaved = placed
		}
		for i, placed := range t.sized(slices.Clone(real), everybody, &t.sizes.everybody) {
			t.scene.managed[i].saved = placed
		}
	}
	for i, placed := range t.sized(real, (*managedJob).saves, &t.sizes.declared) {
		tn := t.scene.managed[i]
		tn.wouldHold = placed
		real[i].Fixed = real[i].Fixed || !tn.saves()
	}
}

// sized puts into the jobs of the snapshot what they would hold under an assumption, and says whose size that is by
// place.
func (t supposing) sized(jobs []policy.Job, saves func(*managedJob) bool,
	sizes *map[int]sizedRun) map[int]*policy.Placement {
	c := t.report.Snapshot
	c.Jobs = jobs
	return (&counterfactual{turn: t.turn, c: &c, saves: saves, sizes: sizes}).size()
}

// size sizes, and says what everybody who runs would hold, by place.
func (s *counterfactual) size() map[int]*policy.Placement {
	s.recall()
	s.sizeFresh()
	for s.undo() {
	}
	return s.remember()
}

// reallyHolds is what a running job holds.
func (t *managedJob) reallyHolds() *policy.Placement {
	return &policy.Placement{Nodes: t.Runs.Nodes, PerNode: t.Runs.PerNode}
}

// recall gives every run the size that it was given before, and finds out who has none.
func (s *counterfactual) recall() {
	for i, tn := range s.scene.managed {
		j := &s.c.Jobs[i]
		if j.Running == nil || tn.Completing || !tn.even() || slices.Contains(tn.on, elsewhere) {
			continue
		}
		was, known := (*s.sizes)[tn.ID]
		known = known && was.started.Equal(tn.Started)
		if known {
			j.Running = was.holds
		}
		if !known || s.saves(tn) && !s.small {
			s.fresh = append(s.fresh, i)
		} else {
			s.sized = append(s.sized, i)
		}
	}
}

// first is a priority above any of Slurm's own: who runs is served before those who wait.
const first = 1 << 62

// sizeFresh sizes those who have no size, each on the nodes on which it runs.
func (s *counterfactual) sizeFresh() {
	if len(s.fresh) == 0 {
		return
	}
	c := *s.c
	c.Jobs = slices.Clone(c.Jobs)
	freeze(&c)
	for _, i := range s.fresh {
		j := &c.Jobs[i]
		j.Only, j.Nodes, j.Except, j.Features, j.Priority = j.Running.Nodes, len(j.Running.Nodes), nil, nil, first
		j.Running, j.Started, j.Fixed, j.Owed = nil, time.Time{}, false, false
		j.Saves = s.saves(s.scene.managed[i])
	}
	plan := policy.Decide(c, policy.Slurm(), s.Settings.Allocator)
	good := policy.Check(c, plan) == nil
	for _, i := range s.fresh {
		g, held := plan.Decisions[i].Grant, s.scene.managed[i].reallyHolds()
		if !good || g == nil || !slices.Equal(g.Nodes, held.Nodes) {
			g = held
		}
		s.c.Jobs[i].Running = g
	}
}

// undo gives those their real size back who are on nodes with more than there is. It says whether there were any.
func (s *counterfactual) undo() (undone bool) {
	free := map[string]gres.Vector{}
	for n := range s.c.Nodes {
		free[s.c.Nodes[n].Name] = s.c.Nodes[n].Total.Minus(s.c.Nodes[n].Foreign)
	}
	for i := range s.c.Jobs {
		if g := s.c.Jobs[i].Running; g != nil {
			for _, n := range g.Nodes {
				free[n] = free[n].Minus(g.PerNode)
			}
		}
	}
	for _, i := range slices.Concat(s.fresh, s.sized) {
		g, held := s.c.Jobs[i].Running, s.scene.managed[i].reallyHolds()
		over := slices.ContainsFunc(g.Nodes, func(n string) bool { return free[n].CPUs < 0 || free[n].Memory < 0 })
		if over && !g.Equal(*held) {
			s.c.Jobs[i].Running, undone = held, true
		}
	}
	return undone
}

// remember keeps the sizes for the rounds to come.
func (s *counterfactual) remember() map[int]*policy.Placement {
	placed := make(map[int]*policy.Placement, len(s.fresh)+len(s.sized))
	sizes := make(map[int]sizedRun, len(s.fresh)+len(s.sized))
	for _, i := range slices.Concat(s.fresh, s.sized) {
		tn, j := s.scene.managed[i], &s.c.Jobs[i]
		placed[i], sizes[tn.ID] = j.Running, sizedRun{tn.Started, j.Running}
	}
	*s.sizes = sizes
	return placed
}
