package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// gpu is one shared GPU with its arbiter and clients. Everything happens under one lock in the goroutine that received
// the event, so that nothing has to be woken between a request and its grant.
type gpu struct {
	broker *Broker
	index  int

	mu         sync.Mutex
	arbiter    *turns.Arbiter
	clients    map[turns.Client]*client
	jobs       map[int]*sharedJob     // jobs that share the GPU by their stamps; unused unless SilentAfter is set
	conns      map[*net.UnixConn]bool // including connections that have not said HELLO yet
	closed     bool
	fills      bool         // all clients use the GPU at once
	whyTurns   string       // why they take turns, though they should use it at once; "": no error
	fillerRuns bool         // a goroutine asks the Filler
	nextFill   *fillRequest // the next question to the Filler; nil: none
	knownRuns  []node.Run   // the jobs that the Filler was last asked about
	// skippedFiller is set if jobs may have come and begun since then, without the Filler being asked (skipFiller).
	skippedFiller bool
	frozen        map[turns.Client]int // the job of each frozen client
	// clock is the arbiter's time. It is held from when the arbiter wants a job stopped until that is done, has failed,
	// or has taken maxClockHold. That keeps all clients off the GPU meanwhile: the arbiter grants nothing during the
	// drain after a freeze, and no drain ends while the clock is held. What arrives meanwhile happens at that same
	// moment. If the client being stopped releases or leaves, the GPU is free and goes to the next one at once; if the
	// waiting clients leave, the stopped one gets the GPU back and is thawed after it was stopped. The time that all
	// this takes is charged to no client.
	clock clock
	timer *time.Timer
	stats map[share.Class]*classStats // figures for the status

	freezes, offences, dropped int
}

// classStats counts what a class has had of the GPU, for the status: slices granted, those that it did not yield in
// time (overrun), how long it held the GPU, and how long it waited for each slice.
type classStats struct {
	turns, overrun int
	held           time.Duration
	waits          []time.Duration // a ring of the last mostWaits
}

// mostWaits is how many of the last waits of a class are kept.
const mostWaits = 1000

// newGPU returns a GPU without clients. skippedFiller is set at first, since jobs that are there when the stamps are
// first read may have begun before the broker did, and so cannot become MPS clients. The timer is stopped until the
// arbiter waits for something.
func newGPU(b *Broker, index int) *gpu {
	g := &gpu{broker: b, index: index, arbiter: turns.New(b.Rules), clients: map[turns.Client]*client{},
		jobs: map[int]*sharedJob{}, conns: map[*net.UnixConn]bool{}, skippedFiller: true, clock: clock{start: b.start},
		frozen: map[turns.Client]int{}, stats: map[share.Class]*classStats{}}
	g.timer = time.AfterFunc(time.Hour, g.tick)
	g.timer.Stop()
	return g
}

// accept takes connections until the listener is closed, and serves each in a goroutine of running. A connection beyond
// the limits is told so and closed, before anything is read from it. If no connection can be taken, as without free
// file descriptors, it tries again after a pause, since the broker must outlive that.
func (g *gpu) accept(ctx context.Context, l *net.UnixListener, running *sync.WaitGroup) {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there are no file descriptors left
			g.broker.Log.Error("accept", "gpu", g.index, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		p, err := peerOf(conn)
		if err != nil {
			g.refuse(conn, &wire.Bad{Code: wire.UnknownJob, Text: err.Error()})
			continue
		}
		pace, bad := g.broker.admission.enter(p.uid, time.Now())
		if bad != nil {
			p.close()
			g.refuse(conn, bad)
			continue
		}
		running.Go(func() { g.serve(conn, p, pace) })
	}
}

// refuse counts the refusal, sends its reason and closes the connection.
func (g *gpu) refuse(conn *net.UnixConn, bad *wire.Bad) {
	g.broker.admission.refuse(bad.Code)
	_ = write(conn, wire.Message{Type: wire.Error, Code: bad.Code, Text: bad.Text})
	conn.Close()
}

// close ends all connections when the broker ends. Clients run on by themselves, and silent jobs are thawed: nothing
// may stay stopped after the broker.
func (g *gpu) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.reconcileSilent()
	g.timer.Stop()
	for conn := range g.conns {
		conn.Close()
	}
}

// now returns the time on the GPU's clock, which is the arbiter's time.
func (g *gpu) now() time.Duration { return g.clock.at(time.Now()) }

