package backfill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// never is later than any event.
const never = time.Duration(math.MaxInt64)

// job is a submitted job. Times count from the beginning.
type job struct {
	trace.Job
	users.Request
	jobIndex int           // index in controller.jobs
	limit    time.Duration // ≥ length: when Slurm would end it
	length   time.Duration // that it runs, including the launch delay
	started  time.Duration // when it started; meaningless before
	endTime  time.Duration // the end of its run, which the schedulers do not know
	freedAt  time.Duration // when its nodes become free after its end; never: it still runs
	limitEnd time.Duration // the end by its time limit, which is all that Slurm knows
	nodes    []int         // ascending
}

// controller is the simulated slurmctld with its nodes and jobs. It has two schedulers, as Slurm: startInOrder starts
// jobs in the order of the queue after each change, and backfill plans the first jobs of the queue (bf_max_job_test) at
// intervals.
type controller struct {
	Config
	now   time.Duration
	total []gres.Vector // capacity of each node
	free  []gres.Vector // of each node

	next    *job   // the next job to arrive; nil: not read yet, or none is left
	queue   []*job // waiting jobs in Slurm's order
	running []*job // in the order of their starts, including jobs that are completing

	schedulerDue       time.Duration // when the scheduler next goes through the queue; never: nothing has changed
	backfillDue        time.Duration // when backfill may plan next, if something has changed
	changedSincePlan   bool          // resources or the queue, since backfill last planned
	jobs               []outcome.Job // the outcome, in the order of arrival
	finishedJobs       int           // finished jobs
	finishedInWindow   int           // finished jobs of the window
	arriving           time.Duration // when next arrives; never: no job is left
	run                outcome.Run   // the outcome so far
	sampled            time.Duration // when the last sample was taken
	changedSinceSample bool          // something changed since the last sample
	started            int           // jobs started since the last sample
}

// newController prepares an empty cluster at time 0; the first step reads the first job.
func newController(config Config) *controller {
	c := &controller{Config: config, schedulerDue: never, backfillDue: config.Slurm.Interval, sampled: -never}
	for _, node := range config.Cluster.Nodes() {
		c.total = append(c.total, config.Cluster.Groups[node.Group].Vector())
	}
	c.free = slices.Clone(c.total)
	c.run = outcome.Run{
		GPUs: config.Cluster.GPUs(), CPUs: config.Cluster.CPUs(), Memory: config.Cluster.Memory(),
	}
	return c
}

// mayContinue says whether the simulation goes on: until Until, until all jobs of the window have finished, or until no
// job is left and none is to arrive.
func (c *controller) mayContinue() bool {
	switch {
	case c.Until > 0 && c.now >= c.Until:
		return false
	case c.Window != outcome.Window{} && c.finishedInWindow == cmp.Or(c.WindowJobs, c.Window.End-c.Window.First):
		return false
	}
	return c.arriving != never || len(c.queue)+len(c.running) > 0
}

// step advances to the next event, but at most to the end of the simulation, and handles it. Nodes are freed before
// jobs arrive, and both come before the schedulers run, so that these see all changes of the moment.
func (c *controller) step() error {
	moment, err := c.nextEvent()
	if err != nil {
		return err
	}
	c.sample(min(moment, c.latestEnd()))
	if c.now = min(moment, c.latestEnd()); c.now < moment {
		return nil
	}
	c.endJobs()
	if err := c.admitJobs(); err != nil {
		return err
	}
	if c.schedulerDue <= c.now {
		c.schedulerDue = never
		c.startInOrder()
	}
	if c.backfillDue <= c.now {
		c.backfill()
	}
	return nil
}

// latestEnd is when the simulation ends at the latest; never: only when no job is left.
func (c *controller) latestEnd() time.Duration {
	if c.Until > 0 {
		return c.Until
	}
	return never
}

// nextEvent is the time of the next event: an arrival, the end of a job or of its teardown, or a run of a scheduler. It
// is an error if jobs wait although nothing can happen any more: no job arrives or ends, and backfill has found no
// place for them. If the source has no job at all, there is no event, and the time is now.
func (c *controller) nextEvent() (time.Duration, error) {
	if c.next == nil && c.arriving != never {
		if err := c.readNextJob(); err != nil {
			return 0, err
		}
	}
	moment := min(c.arriving, c.schedulerDue)
	for _, j := range c.running {
		if j.freedAt == never {
			moment = min(moment, j.endTime)
		} else {
			moment = min(moment, j.freedAt)
		}
	}
	if c.changedSincePlan && len(c.queue) > 0 {
		moment = min(moment, max(c.backfillDue, c.now))
	}
	if moment == never && len(c.queue) > 0 {
		return 0, fmt.Errorf("job %d: waits for ever", c.queue[0].ID)
	}
	if moment == never {
		moment = c.now
	}
	return moment, nil
}

