// Package client lets a program take turns on a GPU: it asks the node's broker before a step and says when the step is
// over. It decides nothing about turns and never stops the program for long because of the broker: if there is none, or
// it does not answer or refuses, the program runs on as if it were alone. Only a refusal of the first message (HELLO),
// for too much memory, ends the program. The clients in Python (synergy.turn) and C (contrib/share) behave in the same
// way.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// Times that the clients in all languages use.
const (
	Idle             = 2 * time.Millisecond // after a step without another one, the GPU is released
	firstRetry       = 100 * time.Millisecond
	longestRetry     = 5 * time.Second
	answerWithin     = time.Second      // a broker that takes longer counts as away
	livenessInterval = 10 * time.Second // how often a broker that grants nothing is asked whether it lives
)

// Introduction is what a client says of itself. All of it is an estimate; its class is what the daemon wrote.
type Introduction struct {
	Kind   string        // train, serve, other
	Step   time.Duration // how long it usually uses the GPU; 0: unknown
	Memory gres.Memory   // GPU memory that it will use, MiB; 0: not said
}

// Refused is the broker's refusal of a client. Only one ends the program: if its first message says that it will use
// more GPU memory than it may. Running on would end in a failed allocation, of this job or another. After any other
// refusal the program runs without the broker.
type Refused struct {
	Code string
	Text string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the broker refuses: %s: %.200q", r.Code, r.Text)
}

// phase is the state of a client towards the broker.
type phase int

const (
	phaseIdle     phase = iota // it has not asked, or there is no broker
	phaseAsking                // it asked, and the program waits for the answer
	phaseStepping              // it has the GPU and uses it
	phaseHolding               // it has the GPU, between two steps
)

// Client is a program's connection to the broker of its GPU. Its methods may be called from any goroutine; the steps of
// one client exclude each other.
type Client struct {
	path       string        // of the broker's socket
	as         Introduction  // what it says of itself
	stepSlot   chan struct{} // full while a step is under way, so that a second one waits
	firstTry   chan struct{} // closed after the first attempt to reach the broker
	stop       context.CancelFunc
	goroutines sync.WaitGroup // its goroutines

	mu        sync.Mutex
	changed   chan struct{} // closed when the phase changes from asking
	phase     phase
	conn      net.Conn // nil: there is no broker
	refusal   *Refused // of its first message, for too much memory
	seq       uint64
	lease     time.Time     // when the lease ends
	yield     bool          // the broker wants the GPU back
	used      time.Duration // GPU time under this grant
	usualStep time.Duration // running mean of its step lengths
	idleTimer *time.Timer   // runs while the phase is phaseHolding
	heldSince time.Time     // when phaseHolding began
	count     Count
}

// Count is what a client has done so far.
type Count struct {
	Steps     int64
	Grants    int64         // by the broker; one may cover many steps
	Waited    time.Duration // for grants
	Unmanaged int64         // steps without a broker
}

