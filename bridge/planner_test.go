package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// advice is a planner of the site's own.
type advice func(c policy.Cluster) (policy.Plan, error)

func (a advice) Plan(_ context.Context, _ int, c policy.Cluster, _ policy.Policy, _ policy.Allocator) (policy.Plan,
	error) {
	return a(c)
}

// nobody lets every job wait.
func nobody(c policy.Cluster) (policy.Plan, error) {
	var plan policy.Plan
	for _, j := range c.Jobs {
		plan.Decisions = append(plan.Decisions, policy.Decision{Job: j.ID, Reason: policy.Turn,
			Why: "the house is closed"})
	}
	return plan, nil
}

func TestThePlannerOfTheSiteDecidesInPlaceOfOurs(t *testing.T) {
	w := newWorld(t, 1, server)
	w.runner.Settings.Planner = advice(nobody)
	job := w.submit(1, model("res18"))
	report := w.rounds(1)
	if report.Fallback != "" || w.job(job).State == "RUNNING" ||
		!strings.Contains(w.job(job).Extra, "the house is closed") {
		t.Errorf("fallback %q, job %+v: want it to wait, and be told why in the site's words", report.Fallback,
			w.job(job))
	}
}

func TestARoundThatTheSitesPlannerFailsIsPlannedByOurs(t *testing.T) {
	for name, c := range map[string]struct {
		plan advice
		says string
	}{
		"no answer": {func(policy.Cluster) (policy.Plan, error) { return policy.Plan{}, errors.New("it died") },
			"it died"},
		"half a plan":   {func(policy.Cluster) (policy.Plan, error) { return policy.Plan{}, nil }, "no decision"},
		"a greedy plan": {greedy, "has gpu=8"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, server)
			w.runner.Settings.Planner = c.plan
			job := w.submit(1, model("res18"))
			report := w.rounds(1)
			if !strings.Contains(report.Fallback, c.says) {
				t.Errorf("fallback %q, want %q", report.Fallback, c.says)
			}
			w.mustRun(job, "n1", 9)
		})
	}
}

// greedy gives a job more than there is.
func greedy(c policy.Cluster) (policy.Plan, error) {
	plan, err := nobody(c)
	size := c.Nodes[0].Total
	size.GPUs, size.CPUs = 1, 1000
	plan.Decisions[0].Grant = &policy.Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: size}
	return plan, err
}
