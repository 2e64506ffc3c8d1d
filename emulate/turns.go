package emulate

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Turns is who says when the job may use its GPU: done is called when the GPU has finished what was wanted of it.
type Turns interface {
	Turn(ctx context.Context, estimate time.Duration) (done func(), err error)
}

// Turner is a Sleeper that uses a GPU which others use, too: of each iteration it works the part Busy on the GPU, and
// only in its turn. What it waits for that comes on top, so that its speed is that of the turns it gets.
type Turner struct {
	Rate  float64
	Busy  float64 // more than 0, at most 1
	Turns Turns

	done, turns, waited atomic.Int64
	cut                 context.CancelFunc
	last                chan struct{} // closed when the iteration under way shall be the last
	work                sync.WaitGroup
	late                time.Duration // by which sleeps were too long so far
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

// Stop cuts the iteration short; what was done of it does not count.
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

// Turned is how many turns it has taken, and how long it has waited for them.
func (w *Turner) Turned() (turns int64, waited time.Duration) {
	return w.turns.Load(), time.Duration(w.waited.Load())
}

func (w *Turner) setRate(rate float64) { w.Rate = rate }

// leastTurn keeps what a turn costs small beside the work that is done in it.
const leastTurn = 0.005 // seconds

// step does as many iterations in one turn as fill leastTurn, but one at least. It is false when it was cut short.
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

// mostLate is how much of what sleeps were too long is made good. A process that was stopped has lost its time.
const mostLate = 10 * time.Millisecond

// sleep sleeps less where the sleeps before were too long, so that the rate stays what it is on a busy machine.
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
