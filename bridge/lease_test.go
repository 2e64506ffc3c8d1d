package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// onLeaseJob has the worlds of a test hold their jobs by a lease job.
var onLeaseJob bool

func withLeaseJob(t *testing.T) {
	t.Helper()
	onLeaseJob = true
	t.Cleanup(func() { onLeaseJob = false })
}

// waits says that a waiting job may not start at this moment for its begin time or its lease.
func (w *world) waits(j *slurm.Job) bool { return j.Lease != 0 || j.Begin.After(w.clock.Now()) }

// lease is for how long a waiting job may not start, if nobody renews anything.
func (w *world) lease(id int) time.Duration {
	w.t.Helper()
	j := w.job(id)
	until := j.Begin
	if j.Lease != 0 {
		until = w.job(j.Lease).Deadline
	}
	return until.Sub(w.clock.Now())
}

func TestDyingAndAllElseIsAsPromisedWithALeaseJob(t *testing.T) {
	withLeaseJob(t)
	for name, promise := range map[string]func(*testing.T){
		"dying at any call loses no job":              TestDyingAtAnyCallLosesNoJob,
		"an error at any call is overcome":            TestAnErrorAtAnyCallIsOvercomeByTheNextRounds,
		"dying at any call comes to the same end":     TestDyingAtAnyCallToTheOutsideComesToTheSameEnd,
		"dying twice does, whatever the ledger knows": TestDyingTwiceInARowComesToTheSameEndWhateverBecomesOfTheLedger,
		"nobody is stopped when a clock is set":       TestSlurmsOwnClockIsSetAndNobodyIsStoppedForIt,
		"a start is told as it came about":            TestWhateverCallsTakeAStartIsToldAsItCameAbout,
		"a release that dies is made good":            TestAReleaseThatDiesAnywhereIsMadeGoodByTheNextOne,
		"a flood holds nobody up":                     TestAFloodOfJobsHoldsUpNobodysStartAndAllAreTold,
	} {
		t.Run(name, promise)
	}
	t.Run("nothing is eligible while somebody is asked",
		TestNothingIsEligibleWithAnotherSizeThanPlannedWhileSomebodyIsAsked)
}

// TestAQuietRoundRenewsOneLeaseHoweverManyJobsWait: the requests of a round in which nothing happens are the same with
// ten waiting jobs and with two thousand.
func TestAQuietRoundRenewsOneLeaseHoweverManyJobsWait(t *testing.T) {
	withLeaseJob(t)
	for _, waiting := range []int{10, 2000} {
		w := newWorld(t, 1, oneGPU)
		w.submit(1, model("gnmt"), forAges)
		w.rounds(1)
		for range waiting {
			w.submit(1, model("gnmt"), forAges)
		}
		w.rounds(3)
		w.start(nil)
		w.rounds(6)
		updates, renewals := w.line.Count(slurmtest.Update), w.line.Count(slurmtest.Renew)
		if updates != 0 || renewals != 6 {
			t.Errorf("%d jobs wait: %d updates and %d renewals in 6 rounds, want 0 and 6", waiting, updates, renewals)
		}
	}
}

// TestADaemonThatDoesNotDecideLetsAllGo: a lease is renewed by rounds that have decided, and by no others.
func TestADaemonThatDoesNotDecideLetsAllGo(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	first := w.submit(1, model("gnmt"), length(2*time.Hour))
	w.rounds(1)
	second := w.submit(1, model("gnmt"))
	w.rounds(2)
	if w.lease(second) <= 0 {
		t.Fatalf("job %d has no lease", second)
	}
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Observe {
			return slurm.ErrUnreachable
		}
		return nil
	})
	for range 5 {
		if _, err := w.runner.Round(ctx); !errors.Is(err, slurm.ErrUnreachable) {
			t.Fatalf("round: %v", err)
		}
		w.sleep(w.runner.Settings.Round)
	}
	w.slurm.Cancel(first)
	w.sleep(time.Minute)
	if j := w.job(second); j.State != slurm.Running || j.Request.CPUs != 1 {
		t.Errorf("it does not run as its user asked: %+v", j)
	}
}

