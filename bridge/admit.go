package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A round that preempts jobs waits for them to save, for minutes if necessary. Room that comes free elsewhere and jobs
// that arrive meanwhile do not wait that long: the round admits what a small round would do, starts and the recall of
// loans. What its own steps are about to use is not available to these: nodes that preempted jobs leave are closed, and
// what its other starts will hold counts as held, on nodes and in quotas. As always, no job is armed during a
// preemption.
//
// The intent is written again, with all steps of the round, before the first of these starts. So a daemon that dies
// leaves no debt that is not on record.

// admitEvery is the least time between two plans while a round waits, and from the beginning of act to the first plan.
const admitEvery = time.Second

// admission adds steps to a round that waits for preempted jobs. smallRound is the small round that plans these steps.
type admission struct {
	*executor
	smallRound *activeRound
}

// admit adds the starts and recalls of loans that have become possible since the round was planned, so that they need
// not wait until preempted jobs have saved. It does so only where small rounds are held (Settings.Watched), and only
// while the round waits for other steps than such ones. It stops when the time that is left only suffices to take
// starts back.
func (a admission) admit(ctx context.Context) error {
	now := a.runner.Clock.Elapsed()
	if !a.runner.Settings.Watched || now < a.nextAdmission || a.timeLeft() <= a.rollBackTime() || !a.hasAwaitedSteps() {
		return nil
	}
	a.nextAdmission = now + admitEvery
	if news, err := a.detectChange(ctx); !news || err != nil {
		return err
	}
	if err := a.planSmallRound(ctx); err != nil {
		return err
	}
	if len(a.smallRound.report.Steps) == 0 {
		return nil
	}
	return a.adoptSteps(ctx)
}

// hasAwaitedSteps says whether the round still waits for steps of its own plan. If not, it is about to end, and the
// next small round plans new starts.
func (a admission) hasAwaitedSteps() bool {
	return slices.ContainsFunc(a.steps, func(s *step) bool { return s.awaited() && !s.admitted })
}

// detectChange sorts the last observation into a.smallRound, and says whether anything in it could allow a new start
// (news). It stores the hash of this situation as that of the last small round, so that the next small round does not
// plan the same situation again. If tasks of arrays were split off, there is no news until the next observation shows
// them.
func (a *admission) detectChange(ctx context.Context) (news bool, err error) {
	t := &activeRound{runner: a.runner, began: a.round.began, small: true, seen: a.jobs}
	t.report.Round, t.report.Shadow = a.round.report.Round, a.round.report.Shadow
	seen := slurm.Observed{At: a.at, Jobs: a.jobs, Nodes: a.nodes, Reservations: a.reservations}
	t.observation = t.runner.sort(seen, a.round.records())
	t.observation.secured = a.steps.secured()
	updateRecords(t.observation.managed, a.at)
	a.smallRound = t
	if anew, err := splitArrays(ctx, t); anew || err != nil {
		return false, err // the next observation shows the tasks
	}
	t.refusals = t.runner.refusalsOf(&t.observation)
	moment := t.situationHash()
	news = moment != a.runner.lastSituation
	a.runner.lastSituation = moment
	return news, nil
}

// planSmallRound makes the small round's plan, in which all running jobs stay but for the recall of loans, and its
// steps. What the waiting round is about to use is hidden from that plan (hideUsedRoom).
func (a admission) planSmallRound(ctx context.Context) error {
	t := a.smallRound
	t.refreshLimits(ctx)
	t.report.Snapshot = t.runner.snapshot(&t.observation)
	t.applyLimits(&t.report.Snapshot)
	keepRunningButRecall(&t.report.Snapshot)
	a.hideUsedRoom(&t.report.Snapshot)
	if err := planSafely(ctx, t); err != nil {
		return fmt.Errorf("plan beside the round: %w", err)
	}
	t.observation.jobsBehindBlocked = jobsBehindBlocked(t, t.report.Plan)
	t.observation.expiring = t.runner.expiring(&t.observation, t.report.Plan, 0)
	t.report.Steps = a.admissible(smallSteps(&t.observation, t.runner.diff(&t.observation, t.report.Plan)))
	return nil
}

