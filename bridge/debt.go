package bridge

import (
	"cmp"
	"slices"
	"time"
)

// A job that was ever sized, pinned or leased is a debt, until Slurm shows its user's own request again and no lease,
// or the job is gone. Its record is that debt: it is written down before the first change, and dropped only for what an
// observation shows, never for what a round has done or meant to do. So whatever fails, dies or is taken back on the
// way, the next round finds the debt where it was.
//
// How a round stands to a job is worked out anew from each observation and the record; there is no other state:
//
//	           our directive, a managed partition
//	stranger ────────────────────────────────▶ managed
//	    ▲                                      │     ▲
//	    │ own request shown,                   │     │ held, shape ⇄ freed
//	    │ or gone                  word or     ▼     ▼
//	    └──────────── returning ◀─ partition ─ deferred
//	                      ▲         lost          │
//	                      └───────────────────────┘ it waits, and nobody holds it
//
// A job with our directive that no plan can decide on, for its shape say, is handed back as well, with its record made
// from the gate's annotation: it was accepted, and would wait out a lease for nothing. So is one that has no place
// (noplace.go).
type standing int

const (
	stranger standing = iota // Slurm's alone: nothing of ours is on it
	managed                  // the plan decides on it
	// with our directive or a debt, and not to be touched now: it is held, or runs without our directive, …
	deferred
	// not ours any more, or not ours to plan, and waits with what we or the gate wrote: to be handed back
	returning
)

// standing is how a round stands to the job at a moment. Its record is nil where there is no debt.
func (t *managedJob) standing(now time.Time) standing {
	switch {
	case t.ours && t.alone == "":
		return managed
	case t.ours && t.parked(now):
		return returning
	case t.ours:
		return deferred
	case t.record == nil, t.State == Running && sameRequest(&t.Request, &t.record.Own):
		return stranger
	case t.State != Pending || t.Held || t.Shape != "":
		// what runs may come back with the size and the nodes that it has
		return deferred
	case t.free(now):
		return stranger
	}
	return returning
}

// parked says that a job with our directive, on which no plan decides, waits for a lease or with another size than its
// user's.
func (t *managedJob) parked(now time.Time) bool {
	if t.State != Pending || t.Held {
		return false
	}
	// one that says that it was handed back, with its own request, is Slurm's: a later begin is somebody else's will
	if t.record != nil {
		return t.annotated().Why != handedBack || !sameRequest(&t.Request, &t.record.Own)
	}
	return t.annotated().V != 0 && t.Begin.After(later(fromUnix(t.annotated().Begin), now))
}

// free says that a job is Slurm's to start as its user asked for it, and that it says so.
func (t *managedJob) free(now time.Time) bool {
	return settled(t.Job, now) && sameRequest(&t.Request, &t.record.Own) &&
		!t.Begin.After(later(t.record.NotBefore, now)) &&
		t.annotated().Why == handedBack
}

// handBack is the step that hands a waiting job back to Slurm, as far as that goes now. Before its last run has been
// cleaned up Slurm would put its own penalty in place of a begin time that is over, or kill a job that starts this
// early: until then it has a lease. nil: there is nothing to do.
func (t *managedJob) handBack(now time.Time, why string) *Step {
	switch {
	case !settled(t.Job, now):
		if sameRequest(&t.Request, &t.record.Own) && t.Begin.After(now) {
			return nil
		}
		return &Step{Job: t.ID, Verb: Restore, Why: "its last run is still being cleaned up"}
	case t.free(now):
		return nil
	}
	return &Step{Job: t.ID, Verb: Release, Why: why, Cause: t.handBackCause()}
}

// cursor walks records beside a list of jobs that ascends as they do.
type cursor struct{ rest Records }

// of is the record of a job; nil where there is none. Jobs are asked for in ascending order.
func (c *cursor) of(job int) *Record {
	for len(c.rest) > 0 && c.rest[0].Job < job {
		c.rest = c.rest[1:]
	}
	if len(c.rest) > 0 && c.rest[0].Job == job {
		return c.rest[0]
	}
	return nil
}

// With adds the records of jobs that have none among these.
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

func byJob(a, b *Record) int { return cmp.Compare(a.Job, b.Job) }

// records are the debts that stand after this round: of the jobs that are managed, deferred or returning. A job that
// only a rule speaks for, in the shadow, owes nothing.
func (t *turn) records() Records {
	records := make(Records, 0, len(t.scene.managed)+len(t.scene.debtors))
	for _, list := range [][]*managedJob{t.scene.managed, t.scene.debtors} {
		for _, tn := range list {
			if tn.matched && tn.ours {
				continue
			}
			records = append(records, tn.record)
		}
	}
	if len(t.scene.debtors) > 0 {
		slices.SortFunc(records, byJob)
	}
	return records
}

// incurred are the debts that no settled round has written down: those which this round is about to make, and those of
// a round that died, which an intent written over the last one would forget.
func (t *turn) incurred(settled Records) Records {
	var debts Records
	on := cursor{settled}
	for _, r := range t.records() {
		if on.of(r.Job) == nil {
			debts = append(debts, r)
		}
	}
	return debts
}

// debts are all that the ledger knows of: those of the last round that settled, and those that one which died had
// written down before it made its first changes.
func debts(settled Records, intent *Intent) Records {
	if intent == nil || len(intent.Debts) == 0 {
		return settled
	}
	return settled.With(intent.Debts)
}
