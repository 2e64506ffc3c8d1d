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

// halts stops jobs and lets them go on. Whoever wants that does not wait for it, and holds the lock of his GPU: one
// process of which /proc does not answer, or one cgroup, must not keep the clients of a GPU from being heard.
//
// For each job there is at most one goroutine, which does what was wanted of the job last, one thing after the other.
// So a thaw that is wanted while the job is being stopped comes after that, whatever it takes, and what is wanted twice
// meanwhile is done once. The goroutine ends when there is nothing to do; the broker waits for it when it ends.
//
// A thaw that fails is tried again, at longer and longer times, until it succeeds, the job is gone, is to stand again,
// or the broker ends, after which whoever comes next thaws what is left.
type halts struct {
	freezer stopper
	log     *slog.Logger
	// first and longest are the times between the tries of a thaw; 0: firstRetry and longestRetry.
	first, longest time.Duration
	// begin runs something beside the broker, which waits for it when it ends. The context ends with the broker.
	begin func(func(context.Context))

	mu     sync.Mutex
	jobs   map[int]*halt // those that stand, and those of which something is to be done
	failed int           // thaws
}

// The times between the tries of a thaw, doubled each time.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 10 * time.Second
)

// stopper stops the processes that a user has in a job, and lets them go on.
type stopper interface {
	freeze(ctx context.Context, job, uid int) error
	thaw(job int) error
	// gone says that a job has no process any more; then it forgets what was stopped of it.
	gone(job int) bool
}

// halt is what is wanted of one job. The lock of the halts guards it.
type halt struct {
	job, uid int
	stand    bool          // it is to stand; otherwise it is to go on
	due      bool          // and that was not begun yet
	busy     bool          // its goroutine runs
	again    chan struct{} // has one while something is due, for a goroutine that waits to try again
	stuck    stuck
	// stopped are told of what became of it when stopping it has ended, also where it was not begun since the job is
	// to go on by now.
	stopped []func(error)
}

// stuck is how often a job could not be let go on that should, since when and why; zero: it could, or was not to.
type stuck struct {
	tries int
	since time.Time
	why   string
}

// stop has a job stand. What became of that is said to a function, once, on whichever goroutine.
func (h *halts) stop(job, uid int, stopped func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.of(job)
	j.uid, j.stand = uid, true
	j.stopped = append(j.stopped, stopped)
	h.want(j)
}

// goOn has a job go on, after whatever is being done with it.
func (h *halts) goOn(job int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.of(job)
	if j.stand {
		j.stuck = stuck{}
	}
	j.stand = false
	h.want(j)
}

func (h *halts) of(job int) *halt {
	if h.jobs == nil {
		h.jobs = map[int]*halt{}
	}
	if h.jobs[job] == nil {
		h.jobs[job] = &halt{job: job, again: make(chan struct{}, 1)}
	}
	return h.jobs[job]
}

func (h *halts) want(j *halt) {
	j.due = true
	select {
	case j.again <- struct{}{}:
	default:
	}
	if !j.busy {
		j.busy = true
		h.begin(func(ctx context.Context) { h.follow(ctx, j) })
	}
}

// follow does what is wanted of a job until nothing is.
func (h *halts) follow(ctx context.Context, j *halt) {
	for {
		next, some := h.next(j)
		if !some {
			return
		}
		var err error
		if next.stand {
			err = h.freezer.freeze(ctx, next.job, next.uid)
		}
		for _, stopped := range next.stopped {
			stopped(err)
		}
		if !next.stand {
			h.letGo(ctx, j)
		}
	}
}

// next is what is to be done of a job now; none: its goroutine ends.
func (h *halts) next(j *halt) (halt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !j.due {
		j.busy = false
		if !j.stand && j.stuck.tries == 0 {
			delete(h.jobs, j.job)
		}
		return halt{}, false
	}
	now := *j
	j.due, j.stopped = false, nil
	select {
	case <-j.again:
	default:
	}
	return now, true
}

// letGo has a job go on, however often that has to be tried, unless something else is wanted of it meanwhile.
func (h *halts) letGo(ctx context.Context, j *halt) {
	wait, longest := cmp.Or(h.first, firstRetry), cmp.Or(h.longest, longestRetry)
	for ; !h.heard(j, h.thaw(j.job)); wait = min(2*wait, longest) {
		select {
		case <-ctx.Done():
			return
		case <-j.again:
			return
		case <-time.After(wait):
		}
	}
}

func (h *halts) thaw(job int) error {
	err := h.freezer.thaw(job)
	if err != nil && h.freezer.gone(job) {
		return nil
	}
	return err
}

// heard notes what became of a thaw, and says whether that was all. A mistake is said once, until it is another.
func (h *halts) heard(j *halt, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := j.stuck
	if err == nil {
		if j.stuck = (stuck{}); was.tries > 0 {
			h.log.Info("thawed", "job", j.job, "tries", was.tries+1)
		}
		return true
	}
	h.failed++
	if j.stuck = (stuck{was.tries + 1, was.since, err.Error()}); was.tries == 0 {
		j.stuck.since = time.Now()
	}
	if j.stuck.why != was.why {
		h.log.Error("thaw: it is tried again until the job goes on or is gone", "job", j.job, "error", err)
	}
	return false
}

// status is which jobs stand that should not, in order, and how many thaws have failed.
func (h *halts) status() (still []wire.Stuck, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, job := range slices.Sorted(maps.Keys(h.jobs)) {
		if j := h.jobs[job]; !j.stand && j.stuck.tries > 0 {
			still = append(still, wire.Stuck{Job: job, Tries: j.stuck.tries, Error: j.stuck.why,
				Since: time.Since(j.stuck.since).Seconds()})
		}
	}
	return still, h.failed
}
