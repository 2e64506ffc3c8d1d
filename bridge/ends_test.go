package bridge_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
)

// A job of eight GPUs has waited too long, and a job without the directive holds four of its node for ten hours: until
// its time limit ends the others are of no use to anybody else, unless it is known when that is.
func TestAJobThatEndsBeforeAJobOfOthersUsesWhatIsKeptMeanwhile(t *testing.T) {
	w := newWorld(t, 1, server)
	const stays = "synergy-profile=gnmt.json" // and declares no checkpoint
	limited := func(d time.Duration) func(*slurmtest.Spec) {
		return func(s *slurmtest.Spec) { s.TimeLimit = d }
	}
	w.submit(4, "", forAges, limited(10*time.Hour), func(s *slurmtest.Spec) { s.Lease = 0 })
	gang := w.submit(8, model("gnmt"), forAges)
	w.rounds(13) // it loses its patience
	short := w.submit(1, stays, forAges, limited(8*time.Hour))
	long := w.submit(1, stays, forAges, limited(9*time.Hour))
	w.rounds(1)
	if n := running(w, []int{short}); n != 1 {
		t.Errorf("a job of eight hours waits: %s", w.job(short).Extra)
	}
	if n := running(w, []int{gang, long}); n != 0 {
		t.Errorf("a job runs that would be there when the other one could start")
	}
}
