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

// sharedJob is a job that shares the GPU by its stamp, whether it has a client or not. The GPU's lock guards it.
type sharedJob struct {
	stamp    share.Stamp
	since    time.Time // when it was first seen, or when it last had a client
	client   *client   // the broker's own client for the job while it is silent; otherwise nil
	givenUp  bool      // stopping the job failed mostFailed times: it runs beside the slices of others
	isLogged bool      // it was logged that the job is silent
}

// silentClient is the broker acting as the client of a job that has none, while other jobs take turns; otherwise that
// job would use the GPU at all times. It asks for slices like any client, so the arbiter decides about order, length
// and least share as usual. While the job has no slice, it is stopped as a whole. Its slice ends with the lease if a
// more important job is expected then, and at once after a yield. But in a slice of one step, as a least share gives,
// the job runs for as long as its step was said to be; otherwise it would be thawed only to be stopped again.
//
// The GPU's lock guards it. Only one action is under way at a time; the end of an earlier one is recognised by its
// epoch and ignored.
type silentClient struct {
	*client
	// stopCost is the time from stopping until nothing of the job is left on the GPU, as last measured. While the job
	// has no slice the measurement ages (tryShorter).
	stopCost    time.Duration
	minUntil    time.Time // until when its slice lasts although it is told to yield; zero: a yield ends it at once
	isStopped   bool      // the job is stopped, or is being stopped
	stopping    bool      // it is being stopped
	holdsClock  bool      // the GPU's clock is held until it is stopped
	failedStops int       // failed stops in a row
	epoch       int       // number of the action under way
	timer       *time.Timer
}

const (
	// mostFailed is how many stops in a row may fail before the broker gives up stopping a silent job.
	mostFailed = 3
	stopAgain  = time.Second          // wait after a failed stop before the next, while the job has no slice
	shortStop  = 5 * time.Millisecond // a stop that is too quick to matter
	// halfLife is how long a job must be without a slice until half as much is expected of its stop.
	halfLife = 5 * time.Second
)

// updateJobs updates which jobs share the GPU from the stamps, so that those without a client become known. A job whose
// stamp has changed is another run or was given something else: it counts as new.
func (g *gpu) updateJobs(seen stamps) {
	if g.broker.SilentAfter <= 0 || seen.hides(g.index) {
		return // silent jobs are not stopped here, or the stamps cannot be read and nothing changes
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for job, p := range g.jobs {
		if now, is := seen.jobs[job]; !is || now != p.stamp {
			g.removeSilentClient(p)
			delete(g.jobs, job)
		}
	}
	for job, stamp := range seen.jobs {
		if stamp.GPU == g.index && g.jobs[job] == nil {
			g.jobs[job] = &sharedJob{stamp: stamp, since: time.Now()}
		}
	}
	g.reconcileSilent()
}

// reconcileSilent makes the broker the client of each job that is silent, and of no other. It is called, with the lock
// held, whenever that may have changed. A job is silent if it has had no client for SilentAfter. It is left alone while
// no other job has a client or all jobs use the GPU at once, since it keeps no slice from others then, and once the
// broker has given it up. A silent job of class High is always left alone: it is unknown when it wants the GPU, so the
// broker would want it for ever.
func (g *gpu) reconcileSilent() {
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
			g.removeSilentClient(p)
		case p.client == nil && time.Since(p.since) >= g.broker.SilentAfter:
			g.addSilentClient(p)
		}
	}
}

// addSilentClient makes the broker a silent job's client and asks for a first slice. If that is not granted at once the
// job is stopped, since it would run within the slices of others.
func (g *gpu) addSilentClient(p *sharedJob) {
	if !p.isLogged {
		g.broker.Log.Info("a job does not ask for turns: it is stopped while others have theirs", "gpu", g.index,
			"job", p.stamp.Job, "after", g.broker.SilentAfter)
		p.isLogged = true
	}
	c := &client{id: turns.Client(g.broker.next.Add(1)), gpu: g, stamp: p.stamp, kind: wire.Silent, state: wire.Idle,
		since: time.Now()}
	c.silent = &silentClient{client: c, stopCost: g.drainTime()}
	p.client = c
	g.clients[c.id] = c
	g.stepArbiter(turns.Event{Kind: turns.Join, Client: c.id, Class: c.stamp.Class, Job: c.stamp.Job})
	c.silent.askForSlice()
	if c.state == wire.Waiting {
		c.silent.stopJob()
	}
}

