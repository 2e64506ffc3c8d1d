package bridge

import (
	"context"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

func TestAJobIsThroughWithItsLastRunASecondAfterTheSecondOfItsTeardown(t *testing.T) {
	at := noon.Add(500 * time.Millisecond)
	for _, c := range []struct {
		name string
		job  slurm.Job
		want bool
	}{
		{"never ran", slurm.Job{State: slurm.Pending, Submitted: at}, true},
		{"runs", slurm.Job{State: slurm.Running, Submitted: noon.Add(-time.Hour)}, false},
		{"is being torn down", slurm.Job{State: slurm.Pending, Completing: true, Restarts: 1,
			Submitted: noon.Add(-time.Hour)},
			false},
		{"was torn down in this second", slurm.Job{State: slurm.Pending, Restarts: 1, Submitted: noon}, false},
		{"was torn down in the last second", slurm.Job{State: slurm.Pending, Restarts: 1,
			Submitted: noon.Add(-time.Second)},
			false},
		{"was torn down in the second before", slurm.Job{State: slurm.Pending, Restarts: 1,
			Submitted: noon.Add(-1001 * time.Millisecond)}, true},
	} {
		if got := lastRunIsOverBy(&c.job, at); got != c.want {
			t.Errorf("a job that %s: settled %v, want %v", c.name, got, c.want)
		}
	}
}

// still is a clock that is moved by hand.
type still struct{ passed time.Duration }

func (s *still) Now() time.Time         { return noon.Add(s.passed) }
func (s *still) Elapsed() time.Duration { return s.passed }

func (s *still) Sleep(_ context.Context, d time.Duration) error {
	s.passed += d
	return nil
}

// Slurm's clock was set back by an hour: it would take that long until it shows a time after the requeue.
func TestAJobWhoseRequeueIsYetToComeBySlurmsClockIsThroughAFewSecondsAfterItWasSeenSo(t *testing.T) {
	clock := &still{passed: time.Minute}
	r := &Runner{Clock: clock}
	a := &executor{runner: r, round: &activeRound{runner: r}, lastObservation: lastObservation{at: noon}}
	s, j := &step{}, &slurm.Job{State: slurm.Pending, Restarts: 1, Submitted: noon.Add(time.Hour)}
	for after, want := range []bool{false, false, false, false, true} {
		if got := a.lastRunIsOver(s, j); got != want {
			t.Errorf("%d s after it was seen to be through: settled %v", after, got)
		}
		clock.passed += time.Second
		a.at = a.at.Add(time.Second)
	}
}

// TestWhatACalledOffStartWasToUseIsNotPreempted: Slurm has started job 1 on n2 by itself. Job 2 was to move there from
// n1, and job 3 to leave n3 for the gang 4 on n2 and n3. Job 5 leaves n5 for job 6, which has nothing to do with it.
func TestWhatACalledOffStartWasToUseIsNotPreempted(t *testing.T) {
	r := &Runner{Clock: &still{}}
	a := &executor{runner: r, round: &activeRound{runner: r}}
	start := func(job int, nodes ...string) *step {
		return &step{Step: &Step{Job: job, Verb: Start, Grant: &policy.Placement{Nodes: nodes}}}
	}
	leave := func(job int, nodes ...string) *step {
		return &step{Step: &Step{Job: job, Verb: Preempt}, freedNodes: nodes}
	}
	raced := start(1, "n2")
	raced.startedByItself = true
	a.steps = steps{raced, leave(2, "n1"), start(2, "n2"), leave(3, "n3"), start(4, "n2", "n3"), leave(5, "n5"),
		start(6, "n5"), start(7, "n1")}
	a.callOff()
	for _, s := range a.steps {
		if want := s.Job != 1 && s.Job < 5 || s.Job == 7; s.PutOff != want {
			t.Errorf("%s job %d: put off %v, want %v", s.Verb, s.Job, s.PutOff, want)
		}
	}
}
