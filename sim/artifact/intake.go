package artifact

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Bounds of what is believed of a job. Longer ones are slips of units.
const (
	longest  = 1e10       // seconds
	mostJobs = 10_000_000 // that are all known from the beginning
)

// windowed says that the simulation ends with the window.
func (e *engine) windowed() bool { return e.Window != outcome.Window{} }

// takeAll takes all jobs, where the artifact knows them all from the beginning.
func (e *engine) takeAll(ctx context.Context) error {
	for !e.drained {
		if err := e.take(); err != nil {
			return err
		}
		if len(e.jobs) > mostJobs {
			return fmt.Errorf("mode %s: the source has no end: all jobs must be known from the beginning, want at most %d", e.Mode, mostJobs)
		}
		if len(e.jobs)%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.findTies()
	return e.findTwins()
}

// take takes the next job out of the source, if there is one.
func (e *engine) take() error {
	given, more := e.Jobs.Next()
	if !more {
		e.drained = true
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
		lastExec: never, first: never, finish: never, held: never,
	})
	return nil
}

// check finds jobs that cannot be simulated.
func (e *engine) check(given trace.Job) error {
	id, known := models.Find(given.Model)
	most := e.count * e.gpus
	switch {
	case !known:
		return fmt.Errorf("model = %q: want one of %s", given.Model, strings.Join(e.names(), ", "))
	case given.GPUs < 1:
		return fmt.Errorf("gpus = %d: want 1 or more", given.GPUs)
	case given.GPUs > most:
		return fmt.Errorf("gpus = %d: the cluster has %d: leave the job out, or take a larger cluster", given.GPUs, most)
	case given.Iterations < 1:
		return fmt.Errorf("iterations = %d: want 1 or more", given.Iterations)
	}
	iteration := e.models[id].Iteration
	switch length := float64(given.Iterations) * iteration; {
	case length > longest:
		return fmt.Errorf("iterations = %d: that takes %g s: want at most %g s", given.Iterations, length, longest)
	case iterations(e.Round, iteration) < 1:
		return fmt.Errorf("model = %s: an iteration takes %g s and never ends in rounds of %g s: want longer rounds", given.Model, iteration, e.Round)
	}
	return e.checkPlace(given)
}

func (e *engine) names() []string {
	var names []string
	for _, m := range e.models {
		names = append(names, m.Name)
	}
	return names
}

// checkPlace wants a job to stand where its source must have put it.
func (e *engine) checkPlace(given trace.Job) error {
	if !(given.Arrival >= 0 && given.Arrival <= longest) {
		return fmt.Errorf("arrival = %g s: want 0 to %g", given.Arrival, longest)
	}
	if len(e.given) == 0 {
		return nil
	}
	last := e.given[len(e.given)-1]
	switch {
	case given.Arrival < last.Arrival:
		return fmt.Errorf("arrival = %g s: job %d before it arrives at %g s: want jobs in the order of their arrival", given.Arrival, last.ID, last.Arrival)
	case e.Mode == Generated && given.ID <= last.ID:
		return fmt.Errorf("it comes after job %d: want ascending IDs in mode %s", last.ID, e.Mode)
	}
	return nil
}

// findTwins finds IDs that two jobs have.
func (e *engine) findTwins() error {
	ids := make([]int, len(e.given))
	for i, given := range e.given {
		ids[i] = given.ID
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return fmt.Errorf("job %d: two jobs have this ID: want each once", ids[i])
		}
	}
	return nil
}

// findTies finds the last job that arrives together with the one before it.
func (e *engine) findTies() {
	for i := 1; i < len(e.jobs); i++ {
		if e.jobs[i].arrival == e.jobs[i-1].arrival {
			e.lastTie = i
		}
	}
}

// classOf is the class of a job that has been checked. Classes of a model stand in the order of their GPUs.
func (e *engine) classOf(given trace.Job) *class {
	id, _ := models.Find(given.Model)
	at, known := slices.BinarySearchFunc(e.classes[id], given.GPUs, func(c *class, gpus int) int { return c.gpus - gpus })
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

// begin prepares the first round and says when it is.
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
	switch e.Mode {
	case Static:
		first = 1
	case Replay:
		first = math.Ceil(e.jobs[0].arrival/e.Round) * e.Round
	}
	if e.keepOrder() {
		e.openAgenda()
		e.agenda.push(event{first, schedule, 0})
	}
	return first, e.checkWindow()
}

// checkWindow wants the window to have jobs, once all are known.
func (e *engine) checkWindow() error {
	if !e.windowed() || !e.drained {
		return nil
	}
	least, most := e.given[0].ID, e.given[0].ID
	for _, given := range e.given {
		if e.Window.Has(given.ID) {
			return nil
		}
		least, most = min(least, given.ID), max(most, given.ID)
	}
	return fmt.Errorf("window %d-%d has no job: the jobs are %d to %d", e.Window.First, e.Window.End, least, most)
}

// admit lets jobs arrive that have arrived by now.
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

func (e *engine) nextArrival(now float64) (i int32, due bool) {
	switch {
	case e.ordered && e.agenda[0].kind == arrival:
		return e.agenda.pop().job, true
	case e.ordered || e.arrived == len(e.jobs) || e.jobs[e.arrived].arrival > now:
		return 0, false
	}
	return int32(e.arrived), true
}

// takeNext takes the job that is drawn when the one before has arrived.
func (e *engine) takeNext() error {
	if err := e.take(); err != nil {
		return err
	}
	if e.ordered && !e.drained {
		e.agenda.push(event{e.jobs[e.arrived].arrival, arrival, int32(e.arrived)})
	}
	return nil
}

func (e *engine) arrive(i int32) {
	j := &e.jobs[i]
	e.arrived++
	e.diary.asked += j.gpus
	x := entry{arrival: j.arrival, late: 1, job: i}
	if j.urgent {
		x.late = 0
	}
	e.queue, e.unsorted = append(e.queue, x), true
}

// binary says that the arithmetic on what jobs of the class hold is exact: its amounts are short in binary, and so is any part of its
// GPUs in all of them.
func (c *class) binary() bool {
	d, f := c.demand.whole, c.fair.whole
	return bits.OnesCount(uint(c.gpus)) == 1 && c.gpus <= 1024 && short(d[:]...) && short(f[:]...)
}
