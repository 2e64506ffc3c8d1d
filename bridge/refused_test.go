package bridge_test

import (
	"errors"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// The planner is wrong about a job that runs: the plan stops one, and Check says that it must not.
func TestARoundWhosePlanBreaksAPromiseStartsWhoItCanAndStopsNobody(t *testing.T) {
	w := newWorld(t, 2, oneGPU)
	w.runner.Settings.Policy = policy.LAS()
	w.slurm.Drain("n2")
	first := w.submit(1, model("gnmt"), forAges)
	w.rounds(2)
	w.mustRun(first, "n1", 1)
	w.slurm.Resume("n2") // room for one of the two who come, and who have attained less than the first
	second, third := w.submit(1, model("gnmt"), forAges), w.submit(1, model("gnmt"), forAges)
	plans := 0
	w.runner.CheckBy(func(c policy.Cluster, p policy.Plan) error {
		plans++
		for i := range c.Jobs {
			j, g := &c.Jobs[i], p.Decisions[i].Grant
			if j.Running != nil && (g == nil || !g.Equal(*j.Running)) {
				return errors.New("it must not be touched")
			}
		}
		return policy.Check(c, p)
	})
	report := w.round()
	if report.Refused == "" || plans < 2 {
		t.Fatalf("refused %q, %d plans: no plan stopped anybody", report.Refused, plans)
	}
	w.mustRun(first, "n1", 1)
	if started := w.job(second).State == slurm.Running || w.job(third).State == slurm.Running; !started {
		t.Error("nobody was started on the free node")
	}
	for _, s := range report.Steps {
		if s.Verb == bridge.Preempt {
			t.Errorf("job %d is stopped", s.Job)
		}
	}
}

// Where no plan keeps the promises nothing is done, and the round says so.
func TestARoundForWhichThereIsNoGoodPlanDoesNothing(t *testing.T) {
	w := newWorld(t, 1, oneGPU)
	id := w.submit(1, model("gnmt"), forAges)
	w.runner.CheckBy(func(policy.Cluster, policy.Plan) error { return errors.New("no") })
	if _, err := w.runner.Round(ctx); !errors.Is(err, bridge.ErrPlan) {
		t.Errorf("the round ends with %v", err)
	}
	if j := w.job(id); j.State != slurm.Pending {
		t.Errorf("job %d is %s", id, j.State)
	}
}
