package policy

import (
	"math/rand"
	"testing"
	"time"
)

// TestJobsThatAreServedAlikeDoNotTakeEachOthersPlaceForEver: of twice as many jobs of six hours and more as fit, none
// is stopped more than five times under LAS or FTF, whose keys change with every second that a job runs or waits,
// though a restart costs nothing.
func TestJobsThatAreServedAlikeDoNotTakeEachOthersPlaceForEver(t *testing.T) {
	for _, p := range []Policy{LAS(), FTF()} {
		t.Run(p.Name, func(t *testing.T) {
			s := &site{t: t, cluster: paperCluster(1), policy: p, alloc: Proportional(),
				draw: rand.New(rand.NewSource(5))}
			s.cluster.Rules = Rules{MinRun: 10 * time.Minute, Patience: 1000 * time.Hour}
			for id := 1; id <= 16; id++ {
				s.submit(id, time.Duration(5+id)*time.Hour)
				s.cluster.Jobs[id-1].Restart = 0
			}
			most := 0
			for len(s.cluster.Jobs) > 0 {
				s.play(1)
				for i := range s.cluster.Jobs {
					most = max(most, s.cluster.Jobs[i].Restarts)
				}
			}
			if most > 5 {
				t.Errorf("a job was stopped %d times", most)
			}
		})
	}
}

func TestALevelIsExact(t *testing.T) {
	for _, c := range []struct {
		x     float64
		steps int
		want  float64
	}{{1, 1, 1}, {1.99, 1, 1}, {2, 1, 2}, {9.7, 1, 8}, {1.49, 2, 1}, {1.5, 2, 1.5}, {2.9, 2, 2}, {3, 2, 3},
		{0.8, 2, 0.75}, {0, 2, 0}} {
		if got := levelOf(c.x, c.steps); got != c.want {
			t.Errorf("%g in %d steps: %g, want %g", c.x, c.steps, got, c.want)
		}
	}
}
