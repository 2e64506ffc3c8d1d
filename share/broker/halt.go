package broker

import (
	"context"
	"log/slog"
	"sync"
)

// halts stops jobs and lets them go on. Whoever wants that does not wait for it, and holds the lock of his GPU: one
// process of which /proc does not answer, or one cgroup, must not keep the clients of a GPU from being heard.
//
// For each job there is at most one goroutine, which does what was wanted of the job last, one thing after the other.
// So a thaw that is wanted while the job is being stopped comes after that, whatever it takes, and what is wanted twice
// meanwhile is done once. The goroutine ends when there is nothing to do; the broker waits for it when it ends.
type halts struct {
	freezer stopper
	log     *slog.Logger
	// begin runs something beside the broker, which waits for it when it ends. The context ends with the broker.
	begin func(func(context.Context))

	mu   sync.Mutex
	jobs map[int]*halt // those that stand, and those of which something is to be done
}

// stopper stops the processes that a user has in a job, and lets them go on.
type stopper interface {
	freeze(ctx context.Context, job, uid int) error
	thaw(job int) error
}

// halt is what is wanted of one job. The lock of the halts guards it.
type halt struct {
	job, uid int
	stand    bool // it is to stand; otherwise it is to go on
	due      bool // and that was not begun yet
	busy     bool // its goroutine runs
	// stopped are told of what became of it when stopping it has ended, also where it was not begun since the job is
	// to go on by now.
	stopped []func(error)
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
	j.stand = false
	h.want(j)
}

func (h *halts) of(job int) *halt {
	if h.jobs == nil {
		h.jobs = map[int]*halt{}
	}
	if h.jobs[job] == nil {
		h.jobs[job] = &halt{job: job}
	}
	return h.jobs[job]
}

func (h *halts) want(j *halt) {
	j.due = true
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
		err := h.do(ctx, next)
		for _, stopped := range next.stopped {
			stopped(err)
		}
	}
}

// next is what is to be done of a job now; none: its goroutine ends.
func (h *halts) next(j *halt) (halt, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !j.due {
		j.busy = false
		if !j.stand {
			delete(h.jobs, j.job)
		}
		return halt{}, false
	}
	now := *j
	j.due, j.stopped = false, nil
	return now, true
}

func (h *halts) do(ctx context.Context, j halt) error {
	if j.stand {
		return h.freezer.freeze(ctx, j.job, j.uid)
	}
	if err := h.freezer.thaw(j.job); err != nil {
		h.log.Error("thaw", "job", j.job, "error", err)
	}
	return nil
}
