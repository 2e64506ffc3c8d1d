package main

import (
	"sync"
	"time"
)

// throttle finds out whether slurmctld bounds us. With rl_enable a request that comes too soon is told to back off;
// slurmrestd then sleeps for a second and asks again, so nothing fails: from some moment on every second update takes a
// second more than it should. It may be told of requests from several goroutines.
type throttle struct {
	mu   sync.Mutex
	last []bool // whether each of the last updates took such a second
	said bool   // it was told, and has not ended since
}

// How many updates are looked at, how many of them must be late, and how late that is. A slurmctld that is merely busy
// answers late by any time and not by a second.
const (
	throttleLook = 20
	throttleLate = 8
	backOff      = time.Second
	backOffEnds  = 1500 * time.Millisecond
)

// update notes how long an update took. It says whether that is the moment to tell: once, and again only after it had
// ended.
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
