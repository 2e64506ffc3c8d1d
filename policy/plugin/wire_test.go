package plugin

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/plannerpb"
)

// FuzzPlan takes whatever a plugin may send. What is taken over must be fit to be checked, printed and added up.
func FuzzPlan(f *testing.F) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	c := policy.Cluster{
		Now:   now,
		Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}}, {Name: "n2"}},
		Jobs: []policy.Job{{ID: 1, GPUs: 1}, {ID: 2, GPUs: 2, Saves: true, Started: now, Running: &policy.Placement{
			Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000},
		}}},
	}
	for _, a := range policy.Allocators() {
		seed, err := proto.Marshal(planOut(policy.Decide(c, policy.FIFO(), a)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var sent plannerpb.PlanResponse
		if proto.Unmarshal(text, &sent) != nil {
			return
		}
		plan, err := planIn(&c, &sent)
		if err != nil || policy.Check(c, plan) != nil {
			return
		}
		used := map[string]gres.Vector{}
		for _, d := range plan.Decisions {
			if d.Grant == nil {
				continue
			}
			for _, n := range d.Grant.Nodes {
				used[n] = used[n].Plus(d.Grant.PerNode)
			}
		}
		for _, n := range c.Nodes {
			if u := used[n.Name]; !u.Fits(n.Total) || min(u.GPUs, u.CPUs, int(u.Memory)) < 0 {
				t.Fatalf("a checked plan gives away %v of %v on %s", u, n.Total, n.Name)
			}
		}
	})
}
