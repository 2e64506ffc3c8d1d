package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// client is a connection whose job is known, or the broker itself on behalf of a job without a client (silent.go). The
// GPU's lock guards it.
type client struct {
	id     turns.Client
	conn   *net.UnixConn // nil if silent is set, as are peer and pace
	silent *silentClient
	gpu    *gpu
	peer   *peer
	stamp  share.Stamp
	pace   *pace  // of its job
	kind   string // what it says it is (train, serve, other), or wire.Silent
	memory int64  // GPU memory that it says it uses, MiB

	hasRequest bool          // there is a request that the client has not released
	seq        uint64        // the client's number of that request
	arbiterSeq uint64        // the arbiter's number of that request
	fills      bool          // it has the GPU together with others, and the arbiter does not know of the request
	state      string        // one of wire's states of a client
	since      time.Time     // when it entered the state
	turns      int           // slices granted so far
	used       time.Duration // time for which it held the GPU before the present state
}

// serve handles a connection, from its first message to its end. heard is the pace of the connection's user: before
// anything is read, the connection waits for its turn there, since identifying its job costs much. When its process
// ends, the connection is closed although a child may have inherited it, so that a dead client does not keep the GPU.
func (g *gpu) serve(conn *net.UnixConn, p *peer, heard *pace) {
	var watching sync.WaitGroup
	defer watching.Wait()
	defer g.broker.admission.leave(p.uid)
	defer p.close()
	if !g.trackConn(conn) {
		conn.Close()
		return
	}
	defer g.untrackConn(conn)
	watching.Go(func() {
		if p.waitEnd() {
			conn.Close()
		}
	})
	time.Sleep(heard.wait(time.Now()))
	if bad := g.serveMessages(conn, p); bad != nil {
		g.refuse(conn, bad)
	}
}

// trackConn records a connection, so that it is closed when the broker ends. It returns false if the broker has ended.
func (g *gpu) trackConn(conn *net.UnixConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[conn] = true
	return !g.closed
}

// untrackConn closes a connection and takes it off the list of those to be closed at the end of the broker.
func (g *gpu) untrackConn(conn *net.UnixConn) {
	conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// serveMessages identifies the client, then reads its messages until the connection ends. The error that it returns is
// to be sent before the connection is closed. Without an error the client has left or the connection is broken, and
// nothing is sent.
func (g *gpu) serveMessages(conn *net.UnixConn, p *peer) *wire.Bad {
	from := wire.NewReader(conn)
	if err := conn.SetReadDeadline(time.Now().Add(g.broker.Limits.Hello)); err != nil {
		return nil
	}
	hello, err := from.Next()
	if err != nil {
		return asBad(err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil
	}
	c, bad := g.identifyClient(hello, conn, p)
	if bad != nil {
		return bad
	}
	defer g.broker.admission.leaveJob(c.stamp.Job)
	if bad := g.join(c); bad != nil {
		return bad
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.disconnect(c)
	}()
	for {
		time.Sleep(c.pace.wait(time.Now())) // pays for the message before
		m, err := from.Next()
		if err != nil {
			return asBad(err)
		}
		if m.Type == wire.Bye {
			return nil
		}
		if bad := g.handleMessage(c, m); bad != nil {
			return bad
		}
	}
}

// asBad returns the error to send to a client whose message could not be read; nil if the client is gone, so that there
// is nothing to send.
func asBad(err error) *wire.Bad {
	if bad, is := errors.AsType[*wire.Bad](err); is {
		return bad
	}
	return nil
}

// identifyClient checks the first message, identifies the job of the process that connected, and reads the job's stamp,
// which says whether the job may use this GPU. If all is right it counts the connection for the job (undone by
// leaveJob) and returns the client. Otherwise it returns the error to send.
func (g *gpu) identifyClient(hello wire.Message, conn *net.UnixConn, p *peer) (*client, *wire.Bad) {
	if hello.Type != wire.Hello {
		return nil, &wire.Bad{Code: wire.BadMessage, Text: fmt.Sprintf("%s: want HELLO first", hello.Type)}
	}
	b := g.broker
	job, err := b.Identify(p.pid, p.uid)
	// The job was found by the PID, which may belong to another process if the one that connected has ended.
	if err == nil && !p.stillRuns() {
		err = unknownJobError{fmt.Sprintf("process %d is gone", p.pid)}
	}
	if err != nil {
		return nil, &wire.Bad{Code: wire.UnknownJob, Text: err.Error()}
	}
	stamp, bad := g.stampOf(job, p.uid)
	if bad != nil {
		return nil, bad
	}
	pace, bad := b.admission.enterJob(job, time.Now())
	if bad != nil {
		return nil, bad
	}
	return &client{id: turns.Client(b.next.Add(1)), conn: conn, gpu: g, peer: p, stamp: stamp, pace: pace,
		kind: printable.Line(hello.Kind, 20), memory: hello.Memory, state: wire.Idle, since: time.Now()}, nil
}

// stampOf returns the stamp of a job if it lets this user's clients use this GPU; otherwise the error to send. What is
// wrong with the stamp itself is logged for the administrator and not told to the client.
func (g *gpu) stampOf(job, uid int) (share.Stamp, *wire.Bad) {
	stamp, err := readStamp(g.broker.RunDir, job, g.broker.Proc.Owner)
	text := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = fmt.Sprintf("job %d shares no GPU: it runs as ever", job)
	case err != nil:
		g.broker.Log.Error("read stamp", "job", job, "error", err)
		text = fmt.Sprintf("what this node was told of job %d is not to be believed: it runs as ever", job)
	case stamp.UID != uid:
		text = fmt.Sprintf("job %d is of user %d: want a client of that user", job, stamp.UID)
	case stamp.GPU != g.index:
		text = fmt.Sprintf("job %d shares GPU %d: want the socket of that, this is of %d", job, stamp.GPU, g.index)
	default:
		return stamp, nil
	}
	return share.Stamp{}, &wire.Bad{Code: wire.NotSharing, Text: text}
}

// handleMessage handles one message of a client. A request while another is open is answered with an error, and the
// connection goes on. A release of another request than the open one is ignored: the slice of that one has ended
// already. An error that is returned ends the connection.
func (g *gpu) handleMessage(c *client, m wire.Message) *wire.Bad {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.Type == wire.Ask && c.hasRequest:
		c.send(wire.Message{Type: wire.Error, Seq: m.Seq, Code: wire.Busy, Text: fmt.Sprintf(
			"request %d is open: release it first", c.seq)})
	case m.Type == wire.Ask:
		g.handleAsk(c, m)
	case m.Type == wire.Release && c.hasRequest && m.Seq == c.seq:
		g.handleRelease(c, micros(m.Used))
	case m.Type == wire.Release: // of a slice that has ended
	default:
		return &wire.Bad{Code: wire.BadMessage, Text: fmt.Sprintf("%s: want ACQ, REL or BYE", m.Type)}
	}
	return nil
}

