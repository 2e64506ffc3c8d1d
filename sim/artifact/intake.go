package artifact

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// hasWindow says whether the simulation ends with the window.
func (e *engine) hasWindow() bool { return e.Window != outcome.Window{} }

// readAllJobs reads all jobs, in the modes in which the artifact knows them from the beginning, and checks that no ID
// occurs twice. A source with more than maxJobs counts as endless, which is an error.
func (e *engine) readAllJobs(ctx context.Context) error {
	for !e.sourceEmpty {
		if err := e.readJob(); err != nil {
			return err
		}
		if len(e.jobs) > maxJobs {
			return fmt.Errorf(
				"mode %s: the source has no end: all jobs must be known from the beginning, want at most %d", e.Mode,
				maxJobs)
		}
		if len(e.jobs)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.findTies()
	return e.checkUniqueIDs()
}

// readJob reads the next job from the source and checks it; at the end of the source it only sets sourceEmpty. If the
// job's amounts have too many binary digits, arithmetic is no longer exact from here on.
func (e *engine) readJob() error {
	given, more := e.Jobs.Next()
	if !more {
		e.sourceEmpty = true
		return nil
	}
	if err := e.checkJob(given); err != nil {
		return fmt.Errorf("job %d: %w", given.ID, err)
	}
	c := e.classOf(given)
	e.exact = e.exact && c.hasExactAmounts()
	if e.hasWindow() && e.Window.Has(given.ID) {
		e.unfinishedInWindow++
	}
	e.given = append(e.given, given)
	e.jobs = append(e.jobs, job{
		class: c, arrival: given.Arrival, total: given.Iterations, speed: c.speed,
		urgent:   e.Prioritize && e.Window.Has(given.ID),
		lastExec: never, firstStart: never, finish: never, lastRound: never,
	})
	return nil
}

// findTies finds the last job that arrives at the same time as the one before it. Until that job has arrived, an agenda
// is needed, because its layout decides the order of equal arrivals in the queue.
func (e *engine) findTies() {
	for i := 1; i < len(e.jobs); i++ {
		if e.jobs[i].arrival == e.jobs[i-1].arrival {
			e.lastTie = i
		}
	}
}

// classOf returns the class of a job that has passed checkJob, and makes the class if it is new. The classes of a model
// are sorted by GPUs, and e.sizes by descending GPUs, the order in which Tune serves jobs under LAS.
func (e *engine) classOf(given trace.Job) *class {
	id, _ := models.Find(given.Model)
	at, known := slices.BinarySearchFunc(e.classes[id], given.GPUs,
		func(c *class, gpus int) int { return c.gpus - gpus })
	if known {
		return e.classes[id][at]
	}
	c := newClass(&e.shape, id, e.models[id], given.GPUs, e.Round)
	if e.Allocator == Opt {
		c.opt = newChooser(&e.shape, c, e.Round)
	}
	e.classes[id] = slices.Insert(e.classes[id], at, c)
	if at, known := slices.BinarySearchFunc(e.sizes, given.GPUs, func(a, b int) int { return b - a }); !known {
		e.sizes = slices.Insert(e.sizes, at, given.GPUs)
	}
	return c
}

// begin reads the jobs, opens the agenda if it is needed, and returns the time of the first round in seconds. In mode
// Generated it reads one job only: the next one is drawn when that has arrived. A source without jobs is an error.
func (e *engine) begin(ctx context.Context) (first float64, err error) {
	if e.Mode == Generated {
		err = e.readJob()
	} else {
		err = e.readAllJobs(ctx)
	}
	switch {
	case err != nil:
		return 0, err
	case len(e.jobs) == 0:
		return 0, fmt.Errorf("mode %s: there are no jobs: want at least one", e.Mode)
	}
	first = e.firstRound()
	if e.isOrderVisible() {
		e.openAgenda()
		e.agenda.push(event{first, schedule, 0})
	}
	return first, e.checkWindow()
}

// firstRound is the time of the first round in seconds, which depends on the mode as in the artifact. A replay begins
// at the first multiple of the round at which a job has arrived.
func (e *engine) firstRound() float64 {
	switch e.Mode {
	case Static:
		return 1
	case Replay:
		return math.Ceil(e.jobs[0].arrival/e.Round) * e.Round
	default:
		return 0
	}
}

// admit appends all jobs to the queue that arrive by now. In mode Generated each arrival draws the next job, which may
// be due as well.
func (e *engine) admit(now float64) error {
	for {
		i, due := e.nextArrival(now)
		if !due {
			return nil
		}
		e.arrive(i)
		if e.Mode != Generated {
			continue
		}
		if err := e.drawNextJob(); err != nil {
			return err
		}
	}
}

// nextArrival returns the next job that arrives by now; due is false if there is none. With an agenda the job comes
// from there. The round that is due now is on it too, so an arrival at its head is before that and therefore due.
func (e *engine) nextArrival(now float64) (i int32, due bool) {
	switch {
	case e.hasAgenda && e.agenda[0].kind == arrival:
		return e.agenda.pop().job, true
	case e.hasAgenda || e.arrived == len(e.jobs) || e.jobs[e.arrived].arrival > now:
		return 0, false
	}
	return int32(e.arrived), true
}

// drawNextJob reads the next job in mode Generated, when the one before has arrived, as the artifact does. It goes on
// the agenda at this point, because the layout depends on that.
func (e *engine) drawNextJob() error {
	if err := e.readJob(); err != nil {
		return err
	}
	if e.hasAgenda && !e.sourceEmpty {
		e.agenda.push(event{e.jobs[e.arrived].arrival, arrival, int32(e.arrived)})
	}
	return nil
}

// arrive appends job i to the queue, which the policy then sorts again. Urgent jobs come first.
func (e *engine) arrive(i int32) {
	j := &e.jobs[i]
	e.arrived++
	e.recording.demandedGPUs += j.gpus
	x := entry{arrival: j.arrival, urgencyRank: 1, job: i}
	if j.urgent {
		x.urgencyRank = 0
	}
	e.queue, e.unsorted = append(e.queue, x), true
}
