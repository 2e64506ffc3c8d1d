package production

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// crowd is more jobs than two servers hold at once.
func crowd() []trace.Job {
	var jobs []trace.Job
	for id := range 60 {
		jobs = append(jobs, res18(id, float64(60*id), int64(3000+200*(id%7))))
	}
	return jobs
}

func TestAJobThatDoesNotOptInRunsOnceAtItsShare(t *testing.T) {
	config := small(t, crowd()...)
	config.Users = users.Habits{Outside: 0.5, Seed: 3}
	outside := 0
	for _, j := range simulate(t, config).Jobs {
		if config.Users.OptsIn(j.ID) {
			continue
		}
		outside++
		if ran := j.Finish - j.FirstRun; j.Starts != 1 || ran < j.Length-1e-3 || ran > j.Length+1e-3 {
			t.Errorf("job %d ran %d times, for %v s, want once for %v s", j.ID, j.Starts, ran, j.Length)
		}
	}
	if outside < 20 {
		t.Errorf("%d jobs stay outside, want about 30", outside)
	}
}

func TestAJobWithoutACheckpointIsNeverStopped(t *testing.T) {
	config := small(t, crowd()...)
	config.Users, config.Rules.MinRun = users.Habits{Unsaved: 0.5, Seed: 3}, 0
	stopped := 0
	for _, j := range simulate(t, config).Jobs {
		stopped += j.Starts - 1
		if !config.Users.Saves(j.ID) && j.Starts != 1 {
			t.Errorf("job %d has no checkpoint and was started %d times", j.ID, j.Starts)
		}
	}
	if stopped == 0 {
		t.Error("nobody was stopped: the workload shows nothing")
	}
}
