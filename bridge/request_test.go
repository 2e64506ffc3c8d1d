package bridge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// pinned names the nodes on which the user wants the job.
func pinned(nodes ...string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Request.Pin = nodes }
}

func why(report bridge.Report, job int) string {
	for _, d := range report.Plan.Decisions {
		if d.Job == job {
			return d.Why
		}
	}
	for _, o := range report.Outside {
		if o.Job == job {
			return o.Why
		}
	}
	return "is not in the plan"
}

func TestAJobOnlyGetsNodesOfItsOwnPartition(t *testing.T) {
	w := newSite(t, slices.Concat(
		slurmtest.Rack(1, server, "gpu"),
		[]slurm.Node{{Name: "big1", Total: server, Partitions: []string{"big"}},
			{Name: "x1", Total: server, Partitions: []string{"other"}}},
	))
	w.runner.Settings.Partitions = []string{"gpu", "big"}
	inBig := func(s *slurmtest.Spec) { s.Partition = "big" }
	here, there := w.submit(8, model("res50")), w.submit(4, model("gnmt"), inBig)
	waits, fits := w.submit(4, model("gnmt")), w.submit(4, model("gnmt"), inBig)
	report := w.rounds(1)
	w.mustRun(here, "n1", 24)
	w.mustRun(there, "big1", 4)
	w.mustRun(fits, "big1", 4)
	if j := w.job(waits); j.State != slurm.Pending {
		t.Errorf("job %d of a full partition runs on %v", waits, j.Runs.Nodes)
	}
	if len(report.Snapshot.Nodes) != 2 {
		t.Errorf("planned with nodes %+v, want those of the managed partitions", report.Snapshot.Nodes)
	}
}

func TestAUsersOwnPinIsKeptWhileTheJobWaitsAndWhenItRuns(t *testing.T) {
	w := newWorld(t, 2, server)
	first := w.submit(8, model("res50"), pinned("n2"), length(20*time.Minute))
	second := w.submit(1, model("res18"), pinned("n2"))
	w.rounds(1)
	w.mustRun(first, "n2", 24)
	for range 3 {
		if j := w.job(second); j.State != slurm.Pending || !slices.Equal(j.Request.Pin, []string{"n2"}) {
			t.Errorf("waits for %v, its user said n2: %s", j.Request.Pin, j.State)
		}
		w.rounds(1)
	}
	w.mustBeAsSubmitted()
	w.rounds(2)
	w.mustRun(second, "n2", 9)
}

func TestAPinnedJobWhoseStartFailsStaysPinned(t *testing.T) {
	w := newWorld(t, 2, server)
	id := w.submit(1, model("res18"), pinned("n2"))
	w.start(upon(slurmtest.Update, id, slurmtest.Before, func() error {
		w.slurm.Drain("n2")
		return nil
	}))
	if s := step(t, w.round(), id, bridge.Start); s.Error == "" {
		t.Errorf("start on a drained node: %+v", s)
	}
	w.mustBeAsSubmitted()
}

func TestTheTasksOfAJobGetEqualPartsOfItsCores(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Request.Tasks = 4 })
	w.round()
	j := w.job(id)
	if cores := j.Runs.PerNode.CPUs; j.State != slurm.Running || cores%4 != 0 || j.Request.Tasks != 4 ||
		j.Request.CPUsPerTask != cores/4 {
		t.Errorf("%s with %d cores, %d tasks of %d", j.State, cores, j.Request.Tasks, j.Request.CPUsPerTask)
	}
}

func TestWhatAnotherUsersJobHoldsIsNotGivenAway(t *testing.T) {
	w := newWorld(t, 1, server)
	other := w.submit(5, "", func(s *slurmtest.Spec) { s.Lease, s.Request.CPUs, s.Request.CPUsPerTask = 0, 22, 22 })
	w.sleep(time.Minute)
	fits, waits := w.submit(1, model("gnmt")), w.submit(1, model("alexnet"))
	report := w.round()
	w.mustRun(fits, "n1", 1)
	if got := why(report, waits); w.job(waits).State != slurm.Pending || !strings.Contains(got, "core") {
		t.Errorf("job %d is %s: %q, want it to wait for cores", waits, w.job(waits).State, got)
	}
	if j := w.job(other); j.State != slurm.Running || j.Restarts != 0 {
		t.Errorf("the other user's job: %+v", j)
	}
}

func TestAJobThatWaitsForAnotherIsNotStartedBeforeThatHasEnded(t *testing.T) {
	w := newWorld(t, 1, server)
	first := w.submit(1, model("gnmt"), length(8*time.Minute))
	second := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.After = first })
	report := w.rounds(1)
	if got := why(report, second); got != "waits for another job" || !strings.Contains(w.job(second).Extra, got) {
		t.Errorf("waits because %q, its user is told %s", got, w.job(second).Extra)
	}
	w.rounds(2)
	w.mustRun(second, "n1", 9)
}

func TestAJobThatItsUserRequeuesWaitsUntilItIsCleanedUp(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Work.OnTerm = slurmtest.Hangs })
	w.rounds(1)
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	report := w.rounds(1)
	if got := why(report, id); got != "its last run is still being cleaned up" {
		t.Errorf("waits because %q", got)
	}
	w.mustBeAsSubmitted()
	w.rounds(1)
	w.mustRun(id, "n1", 9)
}

func TestADeadDaemonStartsNoJobBeforeItsUsersBeginTime(t *testing.T) {
	w := newWorld(t, 1, server)
	begin := epoch.Add(3 * time.Hour)
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Begin = begin })
	w.rounds(1)
	w.sleep(begin.Sub(w.clock.Now()) - time.Second)
	if j := w.job(id); j.State != slurm.Pending {
		t.Errorf("%s at %s, its user said %s", j.State, w.clock.Now(), begin)
	}
	w.sleep(time.Minute)
	w.mustRun(id, "n1", 1)
}

func TestAJobThatIsHandedBackKeepsItsUsersBeginTime(t *testing.T) {
	w := newWorld(t, 1, server)
	begin := epoch.Add(3 * time.Hour)
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Begin = begin })
	w.rounds(1)
	w.slurm.SetComment(id, "mine")
	w.rounds(2)
	if j := w.job(id); j.State != slurm.Pending || !j.Begin.Equal(begin) {
		t.Errorf("%s, begins at %s, its user said %s", j.State, j.Begin, begin)
	}
}

func TestANewJobIsToldAtOnceWhyItWaits(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res50"))
	w.rounds(1)
	id := w.submit(1, model("res18"))
	report := w.round()
	if s := step(t, report, id, bridge.Renew); s.Error != "" || !strings.Contains(w.job(id).Extra, why(report, id)) {
		t.Errorf("waits because %q, is told %s", why(report, id), w.job(id).Extra)
	}
}

func TestAServerWithoutGPUsIsNotPlannedWith(t *testing.T) {
	w := newSite(t, append(slurmtest.Rack(1, server, "gpu"),
		slurm.Node{Name: "c1", Total: gres.Vector{CPUs: 64, Memory: 256000}, Partitions: []string{"gpu"}}))
	id := w.submit(1, model("res18"))
	if report := w.round(); len(report.Snapshot.Nodes) != 1 {
		t.Errorf("planned with %+v", report.Snapshot.Nodes)
	}
	w.mustRun(id, "n1", 9)
}
