package policy

import (
	"slices"
	"testing"
	"time"
)

// A restart of a running job has earned back what it cost when the job has trained as long as that, or, where it was
// for a gain, when the gain has paid for it, at the latest after rules.payback. What it was lent beside GPUs that are
// idle it gives back at any time to a job that is owed these: they would be lost for as long.
// TestNoJobIsRestartedBeforeTheLastOneHasEarnedItsCost: over a simulated week of a full cluster under every policy no
// job is stopped or restarted before, for whatever reason, and none that would end sooner by itself. Costs are from
// half a minute to a quarter of an hour, and for some more than rules.horizon, for which they are believed.
func TestNoJobIsRestartedBeforeTheLastOneHasEarnedItsCost(t *testing.T) {
	costs := []time.Duration{30 * time.Second, 2 * time.Minute, 7 * time.Minute, 15 * time.Minute, 3 * time.Hour}
	for _, p := range Policies() {
		t.Run(p.Name, func(t *testing.T) {
			s := newSite(t, 2, 10, manyGPUs, p, Tune())
			s.cluster.Rules = Rules{}
			var planner Planner
			restarts := 0
			for range 7 * 24 * 12 {
				for range min(4, 10-s.queue()) {
					s.arrive()
				}
				for i := range s.cluster.Jobs {
					j := &s.cluster.Jobs[i]
					j.Restart, j.Length = costs[j.ID%len(costs)], min(j.Length, 12*time.Hour)
				}
				plan := planner.Decide(s.cluster, p, Tune())
				for j, d := range decided(s.cluster, plan) {
					if j.Running == nil || unchanged(j, d) {
						continue
					}
					restarts++
					if !givesBackForIdleGPUs(s.cluster, plan, j, d) {
						mustHaveEarned(t, s.cluster, j, d)
					}
				}
				s.train(plan)
				if len(s.fresh) < 20 {
					s.fresh = again(s.fresh, s.cluster.Jobs)
				}
			}
			if restarts == 0 && p.Name != Slurm().Name {
				t.Error("nobody was restarted at all")
			}
			t.Logf("%d restarts", restarts)
		})
	}
}

// givesBackForIdleGPUs says that a running job only gives back, where it is, what it was lent, for a job that starts
// there on GPUs that are idle, or that others leave in this round anyway. A loan is not protected by what a restart has
// cost.
func givesBackForIdleGPUs(c Cluster, plan Plan, j *Job, d Decision) bool {
	if d.Grant == nil || !slices.Equal(d.Grant.Nodes, j.Running.Nodes) || !d.Grant.PerNode.Fits(j.Running.PerNode) {
		return false
	}
	for _, n := range c.Nodes {
		if !slices.Contains(d.Grant.Nodes, n.Name) {
			continue
		}
		for other, e := range decided(c, plan) {
			comes := other.Running == nil || !slices.Contains(other.Running.Nodes, n.Name)
			if comes && e.Grant != nil && slices.Contains(e.Grant.Nodes, n.Name) {
				return true
			}
		}
	}
	return false
}

// mustHaveEarned says by itself what it means to have earned a restart, and shares nothing with the planner.
func mustHaveEarned(t *testing.T, c Cluster, j *Job, d Decision) {
	t.Helper()
	cost, ran := min(j.Restart, DefaultHorizon), c.Now.Sub(j.Started)
	due := min(2*cost, DefaultHorizon)
	if d.Reason == Grows || d.Reason == Moves {
		due = max(due, DefaultPayback)
	}
	if j.Restarts > 0 && ran < due {
		t.Fatalf("job %d: %s %v after its last restart, which cost it %v", j.ID, d.Reason, ran, j.Restart)
	}
	if left := j.Length - j.Done; j.Length > 0 && left > 0 && left <= cost {
		t.Fatalf("job %d: %s with %v left, a restart costs it %v", j.ID, d.Reason, left, j.Restart)
	}
}

// again is more jobs to come, like some that have come, with IDs of their own.
func again(left, came []Job) []Job {
	last := slices.MaxFunc(append(slices.Clone(left), came...), func(x, y Job) int { return x.ID - y.ID }).ID
	for k := range 500 {
		j := came[k%len(came)]
		j.ID, j.Running, j.Started, j.Restarts, j.Done, j.Attained = last+1+k, nil, time.Time{}, 0, 0, 0
		left = append(left, j)
	}
	return left
}