// removeSilentClient ends the broker's client for a job, if there is one, and lets the job go on.
func (g *gpu) removeSilentClient(p *sharedJob) {
	if p.client == nil {
		return
	}
	c := p.client
	p.client = nil
	c.silent.cancelAction()
	g.broker.freezeController.requestThaw(c.stamp.Job)
	g.removeClient(c)
	c.silent.endClockHold()
}

// drainTime returns how long kernels of a silent job are taken to be on the GPU after the job was stopped.
func (g *gpu) drainTime() time.Duration { return cmp.Or(g.broker.Rules.Drain, turns.DefaultDrain) }

// handleEffect handles a message of the arbiter to this client. A grant begins a slice. At a yield a running job is
// stopped, but not before minUntil, up to which its slice lasts in any case. If the job is being stopped already, the
// clock is held from now on, since another client now waits for it.
func (s *silentClient) handleEffect(m wire.Message) {
	switch {
	case m.Type == wire.Grant:
		s.beginSlice(micros(m.Lease))
	case m.Type == wire.Yield && !s.isStopped:
		s.schedule(time.Until(s.minUntil), s.stopJob)
	case m.Type == wire.Yield && s.stopping:
		s.holdClock()
	}
}

// sliceLength returns the length of a slice of the job, which the arbiter is told as its step: the quantum (at most
// DefaultQuantum), or twice the time that stopping takes if that is longer. So the job runs for at least half of it,
// and the rest is the time until it is off the GPU again. A job that is slow to stop thus gets longer slices and still
// makes progress.
func (s *silentClient) sliceLength() time.Duration {
	quantum := cmp.Or(s.gpu.broker.Rules.Quantum, turns.DefaultQuantum)
	return max(2*s.stopCost, min(quantum, turns.DefaultQuantum))
}

// askForSlice requests a slice. The request stays open until the slice ends.
func (s *silentClient) askForSlice() {
	s.gpu.handleAsk(s.client, wire.Message{Type: wire.Ask, Seq: s.seq + 1, Estimate: s.sliceLength().Microseconds()})
}

// beginSlice starts a slice and lets the job go on. If a more important job is expected, the job is stopped in time to
// be off the GPU at the end of the slice's last step, half a step after the end of the lease (Arbiter.lease). A lease
// shorter than half a step stands for a slice of one step, and the job then runs for that step even if it is told to
// yield. If no more important job is expected, only a yield ends the slice.
func (s *silentClient) beginSlice(lease time.Duration) {
	s.cancelAction()
	s.isStopped, s.stopping, s.minUntil = false, false, time.Time{}
	s.gpu.broker.freezeController.requestThaw(s.stamp.Job)
	step := s.sliceLength()
	if lease < step/2 {
		s.minUntil = time.Now().Add(step - s.stopCost)
	}
	if s.gpu.expectsHigh() {
		s.schedule(max(lease+step/2, step)-s.stopCost, s.stopJob)
	}
}

// expectsHigh reports whether a more important job may come back for the GPU, so that a slice must end in time for it.
func (g *gpu) expectsHigh() bool {
	now := g.arbiter.State()
	return now.LookAhead && slices.ContainsFunc(now.Clients, func(c turns.ClientState) bool {
		return c.Class == share.High && c.Gap > 0
	})
}

// stopJob has the job stopped; afterStop continues. If another client waits for that, the clock is held meanwhile, as
// for a client that does not yield. Otherwise the clock goes on, since the time for stopping is part of the gap that
// the slice must fit into. If the job has no record afterwards, nothing of it was running. A stop that takes
// maxClockHold counts as failed.
func (s *silentClient) stopJob() {
	s.cancelAction()
	s.isStopped, s.stopping = true, true
	if s.state == wire.Yielding {
		s.holdClock()
	}
	epoch, began := s.epoch, time.Now()
	s.gpu.broker.freezeController.requestFreeze(s.stamp.Job, s.stamp.UID, func(err error) {
		_, nothing := os.Lstat(s.gpu.broker.frozenPath(s.stamp.Job))
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		if s.isCurrent(epoch) {
			s.afterStop(time.Since(began), err, nothing != nil)
		}
	})
	s.timer = s.newActionTimer(maxClockHold, func() { s.afterStop(maxClockHold, errStillRuns, false) })
}

var errStillRuns = fmt.Errorf("it still runs after %v", maxClockHold)

