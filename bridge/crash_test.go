package bridge_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// stage submits jobs so that the next round does all that a round can: it stops some for newcomers that have had less
// service, gives others another size where they are, starts, goes on letting wait, and takes back a start that does not
// come about.
func stage(w *world) []int {
	w.runner.Settings.Policy = policy.LAS()
	var ids []int
	for _, name := range []string{"gnmt", "alexnet", "gnmt"} {
		ids = append(ids, w.submit(1, model(name), pinned("n1"), length(25*time.Minute)))
	}
	w.rounds(2)
	for _, name := range []string{"res18", "gnmt"} {
		ids = append(ids, w.submit(1, model(name), pinned("n1"), length(8*time.Minute)))
	}
	ids = append(ids, w.submit(1, model("gnmt"), pinned("n2"), length(8*time.Minute)))
	return append(ids, w.submit(4, model("res50"), pinned("n1"), length(8*time.Minute)))
}

// fragile drains node n2 in the moment in which something is to start there.
func fragile(w *world, fault slurmtest.Fault) slurmtest.Fault {
	return func(c slurmtest.Call, at slurmtest.Moment) error {
		if slices.Contains(c.Update.Request.Pin, "n2") && !c.Update.Begin.After(w.clock.Now()) &&
			at == slurmtest.Before {
			w.slurm.Drain("n2")
		}
		if fault == nil {
			return nil
		}
		return fault(c, at)
	}
}

func length(d time.Duration) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Work.Length = d }
}

var small = gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}

// TestDyingAtAnyCallLosesNoJob kills the daemon in every call of an eventful round in turn, before and after its
// effect, starts another one, and lets the cluster run empty.
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
	w := newWorld(t, 2, small)
	ids := stage(w)
	w.start(fragile(w, slurmtest.DieAt(n, moment)))
	_, err := w.runner.Round(ctx)
	died := errors.Is(err, slurmtest.ErrDied)
	if err != nil && !died {
		t.Fatalf("round: %v", err)
	}
	w.start(nil)
	w.mustEndWell(ids)
	return died
}

// mustEndWell holds rounds until nothing is left of the stage. Whatever went wrong in the round before, no job is lost,
// and none waits with another request than its user's.
func (w *world) mustEndWell(ids []int) {
	w.t.Helper()
	w.round()
	w.mustBeAsSubmitted()
	w.slurm.Resume("n2")
	for k := 0; w.slurm.Active() > 0; k++ {
		if k > 60 {
			w.t.Fatalf("jobs left after %d rounds", k)
		}
		w.rounds(1)
		w.mustBeAsSubmitted()
	}
	w.mustHaveCompleted(ids)
	w.mustKeepAll(ids...)
}

func (w *world) mustHaveCompleted(ids []int) {
	w.t.Helper()
	for _, id := range ids {
		if past, _ := w.slurm.History(id); past.End != slurmtest.Completed {
			w.t.Errorf("job %d ended %q", id, past.End)
		}
	}
}

// TestAnErrorAtAnyCallIsOvercomeByTheNextRounds does the same with a call that fails and a daemon that lives.
func TestAnErrorAtAnyCallIsOvercomeByTheNextRounds(t *testing.T) {
	for _, fault := range []error{slurm.ErrUnreachable, slurm.ErrDenied, slurm.ErrRefused, errors.New("garbage")} {
		for n := 1; n < 40; n++ {
			t.Run(fmt.Sprintf("%v at call %d", fault, n), func(t *testing.T) { failOnce(t, n, fault) })
		}
	}
}

func failOnce(t *testing.T, n int, fault error) {
	w := newWorld(t, 2, small)
	ids := stage(w)
	w.start(fragile(w, slurmtest.FailAt(n, slurmtest.Before, fault)))
	for k := 0; w.slurm.Active() > 0 && k < 60; k++ {
		began := w.clock.Now()
		_, _ = w.runner.Round(ctx) // the report says it; what counts here is the end
		if k > 1 {                 // the fault may strike in either of the first two
			w.mustBeAsSubmitted()
		}
		if k == 1 {
			w.slurm.Resume("n2")
			w.start(nil)
		}
		w.sleep(w.runner.Settings.Round - w.clock.Now().Sub(began))
	}
	w.mustHaveCompleted(ids)
}

func TestTheStageOfTheCrashTestsHasAllThatARoundCanDo(t *testing.T) {
	w := newWorld(t, 2, small)
	stage(w)
	w.start(fragile(w, nil))
	report := w.round()
	preempted, seen := map[int]bool{}, map[string]bool{}
	for _, s := range report.Steps {
		if s.Verb == bridge.Preempt {
			preempted[s.Job] = true
		}
		seen[fmt.Sprintf("%s after a stop %v, %s", s.Verb, preempted[s.Job], s.Error)] = true
	}
	for _, want := range []string{
		"renew after a stop false, ", "preempt after a stop true, ", "start after a stop true, ",
		"start after a stop false, ",
		"start after a stop false, " + tooLate,
	} {
		if !seen[want] {
			t.Errorf("no %q in the round that is killed: %v", want, seen)
		}
	}
}
