package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// waitOf is why a job waits, as the report says it.
func waitOf(t *testing.T, report bridge.Report, job int) bridge.Wait {
	t.Helper()
	for _, w := range report.Waits {
		if w.Job == job {
			return w
		}
	}
	t.Fatalf("round %d: nothing says why job %d waits: %+v", report.Round, job, report.Waits)
	return bridge.Wait{}
}

func TestAFaultOfConfigurationIsToldApartFromWaitingForRoom(t *testing.T) {
	w, _ := limited(t, limits.Limit{Kind: limits.MaxTRESPerJob, TRES: "gres/gpu", Most: 8})
	w.runner.Settings.Explain = true
	w.submit(8, model("res18"))
	w.submit(8, model("res18"))
	next := w.submit(1, model("res18"))
	after := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.After = next })
	large := w.submit(16, model("res18"), func(s *slurmtest.Spec) { s.Request.Nodes = 2 })
	held := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Held = true })
	het := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Shape = "a het job" })
	report := w.rounds(2)
	for _, want := range []bridge.Wait{
		{Job: next, Reason: bridge.ForRoom, Cause: bridge.CauseTurn, Place: 1},
		{Job: after, Reason: bridge.ByItself, Cause: bridge.CauseDependency, Place: 2},
		{Job: large, Reason: bridge.Misconfigured, Cause: bridge.CauseAboveLimits, Place: 3},
		{Job: held, Reason: bridge.OnHold, Cause: bridge.CauseHeld},
		{Job: het, Reason: bridge.Unplanned, Cause: bridge.CauseLeftToSlurm},
	} {
		got := waitOf(t, report, want.Job)
		if got.Why == "" {
			t.Errorf("job %d waits for %s, and no words say why", want.Job, got.Cause)
		}
		told := got.User != "" || got.Name != "" || got.GPUs != 0 || !got.Since.IsZero()
		if told != (want.Place == 0) || got.Partition != "gpu" {
			t.Errorf("%+v: want its partition, and where no plan decides on it, whose it is", got)
		}
		got.Why, got.Partition, got.User, got.Name, got.GPUs, got.Since = "", "", "", "", 0, time.Time{}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if len(report.Waits) != 5 {
		t.Errorf("%+v", report.Waits)
	}
}

func TestWhereNobodyAsksNoRoundSaysWhyJobsWait(t *testing.T) {
	w := newWorld(t, 1, server)
	w.submit(8, model("res18"))
	w.submit(1, model("res18"))
	if report := w.round(); report.Waits != nil {
		t.Errorf("%+v", report.Waits)
	}
}

func TestAJobThatIsOverIsToldWithItsEndAndWhatItGot(t *testing.T) {
	w := newWorld(t, 1, server)
	id := w.submit(2, "synergy-profile=none.json", func(s *slurmtest.Spec) {
		s.Work.Length = w.runner.Settings.Round * 3 / 2
	})
	if report := w.rounds(2); len(report.Ended) != 0 {
		t.Errorf("it runs, and is over: %+v", report.Ended)
	}
	report := w.rounds(1)
	if len(report.Ended) != 1 || report.Ended[0].Job != id || report.Ended[0].End.State != "COMPLETED" ||
		report.Ended[0].Attained < 2*299 || report.Ended[0].Done < 299 {
		t.Errorf("%+v, want job %d with one round of two GPUs", report.Ended, id)
	}
}
