package turns

import (
	"slices"
	"time"
)

// forever is longer than any gap or slice.
const forever = time.Duration(1) << 60

// historySize is how many of the last gaps and steps are kept per job, and waits per client.
const historySize = 64

// history holds the last historySize durations of one kind, from which the next one is predicted.
type history struct {
	last   []time.Duration // a ring: the oldest is at next once it is full
	next   int
	sorted []time.Duration // the same durations, ascending
}

// add adds a duration, and drops the oldest if the history is full.
func (r *history) add(d time.Duration) {
	if len(r.last) < historySize {
		r.last = append(r.last, d)
	} else {
		at, _ := slices.BinarySearch(r.sorted, r.last[r.next])
		r.sorted = slices.Delete(r.sorted, at, at+1)
		r.last[r.next] = d
		r.next = (r.next + 1) % historySize
	}
	at, _ := slices.BinarySearch(r.sorted, d)
	r.sorted = slices.Insert(r.sorted, at, d)
}

// quantile returns the q-quantile of durations in ascending order; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(float64(q*float64(len(sorted)-1))+0.5)]
}

// earlyQuantile is the quantile of a job's remaining gaps that counts as the expected one: the job returns earlier in
// one case in ten.
const earlyQuantile = 0.1

// remainingGap returns how much longer a job is expected to stay away after it has been away for the given time. gaps
// are its earlier gaps, ascending. Of those that were longer than away, nine in ten had at least the returned time
// left, so the job seldom comes back earlier. If none was longer, the job is expected to stay away for as long again as
// it has been away so far. Once it has been away for patience (Rules.Patience), too, it is not expected back: forever.
func remainingGap(gaps []time.Duration, away, patience time.Duration) time.Duration {
	longer, _ := slices.BinarySearch(gaps, away+1)
	if longer < len(gaps) {
		return quantile(gaps[longer:], earlyQuantile) - away
	}
	if away >= patience {
		return forever
	}
	return away
}

// fitsAt returns how long a job must have been away until a slice of length need fits into the expected rest of its
// gap, so that the arbiter wakes then. The result is away if the slice fits now, and otherwise more.
//
// While a gap lasts, its expected rest (remainingGap) shrinks, and grows only at the moments at which the job's earlier
// gaps (ascending) ended. So only these moments are tried. After the longest earlier gap the expected rest equals the
// time away so far, so the slice fits once the job has been away for need. Once it has been away for patience, the job
// is not expected back and every slice fits.
func fitsAt(gaps []time.Duration, away, need, patience time.Duration) time.Duration {
	if need <= remainingGap(gaps, away, patience) {
		return away
	}
	longer, _ := slices.BinarySearch(gaps, away)
	for _, gap := range gaps[longer:] {
		if need <= remainingGap(gaps, gap, patience) {
			return gap
		}
	}
	return max(away, min(need, patience))
}

// expectedStep returns how long the client's next step will take; 0 if that is not known. It is what the client
// declared, but at least what was lately seen of its job, since a short declared step would get it slices that do not
// fit.
func (c *client) expectedStep() time.Duration { return max(c.declared, c.job.observedStep()) }

// gap returns for how long all jobs that would go before the client are expected to leave the GPU alone from now on;
// forever if no such job is expected back. A slice must fit into that time, or the client would delay these jobs.
func (a *Arbiter) gap(c *client) time.Duration {
	least := forever
	for _, other := range a.expected(c) {
		least = min(least, remainingGap(other.gaps.sorted, a.now-other.idleSince, a.rules.Patience))
	}
	return least
}

// neededGap returns how long a gap must be for a slice of one step of the client. A client whose step is unknown needs
// a gap of Rules.Patience: it could delay a more important job by any time.
func (a *Arbiter) neededGap(c *client) time.Duration {
	if step := c.expectedStep(); step > 0 {
		return step
	}
	return a.rules.Patience
}

// earliestStart returns the first time at which a slice of one step of the client fits into the gaps of the more
// important jobs, if none of them comes back before. It is the present time if no such job is expected back.
func (a *Arbiter) earliestStart(c *client) time.Duration {
	at, need := a.now, a.neededGap(c)
	for _, other := range a.expected(c) {
		at = max(at, other.idleSince+fitsAt(other.gaps.sorted, a.now-other.idleSince, need, a.rules.Patience))
	}
	return at
}

// expectedDelay returns by how much a slice of length need, begun now, is expected to delay a job that has been away
// for the given time: the mean over its earlier gaps (ascending) that were longer than that. If it is away for longer
// than ever, it may come back at once, so the delay is the whole slice.
func expectedDelay(gaps []time.Duration, away, need time.Duration) time.Duration {
	longer, _ := slices.BinarySearch(gaps, away+1)
	if longer == len(gaps) {
		return need
	}
	var sum time.Duration
	for _, gap := range gaps[longer:] {
		sum += max(0, need-(gap-away))
	}
	return sum / time.Duration(len(gaps)-longer)
}

// isConceded reports whether a client may get a slice of one step now although it does not fit into the gaps of the
// more important jobs. Each of these jobs must have at least the expected delay left in its budget for such delays
// (Rules.Concede). A budget suffices most often right after its job released the GPU, when the expected delay is
// shortest. The result is false if the rules give no such budget, if the client's step is unknown, and while a client
// has the GPU.
func (a *Arbiter) isConceded(c *client) bool {
	need := c.expectedStep()
	if a.rules.Concede == 0 || need == 0 || a.holder != nil {
		return false
	}
	for _, other := range a.expected(c) {
		if expectedDelay(other.gaps.sorted, a.now-other.idleSince, need).Seconds() > other.concedeBudget {
			return false
		}
	}
	return true
}

// expected returns the jobs that do not want the GPU now, may come back for it, and would then go before this client:
// those of a higher class, under Weighted only if they have had no more weighted GPU time. Left out are jobs that have
// not released the GPU yet, since they have no gap to go by, and jobs without a connected client. Without LookAhead it
// returns none, so that nothing is kept free for them.
func (a *Arbiter) expected(c *client) []*job {
	if !a.rules.LookAhead {
		return nil
	}
	var all []*job
	for _, other := range a.jobs {
		due := a.rules.Policy != Weighted || other.weightedTime <= c.job.weightedTime
		if other.active == 0 && other.hasReleased && rank(other.class) < rank(c.class) && due {
			all = append(all, other)
		}
	}
	return all
}
