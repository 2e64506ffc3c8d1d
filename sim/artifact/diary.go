package artifact

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// recorder is the state for recording rounds and spans, if Detail is set.
type recorder struct {
	changed      bool     // a job has been newly placed
	started      int      // jobs started in this round
	demandedGPUs int      // GPUs of all jobs in the queue
	staying      int      // jobs that ran in the round before and have not finished
	open         [][]int  // by job: the indices in run.Spans of its spans in the last round in which it ran
	inUse        [][]bool // by server and GPU: whether a job recorded so far in this round has it
	devices      []int    // GPUs of the job that is being recorded
}

// record records the state of the cluster right after a round, if Detail is set. Jobs that run and were not started now
// also ran in the round before. The rest of the jobs that ran before and have not finished (staying) were stopped.
func (e *engine) record(now float64) {
	if !e.Detail {
		return
	}
	running := len(e.allocated)
	e.run.Rounds = append(e.run.Rounds, outcome.Round{
		At: now, Running: running, Waiting: len(e.queue) - running,
		GPUs: e.use[gpu], CPUs: e.use[cpu], Memory: e.use[memory],
		Demand: float64(e.recording.demandedGPUs), Started: e.recording.started,
		Stopped: e.recording.staying - (running - e.recording.started),
	})
	if e.recording.changed {
		e.recordPlaces(now)
	} else {
		e.extendSpans(now + e.Round)
	}
	e.recording.changed, e.recording.started = false, 0
}

// extendSpans extends the spans of all running jobs to the end of this round (seconds), when no placement has changed.
func (e *engine) extendSpans(to float64) {
	for _, i := range e.allocated {
		for _, k := range e.recording.open[i] {
			e.run.Spans[k].To = to
		}
	}
}

// recordPlaces determines which GPUs each running job has, which the simulation itself does not need. All GPUs are free
// at the beginning of a round, so this follows from the order in which jobs were placed.
func (e *engine) recordPlaces(now float64) {
	d := &e.recording
	d.open = append(d.open, make([][]int, len(e.jobs)-len(d.open))...)
	if d.inUse == nil {
		d.inUse = make([][]bool, e.count)
		for s := range d.inUse {
			d.inUse[s] = make([]bool, e.gpus)
		}
	}
	for s := range d.inUse {
		clear(d.inUse[s])
	}
	for _, i := range e.allocated {
		e.recordPlace(i, now)
	}
}

// recordPlace begins spans of a job, or extends those of the round before if it has the same GPUs and cores.
func (e *engine) recordPlace(i int32, now float64) {
	d, j := &e.recording, &e.jobs[i]
	before := len(d.open[i])
	d.devices = d.devices[:0]
	for k := j.from; k < j.to; k++ {
		p := &e.parts[k]
		span := outcome.Span{
			Job: e.given[i].ID, Model: j.model.Name, Server: p.server, Devices: d.assignDevices(p),
			GPUs: p.gpus, CPUs: int(math.Round(p.held[cpu])), From: now, To: now + e.Round,
		}
		d.open[i] = append(d.open[i], e.spanOf(d.open[i][:before], span))
	}
	d.open[i] = slices.Delete(d.open[i], 0, before)
}

// spanOf returns the index of the earlier span that continues with the given one, or of a new span.
func (e *engine) spanOf(before []int, span outcome.Span) int {
	for _, k := range before {
		old := &e.run.Spans[k]
		if old.To == span.From && old.Server == span.Server && old.CPUs == span.CPUs &&
			slices.Equal(old.Devices, span.Devices) {
			old.To = span.To
			return k
		}
	}
	span.Devices = slices.Clone(span.Devices)
	e.run.Spans = append(e.run.Spans, span)
	return len(e.run.Spans) - 1
}

// assignDevices marks the GPUs of a part as used and returns them, ascending: the first free ones of its server, or the
// last ones.
func (d *recorder) assignDevices(p *part) []int {
	taken, from := d.inUse[p.server], len(d.devices)
	for n, k := 0, 0; n < p.gpus; k++ {
		x := k
		if p.last {
			x = len(taken) - 1 - k
		}
		if !taken[x] {
			taken[x] = true
			d.devices = append(d.devices, x)
			n++
		}
	}
	slices.Sort(d.devices[from:])
	return d.devices[from:]
}

// sortSpans sorts spans by their start, as outcome.Run requires.
func sortSpans(spans []outcome.Span) {
	slices.SortFunc(spans, func(a, b outcome.Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Server, b.Server))
	})
}