// stepArbiter passes an event to the arbiter, carries out its effects and sets the timer for the next tick. While the
// clock is held no tick is due; releasing it sends one. The lock is held.
func (g *gpu) stepArbiter(e turns.Event) {
	for _, effect := range g.arbiter.Step(g.now(), e) {
		g.applyEffect(effect)
	}
	at, waits := g.arbiter.Wake()
	if !waits || g.closed || g.clock.holds > 0 {
		g.timer.Stop()
		return
	}
	g.timer.Reset(max(0, at-g.now()))
}

// tick tells the arbiter that the time has come for which it asked (Wake).
func (g *gpu) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.stepArbiter(turns.Event{Kind: turns.Tick})
	}
}

// applyEffect carries out an effect of the arbiter. An effect for a client that has left or released by now is dropped.
// The lock is held.
func (g *gpu) applyEffect(e turns.Effect) {
	c := g.clients[e.Client]
	if c == nil || c.state == wire.Idle && (e.Verb == turns.Yield || e.Verb == turns.Freeze) {
		return // it has left or released meanwhile, and the arbiter has heard of that or will
	}
	if c.silent != nil && e.Verb != turns.Grant && e.Verb != turns.Yield {
		return // the broker itself stops and thaws a silent job, and the job cannot ignore a yield
	}
	switch e.Verb {
	case turns.Grant:
		g.recordGrant(c, e.Lease)
	case turns.Yield:
		c.setState(wire.Yielding)
		c.send(wire.Message{Type: wire.Yield, Seq: c.seq, Grace: e.Grace.Microseconds()})
	case turns.Freeze:
		g.freeze(c)
	case turns.Thaw:
		g.thaw(c.id)
	case turns.Offence:
		g.offence(c)
	}
}

// recordGrant records a slice that the arbiter has given to the client and how long the client waited, and tells the
// client. A client that has withdrawn its request meanwhile (handleRelease) is not told, and the GPU is released at
// once.
func (g *gpu) recordGrant(c *client, lease time.Duration) {
	h := g.statsOf(c.stamp.Class)
	wait := time.Since(c.since)
	c.setState(wire.Holding)
	if !c.hasRequest {
		g.handleRelease(c, 0)
		return
	}
	if len(h.waits) < mostWaits {
		h.waits = append(h.waits, wait)
	} else {
		h.waits[h.turns%mostWaits] = wait
	}
	h.turns++
	c.turns++
	c.send(wire.Message{Type: wire.Grant, Seq: c.seq, Lease: lease.Microseconds()})
}

// statsOf returns the figures of a class, and makes them when the class first has a client.
func (g *gpu) statsOf(class share.Class) *classStats {
	if g.stats[class] == nil {
		g.stats[class] = &classStats{}
	}
	return g.stats[class]
}

// maxClockHold is how long a GPU's clock waits for a job to be stopped. A job that still runs then uses the GPU beside
// the next one, and is stopped as soon as possible.
const maxClockHold = 2 * time.Second

// freeze stops the job of a client that did not yield when told to, and counts that. The GPU's clock is held until the
// job is stopped, so that no other client is granted the GPU meanwhile, but no longer than maxClockHold. The client is
// never the broker itself (applyEffect leaves those out), so c.peer is set. The lock is held.
func (g *gpu) freeze(c *client) {
	if g.closed {
		return // nothing may stay stopped after the broker's end
	}
	g.freezes++
	g.statsOf(c.stamp.Class).overrun++
	g.frozen[c.id] = c.stamp.Job
	c.setState(wire.Frozen)
	log := g.broker.Log.With("gpu", g.index, "job", c.stamp.Job, "client", c.id)
	g.clock.hold(time.Now())
	goOn := sync.OnceFunc(g.releaseClock)
	limit := time.AfterFunc(maxClockHold, func() {
		log.Error("freeze: others use the GPU beside a job that is not stopped yet", "after", maxClockHold)
		goOn()
	})
	g.broker.freezeController.requestFreeze(c.stamp.Job, c.peer.uid, func(err error) {
		limit.Stop()
		if err != nil {
			log.Error("freeze", "error", err) // the next client is granted the GPU all the same, and both use it
		} else {
			log.Warn("froze a job that would not yield")
		}
		goOn()
	})
}

// releaseClock ends one hold on the clock, for a caller without the lock.
func (g *gpu) releaseClock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.releaseClockLocked()
}

// releaseClockLocked ends one hold on the clock. If that was the last one, the arbiter gets a tick for what became due
// meanwhile. The lock is held.
func (g *gpu) releaseClockLocked() {
	if g.clock.release(time.Now()) && !g.closed {
		g.stepArbiter(turns.Event{Kind: turns.Tick})
	}
}

