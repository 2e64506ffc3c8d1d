package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Four jobs of two GPUs have the server. One of ours that wants four goes first by the policy; two would have to leave
// for it.
func TestNobodyIsStoppedForAPlaceThatOthersWouldTakeOnceAllHaveLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		stranger func(s *slurmtest.Spec)
		gpus     int
		stopped  int
	}{
		{"one place is enough for it", func(*slurmtest.Spec) {}, 2, 0},
		{"two places are", func(*slurmtest.Spec) {}, 4, 0},
		{"two places are, and it may start in several partitions",
			func(s *slurmtest.Spec) { s.Partition = "elsewhere,other" }, 4, 0},
		{"two places are not", func(*slurmtest.Spec) {}, 6, 2},
		{"it may not have them", func(s *slurmtest.Spec) { s.Held = true }, 4, 2},
		{"it begins later", func(s *slurmtest.Spec) { s.Begin = epoch.Add(24 * time.Hour) }, 4, 2},
	} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Policy = policy.LAS()
		var ours []int
		for range 4 {
			ours = append(ours, w.submit(2, model("gnmt"), saves(20*time.Second), forAges))
		}
		w.rounds(3)
		stranger := w.submit(c.gpus, "", forAges, func(s *slurmtest.Spec) { s.Lease = 0 }, c.stranger)
		mine := w.submit(4, model("gnmt"), saves(time.Second), forAges)
		w.rounds(1)
		if n := len(ours) - running(w, ours); n != c.stopped {
			t.Errorf("%s: %d of ours were stopped, want %d; the other's is %s, ours %s", c.name, n, c.stopped,
				w.job(stranger).State, w.job(mine).State)
		}
		if w.job(stranger).State == slurm.Running {
			t.Errorf("%s: it took what was freed for another", c.name)
		}
	}
}