// What the gate gives a job is one of these begin times, too. A user's own stays.
func TestJobsThatCarryBeginTimesOfAnOlderDaemonAreGivenTheLeaseOnce(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	w.submit(1, model("gnmt"), forAges)
	later := w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.Begin = w.clock.Now().Add(3 * time.Hour) })
	var ids []int
	for range 20 {
		ids = append(ids, w.submit(1, model("gnmt")))
	}
	w.rounds(2)
	withLeaseJob(t)
	w.start(nil)
	w.rounds(1)
	if n := w.line.Count(slurmtest.Update); n != len(ids)+1 {
		t.Errorf("%d updates, want one for each of %d", n, len(ids)+1)
	}
	for _, id := range append(ids, later) {
		if j := w.job(id); j.Lease == 0 || j.Begin.After(w.clock.Now()) != (id == later) {
			t.Errorf("job %d: lease %d, begins %s", id, j.Lease, j.Begin)
		}
	}
	w.rounds(5)
	if n := w.line.Count(slurmtest.Update); n != len(ids)+1 {
		t.Errorf("%d updates six rounds later", n)
	}
}

func TestWhereSlurmTakesNoLeaseJobEachJobHasABeginTimeAndThatIsSaid(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	w.submit(1, model("gnmt"), forAges)
	second := w.submit(1, model("gnmt"))
	refuses := true
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Renew && refuses && at == slurmtest.Before {
			return fmt.Errorf("%w: user not allowed in partition", slurm.ErrRefused)
		}
		return nil
	})
	report := w.rounds(1)
	if j := w.job(second); j.Lease != 0 || w.lease(second) <= 0 || !strings.Contains(report.NoLeaseJob, "not allowed") {
		t.Errorf("said %q: %+v", report.NoLeaseJob, j)
	}
	w.rounds(4)
	if w.lease(second) <= 0 {
		t.Error("the begin time was not renewed")
	}
	refuses = false
	report = w.rounds(2)
	if j := w.job(second); j.Lease == 0 || report.NoLeaseJob != "" {
		t.Errorf("said %q: %+v", report.NoLeaseJob, j)
	}
}

func TestAReleaseLetsAllGoByOneRequestBeforeItTellsThem(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 2, server)
	for range 2 {
		w.submit(8, model("res50"), forAges)
	}
	w.rounds(1)
	var waiting []int
	for range 60 {
		waiting = append(waiting, w.submit(1, model("res18"), length(time.Minute)))
	}
	w.runner.Settings.Ahead = 3
	w.rounds(2)
	var armed []int
	for _, id := range waiting {
		if j := w.job(id); j.Lease == 0 {
			armed = append(armed, id)
		}
	}
	if len(armed) == 0 || len(armed) > 6 {
		t.Fatalf("%d are armed", len(armed))
	}
	w.mustRelease()
	before := 0 // updates before all are let go
	for _, call := range w.line.Calls() {
		if call.Verb == slurmtest.Lapse {
			break
		}
		if call.Verb == slurmtest.Update {
			before++
		}
	}
	if ends := w.line.Count(slurmtest.Lapse); before != len(armed) || ends != 1 {
		t.Errorf("%d updates before %d ends, want %d and 1", before, ends, len(armed))
	}
	w.mustBeSlurms(waiting...)
	for _, id := range waiting {
		if j := w.job(id); w.waits(&j) || j.Request.CPUs != 1 {
			t.Errorf("job %d: lease %d, begins %s, %d cores", id, j.Lease, j.Begin, j.Request.CPUs)
		}
	}
	w.mustRelease()
	if n := w.line.Count(slurmtest.Update); n != 0 {
		t.Errorf("a second release makes %d updates", n)
	}
}

// TestJobsAreToldAnewWhyTheyWaitAFewEachRound: what a reason becomes is told to those who were told longest ago.
func TestJobsAreToldAnewWhyTheyWaitAFewEachRound(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 2, oneGPU)
	w.submit(1, model("gnmt"), forAges, pinned("n1"))
	w.submit(1, model("gnmt"), forAges, pinned("n2"))
	w.rounds(1)
	for range 100 {
		w.submit(1, model("gnmt"), forAges)
	}
	w.rounds(2)
	w.runner.Outlook = &prophecy{words: "expected to start soon"}
	seen := map[int]bool{}
	for range 8 {
		steps := w.rounds(1).Steps
		if len(steps) > 32 {
			t.Errorf("%d updates in a round", len(steps))
		}
		for _, s := range steps {
			if extra := w.job(s.Job).Extra; seen[s.Job] || !strings.Contains(extra, "soon") {
				t.Errorf("job %d is told again, or not: %s", s.Job, extra)
			}
			seen[s.Job] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 were told", len(seen))
	}
}

