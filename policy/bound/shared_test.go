package bound_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// paired is a cluster with few GPUs for many jobs, whose shares leave some cores, after a round: some run beside
// others.
func paired(t *testing.T, n int) (policy.Cluster, policy.Plan) {
	draw := rand.New(rand.NewPCG(7, uint64(n)))
	c := policy.Cluster{Now: epoch}
	for i := range 1 + draw.IntN(4) {
		gpus := 1 + draw.IntN(4)
		node := policy.Node{Name: fmt.Sprintf("n%d", i),
			Total: gres.Vector{GPUs: gpus, CPUs: 7*gpus - 1, Memory: gres.Memory(gpus)*100000 + 5000}}
		for g := range gpus {
			node.Devices = append(node.Devices, policy.Device{Name: fmt.Sprintf("g%d", g), Memory: 80000, Slots: 4})
		}
		c.Nodes = append(c.Nodes, node)
	}
	models := []*sensitivity.Profile{nil, profile(t, "res18"), profile(t, "lstm"), profile(t, "gnmt")}
	for id := range 20 {
		j := policy.Job{ID: id + 1, GPUs: 1, Arrival: epoch, Saves: true, Profile: models[draw.IntN(len(models))]}
		switch draw.IntN(3) {
		case 0:
			j.GPUs = 1 + draw.IntN(2)
		default:
			j.Share = &share.Request{Class: share.Low, Memory: 9000}
			j.Floor = gres.Vector{CPUs: 1, Memory: 1000}
		}
		c.Jobs = append(c.Jobs, j)
	}
	first := policy.Decide(c, policy.FIFO(), policy.Tune())
	for i := range c.Jobs {
		c.Jobs[i].Running = first.Decisions[i].Grant
	}
	plan := policy.Decide(c, policy.FIFO(), policy.Tune())
	if err := policy.Check(c, plan); err != nil {
		t.Fatal(err)
	}
	return c, plan
}

func TestNoPlanIsAboveItsBoundWhereJobsShareAndTheSecondOnAGPUIsInNeither(t *testing.T) {
	beside := 0
	for n := range 60 {
		c, plan := paired(t, n)
		cert := bound.Certify(&c, plan)
		if cert.Value > cert.Bound*(1+1e-9) || !(cert.Bound < 1e12) {
			t.Fatalf("cluster %d: %+v", n, cert)
		}
		alone, leads := plan, map[[2]string]bool{}
		alone.Decisions = append([]policy.Decision(nil), plan.Decisions...)
		for i := range alone.Decisions {
			g := alone.Decisions[i].Grant
			if g == nil || g.Device == "" {
				continue
			}
			if at := [2]string{g.Nodes[0], g.Device}; leads[at] {
				alone.Decisions[i].Grant = nil
				beside++
			} else {
				leads[at] = true
			}
		}
		if without := bound.Certify(&c, alone); without.Value != cert.Value {
			t.Fatalf("cluster %d: worth %g, and %g without those who join others", n, cert.Value, without.Value)
		}
	}
	if beside < 20 {
		t.Errorf("%d jobs beside others, too few to see anything", beside)
	}
}
