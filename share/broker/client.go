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

// client is a connection of which is known whose it is, or the broker itself for a job that has none. The GPU's lock
// guards it.
type client struct {
	id     turns.Client
	conn   *net.UnixConn // nil, and peer and pace too: silent is the client
	silent *silent
	gpu    *gpu
	peer   *peer
	stamp  share.Stamp
	pace   *pace // of its job
	kind   string
	memory int64

	open  bool   // there is a request that it has not released
	seq   uint64 // of that, as the client calls it
	asked uint64 // and as the arbiter does
	fills bool   // the arbiter knows nothing of it: others have the GPU, too
	state string
	since time.Time
	turns int
	used  time.Duration
}

// serve is a connection, from its first line to its end.
func (g *gpu) serve(conn *net.UnixConn, p *peer, heard *pace) {
	var watching sync.WaitGroup
	defer watching.Wait()
	defer g.broker.crowd.leave(p.uid)
	defer p.close()
	if !g.keep(conn) {
		conn.Close()
		return
	}
	defer g.forget(conn)
	watching.Go(func() {
		if p.ended() {
			conn.Close()
		}
	})
	time.Sleep(heard.wait(time.Now()))
	if bad := g.talk(conn, p); bad != nil {
		g.refuse(conn, bad)
	}
}

// keep notes a connection, to be closed when the broker ends.
func (g *gpu) keep(conn *net.UnixConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[conn] = true
	return !g.closed
}

func (g *gpu) forget(conn *net.UnixConn) {
	conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// talk is what is said on a connection. What it returns is said last.
func (g *gpu) talk(conn *net.UnixConn, p *peer) *wire.Bad {
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
	c, bad := g.introduce(hello, conn, p)
	if bad != nil {
		return bad
	}
	defer g.broker.crowd.leaveJob(c.stamp.Job)
	if bad := g.join(c); bad != nil {
		return bad
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.left(c)
	}()
	for {
		time.Sleep(c.pace.wait(time.Now())) // for the message before
		m, err := from.Next()
		if err != nil {
			return asBad(err)
		}
		if m.Type == wire.Bye {
			return nil
		}
		if bad := g.heard(c, m); bad != nil {
			return bad
		}
	}
}

// asBad is what a client is told of an error: nothing where it is gone.
func asBad(err error) *wire.Bad {
	if bad, is := errors.AsType[*wire.Bad](err); is {
		return bad
	}
	return nil
}

// introduce finds out whose client it is and what it may. It is counted as one of its job if nothing is wrong.
func (g *gpu) introduce(hello wire.Message, conn *net.UnixConn, p *peer) (*client, *wire.Bad) {
	if hello.Type != wire.Hello {
		return nil, &wire.Bad{Code: wire.BadMessage, Text: fmt.Sprintf("%s: want HELLO first", hello.Type)}
	}
	b := g.broker
	job, err := b.Identify(p.pid, p.uid)
	if err == nil && !p.lives() {
		err = unknown{fmt.Sprintf("process %d is gone", p.pid)}
	}
	if err != nil {
		return nil, &wire.Bad{Code: wire.UnknownJob, Text: err.Error()}
	}
	stamp, bad := g.stampOf(job, p.uid)
	if bad != nil {
		return nil, bad
	}
	pace, bad := b.crowd.enterJob(job, time.Now())
	if bad != nil {
		return nil, bad
	}
	return &client{id: turns.Client(b.next.Add(1)), conn: conn, gpu: g, peer: p, stamp: stamp, pace: pace,
		kind: printable.Line(hello.Kind, 20), memory: hello.Memory, state: wire.Idle, since: time.Now()}, nil
}

// stampOf is what the daemon said of a job, as far as it is about this GPU and that user. What is wrong with a stamp is
// the administrator's to know.
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

// heard is one message of a client's. A request beside one that is open is refused and no more.
func (g *gpu) heard(c *client, m wire.Message) *wire.Bad {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.Type == wire.Ask && c.open:
		c.tell(wire.Message{Type: wire.Error, Seq: m.Seq, Code: wire.Busy, Text: fmt.Sprintf(
			"request %d is open: release it first", c.seq)})
	case m.Type == wire.Ask:
		g.asked(c, m)
	case m.Type == wire.Release && c.open && m.Seq == c.seq:
		g.released(c, micros(m.Used))
	case m.Type == wire.Release: // of a turn that is over
	default:
		return &wire.Bad{Code: wire.BadMessage, Text: fmt.Sprintf("%s: want ACQ, REL or BYE", m.Type)}
	}
	return nil
}

// asked asks the arbiter, unless a request is still there that was taken back: then that counts for this one.
func (g *gpu) asked(c *client, m wire.Message) {
	c.open, c.seq = true, m.Seq
	if c.state == wire.Waiting {
		return
	}
	c.become(wire.Waiting)
	if c.fills = g.fills; c.fills {
		g.granted(c, fillLease)
		return
	}
	c.asked++
	e := turns.Event{Kind: turns.Ask, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job, Seq: c.asked,
		Estimate: micros(m.Estimate)}
	if within := c.within(m); within > 0 {
		e.Deadline = g.now() + within
	}
	g.happened(e)
}

// released tells the arbiter. A request that is taken back before it was granted waits on, and is released when it is.
func (g *gpu) released(c *client, used time.Duration) {
	c.open = false
	if c.state == wire.Waiting {
		return
	}
	g.thaw(c.id)
	c.become(wire.Idle)
	if c.fills {
		return
	}
	g.happened(turns.Event{Kind: turns.Release, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job, Seq: c.asked,
		Used: used})
}

// within is until when a step shall have ended. The daemon was told, and the client may only give itself more time:
// under the policy by deadlines a short one goes before others.
func (c *client) within(m wire.Message) time.Duration {
	if c.stamp.SLO == 0 || c.silent != nil { // whose turns are no steps
		return 0
	}
	return max(micros(m.Deadline), time.Duration(c.stamp.SLO)*time.Millisecond)
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// become changes its state, and counts for how long it held the GPU.
func (c *client) become(state string) {
	held := c.holding()
	c.used += held
	c.gpu.of(c.stamp.Class).held += held
	c.state, c.since = state, time.Now()
}

// holding is for how long it holds the GPU since its state changed.
func (c *client) holding() time.Duration {
	if c.state != wire.Holding && c.state != wire.Yielding {
		return 0
	}
	return time.Since(c.since)
}

// tell sends a message without waiting. Who does not read what he is told, some hundreds of messages long, is dropped.
func (c *client) tell(m wire.Message) {
	if c.silent != nil {
		c.silent.hear(m)
		return
	}
	if write(c.conn, m) != nil {
		c.conn.Close()
	}
}

var errSlow = errors.New("it reads nothing")

// write puts a message into the socket's buffer, whole.
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

func (c *client) status(now turns.ClientState) wire.Client {
	pid, state := 0, c.state
	switch {
	case c.silent == nil:
		pid = c.peer.pid
	case state == wire.Waiting:
		state = wire.Frozen // so it waits
	}
	return wire.Client{ID: uint64(c.id), Job: c.stamp.Job, UID: c.stamp.UID, PID: pid,
		Class: string(c.stamp.Class), Kind: c.kind, State: state, Since: time.Since(c.since).Seconds(),
		Turns: c.turns, Used: (c.used + c.holding()).Seconds(), Memory: c.memory, MemoryCap: int64(c.stamp.Memory),
		Share: now.Share, Step: now.Step.Seconds(), Gap: now.Gap.Seconds()}
}