func TestALeaseJobThatSomebodyCancelsIsMadeAnew(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	second := w.submit(1, model("gnmt"))
	w.rounds(1)
	before := w.job(second).Lease
	w.slurm.Cancel(before)
	if j := w.job(second); w.waits(&j) {
		t.Errorf("it still waits: %+v", j)
	}
	w.rounds(1)
	if after := w.job(second).Lease; after == 0 || after == before {
		t.Errorf("lease job %d, then %d", before, after)
	}
}

// TestARoundThatHasManyToTellLeavesThatToThoseThatFollow: while a round tells a thousand jobs that they wait, no small
// round could start anybody.
func TestARoundThatHasManyToTellLeavesThatToThoseThatFollow(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	w.runner.Settings.Watched, w.runner.Settings.Round = true, time.Minute
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Update && at == slurmtest.Before {
			w.sleep(10 * time.Millisecond)
		}
		return nil
	})
	w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	var ids []int
	for range 1000 {
		ids = append(ids, w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.Lease = 15 * time.Minute }))
	}
	began := w.clock.Elapsed()
	report := w.round()
	if took := w.clock.Elapsed() - began; took > 5*time.Second {
		t.Errorf("the round took %s", took)
	}
	untold := func() (n int) {
		for _, id := range ids {
			if j := w.job(id); j.Lease == 0 {
				n++
			}
		}
		return n
	}
	if n := untold(); n < 500 || n > 900 || len(report.Steps) != 1000 {
		t.Errorf("%d of %d have no lease yet", n, len(report.Steps))
	}
	for range 60 {
		w.sleep(time.Second)
		if _, _, err := w.runner.SmallRound(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := untold(); n != 0 {
		t.Errorf("%d have no lease a minute later", n)
	}
}

// TestADaemonThatStoodStillForLongerThanTheLeaseTakesUpWhatSlurmHasLeft: what Slurm started meanwhile runs as its user
// asked, and what waits has a lease again.
func TestADaemonThatStoodStillForLongerThanTheLeaseTakesUpWhatSlurmHasLeft(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	w.submit(1, model("gnmt"), length(20*time.Minute))
	w.rounds(1)
	second := w.submit(1, model("gnmt"), length(3*time.Hour))
	third := w.submit(1, model("gnmt"))
	w.rounds(1)
	before := w.job(third).Lease
	w.sleep(time.Hour)
	if j := w.job(second); j.State != slurm.Running || j.Request.CPUs != 1 || before == 0 {
		t.Fatalf("lease job %d; Slurm has not started it as its user asked: %+v", before, j)
	}
	w.rounds(1)
	if j := w.job(second); j.State != slurm.Running {
		t.Errorf("it does not go on: %+v", j)
	}
	if after := w.job(third).Lease; after == 0 || after == before {
		t.Errorf("lease job %d, then %d", before, after)
	}
}

func TestARoundThatCannotRenewTheLeaseDoesNothingAndSaysSo(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if c.Verb == slurmtest.Renew {
			return slurm.ErrUnreachable
		}
		return nil
	})
	first := w.submit(1, model("gnmt"))
	report, err := w.runner.Round(ctx)
	if !errors.Is(err, slurm.ErrUnreachable) || w.line.Count(slurmtest.Update) != 0 {
		t.Errorf("%v, %d updates", err, w.line.Count(slurmtest.Update))
	}
	if s := step(t, report, first, bridge.Start); !s.PutOff {
		t.Errorf("what was not begun is told as done: %+v", s)
	}
	w.start(nil)
	w.rounds(1)
	w.mustRun(first, "n1", 1)
}

// TestAJobWithAlternativeDependenciesHasABeginTime: to one of which any will do no lease job can be added.
func TestAJobWithAlternativeDependenciesHasABeginTime(t *testing.T) {
	withLeaseJob(t)
	w := newWorld(t, 1, oneGPU)
	first := w.submit(1, model("gnmt"), forAges)
	w.rounds(1)
	second := w.submit(1, model("gnmt"), func(s *slurmtest.Spec) { s.After, s.Either = first, true })
	w.rounds(2)
	if j := w.job(second); !j.Either || j.Lease != 0 || w.lease(second) <= 0 {
		t.Errorf("got %+v", j)
	}
}
