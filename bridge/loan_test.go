package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// plain is a job without the word.
func plain(s *slurmtest.Spec) { s.Lease = 0 }

// inside has a job submitted to a partition.
func inside(partition string) func(*slurmtest.Spec) {
	return func(s *slurmtest.Spec) { s.Partition = partition }
}

// One that saves has all cores of the server beside four idle GPUs; then come jobs that lack nothing but a lent core.
func TestAJobWithoutTheWordHasWhatWasLentWithinSeconds(t *testing.T) {
	for _, partition := range []string{"gpu", "other"} {
		w := newWorld(t, 1, server)
		w.runner.Settings.Rules.MinRun = 10 * time.Minute
		lender := w.submit(4, model("res18"), saves(20*time.Second), forAges)
		w.rounds(1)
		w.mustRun(lender, "n1", 24)
		first := w.submit(1, "", plain, inside(partition), forAges)
		second := w.submit(1, "", plain, inside(partition), forAges)
		for range 10 {
			w.small()
			w.sleep(time.Second)
		}
		for _, id := range []int{first, second} {
			if w.job(id).State != bridge.Running {
				t.Errorf("partition %s: job %d still waits for what was lent", partition, id)
			}
		}
		w.mustRun(lender, "n1", 22)
		if n := w.line.Count(slurmtest.Signal); n != 1 {
			t.Errorf("partition %s: the lender was asked %d times", partition, n)
		}
	}
}
