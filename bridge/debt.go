package bridge

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// treatment is how a round treats a job. It is worked out anew from each observation and the record; there is no other
// state:
//
//	           our directive, a managed partition
//	untracked ───────────────────────────────▶ managed
//	    ▲                                      │     ▲
//	    │ own request shown,                   │     │ held, shape ⇄ freed
//	    │ or gone               directive or   ▼     ▼
//	    └─────────── toHandBack ◀─ partition ─ deferred
//	                      ▲         lost          │
//	                      └───────────────────────┘ it waits and is not held
//
// A job that was ever sized, pinned or leased is a debt until Slurm shows its user's own request and no lease again, or
// the job is gone. Its record is that debt. It is written before the first change, and dropped only for what an
// observation shows, never for what a round did or meant to do. So after any failure the next round still finds the
// debt.
//
// A job with our directive on which no plan can decide, because of its shape for example, is handed back, too, with a
// record made from the gate's annotation; otherwise it would wait until its lease ends for nothing. The same holds for
// a job that has no place (noplace.go).
type treatment int

const (
	untracked treatment = iota // it is left to Slurm and carries nothing of ours
	managed                    // the plan decides on it
	// deferred jobs have our directive or a debt, but must not be touched now: held, running without our directive, …
	deferred
	// toHandBack jobs are no longer managed, or cannot be planned, and wait with what we or the gate wrote: they are to
	// be handed back.
	toHandBack
)

// treatmentAt is how a round treats the job at now, the time of the observation. The job's record must have been looked
// up before; no record means that there is no debt. A job that is no longer ours and is running counts as untracked if
// it has its user's own request: nothing of ours would come back to the queue with it.
func (t *managedJob) treatmentAt(now time.Time) treatment {
	switch {
	case t.isOurs && t.untouchedBecause == "":
		return managed
	case t.isOurs && t.needsHandBack(now):
		return toHandBack
	case t.isOurs:
		return deferred
	case t.record == nil, t.State == slurm.Running && t.Request.Equal(&t.record.Own):
		return untracked
	case t.State != slurm.Pending || t.Held || t.Shape != "":
		// a running job may come back to the queue with its present size and nodes
		return deferred
	case t.isReleased(now):
		return untracked
	}
	return toHandBack
}

// needsHandBack says whether a job with our directive, on which no plan decides, waits under a lease or with a size
// that is not its user's. It would otherwise wait for nothing until its lease ends, so it is handed back. It is false
// for held jobs, which Slurm does not start anyway.
func (t *managedJob) needsHandBack(now time.Time) bool {
	if t.State != slurm.Pending || t.Held {
		return false
	}
	// A job that says that it was handed back, and has its user's own request, is Slurm's. A later begin time is the
	// will of its user or an administrator.
	if t.record != nil {
		return t.parsedAnnotation().Why != handedBack || !t.Request.Equal(&t.record.Own)
	}
	// Without a record, only the gate or a daemon with another ledger can have given it a lease.
	return t.parsedAnnotation().V != 0 &&
		(t.Lease != 0 || t.Begin.After(later(fromUnix(t.parsedAnnotation().Begin), now)))
}

// isReleased says whether a job has been handed back: it is Slurm's to start as its user asked, and its annotation says
// so. Then its debt is paid. The job must have a record.
func (t *managedJob) isReleased(now time.Time) bool {
	return lastRunIsOverBy(t.Job, now) && t.Request.Equal(&t.record.Own) &&
		t.Lease == 0 && !t.Begin.After(later(t.record.NotBefore, now)) &&
		t.parsedAnnotation().Why == handedBack
}

// handBackStep is the step that hands a waiting job back to Slurm as far as possible at now; nil: nothing is to be
// done. While the job's last run is still being cleaned up, the step is Restore, which gives the user's own request and
// a lease. Without a lease Slurm would put its own requeue penalty in place of a past begin time, or kill a job that
// starts during the cleanup.
func (t *managedJob) handBackStep(now time.Time, why string) *Step {
	switch {
	case !lastRunIsOverBy(t.Job, now):
		if t.Request.Equal(&t.record.Own) && t.WaitsAt(now) {
			return nil
		}
		return &Step{Job: t.ID, Verb: Restore, Why: "its last run is still being cleaned up"}
	case t.isReleased(now):
		return nil
	}
	return &Step{Job: t.ID, Verb: Release, Why: why, Cause: t.handBackCause()}
}

// recordCursor finds records for a list of jobs in ascending order of ID, in one pass over the records.
type recordCursor struct{ rest Records }

// recordOf is the record of a job; nil if there is none. Jobs must be asked for in ascending order, since records
// before the last one asked for are dropped.
func (c *recordCursor) recordOf(job int) *Record {
	for len(c.rest) > 0 && c.rest[0].Job < job {
		c.rest = c.rest[1:]
	}
	if len(c.rest) > 0 && c.rest[0].Job == job {
		return c.rest[0]
	}
	return nil
}

// With is rs and those records of others whose jobs have none in rs, ascending in job. rs itself is not changed.
func (rs Records) With(others Records) Records {
	all := slices.Clone(rs)
	for _, r := range others {
		if rs.Of(r.Job) == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, byJob)
	return all
}

// byJob orders records by job ID.
func byJob(a, b *Record) int { return cmp.Compare(a.Job, b.Job) }

// records are the records to be stored after this round, ascending in job: those of managed jobs, and the debts that
// remain of jobs that are not managed. A job that is managed only by a rule in shadow mode is left out: nothing was
// changed in it, so it has no debt.
func (t *activeRound) records() Records {
	records := make(Records, 0, len(t.observation.managed)+len(t.observation.debtors))
	for _, list := range [][]*managedJob{t.observation.managed, t.observation.debtors} {
		for _, tn := range list {
			if tn.managedByRule && tn.isOurs {
				continue
			}
			records = append(records, tn.record)
		}
	}
	if len(t.observation.debtors) > 0 {
		slices.SortFunc(records, byJob)
	}
	return records
}

// newDebts are the records that are not in settled, the records of the last settled round. They are stored with the
// intent before the first change. Among them are those of a round that died: they are only in its intent, which the new
// one replaces.
func (t *activeRound) newDebts(settled Records) Records {
	var debts Records
	on := recordCursor{settled}
	for _, r := range t.records() {
		if on.recordOf(r.Job) == nil {
			debts = append(debts, r)
		}
	}
	return debts
}

// debts are all debts in the ledger: those of the last settled round, and those that a round recorded in its intent
// before it died.
func debts(settled Records, intent *Intent) Records {
	if intent == nil || len(intent.Debts) == 0 {
		return settled
	}
	return settled.With(intent.Debts)
}