// readNextJob reads the next job of the source into c.next, with its request, and the time of its arrival; at the end
// of the source arriving is never. Its length is rounded to microseconds, which hides the rounding errors of iterations
// times speed, and includes the launch, during which the job already holds its nodes.
func (c *controller) readNextJob() error {
	j, more := c.Jobs.Next()
	if !more {
		c.arriving = never
		return nil
	}
	asked, err := users.Ask(c.Cluster, c.Profiles, j)
	if err != nil {
		return fmt.Errorf("job %d: %w", j.ID, err)
	}
	at := seconds(j.Arrival)
	if at < c.now {
		return fmt.Errorf("job %d arrives at %v s, before the one that it follows: want arrivals in order", j.ID,
			j.Arrival)
	}
	length := seconds(asked.Length).Round(time.Microsecond) + c.Slurm.Launch
	c.next, c.arriving = &job{Job: j, Request: asked, length: length, limit: timeLimit(j.Told.Asked.Limit, length)}, at
	return nil
}

// timeLimit is a job's time limit in whole minutes, as Slurm has it: that of the log in seconds, but at least the job's
// length, so that no job is ended by its limit.
func timeLimit(told float64, length time.Duration) time.Duration {
	limit := max(seconds(told), length)
	return (limit + time.Minute - 1) / time.Minute * time.Minute
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// admitJobs adds the jobs that arrive by now to the queue, at their places by priority.
func (c *controller) admitJobs() error {
	for c.next != nil && c.arriving <= c.now {
		j := c.next
		c.next = nil
		j.jobIndex = len(c.jobs)
		c.jobs = append(c.jobs, outcome.Job{
			ID: j.ID, Model: j.Model, User: j.User, GPUs: j.GPUs, Arrival: j.Arrival, Length: j.Length, FirstRun: -1,
			Finish: -1,
		})
		c.noteChange()
		at, _ := slices.BinarySearchFunc(c.queue, j, compareQueueOrder)
		c.queue = slices.Insert(c.queue, at, j)
		if err := c.readNextJob(); err != nil {
			return err
		}
	}
	return nil
}

// compareQueueOrder is Slurm's queue order: higher priority first, then earlier arrival, then smaller ID.
func compareQueueOrder(a, b *job) int {
	return cmp.Or(cmp.Compare(b.Told.Asked.Priority, a.Told.Asked.Priority), cmp.Compare(a.Arrival, b.Arrival),
		cmp.Compare(a.ID, b.ID))
}

// noteChange notes that resources or the queue have changed, so that both schedulers run: the first one after its
// delay, and backfill when its interval is over.
func (c *controller) noteChange() {
	c.changedSincePlan, c.changedSinceSample = true, true
	c.schedulerDue = min(c.schedulerDue, c.now+c.Slurm.Scheduler)
}

// endJobs ends jobs whose time has come, and frees the nodes of those whose teardown is over. Until then a job that has
// ended stays in running and holds its nodes, as one that is COMPLETING.
func (c *controller) endJobs() {
	c.running = slices.DeleteFunc(c.running, func(j *job) bool {
		if j.freedAt == never && j.endTime <= c.now {
			c.recordEnd(j)
		}
		if j.freedAt > c.now {
			return false
		}
		for _, n := range j.nodes {
			c.free[n] = c.free[n].Plus(j.PerNode)
		}
		c.noteChange()
		return true
	})
}

// startInOrder starts jobs in the order of the queue up to the first that does not fit, as sched/builtin does.
func (c *controller) startInOrder() {
	for len(c.queue) > 0 && c.tryNow(c.queue[0]) {
		c.queue = slices.Delete(c.queue, 0, 1)
	}
}

// tryNow starts the job if it fits on the free resources, and returns whether it has started.
func (c *controller) tryNow(j *job) bool {
	nodes := chooseNodes(j, c.free, allNodes(len(c.total)))
	if nodes == nil {
		return false
	}
	c.start(j, nodes)
	return true
}

// start starts the job on these nodes. That is a change for backfill, which must plan anew, but no reason to call
// startInOrder: it frees nothing. The caller removes the job from the queue.
func (c *controller) start(j *job, nodes []int) {
	j.nodes, j.started = nodes, c.now
	j.endTime, j.limitEnd, j.freedAt = c.now+j.length, c.now+j.limit, never
	for _, n := range nodes {
		c.free[n] = c.free[n].Minus(j.PerNode)
	}
	c.running = append(c.running, j)
	c.jobs[j.jobIndex].FirstRun, c.jobs[j.jobIndex].Starts = j.started.Seconds(), 1
	c.changedSincePlan, c.changedSinceSample = true, true
	c.started++
}
