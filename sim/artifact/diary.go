package artifact

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// diary is what is recorded of every round where details are asked for.
type diary struct {
	changed bool     // somebody has been placed anew
	started int      // jobs
	asked   int      // GPUs of all in the queue
	staying int      // jobs that ran in the round before and have not finished
	open    [][]int  // of each job, its spans in the last round in which it ran, among those of the run
	taken   [][]bool // GPUs, by server
	devices []int    // of the job in hand
}

// record notes the cluster right after a round.
func (e *engine) record(now float64) {
	if !e.Detail {
		return
	}
	running := len(e.allocated)
	e.run.Rounds = append(e.run.Rounds, outcome.Round{
		At: now, Running: running, Waiting: len(e.queue) - running,
		GPUs: e.use[gpu], CPUs: e.use[cpu], Memory: e.use[memory],
		Demand: float64(e.diary.asked), Started: e.diary.started,
		Stopped: e.diary.staying - (running - e.diary.started),
	})
	if e.diary.changed {
		e.recordPlaces(now)
	} else {
		e.prolong(now + e.Round)
	}
	e.diary.changed, e.diary.started = false, 0
}

// prolong lets everybody stay for one more round.
func (e *engine) prolong(to float64) {
	for _, i := range e.allocated {
		for _, k := range e.diary.open[i] {
			e.run.Spans[k].To = to
		}
	}
}

// recordPlaces finds out which GPUs everybody has. Since all are free at the beginning of a round, that follows from
// who was placed where, in turn.
func (e *engine) recordPlaces(now float64) {
	d := &e.diary
	d.open = append(d.open, make([][]int, len(e.jobs)-len(d.open))...)
	if d.taken == nil {
		d.taken = make([][]bool, e.count)
		for s := range d.taken {
			d.taken[s] = make([]bool, e.gpus)
		}
	}
	for s := range d.taken {
		clear(d.taken[s])
	}
	for _, i := range e.allocated {
		e.recordPlace(i, now)
	}
}

// recordPlace begins spans of a job, or prolongs those of the round before in which it had the same GPUs and cores.
func (e *engine) recordPlace(i int32, now float64) {
	d, j := &e.diary, &e.jobs[i]
	before := len(d.open[i])
	d.devices = d.devices[:0]
	for k := j.from; k < j.to; k++ {
		p := &e.parts[k]
		span := outcome.Span{
			Job: e.given[i].ID, Model: j.model.Name, Server: p.server, Devices: d.take(p),
			GPUs: p.gpus, CPUs: int(math.Round(p.held[cpu])), From: now, To: now + e.Round,
		}
		d.open[i] = append(d.open[i], e.spanOf(d.open[i][:before], span))
	}
	d.open[i] = slices.Delete(d.open[i], 0, before)
}

// spanOf is the number of a span that ends now and goes on with another one, which is added where there is none.
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

// take lists the free GPUs that a part gets, ascending: the first of its server, or the last.
func (d *diary) take(p *part) []int {
	taken, from := d.taken[p.server], len(d.devices)
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

// inOrder sorts spans as they began.
func inOrder(spans []outcome.Span) {
	slices.SortFunc(spans, func(a, b outcome.Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Server, b.Server))
	})
}
