// Package client takes turns on a GPU for a program of its own process: it asks the node's broker before a step and
// says when the step is over. It decides nothing about whose turn it is, and never stops the program for long because
// of the broker: where there is none, where it does not answer or refuses, the program runs on as if it were alone.
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

// The times that all clients keep, in whatever language.
const (
	Idle         = 2 * time.Millisecond // between two steps, after which the GPU is given back
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
	answerWithin = time.Second      // a broker that lives
	lifeEvery    = 10 * time.Second // how often one that grants nothing is asked whether it lives
)

// Introduction is what a client says of itself. All of it is an estimate: its class is what the daemon wrote.
type Introduction struct {
	Kind   string        // train, serve, other
	Step   time.Duration // how long it usually uses the GPU; 0: not known
	Memory gres.Memory   // of the GPU that it will use, MiB; 0: not said
}

// Refused is the broker's refusal of a client. The one that ends a program is that of its first words, where it says
// that it will use more of the GPU's memory than it may: to run on would end in a failed allocation, of this job or of
// another. Any other leaves it to itself.
type Refused struct {
	Code string
	Text string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the broker refuses: %s: %.200q", r.Code, r.Text)
}

// phase is where a client stands with the broker.
type phase int

const (
	apart    phase = iota // it has not asked, or there is no broker
	asking                // and somebody waits for the answer
	unwanted              // asked, but nobody waits any more: a grant is given back
	stepping              // the GPU is its own, and used
	sticking              // the GPU is its own between two steps
)

// Client is one program's connection to the broker of its GPU. Its methods may be called from any goroutine; turns
// within one client exclude each other.
type Client struct {
	path string
	as   Introduction
	turn chan struct{} // full while a step is under way
	met  chan struct{} // closed when the broker has answered for the first time, or has not
	stop context.CancelFunc
	ends sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed when the phase changes from asking
	phase   phase
	conn    net.Conn // nil: there is no broker
	refusal *Refused // of its first words, for too much memory
	seq     uint64
	lease   time.Time     // its end
	yield   bool          // the GPU is wanted back
	used    time.Duration // under this grant
	usual   time.Duration // a step
	idle    *time.Timer   // runs while sticking
	since   time.Time     // of sticking
	count   Count
}

// Count is what a client has done so far.
type Count struct {
	Steps     int64
	Grants    int64         // of the broker; one may be good for many steps
	Waited    time.Duration // for grants
	Unmanaged int64         // steps without a broker
}

