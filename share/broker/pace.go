package broker

import (
	"sync"
	"time"
)

// pace limits how fast the messages of a job are read, so that a job that sends without end does not use a core of the
// node, over however many connections. It also limits how fast the connections of a user are read, for users who are
// refused again and again. What is sent beyond that waits in the client's sockets.
//
// Each message takes the next free moment, and its connection is not read before that moment has come. So connections
// that send without end are read in turn. A connection that sends little is read at once, whatever others of its job
// send, and then waits behind at most one message of each.
type pace struct {
	every time.Duration // for one message

	mu   sync.Mutex
	next time.Time // when the connection of the last message may be read again
}

// burst is how much time a job that sent little can have saved up, to be read faster for a while, and the longest wait
// after one message.
const burst = time.Second

// newPace returns a pace of so many messages per second.
func newPace(messages int) *pace { return &pace{every: time.Second / time.Duration(max(1, messages))} }

// wait counts a message that was read now, and returns for how long its connection must not be read; 0: read on at
// once.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if behind := now.Add(-burst); p.next.Before(behind) {
		p.next = behind
	}
	p.next = p.next.Add(p.every)
	if most := now.Add(burst); p.next.After(most) { // bounds what a user who connects again and again can use up
		p.next = most
	}
	return max(0, p.next.Sub(now))
}

// isUnused reports whether the pace is as if nothing had been sent yet, so that it can be dropped and made anew.
func (p *pace) isUnused(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.next.After(now.Add(-burst))
}
