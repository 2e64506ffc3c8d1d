package emulate

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Work is what iterates. It is stopped at first, and may be started and stopped any number of times.
type Work interface {
	Start()
	// Stop ends the work as soon as possible; an unfinished iteration may count in part.
	Stop()
	// Finish lets the iteration under way end, and then stops.
	Finish()
	// Done returns the number of iterations since the work was made.
	Done() float64
}

// paced is Work whose rate can be changed while it is stopped.
type paced interface {
	setRate(iterationsASecond float64)
}

// Sleeper does Rate iterations per second without CPU: progress is computed from the clock, so nothing wakes up for it.
type Sleeper struct {
	Rate float64

	done  float64
	since time.Time // when it was started; zero while it is stopped
}

// Start goes on from where Stop left off.
func (s *Sleeper) Start() { s.since = time.Now() }

// Stop keeps the part of an iteration that is done.
func (s *Sleeper) Stop() { s.done, s.since = s.Done(), time.Time{} }

// Finish waits for the end of the iteration.
func (s *Sleeper) Finish() {
	s.Stop()
	whole := math.Ceil(s.done)
	time.Sleep(seconds((whole - s.done) / s.Rate))
	s.done = whole
}

// Done includes the part of an unfinished iteration.
func (s *Sleeper) Done() float64 {
	if s.since.IsZero() {
		return s.done
	}
	return s.done + float64(time.Since(s.since).Seconds()*s.Rate)
}

func (s *Sleeper) setRate(rate float64) { s.Rate = rate }

// seconds converts s to a Duration, rounded up so that what takes s is over afterwards.
func seconds(s float64) time.Duration {
	return time.Duration(math.Ceil(min(s, maxSeconds) * float64(time.Second)))
}

// maxSeconds is longer than any job and less than a Duration holds.
const maxSeconds = 1e9

// Burner keeps cores busy: every iteration costs CPUSeconds on Cores cores together and takes at least 1/Rate. With
// fewer or slower cores than the profile assumes, iterations take longer.
type Burner struct {
	Rate       float64
	CPUSeconds float64
	Cores      int

	done atomic.Int64
	stop chan struct{}
	work sync.WaitGroup
}

// Start goes on with a new iteration.
func (b *Burner) Start() {
	b.stop = make(chan struct{})
	b.work.Go(func() {
		for !closed(b.stop) {
			b.step()
		}
	})
}

// Stop waits for the end of the iteration, since its computation cannot be cut short.
func (b *Burner) Stop() {
	if b.stop != nil && !closed(b.stop) {
		close(b.stop)
	}
	b.work.Wait()
}

// Finish is Stop.
func (b *Burner) Finish() { b.Stop() }

// Done counts whole iterations.
func (b *Burner) Done() float64 { return float64(b.done.Load()) }

func closed(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// leastStep keeps the cost of starting threads, some hundred microseconds, small relative to their work.
const leastStep = 0.1 // seconds

// step does as many iterations at once as fit into leastStep, at least one.
func (b *Burner) step() {
	n := max(1, math.Floor(b.Rate*leastStep))
	enough := time.After(seconds(n / b.Rate))
	var cores sync.WaitGroup
	for range b.Cores {
		cores.Go(func() { burn(seconds(n * b.CPUSeconds / float64(b.Cores))) })
	}
	cores.Wait()
	<-enough
	b.done.Add(int64(n))
}

// burn uses a core for an amount of CPU time of its own thread, so that waiting for a contended core does not count.
func burn(amount time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadTime() + amount; threadTime() < end; {
		spin()
	}
}

// spin does some microseconds of arithmetic that the compiler cannot drop.
func spin() {
	x := 1.0
	for range 10000 {
		x = math.Sqrt(x + 1)
	}
	runtime.KeepAlive(x)
}

// threadTime returns the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		panic(err) // the kernel cannot fail with these arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
