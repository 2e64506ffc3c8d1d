package bridge_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// A hundred free nodes, a hundred jobs, a round of a minute whose first look took 25 s, and one update that waited 6 s
// for slurmctld's locks (a backfill cycle): none of the starts that were sent may be taken back before Slurm's
// scheduler has looked once.
func TestStartsThatWereSentAreGivenTimeToComeAbout(t *testing.T) {
	const n = 100
	w := newWorld(t, n, oneGPU)
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{
		Nodes: slurmtest.Rack(n, oneGPU, "gpu"), SchedulerDelay: 3 * time.Second,
	})
	w.runner.Settings.Round, w.runner.Settings.Parallel = time.Minute, 8
	var ids []int
	for range n {
		ids = append(ids, w.submit(1, model("gnmt"), forAges))
	}
	looked, sent := false, atomic.Int64{}
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		switch {
		case c.Verb == slurmtest.Observe && at == slurmtest.After && !looked:
			looked = true
			w.sleep(25 * time.Second)
		case c.Verb == slurmtest.Update && at == slurmtest.Before:
			if sent.Add(1) == n {
				w.sleep(6 * time.Second)
			}
		}
		return nil
	})
	started, back, example := 0, 0, ""
	for _, s := range w.round().Steps {
		if s.Verb == bridge.Start {
			if s.Error == "" {
				started++
			} else {
				back, example = back+1, s.Error
			}
		}
	}
	running := 0
	for _, id := range ids {
		if w.job(id).State == slurm.Running {
			running++
		}
	}
	if back > 0 {
		t.Errorf("%d starts are told as done, %d as failed (%s), and %d jobs run", started, back, example, running)
	}
}

// TestWhateverCallsTakeAStartIsToldAsItCameAbout draws how long each call takes, from nothing to a minute, and how long
// Slurm's scheduler does: what is told as done runs or has ended, and what is told as failed does not run.
func TestWhateverCallsTakeAStartIsToldAsItCameAbout(t *testing.T) {
	for seed := range uint64(150) {
		chance := rand.New(rand.NewPCG(seed, 25))
		w := newWorld(t, 8, oneGPU)
		w.slurm = slurmtest.New(w.clock, slurmtest.Options{Nodes: slurmtest.Rack(8, oneGPU, "gpu"),
			SchedulerDelay: time.Duration(chance.IntN(40)) * time.Second})
		w.runner.Settings.Round, w.runner.Settings.Parallel = time.Minute, 1+chance.IntN(4)
		w.runner.Settings.Lease = 100 * time.Hour
		for range 12 {
			w.submit(1, model("gnmt"), func(s *slurmtest.Spec) {
				s.Work.Length = time.Duration(30+chance.IntN(600)) * time.Second
				s.Lease = 100 * time.Hour // Slurm starts none by itself meanwhile
			})
		}
		slow := []int{0, 1, 10, 60}[chance.IntN(4)]
		var mu sync.Mutex // calls are made at the same time
		w.line = slurmtest.NewLine(w.slurm, w.clock, func(_ slurmtest.Call, at slurmtest.Moment) error {
			mu.Lock()
			takes := chance.IntN(4) * chance.IntN(slow+1) / 3
			mu.Unlock()
			if at == slurmtest.Before {
				w.sleep(time.Duration(takes) * time.Second)
			}
			return nil
		})
		w.runner.Slurm, w.runner.Splitter, w.runner.Clock = w.line, w.line, w.line
		if onLeaseJob {
			w.runner.Leases = w.line.Leases()
		}
		for range 5 {
			for _, s := range w.round().Steps {
				job := w.job(s.Job)
				if s.PutOff && s.Error != "" {
					t.Errorf("seed %d: %s of job %d is put off, and told as failed: %s", seed, s.Verb, s.Job, s.Error)
				}
				switch {
				case s.Verb != bridge.Start || s.PutOff:
				case s.Error == "" && job.State == slurm.Pending:
					t.Errorf("seed %d: job %d is told to have started, and waits", seed, s.Job)
				case s.Error != "" && len(s.Changes) > 0 && job.State == slurm.Running:
					t.Errorf("seed %d: job %d is told not to have started (%s), and runs", seed, s.Job, s.Error)
				}
			}
			w.sleep(time.Duration(chance.IntN(60)) * time.Second)
		}
	}
}

// Forty free nodes, forty jobs, a round of a minute, updates of a second one after the other, and a Slurm that starts
// nothing: only as many starts are sent as can be taken back.
func TestNoMoreStartsAreSentThanCanBeTakenBackInTheRound(t *testing.T) {
	const n = 40
	w := newWorld(t, n, oneGPU)
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{
		Nodes: slurmtest.Rack(n, oneGPU, "gpu"), SchedulerDelay: time.Hour,
	})
	w.runner.Settings.Round, w.runner.Settings.Parallel = time.Minute, 1
	for range n {
		w.submit(1, model("gnmt"), forAges)
	}
	w.start(slow(w, func(c slurmtest.Call) time.Duration {
		if c.Verb == slurmtest.Update {
			return time.Second
		}
		return 0
	}))
	sent := 0
	for _, s := range w.round().Steps {
		if s.Verb == bridge.Start && len(s.Changes) > 0 {
			sent++
			if s.PutOff {
				t.Errorf("the start of job %d was sent and not taken back", s.Job)
			}
		}
	}
	if sent < n/2 {
		t.Errorf("%d starts were sent, though %d can be taken back", sent, n/2)
	}
	w.mustBeAsSubmitted()
}

// The time of a round may be over while Slurm has still to look at its starts, or nobody answers any more: they may
// come about, and the next round says what became of them.
func TestAStartThatWasSentWhenItsRoundIsCutOffIsPutOffAndNotFailed(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.slurm = slurmtest.New(w.clock, slurmtest.Options{Nodes: slurmtest.Rack(2, oneGPU, "gpu"),
		SchedulerDelay: 20 * time.Second})
	first, second := w.submit(1, model("gnmt"), forAges), w.submit(1, model("gnmt"), forAges)
	ctx, cancel := context.WithCancel(t.Context())
	sent := false
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		sent = sent || c.Verb == slurmtest.Update && at == slurmtest.After
		if sent && c.Verb == slurmtest.Observe {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	report, err := w.runner.Round(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: want the round cut off", err)
	}
	for _, id := range []int{first, second} {
		if s := step(t, report, id, bridge.Start); s.Error != "" || !s.PutOff {
			t.Errorf("the start of job %d is told as failed %q, put off %v", id, s.Error, s.PutOff)
		}
	}
}
