package broker

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// presence is a job that shares the GPU by its stamp, whether it speaks or not. The GPU's lock guards it.
type presence struct {
	stamp   share.Stamp
	since   time.Time // when it was seen first, or had a client last
	client  *client   // the broker itself, as long as the job is silent; nil: it is not
	givenUp bool      // it cannot be stopped
	told    bool      // the log is told that it is silent
}

// silent is the broker as the client of a job that has none of its own, beside others that take turns: such a job would
// have time slices whoever's turn it is. It asks for turns like any client, so who goes first, how long, and what least
// share it has the arbiter says as ever. While its job has no turn that is stopped as a whole. It ends a turn where the
// lease ends if somebody more important is expected then, and at once where it is told to yield. But in a turn that
// shall be one step, as a least share is, the job goes on for as long as a step of it was said to be: else it would
// only ever be let go on to be stopped.
//
// The GPU's lock guards it. One thing is under way at a time; whatever it was that ended, it is void by its epoch if
// another has begun since.
type silent struct {
	*client
	cost     time.Duration // from when it is to stand until nothing of it is on the GPU any more, as the last time was
	least    time.Time     // until when it has its turn although it is told to yield
	standing bool          // it stands, or is to
	stopping bool          // that has not ended yet
	holds    bool          // the GPU's clock is held until it stands
	failed   int           // stops, in a row
	epoch    int
	timer    *time.Timer
}

const (
	// mostFailed is how often in a row a silent job cannot be stopped until that is given up.
	mostFailed = 3
	stopAgain  = time.Second // after a stop that failed, if it has no turn until then
)

