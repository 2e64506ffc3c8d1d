package turns

import (
	"slices"
	"time"
)

// forever is longer than any gap or turn.
const forever = time.Duration(1) << 60

// memory is how many gaps and steps of a job are remembered, and waits of a client.
const memory = 64

// recent are the last durations of one kind.
type recent struct {
	last   []time.Duration // in the order in which they came, from next on
	next   int
	sorted []time.Duration // the same, in ascending order
}

func (r *recent) add(d time.Duration) {
	if len(r.last) < memory {
		r.last = append(r.last, d)
	} else {
		at, _ := slices.BinarySearch(r.sorted, r.last[r.next])
		r.sorted = slices.Delete(r.sorted, at, at+1)
		r.last[r.next] = d
		r.next = (r.next + 1) % memory
	}
	at, _ := slices.BinarySearch(r.sorted, d)
	r.sorted = slices.Insert(r.sorted, at, d)
}

// quantile is of durations in ascending order; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(float64(q*float64(len(sorted)-1))+0.5)]
}

// early is the part of a client's gaps that may be shorter than it is expected to stay away.
const early = 0.1

// rest is how long a client that has been away for so long is expected to stay away still. Of the gaps that it has left
// before, those count that were longer than this one is already: nine in ten of them had that much left or more. One
// that is away for longer than ever is expected to stay away as long again, and after patience for ever.
func rest(gaps []time.Duration, away, patience time.Duration) time.Duration {
	longer, _ := slices.BinarySearch(gaps, away+1)
	if longer < len(gaps) {
		return quantile(gaps[longer:], early) - away
	}
	if away >= patience {
		return forever
	}
	return away
}

// fitsAt is the first moment, as time away, not before the given, at which need is not more than the rest.
func fitsAt(gaps []time.Duration, away, need, patience time.Duration) time.Duration {
	if need <= rest(gaps, away, patience) {
		return away
	}
	longer, _ := slices.BinarySearch(gaps, away)
	for _, gap := range gaps[longer:] {
		if need <= rest(gaps, gap, patience) {
			return gap
		}
	}
	return max(away, min(need, patience))
}

// step is how long one step of the client will take: what it said, and no less than was seen of its job lately; 0 if
// neither is known.
func (c *client) step() time.Duration { return max(c.declared, c.job.seen()) }

// gap is how long those who are more important than the client will leave the GPU alone from now on.
func (a *Arbiter) gap(c *client) time.Duration {
	least := forever
	for _, other := range a.expected(c) {
		least = min(least, rest(other.gaps.sorted, a.now-other.left, a.rules.Patience))
	}
	return least
}

// need is how long a gap has to be for a turn of one step. If it is not known how long it would keep the others
// waiting, it is begun when none of them is expected any more.
func (a *Arbiter) need(c *client) time.Duration {
	if step := c.step(); step > 0 {
		return step
	}
	return a.rules.Patience
}

// fits says from when on a turn of one step of the client fits into the gap that the more important leave.
func (a *Arbiter) fits(c *client) time.Duration {
	at, need := a.now, a.need(c)
	for _, other := range a.expected(c) {
		at = max(at, other.left+fitsAt(other.gaps.sorted, a.now-other.left, need, a.rules.Patience))
	}
	return at
}

// costs is by how much a turn of the given length, begun now, will keep a client waiting: the mean over its gaps that
// were longer than this one is already.
func costs(gaps []time.Duration, away, need time.Duration) time.Duration {
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

// conceded says whether those who are expected can afford that the client has a turn of one step now, which does not
// fit. It costs them least, and so is affordable first, when they have just let go.
func (a *Arbiter) conceded(c *client) bool {
	need := c.step()
	if a.rules.Concede == 0 || need == 0 || a.holder != nil {
		return false
	}
	for _, other := range a.expected(c) {
		if costs(other.gaps.sorted, a.now-other.left, need).Seconds() > other.conceded {
			return false
		}
	}
	return true
}

// expected are the jobs that may come back for the GPU and would go before this client. One that has no client any more
// is gone.
func (a *Arbiter) expected(c *client) []*job {
	if !a.rules.LookAhead {
		return nil
	}
	var all []*job
	for _, other := range a.jobs {
		due := a.rules.Policy != Weighted || other.spent <= c.job.spent
		if other.active == 0 && other.away && rank(other.class) < rank(c.class) && due {
			all = append(all, other)
		}
	}
	return all
}
