package artifact

import (
	"context"
	"fmt"
)

// simulate holds rounds until the window is complete, Until is reached, or no job is left. At one moment jobs arrive
// first, then the leases of the last round end, then the next round is held, because the artifact handles events of
// equal time in this order.
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
		if err := e.holdRound(now); err != nil {
			return fmt.Errorf("round %d at %g s: %w", e.run.Held, now, err)
		}
		if e.hasNoJobs() {
			break
		}
		now = e.skipRounds(now)
		e.scheduleEvents(now + e.Round)
		if err := e.reportProgress(ctx, now); err != nil {
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

// hasNoJobs says whether no job is left and none is to arrive, which ends the simulation. Like the artifact, a Strict
// replay ends as soon as no job is there, even if more are to arrive.
func (e *engine) hasNoJobs() bool {
	strict := e.Strict && e.Mode != Generated
	return len(e.queue) == 0 && (strict || e.arrived == len(e.jobs))
}

// reportProgress calls Progress and checks the context, but only in every 256th iteration of the main loop, to save
// time. Its error is that of a cancelled context.
func (e *engine) reportProgress(ctx context.Context, now float64) error {
	const often = 256
	if e.turns++; e.turns%often != 0 {
		return nil
	}
	if e.Progress != nil {
		e.Progress(e.done, now)
	}
	return ctx.Err()
}

// endLeases ends the round before: all jobs that ran in it return their resources, and those that are done leave the
// queue. complete says that the last job of the window has finished. The simulation then ends at once, and other jobs
// that end at the same moment may remain unfinished, as in the artifact. With an agenda, leases end in the agenda's
// order. If amounts are exact, nothing is subtracted here: holdRound empties the servers (clear), and only if the next
// round's placement may differ.
func (e *engine) endLeases(now float64) (complete bool) {
	before := e.done
	for _, i := range e.allocated {
		if e.hasAgenda {
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
	if e.hasAgenda {
		e.agenda.pop() // the event of the round that is due now
	}
	e.recording.staying = len(e.allocated) - (e.done - before)
	if e.done > before {
		e.removeFinished()
	}
	return false
}

// finish records that job i ends now, and returns whether it completes the window, which ends the simulation. Without a
// window, and for a job outside it, it returns false.
func (e *engine) finish(i int32, now float64) bool {
	e.jobs[i].finish = now
	e.done++
	e.recording.demandedGPUs -= e.jobs[i].gpus
	if !e.hasWindow() || !e.Window.Has(e.given[i].ID) {
		return false
	}
	e.unfinishedInWindow-- // the next job is known by now, so after 0 the window gets no further job
	return e.unfinishedInWindow == 0
}

// removeFinished removes finished jobs from the queue. Only the beginning that the allocator has considered
// (e.considered) is searched, because no other job can have run.
func (e *engine) removeFinished() {
	kept := e.queue[:0]
	for _, x := range e.queue[:len(e.considered)] {
		if e.jobs[x.job].finish < 0 {
			kept = append(kept, x)
		}
	}
	e.queue = append(kept, e.queue[len(e.considered):]...)
}

// holdRound holds one round: it sorts the queue and gives jobs their resources anew. If nothing has changed that could
// lead to another placement, the jobs keep their places instead, which gives the same result in less time.
func (e *engine) holdRound(now float64) error {
	e.run.Held++
	e.sort(now)
	e.flagStarving(now)
	if e.keepsPlaces() {
		e.repeatRound()
	} else {
		e.clear()
	}
	if err := e.allocate(now); err != nil {
		return err
	}
	e.addUsage(1)
	e.record(now)
	return nil
}

// clear takes all resources from all jobs, as the artifact does before each round. Downgraded jobs get their own speed
// back only here and not before the queue is sorted, because the artifact sorts by the outdated speed.
func (e *engine) clear() {
	for _, i := range e.allocated {
		e.jobs[i].speed = e.jobs[i].class.speed
	}
	e.allocated, e.considered, e.parts = e.allocated[:0], e.considered[:0], e.parts[:0]
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
