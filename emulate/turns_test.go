package emulate_test

import (
	"context"
	"math"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
)

// oneGPU gives turns in the order in which they are asked for.
type oneGPU struct {
	queue chan struct{} // full while the GPU is used

	mu    sync.Mutex
	asked []time.Duration
}

func newGPU() *oneGPU { return &oneGPU{queue: make(chan struct{}, 1)} }

func (g *oneGPU) Turn(ctx context.Context, estimate time.Duration) (func(), error) {
	g.mu.Lock()
	g.asked = append(g.asked, estimate)
	g.mu.Unlock()
	select {
	case g.queue <- struct{}{}:
		return func() { <-g.queue }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *oneGPU) used() bool { return len(g.queue) > 0 }

// speeds are what jobs of ten iterations a second do in a hundred seconds on one GPU, as a part of their speed alone.
func speeds(t *testing.T, busy ...float64) []float64 {
	speeds := make([]float64, len(busy))
	synctest.Test(t, func(*testing.T) {
		gpu := newGPU()
		var jobs []*emulate.Turner
		for _, part := range busy {
			jobs = append(jobs, &emulate.Turner{Rate: 10, Busy: part, Turns: gpu})
			jobs[len(jobs)-1].Start()
		}
		time.Sleep(100 * time.Second)
		for i, job := range jobs {
			speeds[i] = job.Done() / 1000
			job.Stop()
		}
	})
	return speeds
}

func TestAJobIsAsFastAsTheTurnsThatItGets(t *testing.T) {
	for _, c := range []struct{ busy, want []float64 }{
		{[]float64{1}, []float64{1}},
		{[]float64{0.4}, []float64{1}},
		{[]float64{1, 1}, []float64{0.5, 0.5}},
		{[]float64{0.4, 0.6}, []float64{1, 1}}, // one computes while the other has the GPU
		{[]float64{1, 1, 1, 1}, []float64{0.25, 0.25, 0.25, 0.25}},
	} {
		for i, got := range speeds(t, c.busy...) {
			if math.Abs(got-c.want[i]) > 0.02 {
				t.Errorf("of jobs that need %v of a GPU, job %d has %.2f of its speed alone, want %.2f",
					c.busy, i, got, c.want[i])
			}
		}
	}
}

func TestATurnIsAskedForAsLongAsItIsUsed(t *testing.T) {
	var asked []time.Duration
	synctest.Test(t, func(*testing.T) {
		gpu := newGPU()
		job := &emulate.Turner{Rate: 10, Busy: 0.3, Turns: gpu}
		job.Start()
		time.Sleep(time.Second)
		job.Stop()
		asked = gpu.asked
	})
	if len(asked) < 9 || asked[0] != 30*time.Millisecond {
		t.Errorf("asked for %v, want 30 ms of each 100", asked)
	}
}

func TestAJobThatIsStoppedInItsTurnGivesTheGPUBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := newGPU()
		job := &emulate.Turner{Rate: 1, Busy: 1, Turns: gpu}
		job.Start()
		time.Sleep(2500 * time.Millisecond)
		job.Stop()
		if gpu.used() || job.Done() != 2 {
			t.Errorf("after a stop in the third iteration: used %v, %v done", gpu.used(), job.Done())
		}
		job.Start()
		time.Sleep(500 * time.Millisecond)
		began := time.Now()
		job.Finish()
		if took := time.Since(began); gpu.used() || job.Done() != 3 || took != 500*time.Millisecond {
			t.Errorf("the last iteration: used %v, %v done, it took %v", gpu.used(), job.Done(), took)
		}
	})
}

func TestAJobThatIsStoppedWhileItWaitsDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := newGPU()
		gpu.queue <- struct{}{} // another has it for good
		job := &emulate.Turner{Rate: 1, Busy: 1, Turns: gpu}
		job.Start()
		time.Sleep(time.Minute)
		began := time.Now()
		job.Stop()
		if took := time.Since(began); took != 0 || job.Done() != 0 {
			t.Errorf("it took %v, %v done", took, job.Done())
		}
	})
}

func TestTheLogTellsOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		gpu := newGPU()
		gpu.queue <- struct{}{}
		time.AfterFunc(30*time.Second, func() { <-gpu.queue }) // ten seconds after the first iteration wants it
		b.Work = &emulate.Turner{Rate: b.Pace(), Busy: 1, Turns: gpu}
		out, err := b.Run()
		if err != nil || out.Total != 1000 {
			t.Fatalf("%+v: %v", out, err)
		}
		log := b.log.String()
		for _, want := range []string{`"gpu_busy":1,`, `"turns":100[0-2],`, `"turn_wait_s":10,"reason"`} {
			if !regexp.MustCompile(want).MatchString(log) {
				t.Errorf("the log says nothing of %s:\n%s", want, log)
			}
		}
	})
}
