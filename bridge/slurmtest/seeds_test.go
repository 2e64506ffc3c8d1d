package slurmtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// chaos plays users, administrators and a careless daemon on a cluster of four nodes.
type chaos struct {
	*site
	rand *rand.Rand
}

func (c *chaos) step() {
	ctx, id := context.Background(), 1+c.rand.IntN(c.Submitted()+1)
	switch c.rand.IntN(12) {
	case 0, 1, 2:
		_, _ = c.Submit(c.spec())
	case 3:
		c.Cancel(id)
	case 4:
		_ = c.Slurm.Signal(ctx, id, slurm.Signal{Name: "USR1"})
	case 5:
		_ = c.Slurm.Requeue(ctx, id)
	case 6:
		c.Down(c.name())
	case 7:
		c.Resume(c.name())
	case 8:
		c.Hold(id)
	case 9:
		c.Release(id)
	default:
		_ = c.Slurm.Update(ctx, c.update(id))
	}
	_, _ = c.Observe(ctx) // what is seen now is compared with what is
	c.clock.Advance(time.Duration(c.rand.IntN(20_000)) * time.Millisecond)
}

func (c *chaos) name() string { return fmt.Sprintf("n%d", 1+c.rand.IntN(4)) }

func (c *chaos) spec() Spec {
	reactions := []Reaction{Dies, Saves, Hangs}
	nodes := 1 + c.rand.IntN(2)
	each := 1 + c.rand.IntN(8)
	if c.rand.IntN(3) == 0 {
		nodes, each = 1, 1
	}
	return Spec{
		Request:   slurm.Request{Nodes: nodes, GPUs: nodes * each, CPUsPerTask: 1 + c.rand.IntN(12)},
		Lease:     time.Duration(c.rand.IntN(2)) * time.Minute,
		TimeLimit: time.Duration(c.rand.IntN(2)) * 10 * time.Minute,
		NoRequeue: c.rand.IntN(4) == 0,
		Exclusive: c.rand.IntN(10) == 0,
		After:     c.rand.IntN(c.Submitted() + 1),
		Work: Work{
			Length: time.Duration(1+c.rand.IntN(600)) * time.Second, Save: time.Duration(c.rand.IntN(50)) * time.Second,
			OnSignal: reactions[c.rand.IntN(3)], OnTerm: reactions[c.rand.IntN(3)],
			Checkpoint: time.Duration(c.rand.IntN(2)) * 30 * time.Second,
		},
	}
}

func (c *chaos) update(id int) slurm.Update {
	r, _ := c.fillRequest(c.spec().Request)
	if c.rand.IntN(2) == 0 {
		r.Pin = []string{c.name()}
	}
	if c.rand.IntN(3) == 0 { // most are refused: it is no job with one GPU
		r.GPUs, r.Nodes, r.Tasks, r.Shard = 1, 1, 1, fmt.Sprintf("g%d", c.rand.IntN(4))
	}
	if c.rand.IntN(5) == 0 {
		r.Memory = gres.Memory(c.rand.IntN(600)) * gres.Gigabyte
	}
	return slurm.Update{Job: id, Begin: c.clock.Now().Add(time.Duration(c.rand.IntN(120)-60) * time.Second),
		Request: r}
}

// play returns the histories of all jobs.
func play(t *testing.T, seed uint64) []History {
	options := Options{Nodes: Rack(4, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")}
	if seed%4 >= 2 {
		options.Nodes = Divided(options.Nodes, 4)
		options.Together = func(_ int, there []int) float64 { return 1 / float64(len(there)) }
	}
	// with a long one, much happens to jobs that are being torn down
	options.Teardown = time.Duration(seed%2) * 20 * time.Second
	c := &chaos{newSite(t, options), rand.New(rand.NewPCG(seed, 0))}
	for range 300 {
		c.step()
	}
	var histories []History
	for id := 1; id <= c.Submitted(); id++ {
		histories = append(histories, c.history(id))
	}
	return histories
}

func TestWhateverIsAskedNothingIsBookedTwice(t *testing.T) {
	for seed := range uint64(40) {
		histories := play(t, seed) // checks the invariants after every event
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		for _, h := range histories {
			if err := consistent(h); err != nil {
				t.Errorf("seed %d: job %d: %v: %+v", seed, h.Job, err, h)
			}
		}
	}
}

// consistent says what is wrong with a job's record: runs in order, one after the other, and no more progress than
// there was.
func consistent(h History) error {
	var kept time.Duration
	for i, run := range h.Runs {
		switch {
		case i > 0 && run.Start.Before(h.Runs[i-1].Freed):
			return fmt.Errorf("run %d begins before the teardown of the last one is over", i)
		case !run.Stop.IsZero() && run.Stop.Before(run.Start):
			return fmt.Errorf("run %d ends before it begins", i)
		case run.Lost < 0 || run.Progress < 0 || run.Lost > kept+run.Progress:
			return fmt.Errorf("run %d lost %s of %s", i, run.Lost, run.Progress)
		}
		kept += run.Progress - run.Lost
		if !h.Ended.IsZero() && h.Ended.Before(run.Freed) {
			return fmt.Errorf("ended before run %d was torn down", i)
		}
	}
	if alive := h.End == ""; alive != h.Ended.IsZero() || !alive && kept != h.Done {
		return fmt.Errorf("kept %s in its runs, %s in all", kept, h.Done)
	}
	return nil
}

func TestTheSameSeedHasTheSameOutcome(t *testing.T) {
	for seed := range uint64(5) {
		first, second := fmt.Sprintf("%+v", play(t, seed)), fmt.Sprintf("%+v", play(t, seed))
		if first != second {
			t.Errorf("seed %d: two outcomes", seed)
		}
	}
}

// A simulated cluster of 128 GPUs of which nine in ten are busy, in jobs a second.
func BenchmarkJobs(b *testing.B) {
	clock := NewClock(noon)
	s := New(clock, Options{Nodes: Rack(16, gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, "synergy")})
	random := rand.New(rand.NewPCG(1, 1))
	for range b.N {
		spec := Spec{
			Request: gpus(1 + random.IntN(4)), TimeLimit: 24 * time.Hour,
			Work: Work{Length: time.Duration(random.IntN(1200)) * time.Second},
		}
		if _, err := s.Submit(spec); err != nil {
			b.Fatal(err)
		}
		clock.Advance(14 * time.Second)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
