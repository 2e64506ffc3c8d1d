package broker

import (
	"sync"
	"time"
)

// pace is how fast a job is read, so that one that says things for ever does not have a core of the node to itself,
// over however many connections; and how fast the connections of a user are heard, so that neither has who is refused
// again and again. What is said beyond that waits in its own sockets.
//
// Each message takes the next place in time, and who said it is not read before that has come. So connections that
// never stop are read in turn; and of one that says little the first is read at once, whatever the others of its job
// say, and waits for a place behind at most one of each.
type pace struct {
	every time.Duration // for a message

	mu   sync.Mutex
	next time.Time // when the messages that were read are paid
}

// burst is how far a job may be ahead of its pace, and how far behind it can fall.
const burst = time.Second

func paceOf(messages int) *pace { return &pace{every: time.Second / time.Duration(max(1, messages))} }

// wait is how long the one that said this message is not to be read, if that was read now.
func (p *pace) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if behind := now.Add(-burst); p.next.Before(behind) {
		p.next = behind
	}
	p.next = p.next.Add(p.every)
	if most := now.Add(burst); p.next.After(most) { // who connects again and again takes places and keeps none
		p.next = most
	}
	return max(0, p.next.Sub(now))
}

// paid says whether it is as if nothing had been said yet.
func (p *pace) paid(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.next.After(now.Add(-burst))
}
