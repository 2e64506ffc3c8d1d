package emulate

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Turns gives the job slices of its GPU. Turn waits for a slice; the job calls done when the GPU has finished the work.
type Turns interface {
	Turn(ctx context.Context, estimate time.Duration) (done func(), err error)
}

// Turner is a Sleeper on a GPU that other jobs use, too. Of each iteration it works the part Busy on the GPU, and only
// in its slice. Waiting for slices adds to the iteration, so its speed depends on the slices that it gets.
type Turner struct {
	Rate  float64
	Busy  float64 // more than 0, at most 1
	Turns Turns

	done, turns, waited atomic.Int64
	cut                 context.CancelFunc // cancels the iteration under way
	last                chan struct{}      // closed when the iteration under way is to be the last
	work                sync.WaitGroup
	late                time.Duration // by how much sleeps have been too long so far
}

// Start goes on with a new iteration.
func (w *Turner) Start() {
	ctx, cut := context.WithCancel(context.Background())
	w.cut, w.last = cut, make(chan struct{})
	last := w.last
	w.work.Go(func() {
		for !closed(last) && w.step(ctx) {
		}
	})
}

// Stop cancels the iteration; what was done of it does not count.
func (w *Turner) Stop() {
	if w.cut != nil {
		w.cut()
	}
	w.work.Wait()
}

// Finish lets the iteration under way end.
func (w *Turner) Finish() {
	if w.last != nil && !closed(w.last) {
		close(w.last)
	}
	w.work.Wait()
}

// Done counts whole iterations.
func (w *Turner) Done() float64 { return float64(w.done.Load()) }

// Turned returns how many slices it has used, and how long it has waited for them.
func (w *Turner) Turned() (turns int64, waited time.Duration) {
	return w.turns.Load(), time.Duration(w.waited.Load())
}

func (w *Turner) setRate(rate float64) { w.Rate = rate }

// leastTurn keeps the cost of a slice small relative to the work in it.
const leastTurn = 0.005 // seconds

// step does as many iterations in one slice as fit into leastTurn, at least one. It returns false if it was cancelled.
// The part that needs no GPU comes first and outside of the slice. A step that is cut short in its slice counts as
// nothing.
func (w *Turner) step(ctx context.Context) bool {
	n := max(1, math.Floor(w.Rate*leastTurn))
	onGPU := seconds(n / w.Rate * w.Busy)
	if !w.sleep(ctx, seconds(n/w.Rate)-onGPU) {
		return false
	}
	asked := time.Now()
	done, err := w.Turns.Turn(ctx, onGPU)
	if err != nil {
		return false
	}
	w.turns.Add(1)
	w.waited.Add(int64(time.Since(asked)))
	whole := w.sleep(ctx, onGPU)
	done()
	if whole {
		w.done.Add(int64(n))
	}
	return whole
}

// mostLate bounds the correction for sleeps that were too long, since a process that was stopped must not catch up.
const mostLate = 10 * time.Millisecond

// sleep sleeps for d, less the time by which earlier sleeps were too long, so that the rate is right on a busy machine.
// It returns false if it was cancelled.
func (w *Turner) sleep(ctx context.Context, d time.Duration) bool {
	began, wanted := time.Now(), d-w.late
	if wanted > 0 {
		enough := time.NewTimer(wanted)
		defer enough.Stop()
		select {
		case <-enough.C:
		case <-ctx.Done():
			return false
		}
	}
	w.late = min(time.Since(began)-wanted, mostLate)
	return ctx.Err() == nil
}
