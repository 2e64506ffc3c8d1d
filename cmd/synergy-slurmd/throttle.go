package main

import (
	"sync"
	"time"
)

// throttle finds out whether slurmctld limits our requests. With rl_enable, a request that comes too soon is told to
// back off; slurmrestd then sleeps for a second and asks again, so nothing fails. It shows in that from some moment on
// every second update takes a second longer. It may be used by several goroutines.
type throttle struct {
	mu   sync.Mutex
	last []bool // whether each of the last updates was late by such a second
	said bool   // it was reported, and has not ended since
}

// throttleLook is how many updates are looked at, throttleLate how many of them must be late, and late means from
// backOff to backOffEnds. A slurmctld that is merely busy is late by other times than a second.
const (
	throttleLook = 20
	throttleLate = 8
	backOff      = time.Second
	backOffEnds  = 1500 * time.Millisecond
)

// update notes how long an update took. It returns true if the limit should be reported now: once, and again only after
// it has ended. It has ended when none of the last updates was late.
func (t *throttle) update(took time.Duration) (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, took >= backOff && took < backOffEnds)
	if len(t.last) > throttleLook {
		t.last = t.last[1:]
	}
	late := 0
	for _, was := range t.last {
		if was {
			late++
		}
	}
	tell = late >= throttleLate && !t.said
	t.said = tell || t.said && late > 0
	return tell
}
