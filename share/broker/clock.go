package broker

import "time"

// clock is the time of a GPU's arbiter. It stands still while a job is being stopped, so that this time counts neither
// against a lease that has not begun nor against a grace.
type clock struct {
	start     time.Time
	totalHeld time.Duration // how long it has stood still in earlier holds
	holds     int           // how many holds are in force
	since     time.Time     // when the first of those began
}

// at returns the clock's time at a wall time, from the broker's start on.
func (k *clock) at(now time.Time) time.Duration {
	if k.holds > 0 {
		now = k.since
	}
	return now.Sub(k.start) - k.totalHeld
}

// hold stops the clock. Each hold needs a release of its own.
func (k *clock) hold(now time.Time) {
	if k.holds++; k.holds == 1 {
		k.since = now
	}
}

// release ends one hold, and reports whether the clock goes on: false means that another hold is still in force.
func (k *clock) release(now time.Time) bool {
	if k.holds--; k.holds > 0 {
		return false
	}
	k.totalHeld += now.Sub(k.since)
	return true
}
