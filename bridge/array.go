package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Until a task of an array starts, Slurm keeps it in one record with all others that wait, and an update of that
// changes them all alike. So as many tasks as may soon start are given jobs of their own, which are jobs like any
// other; the record of those that follow waits under its lease. That costs one call for many tasks, and an array of ten
// thousand is no more to the planner than what the cluster can hold of it.

// mostSplit is how many tasks get jobs of their own at a time: slurmctld does nothing else meanwhile. The next round
// goes on.
const mostSplit = 256

// How long after a first failure an array is tried again, and after a second one in a row. From the second on it is
// Slurm's until then: a task that was cancelled in that moment, or a controller that restarts, is no reason to give an
// array away.
const (
	splitSoon  = 3 * time.Second
	splitAgain = 10 * time.Minute
)

// unsplit is an array whose tasks could not be given jobs of their own.
type unsplit struct {
	why      string
	failures int           // in a row
	again    time.Duration // not to be tried before, on our own watch
}

// standsForTasks says that a job is the record of several tasks.
func (j *Job) standsForTasks() bool { return len(j.Tasks) > 1 }

// leftAlone says why a round does not touch a job that carries our directive; empty when it does.
func (r *Runner) leftAlone(j *Job) string {
	if why := leftAlone(j); why != "" {
		return why
	}
	if !r.Settings.Canary.has(j) {
		return notInCanary
	}
	if !j.standsForTasks() {
		return ""
	}
	if r.Splitter == nil {
		return "is an array, and nothing here gives its tasks jobs of their own"
	}
	if failed := r.unsplit[j.ID]; failed.failures > 1 && r.Clock.Elapsed() < failed.again {
		return failed.why
	}
	return ""
}

// splitting is the part of a turn that knows of arrays.
type splitting struct{ *turn }

// split gives tasks of arrays jobs of their own, as many as may soon start, and says whether there are new jobs to look
// at. An array for which that fails is left to Slurm, however it fails: one user's array must not end the rounds of
// all. Should Slurm itself be away, the next call tells.
func (t splitting) split(ctx context.Context) (anew bool, err error) {
	if t.Settings.Shadow || t.Splitter == nil {
		return false, nil
	}
	for _, array := range t.due() {
		err := t.Splitter.Split(ctx, array.ID, array.tasks)
		switch {
		case err == nil:
			delete(t.unsplit, array.ID)
			anew = true
		case errors.Is(err, ErrNotLeader), ctx.Err() != nil:
			return anew, fmt.Errorf("give tasks of array %d jobs of their own: %w", array.ID, err)
		case errors.Is(err, ErrNotPending), errors.Is(err, ErrGone), errors.Is(err, ErrHeld):
			// it has changed: another look tells how
		default:
			t.giveUpOn(array.ID, err)
			anew = true
		}
	}
	return anew, nil
}

func (r *Runner) giveUpOn(array int, err error) {
	if r.unsplit == nil {
		r.unsplit = map[int]unsplit{}
	}
	failed := unsplit{fmt.Sprintf("is an array whose tasks cannot be given jobs of their own: %v", err),
		r.unsplit[array].failures + 1, r.Clock.Elapsed()}
	if failed.again += splitSoon; failed.failures > 1 {
		failed.again += splitAgain
	}
	r.unsplit[array] = failed
}

// sweep is an array, and the tasks of it that are to have jobs of their own.
type sweep struct {
	*managedJob
	tasks  []int
	active int // tasks with jobs of their own that run, or wait and may start
	idle   int // of these, those that wait
}

// due lists the arrays of which more tasks could start than have jobs of their own. Those that Slurm would start first
// come first: what the cluster can hold bounds them all together, and each has at least one task that the planner
// knows.
func (t splitting) due() []sweep {
	all := t.sweeps()
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b sweep) int { return cmp.Compare(b.Priority, a.Priority) })
	room := 0 // for waiting tasks, in GPUs
	for _, i := range t.scene.topology.managed {
		room += t.scene.nodes[i].Total.GPUs
	}
	var due []sweep
	for _, s := range all {
		gpus := max(1, s.Request.GPUs)
		most := max(1, (room+gpus-1)/gpus+t.Settings.Ahead)
		n := min(most-s.idle, len(s.Tasks), mostSplit)
		if s.idle > most/2 { // enough: to split off one for each that starts would read the array again each time
			n = 0
		}
		if s.AtOnce > 0 {
			n = min(n, s.AtOnce-s.active)
		}
		if n > 0 {
			s.tasks = s.Tasks[:n]
			due = append(due, s)
		}
		room = max(0, room-(s.idle+max(0, n))*gpus)
	}
	return due
}

// sweeps are the managed arrays that have tasks without jobs of their own and may start, ascending in ID. A task that
// is held, or may not start for another reason of its own, stands in nobody's way: to Slurm too only those that run
// count for %N.
func (t splitting) sweeps() []sweep {
	var all []sweep
	for _, tn := range t.scene.managed {
		soon := t.Clock.Elapsed() < t.unsplit[tn.ID].again
		if tn.standsForTasks() && tn.State == Pending && !tn.Dependency && !tn.record.NotBefore.After(t.scene.at) &&
			!soon {
			all = append(all, sweep{managedJob: tn})
		}
	}
	if len(all) == 0 {
		return nil
	}
	at := make(map[int]*sweep, len(all))
	for k := range all {
		at[all[k].Array] = &all[k]
	}
	for _, j := range t.seen {
		s := at[j.Array]
		if s == nil || j.standsForTasks() {
			continue
		}
		waits := j.State == Pending && !j.Completing
		switch {
		case waits && !t.mayGoOn(j), j.State == Finished && !j.Completing:
			continue
		case waits:
			s.idle++
		}
		s.active++
	}
	return all
}

// mayGoOn says that a waiting job is managed and not barred.
func (t splitting) mayGoOn(j *Job) bool {
	tn := t.scene.find(j.ID)
	return tn != nil && tn.standing(t.scene.at) == managed && t.barred(tn, &t.scene) == (bar{})
}
