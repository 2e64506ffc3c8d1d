package bridge_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// stage submits jobs so that rounds start, restart with another size, preempt and restore: a full server of long jobs, then
// newcomers that have had less service.
func stage(w *world) []int {
	w.runner.Settings.Policy = policy.LAS()
	var ids []int
	for k := range 4 {
		ids = append(ids, w.submit(1, model([]string{"gnmt", "res18", "alexnet", "gnmt"}[k]), length(25*time.Minute)))
	}
	w.rounds(2)
	for k := range 2 {
		ids = append(ids, w.submit(1, model([]string{"res18", "gnmt"}[k]), length(8*time.Minute)))
	}
	return ids
}

func length(d time.Duration) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Work.Length = d }
}

var small = gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}

// TestDyingAtAnyCallLosesNoJob kills the daemon in every call of an eventful round in turn, before and after its effect, starts
// another one, and lets the cluster run empty.
func TestDyingAtAnyCallLosesNoJob(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		for n := 1; ; n++ {
			died := true
			t.Run(fmt.Sprintf("%s call %d", moment, n), func(t *testing.T) { died = dieOnce(t, n, moment) })
			if !died {
				break
			}
		}
	}
}

// dieOnce dies at call n of the round after the stage is set, and says whether the round had as many calls.
func dieOnce(t *testing.T, n int, moment slurmtest.Moment) bool {
	w := newWorld(t, 1, small)
	ids := stage(w)
	w.start(slurmtest.DieAt(n, moment))
	_, err := w.runner.Round(ctx)
	died := errors.Is(err, slurmtest.ErrDied)
	if err != nil && !died {
		t.Fatalf("round: %v", err)
	}
	w.start(nil)
	for k := 0; w.slurm.Active() > 0; k++ {
		if k > 60 {
			t.Fatalf("jobs left after %d rounds", k)
		}
		w.rounds(1)
	}
	for _, id := range ids {
		past, _ := w.slurm.History(id)
		if past.End != slurmtest.Completed {
			t.Errorf("job %d ended %q", id, past.End)
		}
		for _, run := range past.Runs {
			if run.Lost > 0 {
				t.Errorf("job %d lost %s of progress", id, run.Lost)
			}
		}
	}
	return died
}

// TestAnErrorAtAnyCallIsOvercomeByTheNextRounds does the same with a call that fails and a daemon that lives.
func TestAnErrorAtAnyCallIsOvercomeByTheNextRounds(t *testing.T) {
	for _, fault := range []error{bridge.ErrUnreachable, bridge.ErrRefused, errors.New("garbage")} {
		for n := 1; n < 40; n++ {
			w := newWorld(t, 1, small)
			ids := stage(w)
			w.start(slurmtest.FailAt(n, slurmtest.Before, fault))
			for k := 0; w.slurm.Active() > 0 && k < 60; k++ {
				began := w.clock.Now()
				_, _ = w.runner.Round(ctx) // the report says it; what counts here is the end
				w.sleep(w.runner.Settings.Round - w.clock.Now().Sub(began))
			}
			for _, id := range ids {
				if past, _ := w.slurm.History(id); past.End != slurmtest.Completed {
					t.Errorf("%v at call %d: job %d ended %q", fault, n, id, past.End)
				}
			}
		}
	}
}