// hideUsedRoom changes the small round's snapshot so that its plan leaves alone what this round is about to use.
// Running jobs with a step under way stay, and waiting ones are barred. Nodes that preempted jobs are to leave are
// closed. The grants of the starts for which this round waits count as used on all other nodes. In quotas they count
// only if the job does not run: what a running job holds counts there already.
func (a admission) hideUsedRoom(c *policy.Cluster) {
	left := a.steps.nodesToLeave()
	nodes := make(map[string]*policy.Node, len(c.Nodes))
	for i := range c.Nodes {
		n := &c.Nodes[i]
		nodes[n.Name] = n
		if _, is := left[n.Name]; is {
			n.Closed = "jobs leave it for others"
		}
	}
	c.Quotas = slices.Clone(c.Quotas)
	for _, s := range a.steps.filter(func(s *step) bool { return s.awaited() || s.unawaited && s.open() }) {
		k, found := slices.BinarySearchFunc(c.Jobs, s.Job, func(j policy.Job, id int) int { return j.ID - id })
		if !found {
			continue
		}
		j := &c.Jobs[k]
		if j.Fixed = j.Running != nil; !j.Fixed {
			j.Barred = "a step for it is under way"
		}
		if s.Verb != Start {
			continue
		}
		for _, name := range s.Grant.Nodes {
			if n := nodes[name]; n != nil && n.Closed == "" {
				n.Foreign = n.Foreign.Plus(s.Grant.PerNode)
			}
		}
		if j.Fixed {
			continue // a mover that still saves: what it holds counts in its quotas
		}
		for _, q := range j.Quotas {
			c.Quotas[q] = c.Quotas[q].Less(len(s.Grant.Nodes), s.Grant.PerNode)
		}
	}
}

// admissible are the steps of the small round that the waiting round takes over: none for a job that already has a step
// under way. It leaves out arming, since an eligible job would get what preempted jobs leave. It also leaves out
// restoring, which gives no job a start. A later round takes the steps that are left out.
func (a admission) admissible(list []Step) []Step {
	busy := map[int]bool{}
	for _, s := range a.steps {
		if s.awaited() || s.unawaited && s.open() {
			busy[s.Job] = true
		}
	}
	return slices.DeleteFunc(list, func(s Step) bool { return busy[s.Job] || s.Verb == Arm || s.Verb == Restore })
}

// adoptSteps takes over the small round's steps, and replaces this round's observation and refusals by those of the
// small round. It appends the steps to this round's and writes the intent again, with all steps, before the first of
// the new ones is begun: if the daemon dies then, the ledger has their debts.
func (a admission) adoptSteps(ctx context.Context) error {
	t, from := a.smallRound, len(a.round.report.Steps)
	a.round.observation, a.round.refusals, a.round.seen = t.observation, t.refusals, t.seen
	a.round.report.Steps = append(a.round.report.Steps, t.report.Steps...)
	a.closeSuperseded(t.report.Steps)
	if err := a.round.intend(); err != nil {
		return err
	}
	// Later writes are noted in the jobs of the new observation (managedJob.written), which the next round compares
	// with its own. A step whose job is no longer in it keeps the old one.
	for _, s := range a.steps {
		if t := a.round.observation.find(s.Job); t != nil {
			s.job = t
		}
	}
	a.appendSteps(from, true)
	a.round.report.Outside = a.round.observation.outside
	for _, s := range a.steps[from:] {
		if s.Verb == Start {
			a.round.report.Notes = a.runner.appendNotes(a.round.report.Notes, s.job)
		}
	}
	return a.deferStarts(ctx)
}

// closeSuperseded closes this round's open renewals and armings of jobs for which by has a start. They would otherwise
// write to the job once more, and take its start back.
func (a admission) closeSuperseded(by []Step) {
	starts := map[int]bool{}
	for _, s := range by {
		starts[s.Job] = starts[s.Job] || s.Verb == Start
	}
	for _, s := range a.steps {
		if starts[s.Job] && s.open() && (s.Verb == Renew || s.Verb == Arm) {
			a.setStage(s, done)
		}
	}
	a.renewals = slices.DeleteFunc(a.renewals, func(s *step) bool { return starts[s.Job] })
}
