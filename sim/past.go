package sim

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// recordedOutcome returns the outcome recorded in the log, up to the time at which a simulation would end, to compare
// simulations with it. Jobs that arrive later are left out, as in a simulation, where they would not have been
// submitted. Every product is converted by float64, here and in the engines: otherwise some processors fuse it with the
// sum, and the last digit depends on the machine (tests/rounding_test.go).
func (e Experiment) recordedOutcome(c cell) outcome.Run {
	run := outcome.Run{GPUs: e.Cluster.GPUs(), CPUs: e.Cluster.CPUs(), Memory: e.Cluster.Memory()}
	run.Ended = e.recordedEnd(c.workload.Jobs)
	for _, j := range c.workload.Jobs {
		if j.Arrival >= run.Ended {
			continue
		}
		run.Jobs = append(run.Jobs, recordedJob(j, run.Ended))
		held := heldUntil(j, run.Ended)
		run.BusyGPUs += float64(held * float64(j.GPUs))
		run.BusyCPUs += float64(held * float64(j.Told.Past.CPUs))
		run.BusyMemory += float64(held * j.Told.Past.Memory)
	}
	if e.Detail {
		run.Rounds = recordedRounds(c.workload.Jobs, e.Round.Seconds(), run.Ended)
	}
	slices.SortFunc(run.Jobs, func(a, b outcome.Job) int { return cmp.Compare(a.ID, b.ID) })
	return run
}

// recordedEnd is when the last job of the window had ended, but at most e.Until, in seconds since the beginning of the
// log: the end that a simulation of these jobs has.
func (e Experiment) recordedEnd(jobs []trace.Job) float64 {
	end := 0.0
	for _, j := range jobs {
		if e.Window.Has(j.ID) {
			end = max(end, j.Told.Past.Ended)
		}
	}
	if e.Until > 0 {
		end = min(end, e.Until.Seconds())
	}
	return end
}

// recordedJob is the outcome of a job in the log up to end, in seconds. A job that had not started or not ended by then
// is shown as waiting or unfinished. Its length is the time that it ran on the site, since the log knows no other size.
func recordedJob(j trace.Job, end float64) outcome.Job {
	job := outcome.Job{
		ID: j.ID, Model: j.Model, User: j.User, GPUs: j.GPUs, Arrival: j.Arrival, Length: j.Told.Past.Ran,
		FirstRun: -1, Finish: -1, AttainedGPU: float64(heldUntil(j, end) * float64(j.GPUs)),
	}
	if j.Told.Past.Started < end {
		job.FirstRun, job.Starts = j.Told.Past.Started, j.Told.Past.Runs
	}
	if j.Told.Past.Ended <= end {
		job.Finish = j.Told.Past.Ended
	}
	return job
}

// heldUntil is for how many seconds a job had held its resources by end. Of a restarted job the log has only the total
// length of its runs, so these count as spread evenly between the first start and the last end.
func heldUntil(j trace.Job, end float64) float64 {
	passed := min(end, j.Told.Past.Ended) - j.Told.Past.Started
	if passed <= 0 {
		return 0
	}
	return min(j.Told.Past.Ran, j.Told.Past.Ran*passed/(j.Told.Past.Ended-j.Told.Past.Started))
}

// stateChange is a change of the cluster's totals at a moment.
type stateChange struct{ at, running, waiting, gpus, cpus, memory, demand, started float64 }

// recordedRounds returns the state of the cluster at multiples of apart seconds, in the form in which engines record
// rounds, so that reports can show it beside theirs. Times at which nothing had changed are left out. A change counts
// at the next multiple; of several changes before it, only the state after the last is kept.
func recordedRounds(jobs []trace.Job, apart, end float64) []outcome.Round {
	var changes []stateChange
	for _, j := range jobs {
		gpus, cpus := float64(j.GPUs), float64(j.Told.Past.CPUs)
		changes = append(changes,
			stateChange{at: j.Arrival, waiting: 1, demand: gpus},
			stateChange{at: j.Told.Past.Started, waiting: -1, running: 1, gpus: gpus, cpus: cpus,
				memory: j.Told.Past.Memory, started: 1},
			stateChange{at: j.Told.Past.Ended, running: -1, gpus: -gpus, cpus: -cpus,
				memory: -j.Told.Past.Memory, demand: -gpus})
	}
	slices.SortStableFunc(changes, func(a, b stateChange) int { return cmp.Compare(a.at, b.at) })
	var rounds []outcome.Round
	sum := stateChange{}
	for i, c := range changes {
		sum.add(c)
		due := math.Ceil(c.at/apart) * apart
		if due > end || i+1 < len(changes) && changes[i+1].at <= due {
			continue
		}
		// Memory is a fraction of GB, and the sum of what came and went may be slightly below 0.
		rounds = append(rounds, outcome.Round{At: due, Running: int(sum.running), Waiting: int(sum.waiting),
			GPUs: sum.gpus, CPUs: sum.cpus, Memory: max(0, sum.memory), Demand: sum.demand, Started: int(sum.started)})
		sum.started = 0 // counts the starts since the last record; the others are totals
	}
	return rounds
}

// add adds a later change, but keeps the moment.
func (c *stateChange) add(more stateChange) {
	c.running, c.waiting, c.started = c.running+more.running, c.waiting+more.waiting, c.started+more.started
	c.gpus, c.cpus, c.memory = c.gpus+more.gpus, c.cpus+more.cpus, c.memory+more.memory
	c.demand += more.demand
}