// afterStop continues after the attempt to stop the job, which took the given time; nothing means that nothing of the
// job was running. If the job had the GPU, the GPU is released after the drain, also if the job could not be stopped,
// and a next slice is requested. A job of which nothing was running counts as one that has just had a client, so that
// it is not stopped again before SilentAfter. After mostFailed failures in a row the job is given up.
func (s *silentClient) afterStop(took time.Duration, err error, nothing bool) {
	s.cancelAction()
	s.stopping = false
	s.stopCost = s.gpu.drainTime() + took
	s.endClockHold()
	switch {
	case err != nil:
		if s.failedStops++; s.failedStops >= mostFailed {
			s.giveUp(err)
			return
		}
	case nothing: // it has no process here, or Slurm has suspended it, so it needs no slices
		p := s.gpu.jobs[s.stamp.Job]
		p.since = time.Now()
		s.gpu.removeSilentClient(p)
		return
	default:
		s.failedStops = 0
	}
	if s.state == wire.Waiting {
		s.planWait()
		return
	}
	s.schedule(s.gpu.drainTime(), func() {
		s.gpu.handleRelease(s.client, 0)
		s.askForSlice()
		s.planWait()
	})
}

// planWait plans what to do with a job that waits for its slice: another try if it could not be stopped, and a shorter
// slice if stopping it took long (tryShorter). It plans nothing for a job that has a slice.
func (s *silentClient) planWait() {
	switch {
	case s.state != wire.Waiting:
	case s.failedStops > 0:
		s.schedule(stopAgain, s.stopJob)
	case s.stopCost-s.gpu.drainTime() > shortStop:
		s.schedule(halfLife, s.tryShorter)
	}
}

// tryShorter changes the waiting request to a shorter slice, as if the stop took half as long as last measured. One
// slow stop on a busy machine would otherwise count for ever: a slice that fits into no gap is never granted, and so
// the stop is never measured again.
func (s *silentClient) tryShorter() {
	s.stopCost = s.gpu.drainTime() + (s.stopCost-s.gpu.drainTime())/2
	s.gpu.stepArbiter(turns.Event{Kind: turns.Revise, Client: s.id, Class: s.stamp.Class, Job: s.stamp.Job,
		Estimate: s.sliceLength()})
	s.planWait()
}

// giveUp ends the broker's client for a job that cannot be stopped. The job runs beside the slices of others from now
// on.
func (s *silentClient) giveUp(why error) {
	s.gpu.broker.Log.Error("a job that does not ask for turns cannot be stopped: it runs beside the others' turns",
		"gpu", s.gpu.index, "job", s.stamp.Job, "error", why)
	p := s.gpu.jobs[s.stamp.Job]
	p.givenUp = true
	s.gpu.removeSilentClient(p)
}

// holdClock holds the GPU's clock until the job is stopped, so that no other client is granted the GPU meanwhile.
func (s *silentClient) holdClock() {
	s.holdsClock = true
	s.gpu.clock.hold(time.Now())
}

// endClockHold ends the hold on the GPU's clock, if this client has one.
func (s *silentClient) endClockHold() {
	if s.holdsClock {
		s.holdsClock = false
		s.gpu.releaseClockLocked()
	}
}

// cancelAction cancels the action that is under way: its timer is stopped, and what still arrives for it is ignored,
// since the epoch has changed.
func (s *silentClient) cancelAction() {
	s.epoch++
	if s.timer != nil {
		s.timer.Stop()
	}
}

// isCurrent reports whether the action of this epoch is still the latest. False: its outcome no longer counts, or the
// broker ends.
func (s *silentClient) isCurrent(epoch int) bool { return s.epoch == epoch && !s.gpu.closed }

// schedule calls do after d with the lock held, or at once if d is not positive. It cancels the action that is under
// way, since there is only one at a time.
func (s *silentClient) schedule(d time.Duration, do func()) {
	s.cancelAction()
	if d <= 0 {
		do()
		return
	}
	s.timer = s.newActionTimer(d, do)
}

// newActionTimer returns a timer that calls do after d with the lock held, unless another action has begun by then.
func (s *silentClient) newActionTimer(d time.Duration, do func()) *time.Timer {
	epoch := s.epoch
	return time.AfterFunc(d, func() {
		s.gpu.mu.Lock()
		defer s.gpu.mu.Unlock()
		if s.isCurrent(epoch) {
			do()
		}
	})
}
