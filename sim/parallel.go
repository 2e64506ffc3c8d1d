package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// simulator runs one cell in one goroutine. From time to time it calls tell with the number of finished jobs and the
// simulated time in seconds.
type simulator func(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run, error)

// errEarlierFailed is the cause with which the simulations behind a failed one are cancelled.
var errEarlierFailed = errors.New("a simulation before this one failed")

// runCells runs the cells, several at a time. Workers take them in order, so that after a failure only later cells are
// cancelled, and the returned error does not depend on which failure happened first. If ctx itself was cancelled, its
// cause is returned and not the error of the cell that noticed it.
func (e Experiment) runCells(ctx context.Context, simulate simulator) ([]outcome.Run, error) {
	cells := e.cells()
	s := &cellQueue{outcomes: make([]outcome.Run, len(cells)), errs: make([]error, len(cells)), failed: len(cells)}
	s.cancels = make([]context.CancelCauseFunc, len(cells))
	meter := newMeter(e, cells)
	var workers sync.WaitGroup
	for range min(e.workers(), len(cells)) {
		workers.Go(func() {
			for c, own := s.next(ctx, cells); own != nil; c, own = s.next(ctx, cells) {
				run, err := runTimed(own, c, simulate, meter.reporterFor(c))
				if err == nil {
					run.Setting = e.setting(c)
					meter.reportEnd(c, run)
				}
				s.end(c, run, err)
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if s.failed < len(cells) {
		return nil, fmt.Errorf("%s: %w", e.name(cells[s.failed]), s.errs[s.failed])
	}
	return s.outcomes, nil
}

// runTimed runs a cell and measures the wall time.
func runTimed(
	ctx context.Context,
	c cell,
	simulate simulator,
	tell func(finished int, at float64),
) (outcome.Run, error) {
	began := time.Now()
	run, err := simulate(ctx, c, tell)
	run.Wall = time.Since(began)
	return run, err
}

// workers is the number of simulations at a time.
func (e Experiment) workers() int {
	if e.Parallel > 0 {
		return e.Parallel
	}
	return runtime.GOMAXPROCS(0)
}

// cellQueue hands out the cells of an experiment and collects their results; all workers share it.
type cellQueue struct {
	mu       sync.Mutex
	taken    int // the number of cells taken so far
	failed   int // number of the first failed cell; len(cells) if none failed
	outcomes []outcome.Run
	errs     []error
	cancels  []context.CancelCauseFunc // cancels a cell; nil before it is taken
}

// next returns the next cell and the context in which it runs; a nil context when nothing is left to do: all cells are
// taken, one before the next has failed, or ctx is cancelled.
func (s *cellQueue) next(ctx context.Context, cells []cell) (cell, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.failed || ctx.Err() != nil {
		return cell{}, nil
	}
	c := cells[s.taken]
	s.taken++
	ctx, s.cancels[c.number] = context.WithCancelCause(ctx)
	return c, ctx
}

// end stores the result of a cell. After a failure the later cells are cancelled; earlier ones continue, since the
// error of the first in order counts. The errors of cancelled cells are stored, but they are behind the failed one and
// never returned.
func (s *cellQueue) end(c cell, run outcome.Run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels[c.number](nil) // frees the context; the cell has ended, so nothing is cancelled
	s.outcomes[c.number], s.errs[c.number] = run, err
	if err == nil || c.number > s.failed {
		return
	}
	s.failed = c.number
	for _, give := range s.cancels[c.number+1 : s.taken] {
		give(errEarlierFailed)
	}
}
