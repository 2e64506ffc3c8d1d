package tests

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// realDevice is a queue of kernels in real time: what is put into it is done in order, by its duration.
type realDevice struct {
	mu   sync.Mutex
	free time.Time
}

// do puts kernels into the queue and returns when they are done.
func (d *realDevice) do(took time.Duration) {
	d.mu.Lock()
	if now := time.Now(); d.free.Before(now) {
		d.free = now
	}
	d.free = d.free.Add(took)
	end := d.free
	d.mu.Unlock()
	time.Sleep(time.Until(end))
}

// BenchmarkABoundOnTheQueueInRealTime is Deft's experiment on this machine, beside what the test bed says in virtual
// time: a long job of 100 kernels of 1 ms back to back, and an important one of 40 every 200 ms. An operation is a step
// of the important one; it takes 40 ms alone, and the long one's takes 100 ms besides.
func BenchmarkABoundOnTheQueueInRealTime(b *testing.B) {
	for _, every := range []int{100, 20, 4, 1} {
		b.Run(fmt.Sprint("every=", every), func(b *testing.B) {
			var (
				gpu     realDevice
				high    atomic.Int32
				over    atomic.Bool
				long    sync.WaitGroup
				steps   int
				stepped time.Duration
			)
			long.Go(func() {
				for !over.Load() {
					began := time.Now()
					for left := 100; left > 0; left -= every {
						for high.Load() > 0 {
							time.Sleep(100 * time.Microsecond)
						}
						gpu.do(time.Duration(min(every, left)) * time.Millisecond)
					}
					steps++
					stepped += time.Since(began)
				}
			})
			var took time.Duration
			for range b.N {
				time.Sleep(160 * time.Millisecond)
				began := time.Now()
				high.Add(1)
				gpu.do(40 * time.Millisecond)
				high.Add(-1)
				took += time.Since(began)
			}
			over.Store(true)
			long.Wait()
			b.ReportMetric(emulatedStep(b, every), "emulated-ms/step")
			b.ReportMetric(float64(took.Microseconds())/1000/float64(b.N), "important-ms/step")
			b.ReportMetric(float64(stepped.Microseconds())/1000/float64(max(1, steps)), "long-ms/step")
		})
	}
}

// emulatedStep is the mean step of the important one in virtual time, in milliseconds.
func emulatedStep(b *testing.B, every int) float64 {
	clients := []testbed.Client{
		{Class: share.Low, Kernels: 100, Kernel: time.Millisecond, Every: every},
		{Class: share.High, Kernels: 40, Kernel: time.Millisecond, Gap: 160 * time.Millisecond},
	}
	result, err := testbed.Run(testbed.Config{Mode: testbed.Kernels, Duration: time.Minute, Jitter: 0.02,
		Clients: clients})
	if err != nil {
		b.Fatal(err)
	}
	var took time.Duration
	for _, step := range result.Clients[1].Steps {
		took += step.Took()
	}
	return float64(took.Microseconds()) / 1000 / float64(len(result.Clients[1].Steps))
}
