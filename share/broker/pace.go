package broker

import "time"

// pace is how fast a connection is read, so that one client that says things for ever does not have a core of the node
// to itself. What it says beyond that waits in its own socket.
type pace struct {
	every time.Duration // for a message
	next  time.Time     // when the messages that were read are paid
}

// burst is how far a client may be ahead of its pace.
const burst = time.Second

func paceOf(messages int) pace { return pace{every: time.Second / time.Duration(max(1, messages))} }

// wait is how long the next message is to wait if it is read now.
func (p *pace) wait(now time.Time) time.Duration {
	if behind := now.Add(-burst); p.next.Before(behind) {
		p.next = behind
	}
	p.next = p.next.Add(p.every)
	return max(0, p.next.Sub(now))
}
