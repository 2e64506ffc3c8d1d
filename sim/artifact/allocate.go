package artifact

import "fmt"

// allocate gives jobs their resources in the order of the queue. It begins behind the jobs that have kept their places
// (e.considered). It is an error if a job can never be served. The usage of all servers is summed only if a job has
// been added, to save time. Opt places nothing on servers, so optimize sums the usage itself.
func (e *engine) allocate(now float64) error {
	var err error
	before := len(e.allocated)
	switch {
	case e.Allocator == Opt:
		e.optimize(now)
	case e.Policy == LAS:
		err = e.grantSelected(now)
	default:
		err = e.grantFitting(now)
	}
	if err == nil && len(e.allocated) == 0 {
		err = e.checkProgress()
	}
	if e.Allocator != Opt && (before == 0 || len(e.allocated) > before) {
		e.sumUsage()
	}
	return err
}

// roundingHint ends the errors about jobs that fit nowhere although there is room: why, and what helps.
const roundingHint = ", since the shares of a GPU are rounded and all of them together are more than the server: " +
	"want servers that divide by their GPUs without a rest, such as 8 GPUs and 500 GB"

// checkProgress returns an error if no job was served and none ever will be, because the first one does not fit even on
// the empty cluster. That is possible only if amounts are not exact. It returns nil if no job waits, and also while
// jobs are still to arrive, since one of them may fit.
func (e *engine) checkProgress() error {
	if len(e.queue) == 0 || e.arrived < len(e.jobs) {
		return nil
	}
	first := e.given[e.queue[0].job]
	return fmt.Errorf("job %d: its %d GPUs do not fit on the empty cluster%s", first.ID, first.GPUs, roundingHint)
}

// grantFitting tries every job with no more GPUs than are free, and skips the others, as the artifact does for all
// policies but LAS. Without a free GPU it stops. The jobs behind cannot affect the placement then, so they are not
// added to e.considered.
func (e *engine) grantFitting(now float64) error {
	k := len(e.considered)
	for ; k < len(e.queue) && e.free > 0; k++ {
		i := e.queue[k].job
		e.considered = append(e.considered, i)
		if e.jobs[i].gpus > e.free {
			continue
		}
		if err := e.grant(i, now); err != nil {
			return err
		}
	}
	return nil
}

// grantSelected selects jobs by their GPUs, as the paper describes, and then places them; the artifact does so for LAS
// only. If jobs hold resources already, they have kept their places, which requires that the same jobs would be
// selected again (keepsPlaces). Then nothing is left to do.
func (e *engine) grantSelected(now float64) error {
	if len(e.allocated) > 0 {
		return nil
	}
	e.selectJobs()
	if e.Allocator == Tune {
		e.sortBySize()
	}
	for _, i := range e.selected {
		if err := e.grant(i, now); err != nil {
			return err
		}
	}
	return nil
}

// selectJobs selects jobs in the order of the queue whose GPUs fit on the whole cluster, without placing them. Jobs
// that need more GPUs than are left are skipped. All of these jobs, selected or skipped, count as considered.
func (e *engine) selectJobs() {
	e.selected, e.freeAfterSelection = e.selected[:0], e.count*e.gpus
	for k := 0; k < len(e.queue) && e.freeAfterSelection > 0; k++ {
		i := e.queue[k].job
		e.considered = append(e.considered, i)
		if n := e.jobs[i].gpus; n <= e.freeAfterSelection {
			e.selected = append(e.selected, i)
			e.freeAfterSelection -= n
		}
	}
}

// grant tries to place job i, and starts it if it fits. A greedy or proportional job that does not fit waits for the
// next round. Under Tune that is an error, because the artifact ends there. A speed of 1 after tune means that the job
// got only its share.
func (e *engine) grant(i int32, now float64) error {
	j := &e.jobs[i]
	iterations := j.atDemand
	placed := false
	switch e.Allocator {
	case Proportional:
		placed, iterations = e.place(i, &j.class.fair), j.atShare
	case Greedy:
		placed = e.place(i, &j.demand)
	case Tune:
		if placed = e.tune(i); !placed {
			return fmt.Errorf("job %d: %s finds no place for %d GPUs, although %d are free%s", e.given[i].ID, Tune,
				j.gpus, e.free, roundingHint)
		}
		if j.speed == 1 {
			iterations = j.atShare
		}
	}
	if placed {
		e.start(i, now, iterations)
	}
	return nil
}

// start lets job i run in the round that begins now, and credits it with the iterations. It counts as a start unless
// the job ran in the round before.
func (e *engine) start(i int32, now float64, iterations int64) {
	j := &e.jobs[i]
	if j.lastRound != e.run.Held-1 {
		j.starts++
		e.recording.started++
	}
	if j.firstStart < 0 {
		j.firstStart = now
	}
	j.lastRound = e.run.Held
	j.progress(e.Round, iterations)
	e.allocated, e.recording.changed = append(e.allocated, i), true
}
