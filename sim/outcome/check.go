package outcome

import (
	"errors"
	"fmt"
	"math"
)

// check returns an error if a run has no valid statistics, so that none of them is ever NaN.
func (r Run) check() error {
	if len(r.Jobs) == 0 {
		return errors.New("no job arrived: want a workload with jobs, and an end after the first arrival")
	}
	for i, job := range r.Jobs {
		if i > 0 && job.ID <= r.Jobs[i-1].ID {
			return fmt.Errorf("job %d stands behind job %d: want the jobs of an outcome ascending in their IDs", job.ID,
				r.Jobs[i-1].ID)
		}
		if err := job.check(); err != nil {
			return fmt.Errorf("job %d: %w", job.ID, err)
		}
	}
	if err := r.checkWindow(); err != nil {
		return err
	}
	return r.checkCapacity()
}

// check returns an error for values that a job cannot have. Of an unfinished job only the arrival is checked, since
// statistics use nothing else of it. A finish that is NaN counts as not done, too, but is no unfinished job and is
// refused.
func (j Job) check() error {
	switch {
	case !isMoment(j.Arrival):
		return fmt.Errorf("arrival = %v: want seconds from 0", j.Arrival)
	case !j.Done() && !math.IsNaN(j.Finish):
		return nil
	case !(j.Finish > j.Arrival) || !isMoment(j.Finish):
		return fmt.Errorf("finish = %v: want a moment after its arrival at %v", j.Finish, j.Arrival)
	case !isMoment(j.FirstRun) || j.FirstRun > j.Finish:
		return fmt.Errorf("first run = %v: want a moment before its finish at %v", j.FirstRun, j.Finish)
	case !(j.Length > 0) || math.IsInf(j.Length, 0):
		return fmt.Errorf("length = %v: want more than 0 seconds", j.Length)
	}
	return nil
}

// isMoment says whether x is a number of seconds since the beginning.
func isMoment(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// checkWindow requires that a job of the window has finished, since the mean of none is NaN. The error says what the
// user can change.
func (r Run) checkWindow() error {
	all, counted := finished(r.Jobs), r.jobsInWindow()
	switch {
	case len(finished(counted)) > 0:
		return nil
	case len(all) == 0:
		return fmt.Errorf("%s, and none finished: simulate longer", idsOf("arrived", r.Jobs))
	case len(counted) == 0:
		return fmt.Errorf("window of %s: none arrived: %s", r.Setting.Window, idsOf("arrived", r.Jobs))
	}
	return fmt.Errorf("window of %s: %d arrived and none finished: %s: simulate longer, or count others",
		r.Setting.Window, len(counted), idsOf("finished", all))
}

// idsOf describes the range of IDs of at least one job.
func idsOf(what string, jobs []Job) string {
	return fmt.Sprintf("%d jobs %s, with IDs from %d to %d", len(jobs), what, jobs[0].ID, jobs[len(jobs)-1].ID)
}

// String formats the window for errors and tables.
func (w Window) String() string {
	if w == (Window{}) {
		return "all jobs"
	}
	return fmt.Sprintf("jobs %d to %d", w.First, w.End-1)
}

// checkCapacity requires a cluster with resources, an end after the first arrival, and valid totals.
func (r Run) checkCapacity() error {
	if r.GPUs <= 0 || r.CPUs <= 0 || !(r.Memory > 0) || math.IsInf(r.Memory, 0) {
		return fmt.Errorf("a cluster of %d GPUs, %d cores and %v GB: want more than 0 of each", r.GPUs, r.CPUs,
			r.Memory)
	}
	if first := r.firstArrival(); !(r.Ended > first) || !isMoment(r.Ended) {
		return fmt.Errorf("ended = %v: want a moment after the first arrival at %v", r.Ended, first)
	}
	for _, busy := range []float64{r.BusyGPUs, r.BusyCPUs, r.BusyMemory} {
		if !isMoment(busy) {
			return fmt.Errorf("busy = %v: want resource-seconds from 0", busy)
		}
	}
	return nil
}
