package bridge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// stepped is the comment of a job whose tasks save: those of stock Lightning and submitit, which then requeue the job
// themselves.
const stepped = "synergy-profile=gnmt.json synergy-checkpoint=USR2@30/steps"

// requeuesItself has no trap in its batch script.
func requeuesItself(s *slurmtest.Spec) {
	s.Work.OnSignal, s.Work.OnSteps = slurmtest.Dies, slurmtest.Requeues
}

// mustHaveLeftOnce checks that a victim waits as its user submitted it, after one restart, and that nothing is held
// against it.
func (w *world) mustHaveLeftOnce(id int) {
	w.t.Helper()
	w.rounds(2)
	j, r := w.job(id), w.record(id)
	if j.State != slurm.Pending || j.Restarts != 1 {
		w.t.Errorf("job %d is %s after %d restarts, want it back after one", id, j.State, j.Restarts)
	}
	if r.Returned != 0 || r.Lost != "" || !r.Asked.IsZero() {
		w.t.Errorf("it counts as returned unasked %d times, lost %q, asked %s", r.Returned, r.Lost, r.Asked)
	}
	if past, _ := w.slurm.History(id); past.Runs[0].Lost != 0 {
		w.t.Errorf("it lost %s", past.Runs[0].Lost)
	}
	w.mustBeAsSubmitted()
}

func TestAVictimThatRequeuesItselfHasLeftAsOneThatExitsWithTheRequeueCode(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*slurmtest.Spec)
	}{
		{"with the requeue flag", func(*slurmtest.Spec) {}},
		{"without it", func(s *slurmtest.Spec) { s.NoRequeue = true }},
		{"and takes its time after that", func(s *slurmtest.Spec) { s.Work.OnTerm = slurmtest.Hangs }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, oneGPU)
			first, second := challenge(w, stepped, requeuesItself, c.change)
			report := w.round()
			if s := step(t, report, first, bridge.Preempt); s.Error != "" || len(report.Lost) > 0 {
				t.Errorf("%+v, lost %+v", s, report.Lost)
			}
			w.mustRun(second, "n1", 1)
			for _, call := range w.line.Calls() {
				if want := (slurm.Signal{Name: "USR2", To: slurm.Steps}); call.Verb == slurmtest.Signal &&
					call.Signal != want {
					t.Errorf("sent %s, want %s", call.Signal, want)
				}
			}
			if n := w.line.Count(slurmtest.Requeue); n > 0 {
				t.Errorf("requeued by force %d times", n)
			}
			w.mustHaveLeftOnce(first)
		})
	}
}

// Its own requeue arrives between our look, in which its grace is over, and our requeue.
func TestAVictimThatRequeuesItselfInTheMomentInWhichItIsStoppedRestartsOnce(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		t.Run(string(moment), func(t *testing.T) {
			w := newWorld(t, 1, oneGPU)
			first, second := challenge(w, stepped, hangs, func(s *slurmtest.Spec) { s.Work.OnSteps = slurmtest.Hangs })
			w.start(upon(slurmtest.Requeue, first, moment, func() error { return w.slurm.Requeue(ctx, first) }))
			w.round()
			w.mustRun(second, "n1", 1)
			w.rounds(2)
			if j := w.job(first); j.State != slurm.Pending || j.Restarts != 1 || w.record(first).Returned != 0 {
				t.Errorf("%s after %d restarts, %d of them unasked, want one that was asked for", j.State, j.Restarts,
					w.record(first).Returned)
			}
		})
	}
}

func TestAJobWhoseTasksDieOfTheSignalIsLostForWantOfAHandlerThere(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, _ := challenge(w, stepped, func(s *slurmtest.Spec) { s.Work.OnSteps = slurmtest.Dies })
	lost := w.round().Lost
	if len(lost) != 1 || lost[0].Job != first || lost[0].Cause != bridge.NoTrap ||
		!strings.Contains(lost[0].Why, "in the tasks of its steps") {
		t.Errorf("lost %+v, want job %d whose tasks catch nothing", lost, first)
	}
}

func TestAVictimThatRunsNoStepLeavesByForceWhenItsGraceIsOver(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	first, second := challenge(w, stepped, func(s *slurmtest.Spec) { s.Work.OnSignal, s.Work.OnSteps = slurmtest.Dies, slurmtest.Hangs })
	began := w.clock.Now()
	if lost := w.round().Lost; len(lost) > 0 {
		t.Errorf("lost %+v", lost)
	}
	w.mustRun(second, "n1", 1)
	if n, took := w.line.Count(slurmtest.Requeue), w.clock.Now().Sub(began); n != 1 || took < 30*time.Second {
		t.Errorf("requeued by force %d times after %s, want once after its grace of 30s", n, took)
	}
	if j := w.job(first); j.State != slurm.Pending || j.Restarts != 1 {
		t.Errorf("%s after %d restarts", j.State, j.Restarts)
	}
}