// Open introduces the program to the broker at a socket and waits at most a second for the answer. The only errors are
// a *Refused, for too much memory, and that of the context; without a broker the client works all the same.
func Open(ctx context.Context, path string, as Introduction) (*Client, error) {
	life, stop := context.WithCancel(context.Background())
	c := &Client{path: path, as: as, stepSlot: make(chan struct{}, 1), firstTry: make(chan struct{}), stop: stop,
		changed: make(chan struct{}), usualStep: as.Step}
	c.idleTimer = time.AfterFunc(time.Hour, c.giveBackIdle)
	c.idleTimer.Stop()
	c.goroutines.Go(func() { c.keepConnected(life) })
	select {
	case <-c.firstTry:
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil {
		stop()
		return nil, c.refusal
	}
	return c, nil
}

// Close releases the GPU if the client has it and ends the connection.
func (c *Client) Close() {
	c.stop()
	c.mu.Lock()
	c.idleTimer.Stop()
	if c.conn != nil {
		_ = c.send(wire.Message{Type: wire.Bye})
	}
	c.dropConn()
	c.mu.Unlock()
	c.goroutines.Wait()
}

// Count returns what the client has done so far.
func (c *Client) Count() Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Turn waits until the program may use the GPU for a step of about the estimate; 0: as long as its steps usually are.
// The program calls done when the GPU has finished the step, since what is still queued delays the next client. A
// goroutine that calls Turn again before done waits for itself for ever. The error is that of the context.
func (c *Client) Turn(ctx context.Context, estimate time.Duration) (done func(), err error) {
	select {
	case c.stepSlot <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := c.beginStep(ctx, estimate); err != nil {
		<-c.stepSlot
		return nil, err
	}
	began := time.Now()
	return sync.OnceFunc(func() {
		c.endStep(time.Since(began))
		<-c.stepSlot
	}), nil
}

// beginStep gets the GPU for a step: it goes on with the present grant, which saves asking the broker, or releases it
// and asks anew. A grant is used again only while its lease lasts and the broker does not want the GPU back. The error
// is that of the context.
func (c *Client) beginStep(ctx context.Context, estimate time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleTimer.Stop()
	if estimate <= 0 {
		estimate = c.usualStep
	}
	c.count.Steps++
	if c.phase == phaseHolding {
		if !c.yield && time.Until(c.lease) > 0 {
			c.phase = phaseStepping
			return nil
		}
		c.release()
	}
	began := time.Now()
	err := c.waitForGrant(ctx, estimate)
	c.count.Waited += time.Since(began)
	return err
}

// waitForGrant asks for the GPU and returns nil when it is granted or there is no broker. In the latter case the
// program runs its step all the same, which counts as unmanaged. If the context is done first, the request is withdrawn
// and its error returned. The lock is held, but not while it waits.
func (c *Client) waitForGrant(ctx context.Context, estimate time.Duration) error {
	c.ask(estimate)
	asked := time.Now()
	for c.phase == phaseAsking {
		if !c.waitUnlocked(ctx) {
			c.withdrawRequest()
			return ctx.Err()
		}
		if c.phase == phaseAsking && time.Since(asked) >= livenessInterval {
			c.checkLiveness()
			asked = time.Now()
		}
	}
	if c.phase == phaseIdle {
		c.count.Unmanaged++
	}
	return nil
}

// ask sends a request for a step of about the estimate. The phase is then phaseAsking; it stays phaseIdle, in which the
// program runs on by itself, if there is no broker or it cannot be reached. The lock is held.
func (c *Client) ask(estimate time.Duration) {
	if c.conn == nil {
		return
	}
	c.seq++
	c.phase, c.used = phaseAsking, 0
	if err := c.send(wire.Message{Type: wire.Ask, Seq: c.seq, Estimate: bounded(estimate).Microseconds()}); err != nil {
		c.dropConn()
	}
}

// withdrawRequest withdraws the request of a step that is no longer wanted. If the grant has come or is under way, the
// GPU is thereby given back, too. If the connection was dropped meanwhile there is nothing to withdraw.
func (c *Client) withdrawRequest() {
	if c.phase == phaseAsking || c.phase == phaseStepping {
		c.release()
	}
}

// waitUnlocked waits, without the lock, until the phase has changed or livenessInterval has passed, when it is time to
// check whether the broker lives. It returns false when the context is done.
func (c *Client) waitUnlocked(ctx context.Context) bool {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	patience := time.NewTimer(livenessInterval)
	defer patience.Stop()
	select {
	case <-changed:
	case <-patience.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// checkLiveness checks on a separate connection whether the broker lives, and drops the connection to one that does
// not, so that the program runs on: a stopped process keeps its sockets open. Any answer will do, also a refusal. The
// lock is given up meanwhile.
func (c *Client) checkLiveness() {
	doubted := c.conn
	c.mu.Unlock()
	conn, _, err := connect(c.path, Introduction{Kind: "other"})
	if err == nil {
		_ = conn.Close()
	}
	c.mu.Lock()
	var refused *Refused
	if err != nil && !errors.As(err, &refused) && c.conn == doubted { // otherwise it is another broker's by now
		c.dropConn()
	}
}

// endStep ends a step that has used the GPU for the given time. It releases the GPU if the broker wants it back or the
// lease has ended. Otherwise it keeps the GPU for Idle, as a next step often follows at once and needs no new request
// then. The usual step is a running mean, in which the new step has a weight of 1/8. A step without a grant has nothing
// to release.
func (c *Client) endStep(used time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usualStep == 0 {
		c.usualStep = used
	}
	c.usualStep += (used - c.usualStep) / 8
	if c.phase != phaseStepping {
		return
	}
	c.used += used
	c.phase = phaseHolding
	c.heldSince = time.Now()
	if rest := time.Until(c.lease); c.yield || rest <= 0 {
		c.release()
	} else {
		c.idleTimer.Reset(min(Idle, rest))
	}
}

// giveBackIdle releases the GPU if no step has followed the last one for Idle, or the lease has ended. The idle timer
// calls it. It may do so although a new step has just stopped the timer. Then phase or heldSince shows that, and
// nothing is done.
func (c *Client) giveBackIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == phaseHolding && (time.Since(c.heldSince) >= Idle || !time.Now().Before(c.lease)) {
		c.release()
	}
}

// release gives the GPU back and reports how long it was used under the grant. The lock is held.
func (c *Client) release() {
	c.phase = phaseIdle
	if err := c.send(wire.Message{Type: wire.Release, Seq: c.seq, Used: bounded(c.used).Microseconds()}); err != nil {
		c.dropConn()
	}
}

// dropConn drops the connection to the broker, so that a waiting program runs on without it. keepConnected then makes a
// new one. The lock is held.
func (c *Client) dropConn() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	c.setPhase(phaseIdle)
}

// setPhase changes the phase and wakes the steps that wait for a change. The lock is held.
func (c *Client) setPhase(p phase) {
	c.phase = p
	close(c.changed)
	c.changed = make(chan struct{})
}

// handleMessage handles a message of the broker. An error means that the connection is to be dropped. A message about
// an earlier request is ignored, since its grant has been given back.
func (c *Client) handleMessage(m wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Type == wire.Error:
		return &Refused{Code: m.Code, Text: m.Text}
	case m.Seq != c.seq: // answers an earlier request
	case m.Type == wire.Grant:
		c.granted(time.Duration(m.Lease) * time.Microsecond)
	case m.Type == wire.Yield:
		c.yield = true
		if c.phase == phaseHolding {
			c.release()
		}
	}
	return nil
}

// granted ends the wait for a step, if the client still asks for one. The grant of a request that was withdrawn is
// ignored: its release has been sent already.
func (c *Client) granted(lease time.Duration) {
	if c.phase != phaseAsking {
		return
	}
	c.count.Grants++
	c.yield, c.lease = false, time.Now().Add(lease)
	c.setPhase(phaseStepping)
}

// bounded limits a time to what the protocol allows; a longer one comes from a stopped clock or a mistake.
func bounded(d time.Duration) time.Duration { return min(max(d, 0), time.Hour) }
