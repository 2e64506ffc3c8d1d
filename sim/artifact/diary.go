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
	stays   []stay   // of each job
	taken   [][]bool // GPUs, by server
	devices []int    // of the job in hand
}

// stay is where a job's last spans stand among those of the run.
type stay struct{ first, count int }

// record notes the cluster right after a round.
func (e *engine) record(now float64) {
	if !e.Detail {
		return
	}
	running := len(e.allocated)
	e.run.Rounds = append(e.run.Rounds, outcome.Round{
		At: now, Running: running, Waiting: len(e.queue) - running,
		GPUs: e.use[gpu], CPUs: e.use[cpu], Memory: e.use[memory],
		Demand: float64(e.diary.asked), Started: e.diary.started, Stopped: e.diary.staying - (running - e.diary.started),
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
		s := e.diary.stays[i]
		for k := range s.count {
			e.run.Spans[s.first+k].To = to
		}
	}
}

// recordPlaces finds out which GPUs everybody has. Since all are free at the beginning of a round, that follows from who was placed where,
// in turn.
func (e *engine) recordPlaces(now float64) {
	d := &e.diary
	d.stays = append(d.stays, make([]stay, len(e.jobs)-len(d.stays))...)
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

// recordPlace prolongs the spans of a job where it has the same GPUs and cores as before, and begins new ones otherwise.
func (e *engine) recordPlace(i int32, now float64) {
	d, j := &e.diary, &e.jobs[i]
	first, parts := len(e.run.Spans), e.parts[j.from:j.to]
	d.devices = d.devices[:0]
	for k := range parts {
		e.run.Spans = append(e.run.Spans, outcome.Span{
			Job: e.given[i].ID, Model: j.model.Name, Server: parts[k].server, Devices: d.take(&parts[k]),
			GPUs: parts[k].gpus, CPUs: int(math.Round(parts[k].held[cpu])), From: now, To: now + e.Round,
		})
	}
	added := e.run.Spans[first:]
	s := &d.stays[i]
	before := e.run.Spans[s.first : s.first+s.count]
	if len(before) > 0 && before[0].To == now && slices.EqualFunc(before, added, sameSpan) {
		e.run.Spans = e.run.Spans[:first]
		for k := range before {
			before[k].To = now + e.Round
		}
		return
	}
	for k := range added {
		added[k].Devices = slices.Clone(added[k].Devices)
	}
	*s = stay{first, len(parts)}
}

func sameSpan(a, b outcome.Span) bool {
	return a.Server == b.Server && a.CPUs == b.CPUs && slices.Equal(a.Devices, b.Devices)
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
