package bridge_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// queued is a world in which somebody else's job of that priority waits for eight GPUs of one node, of which seven are
// free on n1, and none on n2.
func queued(t *testing.T, priority int64) *world {
	t.Helper()
	w := newWorld(t, 2, server)
	w.runner.Settings.Policy, w.runner.Settings.Ahead = policy.Slurm(), 4
	theirs := func(s *slurmtest.Spec) { s.Lease, s.Priority = 0, priority }
	w.submit(1, "", forAges, theirs, pinned("n1"))
	w.submit(8, "", forAges, theirs, pinned("n2"))
	w.rounds(1)
	w.submit(8, "", forAges, theirs)
	return w
}

func TestAJobThatSlurmHasOthersBeforeIsArmedInPlaceOfAStartThatWouldNotComeAbout(t *testing.T) {
	for _, c := range []struct {
		name         string
		theirs, ours int64
		ahead        int
		verb         bridge.Verb
	}{
		{"behind", 100, 50, 4, bridge.Arm},
		{"before", 50, 100, 4, bridge.Start},
		{"behind, and nobody is armed", 100, 50, 0, bridge.Start},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := queued(t, c.theirs)
			w.runner.Settings.Ahead = c.ahead
			id := w.submit(1, model("res18"), forAges, func(s *slurmtest.Spec) { s.Priority = c.ours })
			report := w.rounds(1)
			if s := step(t, report, id, c.verb); s.Error != "" || s.Grant.PerNode.CPUs != 5 {
				t.Errorf("%+v", s)
			}
			w.mustRun(id, "n1", 5) // the six GPUs that stay free keep their share for unmanaged jobs
		})
	}
}

// The victim would have been stopped for a start that Slurm does not make as long as the other job waits.
func TestNobodyIsStoppedForAJobThatSlurmHasOthersBefore(t *testing.T) {
	nodes := slurmtest.Rack(2, server, "gpu")
	nodes[0].Total = oneGPU
	w := newSite(t, nodes)
	w.runner.Settings.Policy, w.runner.Settings.Ahead = policy.LAS(), 4
	theirs := func(s *slurmtest.Spec) { s.Lease, s.Priority = 0, 100 }
	w.submit(8, "", forAges, theirs)
	first := w.submit(1, model("gnmt"), forAges, pinned("n1"))
	w.rounds(2)
	w.submit(8, "", forAges, theirs)
	w.submit(1, model("gnmt"), forAges, pinned("n1"), func(s *slurmtest.Spec) { s.Priority = 50 })
	w.rounds(2)
	w.mustRun(first, "n1", 1)
	if n := w.line.Count(slurmtest.Signal); n > 0 {
		t.Errorf("%d were asked to leave", n)
	}
}
