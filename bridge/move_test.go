package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// asksToMove has two jobs on one of two nodes, of which the other one has just become free: the next round moves one.
func asksToMove(t *testing.T) (w *world, mover int) {
	t.Helper()
	w = newWorld(t, 2, server)
	w.runner.Settings.RestartCost, w.runner.Settings.Rules.Horizon = time.Second, 10*time.Hour
	leaves := w.submit(8, model("gnmt"), func(s *slurmtest.Spec) {
		s.Request.Pin, s.Work.Length = []string{"n2"}, 20*time.Minute
	})
	w.round()
	w.mustRun(leaves, "n2", 8)
	mover = w.submit(4, model("res18"), saves(20*time.Second))
	w.submit(4, model("res18"), saves(20*time.Second))
	w.rounds(2)
	w.mustRun(mover, "n1", 12)
	for w.job(leaves).State == slurm.Running {
		w.sleep(time.Minute)
	}
	w.sleep(2 * time.Minute) // until it is cleaned up
	return w, mover
}

// stranger takes a node as a whole.
func (w *world) stranger(node string) int {
	return w.submit(8, "", func(s *slurmtest.Spec) {
		s.Lease, s.Work.Length = 0, time.Hour
		s.Request.Pin, s.Request.CPUsPerTask, s.Request.CPUs = []string{node}, 24, 24
	})
}

func TestAJobMovesToWhereItIsFaster(t *testing.T) {
	w, mover := asksToMove(t)
	w.round()
	w.mustRun(mover, "n2", 24)
}

func TestNobodyIsAskedToMoveToAPlaceThatOthersHaveTakenMeanwhile(t *testing.T) {
	w, _ := asksToMove(t)
	came := false
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Observe && at == slurmtest.After && !came {
			came = true // right after the first look of the round
			w.stranger("n2")
			return w.clock.Sleep(t.Context(), time.Second)
		}
		return nil
	})
	for _, s := range w.round().Steps {
		if s.Verb == bridge.Preempt && !s.PutOff {
			t.Errorf("asked for a place that is taken: %+v", s)
		}
	}
}

func TestAJobWhosePlaceIsTakenWhileItSavesGoesOnWhereItWas(t *testing.T) {
	w, mover := asksToMove(t)
	w.start(upon(slurmtest.Signal, mover, slurmtest.After, func() error {
		w.stranger("n2")
		return nil
	}))
	report := w.round()
	w.mustRun(mover, "n1", 12)
	w.mustKeepAll(mover)
	s := step(t, report, mover, bridge.Start)
	if s.Error != "" || !strings.Contains(s.Why, "others have taken what was meant for job ") || s.Took > time.Minute {
		t.Errorf("its start: %+v", s)
	}
}

func TestAJobThatLostItsPlaceWhileItMovedGoesBeforeAllOthers(t *testing.T) {
	w, mover := asksToMove(t)
	var other int
	w.start(upon(slurmtest.Signal, mover, slurmtest.After, func() error {
		w.stranger("n2")
		other = w.submit(4, "", func(s *slurmtest.Spec) { // has the old place as soon as it is free
			s.Lease, s.Work.Length = 0, 8*time.Minute
			s.Request.Pin, s.Request.CPUsPerTask, s.Request.CPUs = []string{"n1"}, 12, 12
		})
		return nil
	}))
	w.round()
	if w.job(mover).State != slurm.Pending || w.job(other).State != slurm.Running || !w.record(mover).Displaced {
		t.Fatalf(
			"the mover is %s, the other one %s, displaced: %t",
			w.job(mover).State,
			w.job(other).State,
			w.record(mover).Displaced,
		)
	}
	before := w.submit(4, model("gnmt")) // comes later, and would go first by a policy that asks for the youngest
	w.rounds(3)
	w.mustRun(mover, "n1", 12)
	if w.job(before).State == slurm.Running || w.record(mover).Displaced {
		t.Errorf("job %d is %s; displaced: %t", before, w.job(before).State, w.record(mover).Displaced)
	}
}
