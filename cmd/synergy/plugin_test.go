package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

func TestPluginCheck(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/plugin", Setup: func(env *testscript.Env) error {
		// where testscript has put the programs of this test
		env.Setenv("PLUGINS", filepath.SplitList(env.Getenv("PATH"))[0])
		return nil
	}})
}

func goodPlugin() { plugin.Serve(plugin.Configured()) }

func latePlugin() {
	plugin.Serve(func(context.Context, plugin.Round) (policy.Plan, error) {
		time.Sleep(time.Hour)
		return policy.Plan{}, nil
	})
}

// greedyPlugin gives every job a whole node.
func greedyPlugin() {
	plugin.Serve(func(_ context.Context, r plugin.Round) (policy.Plan, error) {
		var plan policy.Plan
		for _, j := range r.Cluster.Jobs {
			n := r.Cluster.Nodes[0]
			plan.Decisions = append(plan.Decisions, policy.Decision{Job: j.ID,
				Grant: &policy.Placement{Nodes: []string{n.Name}, PerNode: n.Total}})
		}
		return plan, nil
	})
}
