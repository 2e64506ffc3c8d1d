package sim

import (
	"sync"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// Progress is how far an experiment has come.
type Progress struct {
	Runs, Ended int     // simulations: all, and those that have ended
	Finished    int     // jobs, in all simulations together
	Simulated   float64 // simulated seconds, in all simulations together
	Done        float64 // the estimated part of all work that is done, 0 to 1
}

// meter sums the progress of the simulations, which run concurrently.
type meter struct {
	mu         sync.Mutex
	onProgress func(Progress) // Experiment.Progress; nil: no progress is wanted
	cells      []reading      // by number of the cell
	sum        Progress
	parts      float64 // the sum of the cells' parts
}

// reading is the progress of one simulation. jobs and until do not change.
type reading struct {
	finished    int
	at          float64 // simulated seconds
	part        float64 // of its work that is done, 0 to 1; 1: it has ended
	jobs, until float64 // jobs and simulated seconds at its end, at most; 0: unknown
}

// newMeter prepares a meter; it notes where each simulation ends, for the estimate of its part.
func newMeter(e Experiment, cells []cell) *meter {
	m := &meter{onProgress: e.Progress, cells: make([]reading, len(cells)), sum: Progress{Runs: len(cells)}}
	for i, c := range cells {
		m.cells[i] = reading{jobs: float64(e.expectedJobs(c.workload)), until: e.Until.Seconds()}
	}
	return m
}

// expectedJobs is about how many jobs will have finished when a simulation ends, for the estimate of the part that is
// done. It is 0 for an endless workload without a window, since the number is unknown then. With a window it also
// counts the jobs before it, most of which finish by then; later ones that finish early are not counted.
func (e Experiment) expectedJobs(w Workload) int {
	if e.Window != (outcome.Window{}) {
		return e.Window.End
	}
	return w.length()
}

// reporterFor returns the function by which a cell reports its progress. It is nil if no progress is wanted, so that
// engines need not compute it. It reads the cell's reading without the lock, which is safe: only the worker that runs
// the cell writes it.
func (m *meter) reporterFor(c cell) func(finished int, at float64) {
	if m.onProgress == nil {
		return nil
	}
	return func(finished int, at float64) {
		m.update(c.number, finished, at, m.cells[c.number].partDone(finished, at))
	}
}

// partDone estimates the part of a simulation's work that is done. The simulation ends when either its jobs or its time
// are used up, so the larger part counts. It stays below 1, because update counts a part of 1 as an ended simulation.
func (r reading) partDone(finished int, at float64) float64 {
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

// reportEnd reports that a simulation has ended, with the jobs that it has finished.
func (m *meter) reportEnd(c cell, run outcome.Run) {
	if m.onProgress == nil {
		return
	}
	finished := 0
	for _, job := range run.Jobs {
		if job.Done() {
			finished++
		}
	}
	m.update(c.number, finished, run.Ended, 1)
}

// update replaces the reading of a cell and reports the new sums. A part of 1 counts the cell as ended, so it must come
// only once. Progress is called under the lock, and therefore never concurrently.
func (m *meter) update(number, finished int, at, part float64) {
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
	m.onProgress(m.sum)
}
