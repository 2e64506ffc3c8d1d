package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A round that stops jobs waits for them to save, for minutes if they need that. What comes free elsewhere meanwhile,
// and who comes, is not kept waiting as long: the round admits what a small round would have done, starts and what
// calls a loan back. What its own steps are about to use is spoken for: nodes that victims leave are closed to others,
// and what its other starts are to hold counts as held, on nodes and in quotas. Nobody is armed while victims leave, as
// ever.
//
// The intent is written anew before the first of these starts, with all that the round is about: who dies after that
// leaves no debt that is not on record.

// admitEvery is the least time between two plans for what came up while a round waits; the first is made so long after
// it began to act.
const admitEvery = time.Second

// admission is the part of an acting that admits starts, by a turn beside its own.
type admission struct {
	*acting
	beside *turn
}

// admit takes up the starts that have become possible since the round was planned, as long as it waits for anything but
// such starts.
func (a admission) admit(ctx context.Context) error {
	now := a.Clock.Elapsed()
	if !a.Settings.Watched || now < a.admits || a.left() <= a.retreat() || !a.waits() {
		return nil
	}
	a.admits = now + admitEvery
	if news, err := a.look(ctx); !news || err != nil {
		return err
	}
	if err := a.plan(ctx); err != nil {
		return err
	}
	if len(a.beside.report.Steps) == 0 {
		return nil
	}
	return a.adopt(ctx)
}

// waits says that the round has something to wait for of its own.
func (a admission) waits() bool {
	return slices.ContainsFunc(a.steps, func(s *step) bool { return s.awaited() && !s.admitted })
}

// look sorts what was seen last, and says whether there is anything new in it.
func (a *admission) look(ctx context.Context) (news bool, err error) {
	t := &turn{Runner: a.Runner, began: a.began, small: true, seen: a.jobs}
	t.report.Round, t.report.Shadow = a.report.Round, a.report.Shadow
	seen := Observed{At: a.at, Jobs: a.jobs, Nodes: a.nodes, Reservations: a.reservations}
	t.scene = t.sort(seen, a.records())
	t.scene.secured = a.steps.secured()
	account(t.scene.managed, a.at)
	a.beside = t
	if anew, err := (splitting{t}).split(ctx); anew || err != nil {
		return false, err // the next look sees the tasks
	}
	t.refusals = t.refusalsOf(&t.scene)
	moment := t.moment()
	news = moment != a.last
	a.last = moment
	return news, nil
}

// plan makes the plan and the steps of the turn beside.
func (a admission) plan(ctx context.Context) error {
	t := a.beside
	t.consultAlmanac(ctx)
	t.report.Snapshot = t.snapshot(&t.scene)
	t.limit(&t.report.Snapshot)
	settle(&t.report.Snapshot)
	a.withhold(&t.report.Snapshot)
	if err := (caution{t}).careful(ctx); err != nil {
		return fmt.Errorf("plan beside the round: %w", err)
	}
	t.scene.behind = queue{t}.behind(t.report.Plan)
	t.scene.expiring = t.expiring(&t.scene, t.report.Plan, 0)
	t.report.Steps = a.admissible(smallSteps(&t.scene, t.diff(&t.scene, t.report.Plan)))
	return nil
}

// withhold keeps from a plan what this round is about to use.
func (a admission) withhold(c *policy.Cluster) {
	left := a.steps.blocked()
	nodes := make(map[string]*policy.Node, len(c.Nodes))
	for i := range c.Nodes {
		n := &c.Nodes[i]
		nodes[n.Name] = n
		if _, is := left[n.Name]; is {
			n.Closed = "jobs leave it for others"
		}
	}
	c.Quotas = slices.Clone(c.Quotas)
	for _, s := range a.steps.filter(func(s *step) bool { return s.awaited() || s.aside && s.open() }) {
		k, found := slices.BinarySearchFunc(c.Jobs, s.Job, func(j policy.Job, id int) int { return j.ID - id })
		if !found {
			continue
		}
		j := &c.Jobs[k]
		if j.Fixed = j.Running != nil; j.Fixed {
			continue
		}
		j.Barred = "a step for it is under way"
		if s.Verb != Start {
			continue
		}
		for _, name := range s.Grant.Nodes {
			if n := nodes[name]; n != nil && n.Closed == "" {
				n.Foreign = n.Foreign.Plus(s.Grant.PerNode)
			}
		}
		for _, q := range j.Quotas {
			c.Quotas[q] = c.Quotas[q].Less(len(s.Grant.Nodes), s.Grant.PerNode)
		}
	}
}

// admissible are the steps of the small round that this round takes up. It arms and restores no jobs, and leaves jobs
// alone for which a step of this round is under way.
func (a admission) admissible(list []Step) []Step {
	busy := map[int]bool{}
	for _, s := range a.steps {
		if s.awaited() || s.aside && s.open() {
			busy[s.Job] = true
		}
	}
	return slices.DeleteFunc(list, func(s Step) bool { return busy[s.Job] || s.Verb == Arm || s.Verb == Restore })
}

// adopt makes the steps of the turn beside the round's own.
func (a admission) adopt(ctx context.Context) error {
	t, from := a.beside, len(a.report.Steps)
	a.scene, a.refusals, a.seen = t.scene, t.refusals, t.seen
	a.report.Steps = append(a.report.Steps, t.report.Steps...)
	a.supersede(t.report.Steps)
	if err := a.intend(); err != nil {
		return err
	}
	for _, s := range a.steps {
		if t := a.scene.find(s.Job); t != nil {
			s.job = t
		}
	}
	a.take(from, true)
	a.report.Outside = a.scene.outside
	for _, s := range a.steps[from:] {
		if s.Verb == Start {
			a.report.Notes = a.appendNotes(a.report.Notes, s.job)
		}
	}
	return a.deferStarts(ctx)
}

// supersede drops what was still to be told to jobs that start instead.
func (a admission) supersede(by []Step) {
	starts := map[int]bool{}
	for _, s := range by {
		starts[s.Job] = starts[s.Job] || s.Verb == Start
	}
	for _, s := range a.steps {
		if starts[s.Job] && s.open() && (s.Verb == Renew || s.Verb == Arm) {
			a.reach(s, done)
		}
	}
	a.untold = slices.DeleteFunc(a.untold, func(s *step) bool { return starts[s.Job] })
}
