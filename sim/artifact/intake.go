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

// windowed says whether the simulation ends with the window.
func (e *engine) windowed() bool { return e.Window != outcome.Window{} }

// takeAll reads all jobs, in the modes in which the artifact knows them from the beginning. A source with more than
// mostJobs counts as endless.
func (e *engine) takeAll(ctx context.Context) error {
	for !e.sourceEmpty {
		if err := e.take(); err != nil {
			return err
		}
		if len(e.jobs) > mostJobs {
			return fmt.Errorf(
				"mode %s: the source has no end: all jobs must be known from the beginning, want at most %d", e.Mode,
				mostJobs)
		}
		if len(e.jobs)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.findTies()
	return e.findTwins()
}

// take reads the next job from the source, if there is one. With it, amounts may cease to be exact.
func (e *engine) take() error {
	given, more := e.Jobs.Next()
	if !more {
		e.sourceEmpty = true
		return nil
	}
	if err := e.check(given); err != nil {
		return fmt.Errorf("job %d: %w", given.ID, err)
	}
	c := e.classOf(given)
	e.exact = e.exact && c.binary()
	if e.windowed() && e.Window.Has(given.ID) {
		e.missing++
	}
	e.given = append(e.given, given)
	e.jobs = append(e.jobs, job{
		class: c, arrival: given.Arrival, total: given.Iterations, speed: c.speed,
		urgent:   e.Prioritize && e.Window.Has(given.ID),
		lastExec: never, first: never, finish: never, lastRound: never,
	})
	return nil
}

// findTies finds the last job that arrives at the same time as the one before it: up to that one, the order of equal
// arrivals can be visible (see agenda).
func (e *engine) findTies() {
	for i := 1; i < len(e.jobs); i++ {
		if e.jobs[i].arrival == e.jobs[i-1].arrival {
			e.lastTie = i
		}
	}
}

// classOf returns the class of a checked job, and makes it if it is new. The classes of a model are sorted by GPUs.
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

// begin prepares the first round and returns its time. In mode Generated it takes one job only: the next one is drawn
// when that has arrived.
func (e *engine) begin(ctx context.Context) (first float64, err error) {
	if e.Mode == Generated {
		err = e.take()
	} else {
		err = e.takeAll(ctx)
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

// firstRound is the time of the first round, which depends on the mode.
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

// admit lets all jobs arrive whose time has come.
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
		if err := e.takeNext(); err != nil {
			return err
		}
	}
}

// nextArrival returns the next job that arrives by now; from the agenda, if that is kept. There the ends of leases and
// the round that are due now are events, too, so an arrival before them is due.
func (e *engine) nextArrival(now float64) (i int32, due bool) {
	switch {
	case e.ordered && e.agenda[0].kind == arrival:
		return e.agenda.pop().job, true
	case e.ordered || e.arrived == len(e.jobs) || e.jobs[e.arrived].arrival > now:
		return 0, false
	}
	return int32(e.arrived), true
}

// takeNext reads the job that the artifact draws when the one before has arrived.
func (e *engine) takeNext() error {
	if err := e.take(); err != nil {
		return err
	}
	if e.ordered && !e.sourceEmpty {
		e.agenda.push(event{e.jobs[e.arrived].arrival, arrival, int32(e.arrived)})
	}
	return nil
}

// arrive appends a job to the queue.
func (e *engine) arrive(i int32) {
	j := &e.jobs[i]
	e.arrived++
	e.recording.asked += j.gpus
	x := entry{arrival: j.arrival, late: 1, job: i}
	if j.urgent {
		x.late = 0
	}
	e.queue, e.unsorted = append(e.queue, x), true
}
