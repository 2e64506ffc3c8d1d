package bridge

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// smallStart is how long a start of a small round may take: what takes longer must not keep other moments, or a round,
// waiting.
const smallStart = 10 * time.Second

// lookAnyway is how long a small round believes a watcher that jobs are quiet: nodes come and go without them.
const lookAnyway = 10 * time.Second

// newcomers is how many jobs a small round tells that they wait. The others learn it in the next round.
const newcomers = 16

// SmallRound gives away, between two rounds, what has come free or who has come since: it looks, and where a job that
// waits may start that could not before, or room has come free, it is a round like any other, by the same planner and
// along the same line, in which every running job stays as it is. held says whether it came to anything: where nothing
// is new, or the plan starts nobody, nothing was written.
//
// It has the number of the round before it. Its report is not kept by ledgers.
func (r *Runner) SmallRound(ctx context.Context) (report Report, held bool, err error) {
	t := &turn{Runner: r, began: r.Clock.Elapsed(), small: true}
	held, err = t.runSmall(ctx)
	return t.report, held, err
}

func (t *turn) runSmall(ctx context.Context) (held bool, err error) {
	if !t.watch.set {
		return false, nil // the first look of a process is a round's: it judges what an earlier one left
	}
	if quiet, err := t.quiet(ctx); quiet || err != nil {
		return false, err
	}
	t.looked = t.Clock.Elapsed()
	t.begin()
	settled, intent, err := t.Ledger.Load()
	if err != nil {
		return false, fmt.Errorf("read the ledger: %w", err)
	}
	t.report.Round, t.report.Interrupted = t.Last, intent
	if err := t.observe(ctx, debts(settled, intent)); err != nil {
		return false, err
	}
	moment := t.moment()
	// the records have changed, and nobody would see it again
	urgent := t.report.ClockStep != 0 || len(t.report.Lost) > 0
	if moment == t.last && !urgent {
		return false, nil
	}
	t.last = moment
	if err := t.decide(ctx); err != nil {
		return false, err
	}
	if len(t.report.Steps) == 0 && !urgent {
		return false, nil
	}
	return true, t.carryOut(ctx, settled)
}

// quiet says that there is no need to look.
func (t *turn) quiet(ctx context.Context) (bool, error) {
	now := t.Clock.Elapsed()
	if t.Watcher == nil || t.looked == 0 || now-t.looked >= lookAnyway || t.alarm != 0 && now >= t.alarm {
		return false, nil
	}
	quiet, err := t.Watcher.Quiet(ctx)
	if err != nil {
		return false, fmt.Errorf("watch: %w", err)
	}
	return quiet, nil
}

// moment is all that may let a job start that could not: who waits, whether it may start, what each node has free, and
// who can be asked for what it was lent; and whose time limit comes. Two moments that differ have different numbers, as
// good as certainly.
func (t *turn) moment() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, tn := range t.scene.managed {
		if tn.State == Pending {
			fmt.Fprintf(&h, "%d %t %t;", tn.ID, t.mayStart(tn), tn.told())
		} else if tn.saves() {
			fmt.Fprintf(&h, "%d %t %t;", tn.ID, t.mustStay(tn, t.scene.at), tn.overstays(t.scene.at))
		}
		if at := t.expires(tn); t.Settings.Watched && !at.IsZero() && !at.After(t.scene.at) {
			fmt.Fprintf(&h, "%d %d;", tn.ID, t.tries())
		}
	}
	for _, tn := range t.scene.debtors {
		fmt.Fprintf(&h, "%d %d;", tn.ID, tn.standing(t.scene.at))
	}
	for _, tn := range t.scene.strangers {
		fmt.Fprintf(&h, "%d %v;", tn.ID, tn.Request.perNode())
	}
	for _, i := range t.scene.topology.managed {
		n := &t.scene.nodes[i]
		fmt.Fprintf(&h, "%s %v %t %s;", n.Name, n.Total.Minus(n.Allocated), n.Completing, n.Closed)
	}
	return h.Sum64()
}

// tries counts up now and then: what did not succeed about a time limit is tried again, as long as there is time.
func (t *turn) tries() int64 {
	if t.Settings.Shadow {
		return 0
	}
	return t.scene.at.Unix() / int64(tryAgain/time.Second)
}

// tryAgain is after how long.
const tryAgain = 5 * time.Second

var seed = maphash.MakeSeed()

// freeze lets every running job of the snapshot stay as it is.
func freeze(c *policy.Cluster) {
	for i := range c.Jobs {
		if c.Jobs[i].Running != nil {
			c.Jobs[i].Fixed, c.Jobs[i].Owed = true, false
		}
	}
}

// settle lets every running job of the snapshot stay as it is, but for what it was lent.
func settle(c *policy.Cluster) {
	for i := range c.Jobs {
		if c.Jobs[i].Running != nil {
			c.Jobs[i].Stays, c.Jobs[i].Owed = true, false
		}
	}
}

// smallSteps are the steps of a plan that a small round takes: all but renewals. Of these it takes the ones of armed
// jobs that are no longer to be armed, and the first for new jobs, up to a bound.
func smallSteps(s *scene, steps []Step) []Step {
	told := 0
	return slices.DeleteFunc(steps, func(step Step) bool {
		tn := s.find(step.Job)
		if step.Verb != Renew || !tn.Begin.After(s.at) { // one that is armed, and no longer to be so, must not wait
			return false
		}
		if tn.told() || told == newcomers {
			return true
		}
		told++
		return false
	})
}
