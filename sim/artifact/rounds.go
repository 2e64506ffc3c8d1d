package artifact

import (
	"context"
	"fmt"
)

// simulate holds rounds until the simulation ends. At one moment jobs arrive first, then leases end, then the round is
// held: the order of the artifact's events (see kind).
func (e *engine) simulate(ctx context.Context) error {
	now, err := e.begin(ctx)
	if err != nil {
		return err
	}
	for {
		if err := e.admit(now); err != nil {
			return err
		}
		if e.endLeases(now) || e.Until > 0 && now >= e.Until {
			break
		}
		if err := e.hold(now); err != nil {
			return fmt.Errorf("round %d at %g s: %w", e.run.Held, now, err)
		}
		if e.hasNoJobs() {
			break
		}
		now = e.skip(now)
		e.expect(now + e.Round)
		if err := e.tell(ctx, now); err != nil {
			return err
		}
		now += e.Round
	}
	e.run.Ended = now
	if e.Progress != nil {
		e.Progress(e.done, now)
	}
	return e.checkWindow()
}

// hasNoJobs says whether no job is left and none is to arrive. Like the artifact, a Strict replay ends as soon as no
// job is there.
func (e *engine) hasNoJobs() bool {
	strict := e.Strict && e.Mode != Generated
	return len(e.queue) == 0 && (strict || e.arrived == len(e.jobs))
}

// tell reports progress from time to time, and returns the error of a cancelled context.
func (e *engine) tell(ctx context.Context, now float64) error {
	const often = 256
	if e.turns++; e.turns%often != 0 {
		return nil
	}
	if e.Progress != nil {
		e.Progress(e.done, now)
	}
	return ctx.Err()
}

// endLeases ends the round before: all resources are returned, and jobs that have finished leave. It returns whether
// the last job of the window has finished: then the simulation ends at once, and later jobs of the same moment remain
// unfinished. With an agenda, leases end in its order. If amounts are exact, clear empties the servers at once, and
// only if anything has changed.
func (e *engine) endLeases(now float64) (complete bool) {
	before := e.done
	for _, i := range e.allocated {
		if e.ordered {
			i = e.agenda.pop().job
		}
		j := &e.jobs[i]
		j.lastExec = now
		if !e.exact {
			e.release(j)
		}
		if j.isDone() && e.finish(i, now) {
			return true
		}
	}
	if e.ordered {
		e.agenda.pop() // the event of the round that is due now
	}
	e.recording.staying = len(e.allocated) - (e.done - before)
	if e.done > before {
		e.leave()
	}
	return false
}

// finish records the end of a job, and returns whether it completes the window.
func (e *engine) finish(i int32, now float64) bool {
	e.jobs[i].finish = now
	e.done++
	e.recording.asked -= e.jobs[i].gpus
	if !e.windowed() || !e.Window.Has(e.given[i].ID) {
		return false
	}
	e.missing-- // the next job is known by now, so after 0 the window gets no further job
	return e.missing == 0
}

// leave removes finished jobs from the queue. They are all within e.seen, because only jobs that the allocator has seen
// can run.
func (e *engine) leave() {
	kept := e.queue[:0]
	for _, x := range e.queue[:len(e.seen)] {
		if e.jobs[x.job].finish < 0 {
			kept = append(kept, x)
		}
	}
	e.queue = append(kept, e.queue[len(e.seen):]...)
}

// hold holds one round.
func (e *engine) hold(now float64) error {
	e.run.Held++
	e.sort(now)
	e.flagStarving(now)
	if e.unchanged() {
		e.repeatRound()
	} else {
		e.clear()
	}
	if err := e.allocate(now); err != nil {
		return err
	}
	e.charge(1)
	e.record(now)
	return nil
}

// clear takes all resources from all jobs. Downgraded jobs get their own speed back only here, after the queue was
// sorted with the old one.
func (e *engine) clear() {
	for _, i := range e.allocated {
		e.jobs[i].speed = e.jobs[i].class.speed
	}
	e.allocated, e.seen, e.parts = e.allocated[:0], e.seen[:0], e.parts[:0]
	e.free = e.count * e.gpus
	e.releaseCount++
	for k := range e.servers {
		s := &e.servers[k]
		s.free, s.jobs = e.gpus, s.jobs[:0]
		if e.exact {
			s.used, s.left = vector{}, e.server
		}
	}
}
