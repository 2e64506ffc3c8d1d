package backfill

import (
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// wants is a job of the queue that may run for so long.
func wants(nodes, gpus int, limit time.Duration) *job {
	return &job{Request: users.Request{Nodes: nodes, PerNode: gres.Vector{GPUs: gpus, CPUs: 3 * gpus, Memory: 1}},
		limit: limit}
}

// holding is a controller of so many servers on which jobs run, each alone on the server of its number, until those
// limits. A limit of 0 is no job.
func holding(t *testing.T, due ...time.Duration) *controller {
	t.Helper()
	c := newController(servers(t, len(due)))
	for n, limit := range due {
		if limit > 0 {
			j := wants(1, 8, limit)
			c.free[n] = c.free[n].Minus(j.PerNode)
			j.nodes, j.limitEnd, j.freedAt = []int{n}, limit, never
			c.running = append(c.running, j)
		}
	}
	return c
}

// everything is a calendar in which nobody is kept anything.
func (c *controller) everything() calendar {
	return calendar{{c.now, c.now + c.Slurm.Window, allNodes(len(c.total))}}
}

// keptAt are the servers that are kept for somebody at a moment.
func (l calendar) keptAt(at time.Duration) (kept []int) {
	for _, s := range l {
		if s.from <= at && at < s.to {
			for n := range s.nodes {
				if !s.nodes.has(n) {
					kept = append(kept, n)
				}
			}
		}
	}
	return kept
}

func mustBeKept(t *testing.T, free calendar, when map[int][]int) {
	t.Helper()
	for minute, want := range when {
		if got := free.keptAt(time.Duration(minute) * time.Minute); !slices.Equal(got, want) {
			t.Errorf("after %d min the servers %v are kept, want %v: %v", minute, got, want, free)
		}
	}
}

// TestTwoJobsAreNotKeptTheSameServerAtOneTime: both could have it after an hour, when it is free.
func TestTwoJobsAreNotKeptTheSameServerAtOneTime(t *testing.T) {
	c := holding(t, time.Hour)
	free := c.everything()
	for range 2 {
		if c.place(wants(1, 8, 30*time.Minute), &free) {
			t.Fatal("a job starts on a server that is full")
		}
	}
	mustBeKept(t, free, map[int][]int{59: nil, 61: {0}, 89: {0}, 91: {0}, 119: {0}, 121: nil})
}

// TestAServerThatIsKeptForAWhileIsSoonerThanOneThatIsHeldForLong: the first is held for two hours, the second is free
// and kept for another for half an hour.
func TestAServerThatIsKeptForAWhileIsSoonerThanOneThatIsHeldForLong(t *testing.T) {
	c := holding(t, 2*time.Hour, 0)
	free := c.everything()
	free.reserve([]int{1}, 0, 30*time.Minute)
	if c.place(wants(1, 8, 20*time.Minute), &free) {
		t.Fatal("a job starts where another is kept a server")
	}
	mustBeKept(t, free, map[int][]int{29: {1}, 31: {1}, 49: {1}, 51: nil, 121: nil})
}

func TestNobodyPlansWhereNothingHasChanged(t *testing.T) {
	c := newController(servers(t, 1, res18(0, 8, 0, 600, 600), res18(1, 8, 1, 600, 600)))
	steps := 0
	for ; c.mayContinue(); steps++ {
		if err := c.step(); err != nil {
			t.Fatal(err)
		}
	}
	if steps > 20 {
		t.Errorf("%d steps for two jobs of ten hours, want a few: only arrivals and ends change anything", steps)
	}
}

func TestNothingIsKeptBeyondTheWindow(t *testing.T) {
	for window, want := range map[time.Duration][]int{time.Hour: {0, 0, 120, 1}, 24 * time.Hour: {0, 0, 120, 150}} {
		config := servers(t, 2, crowded(res18(3, 4, 2, 20, 600))...)
		config.Slurm.Window = window
		if got := starts(simulate(t, config)); !slices.Equal(got, want) {
			t.Errorf("a window of %s: jobs started after %v min, want %v", window, got, want)
		}
	}
}

// TestThoseWhoEndCloseToEachOtherLeaveTogether: within half a minute of the first, and then within a minute of the
// next.
func TestThoseWhoEndCloseToEachOtherLeaveTogether(t *testing.T) {
	c := holding(t, 600*time.Second, 629*time.Second, 700*time.Second, 759*time.Second, 800*time.Second)
	for nodes, want := range map[int]time.Duration{1: 629, 2: 629, 3: 759, 4: 759, 5: 800} {
		if at, on := c.earliest(wants(nodes, 8, time.Minute), allNodes(5)); at != want*time.Second || len(on) != nodes {
			t.Errorf("%d servers after %s on %v, want after %d s", nodes, at, on, want)
		}
	}
}
