package bound_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// TestACertificateNamesTheNodesWithStrandedGPUs and what they lack; a node whose GPUs are all held strands none.
func TestACertificateNamesTheNodesWithStrandedGPUs(t *testing.T) {
	c := clusterOf(of(4, 4, 24, 500))
	c.Nodes[0].Foreign = gres.Vector{GPUs: 1, CPUs: 24}
	c.Nodes[1].Foreign = gres.Vector{GPUs: 2, Memory: c.Nodes[1].Total.Memory}
	c.Nodes[2].Foreign = c.Nodes[2].Total
	c.Nodes[3].Closed = "drained"
	c.Jobs = []policy.Job{{ID: 1, GPUs: 1, Arrival: epoch}}
	cert := bound.Certify(&c, policy.Decide(c, policy.FIFO(), policy.Tune()))
	want := []bound.StrandedNode{{Node: c.Nodes[0].Name, GPUs: 3, Lacks: "cores"},
		{Node: c.Nodes[1].Name, GPUs: 2, Lacks: "memory"}}
	if len(cert.StrandedOn) != 2 || cert.StrandedOn[0] != want[0] || cert.StrandedOn[1] != want[1] {
		t.Errorf("%+v, want %+v", cert.StrandedOn, want)
	}
	if cert.Stranded != (bound.Stranded{Cores: 3, Memory: 2}) {
		t.Errorf("%+v", cert.Stranded)
	}
}