// Open introduces the program to the broker at a socket and waits at most a second for its answer. The only error is a
// *Refused, for too much memory, or that of the context; without a broker the client is good all the same.
func Open(ctx context.Context, path string, as Introduction) (*Client, error) {
	life, stop := context.WithCancel(context.Background())
	c := &Client{path: path, as: as, turn: make(chan struct{}, 1), met: make(chan struct{}), stop: stop,
		changed: make(chan struct{}), usual: as.Step}
	c.idle = time.AfterFunc(time.Hour, c.giveBackIdle)
	c.idle.Stop()
	c.ends.Go(func() { c.keep(life) })
	select {
	case <-c.met:
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

// Close gives back what is held and ends the connection.
func (c *Client) Close() {
	c.stop()
	c.mu.Lock()
	c.idle.Stop()
	if c.conn != nil {
		_ = c.say(wire.Message{Type: wire.Bye})
	}
	c.lose()
	c.mu.Unlock()
	c.ends.Wait()
}

// Count is what the client has done.
func (c *Client) Count() Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Turn waits until the program may use the GPU for a step of about the estimate; 0: as long as steps usually are. The
// program calls done when the GPU has finished the step: what is still queued there is the next one's delay. Within a
// goroutine a turn in a turn would wait for itself. The error is that of the context.
func (c *Client) Turn(ctx context.Context, estimate time.Duration) (done func(), err error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := c.begin(ctx, estimate); err != nil {
		<-c.turn
		return nil, err
	}
	began := time.Now()
	return sync.OnceFunc(func() {
		c.end(time.Since(began))
		<-c.turn
	}), nil
}

func (c *Client) begin(ctx context.Context, estimate time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle.Stop()
	if estimate <= 0 {
		estimate = c.usual
	}
	c.count.Steps++
	if c.phase == sticking {
		// The broker lets a lease end within the last step that it has room for.
		if !c.yield && time.Until(c.lease) > 0 {
			c.phase = stepping
			return nil
		}
		c.release()
	}
	began := time.Now()
	err := c.wait(ctx, estimate)
	c.count.Waited += time.Since(began)
	return err
}

// wait asks for the GPU and returns when it is granted or when there is no broker any more.
func (c *Client) wait(ctx context.Context, estimate time.Duration) error {
	c.ask(estimate)
	asked := time.Now()
	for c.phase == asking {
		if !c.unlocked(ctx) {
			c.takeBack()
			return ctx.Err()
		}
		if c.phase == asking && time.Since(asked) >= lifeEvery {
			c.see()
			asked = time.Now()
		}
	}
	if c.phase == apart {
		c.count.Unmanaged++
	}
	return nil
}

// ask sends the request.
func (c *Client) ask(estimate time.Duration) {
	if c.conn == nil {
		return
	}
	c.seq++
	c.phase, c.used = asking, 0
	if err := c.say(wire.Message{Type: wire.Ask, Seq: c.seq, Estimate: bounded(estimate).Microseconds()}); err != nil {
		c.lose()
	}
}

// takeBack says that nobody waits any more. A grant that is under way is given back by it, too.
func (c *Client) takeBack() {
	if c.phase == asking || c.phase == stepping {
		c.release()
	}
}

// unlocked waits until something has changed, or it is time to see whether the broker lives. It is false when the
// context is done.
func (c *Client) unlocked(ctx context.Context) bool {
	changed := c.changed
	c.mu.Unlock()
	defer c.mu.Lock()
	patience := time.NewTimer(lifeEvery)
	defer patience.Stop()
	select {
	case <-changed:
	case <-patience.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// see asks the broker on a connection of its own whether it lives, and lets go of one that does not: a stopped process
// keeps its sockets open. Any answer will do.
func (c *Client) see() {
	c.mu.Unlock()
	conn, _, err := greet(c.path, Introduction{Kind: "other"})
	if err == nil {
		_ = conn.Close()
	}
	c.mu.Lock()
	var refused *Refused
	if err != nil && !errors.As(err, &refused) {
		c.lose()
	}
}

// end is told how long the step has used the GPU.
func (c *Client) end(used time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usual == 0 {
		c.usual = used
	}
	c.usual += (used - c.usual) / 8
	if c.phase != stepping {
		return
	}
	c.used += used
	c.phase = sticking
	c.since = time.Now()
	if rest := time.Until(c.lease); c.yield || rest <= 0 {
		c.release()
	} else {
		c.idle.Reset(min(Idle, rest))
	}
}

// giveBackIdle is called some time after a step. A timer that was stopped too late finds that the step is younger.
func (c *Client) giveBackIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == sticking && (time.Since(c.since) >= Idle || !time.Now().Before(c.lease)) {
		c.release()
	}
}

// release gives the GPU back.
func (c *Client) release() {
	c.phase = apart
	if err := c.say(wire.Message{Type: wire.Release, Seq: c.seq, Used: bounded(c.used).Microseconds()}); err != nil {
		c.lose()
	}
}

// lose forgets the broker: who waits for it runs on.
func (c *Client) lose() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
	c.become(apart)
}

// become changes the phase and tells who waits for that.
func (c *Client) become(p phase) {
	c.phase = p
	close(c.changed)
	c.changed = make(chan struct{})
}

// hear does what the broker says.
func (c *Client) hear(m wire.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Type == wire.Error:
		return &Refused{Code: m.Code, Text: m.Text}
	case m.Seq != c.seq: // of a request that is over
	case m.Type == wire.Grant:
		c.granted(time.Duration(m.Lease) * time.Microsecond)
	case m.Type == wire.Yield:
		c.yield = true
		if c.phase == sticking {
			c.release()
		}
	}
	return nil
}

func (c *Client) granted(lease time.Duration) {
	if c.phase != asking {
		return
	}
	c.count.Grants++
	c.yield, c.lease = false, time.Now().Add(lease)
	c.become(stepping)
}

// bounded is a time as the protocol allows it: one that is longer is a stopped clock's or a mistake's.
func bounded(d time.Duration) time.Duration { return min(max(d, 0), time.Hour) }