// notice takes in which jobs share the GPU.
func (g *gpu) notice(seen stamps) {
	if g.broker.SilentAfter <= 0 || seen.hides(g.index) {
		return // or as it was before
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for job, p := range g.jobs {
		if now, is := seen.jobs[job]; !is || now != p.stamp {
			g.dismiss(p)
			delete(g.jobs, job)
		}
	}
	for job, stamp := range seen.jobs {
		if stamp.GPU == g.index && g.jobs[job] == nil {
			g.jobs[job] = &presence{stamp: stamp, since: time.Now()}
		}
	}
	g.attend()
}

// attend has the broker be the client of each job that is silent now, and of no other. It is called whenever that may
// have changed; the lock is held. When an important job wants the GPU nobody knows who hears nothing of it: the broker
// would want it for ever, so such a job is left alone.
func (g *gpu) attend() {
	speak := map[int]bool{} // jobs
	for _, c := range g.clients {
		if c.silent == nil {
			speak[c.stamp.Job] = true
		}
	}
	for job, p := range g.jobs {
		may := !g.closed && !g.fills && !p.givenUp && p.stamp.Class != share.High && len(speak) > 0 && !speak[job]
		switch {
		case !may:
			g.dismiss(p)
		case p.client == nil && time.Since(p.since) >= g.broker.SilentAfter:
			g.represent(p)
		}
	}
}

// represent makes the broker a job's client.
func (g *gpu) represent(p *presence) {
	if !p.told {
		g.broker.Log.Info("a job does not ask for turns: it is stopped while others have theirs", "gpu", g.index,
			"job", p.stamp.Job, "after", g.broker.SilentAfter)
		p.told = true
	}
	c := &client{id: turns.Client(g.broker.next.Add(1)), gpu: g, stamp: p.stamp, kind: wire.Silent, state: wire.Idle,
		since: time.Now()}
	c.silent = &silent{client: c, cost: g.drain()}
	p.client = c
	g.clients[c.id] = c
	g.happened(turns.Event{Kind: turns.Join, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job})
	c.silent.ask()
	if c.state == wire.Waiting {
		c.silent.stop()
	}
}

// dismiss lets a silent job go on, on its own account.
func (g *gpu) dismiss(p *presence) {
	if p.client == nil {
		return
	}
	c := p.client
	p.client = nil
	c.silent.void()
	g.broker.halts.goOn(c.stamp.Job)
	g.leave(c)
	c.silent.resume()
}

func (g *gpu) drain() time.Duration { return cmp.Or(g.broker.Rules.Drain, turns.DefaultDrain) }

// hear does what the broker says to a client.
func (s *silent) hear(m wire.Message) {
	switch {
	case m.Type == wire.Grant:
		s.begin(micros(m.Lease))
	case m.Type == wire.Yield && !s.standing:
		s.after(time.Until(s.least), s.stop)
	case m.Type == wire.Yield && s.stopping:
		s.hold()
	}
}

// step is how long a turn of the job is that was begun. At least half of it the job does run: the rest is until it is
// off the GPU again.
func (s *silent) step() time.Duration {
	quantum := cmp.Or(s.gpu.broker.Rules.Quantum, turns.DefaultQuantum)
	return max(2*s.cost, min(quantum, turns.DefaultQuantum))
}

func (s *silent) ask() {
	s.gpu.asked(s.client, wire.Message{Type: wire.Ask, Seq: s.seq + 1, Estimate: s.step().Microseconds()})
}

// begin lets the job go on. Its lease ends in the middle of the last step that fits, and it has to be off the GPU at
// the end of that; one that is shorter means one step.
func (s *silent) begin(lease time.Duration) {
	s.void()
	s.standing, s.stopping, s.least = false, false, time.Time{}
	s.gpu.broker.halts.goOn(s.stamp.Job)
	step := s.step()
	if lease < step/2 {
		s.least = time.Now().Add(step - s.cost)
	}
	if s.gpu.expects() {
		s.after(max(lease+step/2, step)-s.cost, s.stop)
	}
}

// expects says whether somebody who is more important than a silent job may come back for the GPU.
func (g *gpu) expects() bool {
	now := g.arbiter.State()
	return now.LookAhead && slices.ContainsFunc(now.Clients, func(c turns.ClientState) bool {
		return c.Class == share.High && c.Gap > 0
	})
}

// stop has the job stand. Where somebody waits for that the clock is held meanwhile, as for a client that does not
// yield. Otherwise it goes on: what it takes to stop the job is a part of the gap that the turn has to fit into.
func (s *silent) stop() {
	s.void()
	s.standing, s.stopping = true, true
	if s.state == wire.Yielding {
		s.hold()
	}
	epoch, began := s.epoch, time.Now()
	s.gpu.broker.halts.stop(s.stamp.Job, s.stamp.UID, func(err error) {
		_, nothing := os.Lstat(s.gpu.broker.frozenPath(s.stamp.Job))
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		if s.current(epoch) {
			s.stood(time.Since(began), err, nothing != nil)
		}
	})
	s.timer = s.later(mostHeld, func() { s.stood(mostHeld, errRuns, false) })
}

var errRuns = fmt.Errorf("it still runs after %v", mostHeld)

// stood goes on when the job was stopped: what it has launched is drained then, if it had the GPU. One that could not
// be stopped gives the GPU back all the same.
func (s *silent) stood(took time.Duration, err error, nothing bool) {
	s.void()
	s.stopping = false
	s.cost = s.gpu.drain() + took
	s.resume()
	switch {
	case err != nil:
		if s.failed++; s.failed >= mostFailed {
			s.giveUp(err)
			return
		}
	case nothing: // it has no process here, or Slurm has suspended it: it needs no turns
		p := s.gpu.jobs[s.stamp.Job]
		p.since = time.Now()
		s.gpu.dismiss(p)
		return
	default:
		s.failed = 0
	}
	if s.state == wire.Waiting {
		s.waits()
		return
	}
	s.after(s.gpu.drain(), func() {
		s.gpu.released(s.client, 0)
		s.ask()
		s.waits()
	})
}

// waits tries again to stop a job that could not be and has no turn.
func (s *silent) waits() {
	if s.state == wire.Waiting && s.failed > 0 {
		s.after(stopAgain, s.stop)
	}
}

// giveUp leaves a job that cannot be stopped to time slices.
func (s *silent) giveUp(why error) {
	s.gpu.broker.Log.Error("a job that does not ask for turns cannot be stopped: it runs beside the others' turns",
		"gpu", s.gpu.index, "job", s.stamp.Job, "error", why)
	p := s.gpu.jobs[s.stamp.Job]
	p.givenUp = true
	s.gpu.dismiss(p)
}

func (s *silent) hold() {
	s.holds = true
	s.gpu.clock.hold(time.Now())
}

// resume has the GPU's clock go on, if it is held for the job.
func (s *silent) resume() {
	if s.holds {
		s.holds = false
		s.gpu.resume()
	}
}

// void makes nothing of what is under way.
func (s *silent) void() {
	s.epoch++
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *silent) current(epoch int) bool { return s.epoch == epoch && !s.gpu.closed }

// after does something next: now, if that is due.
func (s *silent) after(d time.Duration, do func()) {
	s.void()
	if d <= 0 {
		do()
		return
	}
	s.timer = s.later(d, do)
}

// later does something then, unless something else has begun by then.
func (s *silent) later(d time.Duration, do func()) *time.Timer {
	epoch := s.epoch
	return time.AfterFunc(d, func() {
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		if s.current(epoch) {
			do()
		}
	})
}
