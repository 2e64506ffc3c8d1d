package backfill

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// jobsPerReport is the number of finished jobs between two calls of Progress.
const jobsPerReport = 64

func gigabytes(m gres.Memory) float64 { return float64(m) / float64(gres.Gigabyte) }

// recordEnd records the end of a job, and reports progress from time to time. The job's nodes are free only after its
// teardown, at j.freedAt, and count as held until then.
func (c *controller) recordEnd(j *job) {
	j.freedAt = j.endTime + c.Slurm.Teardown
	c.jobs[j.jobIndex].Finish = j.endTime.Seconds()
	c.addHeld(j, j.freedAt)
	c.changedSinceSample = true
	c.finishedJobs++
	if c.Window != (outcome.Window{}) && c.Window.Has(j.ID) {
		c.finishedInWindow++
	}
	if c.Progress != nil && c.finishedJobs%jobsPerReport == 0 {
		c.Progress(c.finishedJobs, c.now.Seconds())
	}
}

// addHeld adds what a job held from its start until a time to the totals, and records its spans if samples are kept.
func (c *controller) addHeld(j *job, until time.Duration) {
	held := (until - j.started).Seconds() * float64(len(j.nodes))
	c.run.BusyGPUs += float64(held * float64(j.PerNode.GPUs))
	c.run.BusyCPUs += float64(held * float64(j.PerNode.CPUs))
	c.run.BusyMemory += float64(held * gigabytes(j.PerNode.Memory))
	c.jobs[j.jobIndex].AttainedGPU = float64((until - j.started).Seconds() * float64(j.GPUs))
	if c.Sample == 0 {
		return
	}
	for _, n := range j.nodes {
		c.run.Spans = append(c.run.Spans, outcome.Span{
			Job: j.ID, Model: j.Model, Server: n, GPUs: j.PerNode.GPUs, CPUs: j.PerNode.CPUs,
			From: j.started.Seconds(), To: until.Seconds(),
		})
	}
}

// sample records the present state at the next multiple of Sample, if that is before the next event (until) and the
// state has changed since the last sample. Nothing changes before the next event, so each sample shows the cluster at
// its own time.
func (c *controller) sample(until time.Duration) {
	due := (c.now + c.Sample - 1) / max(c.Sample, 1) * c.Sample // max: nothing is divided by 0 without samples
	if c.Sample == 0 || !c.changedSinceSample || due >= until || due <= c.sampled {
		return
	}
	r := outcome.Round{At: due.Seconds(), Running: len(c.running), Waiting: len(c.queue), Started: c.started}
	for _, j := range c.running {
		n := float64(len(j.nodes))
		r.GPUs += float64(n * float64(j.PerNode.GPUs))
		r.CPUs += float64(n * float64(j.PerNode.CPUs))
		r.Memory += float64(n * gigabytes(j.PerNode.Memory))
		r.Demand += float64(j.GPUs)
	}
	for _, j := range c.queue {
		r.Demand += float64(j.GPUs)
	}
	c.run.Rounds = append(c.run.Rounds, r)
	c.sampled, c.changedSinceSample, c.started = due, false, 0
}

// outcome returns the results when the simulation has ended. Jobs that still run are added now; others were added when
// they ended. The sums are rounded to hide the errors of adding many floats.
func (c *controller) outcome() outcome.Run {
	for _, j := range c.running {
		if j.freedAt == never {
			c.addHeld(j, c.now)
		}
	}
	c.run.Ended, c.run.Jobs = c.now.Seconds(), c.jobs
	slices.SortFunc(c.run.Jobs, func(a, b outcome.Job) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.run.Spans, func(a, b outcome.Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Server, b.Server))
	})
	for _, busy := range []*float64{&c.run.BusyGPUs, &c.run.BusyCPUs, &c.run.BusyMemory} {
		*busy = math.Round(*busy*1e6) / 1e6
	}
	return c.run
}
