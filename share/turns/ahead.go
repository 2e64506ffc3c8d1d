package turns

import (
	"slices"
	"time"
)

// forever is longer than any gap or slice.
const forever = time.Duration(1) << 60

// historySize is how many gaps and steps are remembered per job, and waits per client.
const historySize = 64

// history holds the last durations of one kind, at most memory of them.
type history struct {
	last   []time.Duration // a ring: the oldest is at next once it is full
	next   int
	sorted []time.Duration // the same durations, ascending
}

// add adds a duration and drops the oldest if there are memory already.
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

// early is the quantile of a job's remaining gaps at which it is expected back: it returns earlier in one case in ten.
const early = 0.1

// remainingGap returns how much longer a job is expected to stay away after it has been away for the given time. It
// looks at the earlier gaps that were longer than that: nine in ten of them had at least that much left. A job that is
// away for longer than ever before is expected to stay away as long again, and for ever once it has been away for
// patience.
func remainingGap(gaps []time.Duration, away, patience time.Duration) time.Duration {
	longer, _ := slices.BinarySearch(gaps, away+1)
	if longer < len(gaps) {
		return quantile(gaps[longer:], early) - away
	}
	if away >= patience {
		return forever
	}
	return away
}

// fitsAt returns the first time away, at least the given one, from which a slice of length need fits into the expected
// rest of the gap. Beyond the longest gap the job is expected to stay away as long again, so the slice fits once it has
// been away for need; after patience it is not expected at all.
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

// expectedStep returns how long the client's next step will take: what it declared, but at least what was lately seen
// of its job; 0 if neither is known.
func (c *client) expectedStep() time.Duration { return max(c.declared, c.job.observedStep()) }

// gap returns how long all more important jobs are expected to leave the GPU alone from now on.
func (a *Arbiter) gap(c *client) time.Duration {
	least := forever
	for _, other := range a.expected(c) {
		least = min(least, remainingGap(other.gaps.sorted, a.now-other.idleSince, a.rules.Patience))
	}
	return least
}

// need returns how long a gap must be for a slice of one step of the client. A client whose step is unknown starts only
// when no more important job is expected any more.
func (a *Arbiter) need(c *client) time.Duration {
	if step := c.expectedStep(); step > 0 {
		return step
	}
	return a.rules.Patience
}

// earliestStart returns from when on a slice of one step of the client fits into the gaps of the more important jobs.
func (a *Arbiter) earliestStart(c *client) time.Duration {
	at, need := a.now, a.need(c)
	for _, other := range a.expected(c) {
		at = max(at, other.idleSince+fitsAt(other.gaps.sorted, a.now-other.idleSince, need, a.rules.Patience))
	}
	return at
}

// expectedDelay returns by how much a slice of length need, begun now, is expected to delay the job that is away: the
// mean over its gaps that were longer than the present one is already. If it is away for longer than ever, it may come
// back at once: the whole slice counts.
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

// isConceded reports whether all expected jobs can afford the delay that a slice of one step of c, which does not fit
// into their gaps, would cause now. It is cheapest right after they have released the GPU, so it is affordable then
// first. It is false without rules for it, for an unknown step, and while another client has the GPU.
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

// expected returns the jobs that may come back for the GPU and would go before this client. Jobs without any connected
// client are not expected.
func (a *Arbiter) expected(c *client) []*job {
	if !a.rules.LookAhead {
		return nil
	}
	var all []*job
	for _, other := range a.jobs {
		due := a.rules.Policy != Weighted || other.spent <= c.job.spent
		if other.active == 0 && other.hasReleased && rank(other.class) < rank(c.class) && due {
			all = append(all, other)
		}
	}
	return all
}
