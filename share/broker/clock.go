package broker

import "time"

// clock is a GPU's. It stands still while somebody holds it, and nobody shall pay for that time with a lease that he
// has not begun, nor with the grace that he was given.
type clock struct {
	start time.Time
	stood time.Duration // for how long it has stood still before
	holds int           // by how many it is held
	since time.Time     // when the first of those began
}

// at is what it says at a time.
func (k *clock) at(now time.Time) time.Duration {
	if k.holds > 0 {
		now = k.since
	}
	return now.Sub(k.start) - k.stood
}

func (k *clock) hold(now time.Time) {
	if k.holds++; k.holds == 1 {
		k.since = now
	}
}

// release says whether it goes on.
func (k *clock) release(now time.Time) bool {
	if k.holds--; k.holds > 0 {
		return false
	}
	k.stood += now.Sub(k.since)
	return true
}