// thaw lets the job of a frozen client go on, unless another client of the job is frozen, too: a job is stopped and
// thawed as a whole. The client then counts as one that was told to yield, which the arbiter still expects of it. It
// does nothing for a client that is not frozen.
func (g *gpu) thaw(id turns.Client) {
	job, is := g.frozen[id]
	if !is {
		return
	}
	delete(g.frozen, id)
	if c := g.clients[id]; c != nil && c.state == wire.Frozen {
		c.setState(wire.Yielding)
	}
	for _, other := range g.frozen {
		if other == job {
			return
		}
	}
	g.broker.freezeController.requestThaw(job)
}

// offence counts that a job ignored too many yields, and has the daemon told, which then places no other job beside it.
func (g *gpu) offence(c *client) {
	g.offences++
	g.broker.Log.Warn("a job would not yield again and again", "gpu", g.index, "job", c.stamp.Job)
	g.broker.queueOffence(c.stamp.Job, c.stamp.UID, g.index)
}

// disconnect removes a client whose connection has ended. If it was the last of its job, the job may be silent from now
// on: SilentAfter counts from here. The lock is held.
func (g *gpu) disconnect(c *client) {
	g.removeClient(c)
	if p := g.jobs[c.stamp.Job]; p != nil {
		p.since = time.Now()
	}
	g.reconcileSilent()
}

// removeClient removes a client, whatever state it is in: its job is thawed, and the arbiter takes the GPU from it. The
// lock is held.
func (g *gpu) removeClient(c *client) {
	c.setState(wire.Idle) // counts the time that it held the GPU
	g.thaw(c.id)
	delete(g.clients, c.id)
	g.stepArbiter(turns.Event{Kind: turns.Leave, Client: c.id})
}

// declaredMemory returns how much GPU memory the connected clients of a job say they use, MiB, for the check of a new
// one against the job's cap. The status's MemoryBooked is another figure: the caps of all jobs that have a client.
func (g *gpu) declaredMemory(job int) (mib int64) {
	for _, c := range g.clients {
		if c.stamp.Job == job {
			mib += c.memory
		}
	}
	return mib
}

// status returns the GPU's state for people and metrics. Slices under way count up to now.
func (g *gpu) status() wire.GPU {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := wire.GPU{GPU: g.index, Mode: g.mode(), Clients: []wire.Client{}, Classes: map[string]wire.Had{},
		Freezes: g.freezes, Offences: g.offences, Dropped: g.dropped, WhyTurns: g.whyTurns}
	now := map[turns.Client]turns.ClientState{}
	for _, c := range g.arbiter.State().Clients {
		now[c.Client] = c
	}
	jobs := map[int]int64{}
	for _, c := range g.clients {
		s.Clients = append(s.Clients, c.status(now[c.id]))
		jobs[c.stamp.Job] = int64(c.stamp.Memory)
	}
	for _, mib := range jobs {
		s.MemoryBooked += mib
	}
	slices.SortFunc(s.Clients, func(a, b wire.Client) int { return cmp.Compare(a.ID, b.ID) })
	for class, h := range g.stats {
		waits := slices.Sorted(slices.Values(h.waits))
		held := h.held
		for _, c := range g.clients {
			if c.stamp.Class == class {
				held += c.currentHold()
			}
		}
		s.Classes[string(class)] = wire.Had{Turns: h.turns, Held: held.Seconds(), Overrun: h.overrun,
			WaitP50: quantile(waits, 0.5), WaitP95: quantile(waits, 0.95)}
	}
	return s
}

// quantile returns a quantile of durations in ascending order, in seconds; 0 if there are none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Seconds()
}

// join admits a client, welcomes it and tells the arbiter; otherwise it returns the error to send. It refuses a client
// that would use more GPU memory than its job may, since it could make an allocation of another job fail.
func (g *gpu) join(c *client) *wire.Bad {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return &wire.Bad{Code: wire.Busy, Text: "the broker ends: try again"}
	}
	if used := g.declaredMemory(c.stamp.Job); used+c.memory > int64(c.stamp.Memory) {
		return &wire.Bad{Code: wire.MemoryCap, Text: fmt.Sprintf("job %d may use %d MiB of GPU %d and uses %d: "+
			"no room for %d", c.stamp.Job, c.stamp.Memory, g.index, used, c.memory)}
	}
	g.clients[c.id] = c
	g.reconcileSilent() // before it asks for anything, so that its job is thawed
	index := g.index
	c.send(wire.Message{Type: wire.Welcome, ID: uint64(c.id), GPU: &index, Class: string(c.stamp.Class),
		Memory: int64(c.stamp.Memory), Quantum: g.broker.Rules.Quantum.Microseconds()})
	g.stepArbiter(turns.Event{Kind: turns.Join, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job})
	return nil
}