// handleAsk passes a request on to the arbiter. If an earlier request was withdrawn and still waits there, that one
// counts as this request, so that withdrawing and asking again neither loses nor gains a place. While all clients use
// the GPU at once, the request is granted here and the arbiter does not hear of it.
func (g *gpu) handleAsk(c *client, m wire.Message) {
	c.hasRequest, c.seq = true, m.Seq
	if c.state == wire.Waiting {
		return
	}
	c.setState(wire.Waiting)
	if c.fills = g.fills; c.fills {
		g.recordGrant(c, fillLease)
		return
	}
	c.arbiterSeq++
	e := turns.Event{Kind: turns.Ask, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job, Seq: c.arbiterSeq,
		Estimate: micros(m.Estimate)}
	if within := c.stepLimit(m); within > 0 {
		e.Deadline = g.now() + within
	}
	g.stepArbiter(e)
}

// handleRelease ends the client's open request and tells the arbiter, which may grant the GPU to the next client. used
// is the GPU time that the client reports. A request that is withdrawn before it was granted stays with the arbiter, so
// that a client that asks again keeps its place; when it is granted, it is released (recordGrant). The client's job may
// have been stopped after the release was sent, and is then thawed. If the client had the GPU together with others
// (fills), the arbiter does not know of the request and is not told.
func (g *gpu) handleRelease(c *client, used time.Duration) {
	c.hasRequest = false
	if c.state == wire.Waiting {
		return
	}
	g.thaw(c.id)
	c.setState(wire.Idle)
	if c.fills {
		return
	}
	g.stepArbiter(
		turns.Event{Kind: turns.Release, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job, Seq: c.arbiterSeq,
			Used: used},
	)
}

// stepLimit returns the time in which the step that the client asks for should end; 0: no deadline. The stamp gives the
// least one, and the client may only ask for more, since under the policy SLO a shorter time would put it before
// others. The lock is held.
func (c *client) stepLimit(m wire.Message) time.Duration {
	if c.stamp.SLO == 0 || c.silent != nil { // the slices of a silent job are not steps
		return 0
	}
	return max(micros(m.Deadline), time.Duration(c.stamp.SLO)*time.Millisecond)
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// setState changes the client's state to one of wire's states, and adds the time for which it held the GPU in the old
// state to the figures of the client and its class.
func (c *client) setState(state string) {
	held := c.currentHold()
	c.used += held
	c.gpu.statsOf(c.stamp.Class).held += held
	c.state, c.since = state, time.Now()
}

// currentHold returns how long the client has held the GPU in its present state.
func (c *client) currentHold() time.Duration {
	if c.state != wire.Holding && c.state != wire.Yielding {
		return 0
	}
	return time.Since(c.since)
}

// send sends a message without waiting, since the caller holds the GPU's lock. A client that leaves some hundreds of
// messages unread is dropped. If the client is the broker itself, it gets the message by a call.
func (c *client) send(m wire.Message) {
	if c.silent != nil {
		c.silent.handleEffect(m)
		return
	}
	if write(c.conn, m) != nil {
		c.conn.Close()
	}
}

var errSlow = errors.New("it reads nothing")

// write puts a whole message into the socket's buffer without waiting. If there is no room for all of it, it returns an
// error; the connection must then be closed, since a part may have been sent.
func write(conn *net.UnixConn, m wire.Message) error {
	line, err := wire.Encode(m)
	if err != nil {
		return err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	n := 0
	var wrong error
	err = raw.Write(func(fd uintptr) bool {
		n, wrong = unix.SendmsgN(int(fd), line, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	})
	if err = errors.Join(err, wrong); err == nil && n < len(line) {
		err = errSlow
	}
	return err
}

// status returns the client's state for people and metrics; now is its state in the arbiter.
func (c *client) status(now turns.ClientState) wire.Client {
	pid, state := 0, c.state
	switch {
	case c.silent == nil:
		pid = c.peer.pid
	case state == wire.Waiting:
		state = wire.Frozen // a waiting silent job is frozen
	}
	return wire.Client{ID: uint64(c.id), Job: c.stamp.Job, UID: c.stamp.UID, PID: pid,
		Class: string(c.stamp.Class), Kind: c.kind, State: state, Since: time.Since(c.since).Seconds(),
		Turns: c.turns, Used: (c.used + c.currentHold()).Seconds(), Memory: c.memory, MemoryCap: int64(c.stamp.Memory),
		Share: now.Share, Step: now.Step.Seconds(), Gap: now.Gap.Seconds()}
}
