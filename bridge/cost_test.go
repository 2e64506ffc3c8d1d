package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// restartOf is what the last snapshot takes a restart of a job to cost.
func restartOf(t *testing.T, report bridge.Report, id int) time.Duration {
	t.Helper()
	for i := range report.Snapshot.Jobs {
		if j := &report.Snapshot.Jobs[i]; j.ID == id {
			return j.Restart
		}
	}
	t.Fatalf("job %d is not in the snapshot of round %d", id, report.Round)
	return 0
}

// TestARestartCostsWhatTheLastOnesOfTheJobDid: with a profile and without, which claim 30 s; it saves for 100, and a
// daemon that dies keeps that.
func TestARestartCostsWhatTheLastOnesOfTheJobDid(t *testing.T) {
	for comment, want := range map[string]time.Duration{
		"synergy-profile=gnmt.json synergy-checkpoint=USR1@600": 120 * time.Second, // start_s of the profile is 20
		// and Slurm starts it within a second
		"synergy-profile=none.json synergy-checkpoint=USR1@600": 100 * time.Second,
	} {
		w := newWorld(t, 1, oneGPU)
		w.runner.Settings.Rules.MinRun = time.Nanosecond
		first, _ := challenge(w, comment, saves(100*time.Second),
			func(s *slurmtest.Spec) { s.Work.Restart = time.Minute })
		report := w.rounds(1)
		if got := restartOf(t, report, first); got != 30*time.Second {
			t.Errorf("%s: a first restart costs %s", comment, got)
		}
		if s := step(t, report, first, bridge.Preempt); s.Cost == nil || s.Cost.Duration() != 30*time.Second {
			t.Errorf("the step says %+v", s.Cost)
		}
		w.start(nil)
		for range 24 {
			if w.rounds(1); w.job(first).State == slurm.Running {
				break
			}
		}
		if got := restartOf(t, w.rounds(1), first); got < want-time.Second || got > want+3*time.Second {
			t.Errorf("%s: the next restart costs %s, want %s as the last one did", comment, got, want)
		}
	}
}
