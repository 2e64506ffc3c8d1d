package bridge

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// smallStart is how long a start in a small round may take, unless Slurm's schedulers look less often (Settings.Looks).
// Longer ones would delay further small rounds, or a full round.
const smallStart = 10 * time.Second

// lookAtLeastEvery is how long a small round believes a watcher that no job has changed. After that it observes all the
// same, since a watcher does not see changes of nodes.
const lookAtLeastEvery = 10 * time.Second

// maxNewcomers is how many new jobs a small round tells why they wait, if there is time. The next one tells the others.
const maxNewcomers = 256

// SmallRound is held between two full rounds to use room that has come free and to start jobs that have arrived. It
// observes, and if a waiting job may start that could not before, or room has come free, it runs like a full round,
// with the same planner and the same order, but every running job stays as it is. held says whether anything was done:
// if nothing is new, or the plan starts no job, nothing was written.
//
// It has the number of the round before it. Ledgers do not keep its report.
func (r *Runner) SmallRound(ctx context.Context) (report Report, held bool, err error) {
	t := &activeRound{runner: r, began: r.Clock.Elapsed(), small: true}
	held, err = t.runSmall(ctx)
	return t.report, held, err
}

// runSmall is a small round; held says whether anything was done. It ends early, in this order, if the watcher knows of
// no change, if the observation has nothing that could allow a step that was impossible before, and if the plan has no
// steps.
func (t *activeRound) runSmall(ctx context.Context) (held bool, err error) {
	if !t.runner.watch.set {
		return false, nil // the first observation must be a full round's: it judges what an earlier process left
	}
	if quiet, err := t.isQuiet(ctx); quiet || err != nil {
		return false, err
	}
	t.runner.lastSmallLook = t.runner.Clock.Elapsed()
	t.begin()
	settled, intent, err := t.runner.Ledger.Load()
	if err != nil {
		return false, fmt.Errorf("read the ledger: %w", err)
	}
	t.report.Round, t.report.Interrupted = t.runner.Last, intent
	if err := t.observe(ctx, debts(settled, intent)); err != nil {
		return false, err
	}
	moment := t.situationHash()
	// A clock that was set and a lost job change records, and these changes are lost unless the round is settled.
	urgent := t.report.ClockStep != 0 || len(t.report.Lost) > 0
	if moment == t.runner.lastSituation && !urgent {
		return false, nil
	}
	t.runner.lastSituation = moment
	if err := t.decide(ctx); err != nil {
		return false, err
	}
	if len(t.report.Steps) == 0 && !urgent {
		return false, nil
	}
	return true, t.carryOut(ctx, settled)
}

// isQuiet says that there is no need to observe, which costs much more than the watcher's request: no job has changed,
// the last look is less than lookAtLeastEvery ago, within which changes of nodes may go unnoticed, and nextForcedLook
// has not come. Without a watcher it is always false.
func (t *activeRound) isQuiet(ctx context.Context) (bool, error) {
	now := t.runner.Clock.Elapsed()
	if t.runner.Watcher == nil || t.runner.lastSmallLook == 0 || now-t.runner.lastSmallLook >= lookAtLeastEvery ||
		t.runner.nextForcedLook != 0 && now >= t.runner.nextForcedLook {
		return false, nil
	}
	quiet, err := t.runner.Watcher.Quiet(ctx)
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	return quiet, nil
}

// situationHash is a hash of all that may allow a start or another step that was impossible before: the waiting jobs,
// whether they may start and have been told why they wait, what each node has free, which loans can be recalled, whose
// time limit comes, what is to be handed back, and which unmanaged jobs wait for room. Different situations have
// different hashes, for all practical purposes.
func (t *activeRound) situationHash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, tn := range t.observation.managed {
		if tn.State == slurm.Pending {
			fmt.Fprintf(&h, "%d %t %t;", tn.ID, t.mayStart(tn), tn.hasOurAnnotation())
		} else if tn.canSave() {
			fmt.Fprintf(&h, "%d %t %t;", tn.ID, t.runner.mustStay(tn, t.observation.at),
				tn.isGraceOver(t.observation.at))
		}
		if at := t.runner.limitActionTime(tn); t.runner.Settings.Watched && !at.IsZero() &&
			!at.After(t.observation.at) {
			fmt.Fprintf(&h, "%d %d;", tn.ID, t.retryCounter())
		}
	}
	for _, tn := range t.observation.debtors {
		fmt.Fprintf(&h, "%d %d;", tn.ID, tn.treatmentAt(t.observation.at))
	}
	for _, tn := range t.observation.contenders {
		fmt.Fprintf(&h, "%d %v;", tn.ID, tn.Request.PerNode())
	}
	for _, i := range t.observation.topology.managed {
		n := &t.observation.nodes[i]
		fmt.Fprintf(&h, "%s %v %t %s;", n.Name, n.Total.Minus(n.Allocated), n.Completing, n.Closed)
	}
	return h.Sum64()
}

// retryCounter changes every limitRetryInterval, so that an action about a time limit that failed is tried again while
// there is time. Shadow mode does nothing that could fail.
func (t *activeRound) retryCounter() int64 {
	if t.runner.Settings.Shadow {
		return 0
	}
	return t.observation.at.Unix() / int64(limitRetryInterval/time.Second)
}

// limitRetryInterval is how long after a failed action about a time limit the next one follows.
const limitRetryInterval = 5 * time.Second

// seed is the seed of situationHash in this process.
var seed = maphash.MakeSeed()

// fixRunning fixes every running job of the snapshot as it is, for a second plan after one that violated a promise. It
// clears Owed as well, the mark of a job that has contradicted its profile: such a job would be restarted to get the
// proportional share.
func fixRunning(c *policy.Cluster) {
	for i := range c.Jobs {
		if c.Jobs[i].Running != nil {
			c.Jobs[i].Fixed, c.Jobs[i].Owed = true, false
		}
	}
}

// keepRunningButRecall lets every running job of the snapshot stay as it is, except that loans may be recalled: a small
// round comes too often to weigh restarts. It clears Owed, so no job that has contradicted its profile is restarted to
// get the proportional share; the next full round does that.
func keepRunningButRecall(c *policy.Cluster) {
	for i := range c.Jobs {
		if c.Jobs[i].Running != nil {
			c.Jobs[i].Stays, c.Jobs[i].Owed = true, false
		}
	}
}

// smallSteps are the steps of a plan that a small round takes. Renewals are left to the full rounds, except those of
// jobs that are armed and no longer should be, and up to maxNewcomers ones of jobs that have not been told yet why they
// wait.
func smallSteps(s *sortedObservation, steps []Step) []Step {
	told := 0
	return slices.DeleteFunc(steps, func(step Step) bool {
		tn := s.find(step.Job)
		if step.Verb != Renew || !tn.WaitsAt(s.at) { // an armed job that is to wait again gets its lease at once
			return false
		}
		if tn.hasOurAnnotation() || told == maxNewcomers {
			return true
		}
		told++
		return false
	})
}
