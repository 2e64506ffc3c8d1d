package bridge

import (
	"context"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
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

// TestAJobThatHasLeftForAStartThatIsPutOffGoesFirstNextTime: its place was given up for it.
func TestAJobThatHasLeftForAStartThatIsPutOffGoesFirstNextTime(t *testing.T) {
	for what, c := range map[string]struct {
		preemptPutOff, startPutOff, want bool
	}{
		"it runs elsewhere":         {false, false, false},
		"its start was put off":     {false, true, true},
		"it was not even preempted": {true, true, false},
	} {
		job := &managedJob{record: &Record{}}
		a := &executor{steps: steps{
			{Step: &Step{Job: 2, Verb: Preempt, PutOff: c.preemptPutOff}, job: job, stage: done},
			{Step: &Step{Job: 2, Verb: Start, PutOff: c.startPutOff}, job: job, stage: done}}}
		if a.noteDisplaced(); job.record.Displaced != c.want {
			t.Errorf("%s: displaced %v", what, job.record.Displaced)
		}
	}
}

// TestThePlaceOfAMoverThatStillSavesIsNotFree to jobs that are admitted meanwhile.
func TestThePlaceOfAMoverThatStillSavesIsNotFree(t *testing.T) {
	on := func(node string) *policy.Placement {
		return &policy.Placement{Nodes: []string{node}, PerNode: gres.Vector{GPUs: 4, CPUs: 12, Memory: 100}}
	}
	a := admission{executor: &executor{steps: steps{{Step: &Step{Job: 2, Verb: Start, Grant: on("n2")}}}}}
	c := policy.Cluster{Nodes: []policy.Node{{Name: "n1"}, {Name: "n2"}},
		Jobs: []policy.Job{{ID: 2, Running: on("n1")}}}
	a.hideUsedRoom(&c)
	if got := c.Nodes[1].Foreign; got != on("n2").PerNode || !c.Jobs[0].Fixed || c.Jobs[0].Barred != "" {
		t.Errorf("%v of n2 are in use; the job is %+v", got, c.Jobs[0])
	}
}

// TestAJobThatRanSinceTheLastBookingHasNotWaitedSinceIt though it arrived long before.
func TestAJobThatRanSinceTheLastBookingHasNotWaitedSinceIt(t *testing.T) {
	for submitted, want := range map[time.Duration]int{-2 * time.Hour: 1, -time.Second: 0} {
		r := &Runner{booked: noon.Add(-time.Minute), Settings: Settings{Shadow: true}}
		t1 := &activeRound{runner: r}
		t1.observation.managed = []*managedJob{{record: &Record{},
			Job: &slurm.Job{ID: 7, State: slurm.Pending, Submitted: noon.Add(submitted)}}}
		t1.report.Snapshot.Jobs = []policy.Job{{ID: 7, GPUs: 1, Arrival: noon.Add(-3 * time.Hour)}}
		t1.report.Plan.Decisions = []policy.Decision{{Job: 7,
			Grant: &policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 1}}}}
		var book savings.Round
		if addIdleGPUs(t1, &book); book.Filled != want {
			t.Errorf("submitted %v before: %d GPUs are filled, want %d", -submitted, book.Filled, want)
		}
	}
}
