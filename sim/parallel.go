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

// simulator runs one cell, by itself and in one thread, and tells from time to time how many jobs have finished and
// what time it is in the simulation.
type simulator func(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run, error)

// errBefore is why a simulation was given up.
var errBefore = errors.New("a simulation before this one failed")

// all runs the cells, several at a time. Workers take them in order, so that when one fails only those behind it are
// given up, and which error is returned does not depend on which was the first to happen.
func (e Experiment) all(ctx context.Context, simulate simulator) ([]outcome.Run, error) {
	cells := e.cells()
	s := &series{outcomes: make([]outcome.Run, len(cells)), errs: make([]error, len(cells)), failed: len(cells)}
	s.give = make([]context.CancelCauseFunc, len(cells))
	meter := newMeter(e, cells)
	var workers sync.WaitGroup
	for range min(e.workers(), len(cells)) {
		workers.Go(func() {
			for c, own := s.next(ctx, cells); own != nil; c, own = s.next(ctx, cells) {
				run, err := timed(own, c, simulate, meter.of(c))
				if err == nil {
					run.Setting = e.setting(c)
					meter.ended(c, run)
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

// timed runs a cell and takes the time.
func timed(ctx context.Context, c cell, simulate simulator, tell func(finished int, at float64)) (outcome.Run, error) {
	began := time.Now()
	run, err := simulate(ctx, c, tell)
	run.Wall = time.Since(began)
	return run, err
}

func (e Experiment) workers() int {
	if e.Parallel > 0 {
		return e.Parallel
	}
	return runtime.GOMAXPROCS(0)
}

// series is what the workers share.
type series struct {
	mu       sync.Mutex
	taken    int
	failed   int // number of the first cell that failed, or of none
	outcomes []outcome.Run
	errs     []error
	give     []context.CancelCauseFunc // gives a cell up; nil before it is taken
}

// next is the cell to run, and the context in which it runs; nil when there is nothing left to do.
func (s *series) next(ctx context.Context, cells []cell) (cell, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.failed || ctx.Err() != nil {
		return cell{}, nil
	}
	c := cells[s.taken]
	s.taken++
	ctx, s.give[c.number] = context.WithCancelCause(ctx)
	return c, ctx
}

// end keeps what a cell gave. After a failure those behind it are given up; those before go on, since the error of the
// first counts.
func (s *series) end(c cell, run outcome.Run, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give[c.number](nil)
	s.outcomes[c.number], s.errs[c.number] = run, err
	if err == nil || c.number > s.failed {
		return
	}
	s.failed = c.number
	for _, give := range s.give[c.number+1 : s.taken] {
		give(errBefore)
	}
}
