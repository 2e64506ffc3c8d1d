//go:build live && bench

package live

import (
	"testing"
	"time"
)

// One node of eight GPUs: four are in use for ten seconds. A job for two waits in all of them and could run, one for
// eight waits and could not.
func TestIdleGPUsCountWhereAWaitingJobHasRoomAndNowhereElse(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	runs := func(start, end int) []spell { return []spell{{at(start), at(end), "n1"}} }
	for _, c := range []struct {
		name string
		jobs []demand
		want int
	}{
		{"room for a waiting one", []demand{{at(0), 4, runs(0, 10)}, {at(0), 2, runs(10, 11)}}, 20},
		{"no room for a waiting one", []demand{{at(0), 4, runs(0, 10)}, {at(0), 8, runs(10, 11)}}, 0},
		{"nobody waits", []demand{{at(0), 4, runs(0, 10)}, {at(10), 2, runs(10, 11)}}, 0},
		{"more waits than idles", []demand{{at(0), 4, runs(0, 10)}, {at(0), 2, runs(10, 11)}, {at(0), 8, runs(11, 12)}},
			40},
		{"one between two runs", []demand{{at(0), 2, []spell{{at(0), at(4), "n1"}, {at(6), at(9), "n1"}}}}, 4},
	} {
		if got := idleGPUSeconds(c.jobs, []string{"n1"}, 8); got != c.want {
			t.Errorf("%s: %d GPU-seconds, want %d", c.name, got, c.want)
		}
	}
}
