package broker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share/wire"
)

// freezeController stops jobs and lets them go on. The callers do not wait for that, since they hold the lock of their
// GPU: one process for which /proc does not answer, or one cgroup, must not keep the broker from hearing the clients of
// a GPU.
//
// For each job there is at most one goroutine, which does what was last wanted of the job, one thing after the other.
// So a thaw that is wanted while the job is being stopped comes after that, however long it takes, and what is wanted
// twice meanwhile is done once. The goroutine ends when nothing is left to do; the broker waits for it at its end.
//
// A failed thaw is tried again, at longer and longer intervals, until it succeeds, the job is gone or is to be stopped
// again, or the broker ends. Then the next broker thaws what is left.
type freezeController struct {
	freezer stopper
	log     *slog.Logger
	// minRetry and maxRetry are the shortest and longest time between the tries of a thaw; 0: firstRetry and
	// longestRetry.
	minRetry, maxRetry time.Duration
	// spawn runs a function in a goroutine for which the broker waits at its end. The context ends with the broker.
	spawn func(func(context.Context))

	mu          sync.Mutex
	jobs        map[int]*freezeState // jobs that are stopped, and those for which something is left to do
	failedThaws int                  // failed tries to thaw a job, over all jobs
}

// Times between the tries of a thaw, doubled each time.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 10 * time.Second
)

// stopper stops the processes that a user has in a job, and lets them go on.
type stopper interface {
	freeze(ctx context.Context, job, uid int) error
	thaw(job int) error
	// gone reports whether a job has no process any more, and then deletes its record.
	gone(job int) bool
}

// freezeState is what is wanted of one job. The controller's lock guards it.
type freezeState struct {
	job, uid   int
	mustFreeze bool          // the job is to be stopped; false: it is to run
	due        bool          // what mustFreeze says has not been begun yet
	busy       bool          // its goroutine runs
	wake       chan struct{} // filled when something becomes due, for a goroutine that waits to try again
	failures   thawFailures
	// callbacks are called with the outcome when stopping has ended, also if it was never begun because by now the job
	// is to run.
	callbacks []func(error)
}

// thawFailures records the failed thaws of a job: how many, since when and why. It is zero if the job runs or is to be
// stopped.
type thawFailures struct {
	tries int
	since time.Time
	why   string
}

// requestFreeze has the processes of a user in a job stopped, and returns at once. The function stopped is called once
// with the outcome, in any goroutine. If a thaw of the job is requested before stopping has begun, nothing is stopped
// and the error is nil.
func (h *freezeController) requestFreeze(job, uid int, stopped func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.stateOf(job)
	j.uid, j.mustFreeze = uid, true
	j.callbacks = append(j.callbacks, stopped)
	h.enqueue(j)
}

// requestThaw has a job go on, after whatever is being done with it, and returns at once. Failed thaws from before the
// job was stopped do not count any more.
func (h *freezeController) requestThaw(job int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.stateOf(job)
	if j.mustFreeze {
		j.failures = thawFailures{}
	}
	j.mustFreeze = false
	h.enqueue(j)
}

// stateOf returns the job's state, and makes one if there is none. The lock is held.
func (h *freezeController) stateOf(job int) *freezeState {
	if h.jobs == nil {
		h.jobs = map[int]*freezeState{}
	}
	if h.jobs[job] == nil {
		h.jobs[job] = &freezeState{job: job, wake: make(chan struct{}, 1)}
	}
	return h.jobs[job]
}

// enqueue marks the job as due, so that its goroutine does next what is wanted now. It wakes a goroutine that waits to
// try a thaw again, and starts one if none runs. The lock is held.
func (h *freezeController) enqueue(j *freezeState) {
	j.due = true
	select {
	case j.wake <- struct{}{}:
	default:
	}
	if !j.busy {
		j.busy = true
		h.spawn(func(ctx context.Context) { h.reconcile(ctx, j) })
	}
}

// reconcile is the job's goroutine: it stops or thaws the job as is wanted last, and ends when nothing is left to do.
// All functions that wait for a stop are called, also if the job is to be thawed by now.
func (h *freezeController) reconcile(ctx context.Context, j *freezeState) {
	for {
		next, some := h.takeNext(j)
		if !some {
			return
		}
		var err error
		if next.mustFreeze {
			err = h.freezer.freeze(ctx, next.job, next.uid)
		}
		for _, stopped := range next.callbacks {
			stopped(err)
		}
		if !next.mustFreeze {
			h.thawWithRetries(ctx, j)
		}
	}
}

// takeNext returns a copy of what is to be done with a job now. If nothing is, it returns false, and the job's
// goroutine ends; a job that runs and whose last thaw succeeded is then forgotten. A signal in wake is taken out, since
// this call answers it.
func (h *freezeController) takeNext(j *freezeState) (freezeState, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !j.due {
		j.busy = false
		if !j.mustFreeze && j.failures.tries == 0 {
			delete(h.jobs, j.job)
		}
		return freezeState{}, false
	}
	now := *j
	j.due, j.callbacks = false, nil
	select {
	case <-j.wake:
	default:
	}
	return now, true
}

// thawWithRetries thaws a job. It tries again until that succeeds or something else becomes due for the job. At the end
// of the broker it gives up; the record on disk stays, and the next broker thaws the job.
func (h *freezeController) thawWithRetries(ctx context.Context, j *freezeState) {
	wait, longest := cmp.Or(h.minRetry, firstRetry), cmp.Or(h.maxRetry, longestRetry)
	for ; !h.recordThaw(j, h.thaw(j.job)); wait = min(2*wait, longest) {
		select {
		case <-ctx.Done():
			return
		case <-j.wake:
			return
		case <-time.After(wait):
		}
	}
}

// thaw tries once to thaw a job. A failure does not count if the job has no process here any more, since nothing is
// left to thaw.
func (h *freezeController) thaw(job int) error {
	err := h.freezer.thaw(job)
	if err != nil && h.freezer.gone(job) {
		return nil
	}
	return err
}

// recordThaw records the outcome of a try to thaw a job, for the status, and reports whether it succeeded. An error is
// logged once, until it changes.
func (h *freezeController) recordThaw(j *freezeState, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := j.failures
	if err == nil {
		if j.failures = (thawFailures{}); was.tries > 0 {
			h.log.Info("thawed", "job", j.job, "tries", was.tries+1)
		}
		return true
	}
	h.failedThaws++
	if j.failures = (thawFailures{was.tries + 1, was.since, err.Error()}); was.tries == 0 {
		j.failures.since = time.Now()
	}
	if j.failures.why != was.why {
		h.log.Error("thaw: it is tried again until the job goes on or is gone", "job", j.job, "error", err)
	}
	return false
}

// status returns, by job ID, the jobs that should run and are still stopped because thawing them failed, and how many
// tries to thaw any job have failed so far.
func (h *freezeController) status() (still []wire.Stuck, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, job := range slices.Sorted(maps.Keys(h.jobs)) {
		if j := h.jobs[job]; !j.mustFreeze && j.failures.tries > 0 {
			still = append(still, wire.Stuck{Job: job, Tries: j.failures.tries, Error: j.failures.why,
				Since: time.Since(j.failures.since).Seconds()})
		}
	}
	return still, h.failedThaws
}
