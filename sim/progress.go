package sim

import (
	"sync"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// Progress is how far an experiment is.
type Progress struct {
	Runs, Ended int     // simulations, all and those that have ended
	Finished    int     // jobs, in all simulations together
	Simulated   float64 // seconds, in all simulations together
	Done        float64 // the part of all work that is done, from 0 to 1, as far as can be told
}

// meter adds up how far the simulations are.
type meter struct {
	mu    sync.Mutex
	tell  func(Progress)
	cells []reading
	sum   Progress
	parts float64 // the cells' parts of their own work that is done, added up
}

// reading is how far one simulation is.
type reading struct {
	finished    int
	at          float64
	part        float64
	jobs, until float64 // how many jobs and seconds it will have at most; 0: nobody knows
}

func newMeter(e Experiment, cells []cell) *meter {
	m := &meter{tell: e.Progress, cells: make([]reading, len(cells)), sum: Progress{Runs: len(cells)}}
	for i, c := range cells {
		m.cells[i] = reading{jobs: float64(e.expected(c.workload)), until: e.Until.Seconds()}
	}
	return m
}

// expected is how many jobs a simulation will have finished at its end, about; 0: nobody knows.
func (e Experiment) expected(w Workload) int {
	if e.Window != (outcome.Window{}) {
		return e.Window.End
	}
	return w.length()
}

// of gives the cell's way to tell; nil when nobody listens.
func (m *meter) of(c cell) func(finished int, at float64) {
	if m.tell == nil {
		return nil
	}
	return func(finished int, at float64) { m.take(c.number, finished, at, m.cells[c.number].share(finished, at)) }
}

// share estimates which part of its work a simulation has done. It stays below 1, since only the end is the end.
func (r reading) share(finished int, at float64) float64 {
	const almost = 0.99
	part := 0.0
	if r.jobs > 0 {
		part = float64(finished) / r.jobs
	}
	if r.until > 0 {
		part = max(part, at/r.until)
	}
	return min(part, almost)
}

// ended tells that a simulation is through.
func (m *meter) ended(c cell, run outcome.Run) {
	if m.tell == nil {
		return
	}
	finished := 0
	for _, job := range run.Jobs {
		if job.Done() {
			finished++
		}
	}
	m.take(c.number, finished, run.Ended, 1)
}

func (m *meter) take(number, finished int, at, part float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.cells[number]
	m.sum.Finished += finished - r.finished
	m.sum.Simulated += at - r.at
	m.parts += part - r.part
	if part == 1 {
		m.sum.Ended++
	}
	r.finished, r.at, r.part = finished, at, part
	m.sum.Done = m.parts / float64(len(m.cells))
	m.tell(m.sum)
}
