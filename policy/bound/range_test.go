package bound_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// hungry is a job that is faster with all the cores of a node.
func hungry(t *testing.T, id, gpus int) policy.Job {
	return policy.Job{ID: id, GPUs: gpus, Profile: profile(t, "alexnet"), Arrival: epoch, Saves: true}
}

func granted(job int, size gres.Vector, nodes ...string) policy.Decision {
	return policy.Decision{Job: job, Grant: &policy.Placement{Nodes: nodes, PerNode: size}}
}

func size(gpus, cores, gb int) gres.Vector { return of(1, gpus, cores, gb).total }

func TestWhatMustStayLeavesTheOthersOnlyTheRest(t *testing.T) {
	c := clusterOf(of(1, 8, 24, 500))
	c.Jobs = []policy.Job{hungry(t, 1, 1), hungry(t, 2, 1)}
	plan := policy.Plan{Decisions: []policy.Decision{
		granted(1, size(1, 20, 62), "s0-n0000"), granted(2, size(1, 4, 400), "s0-n0000"),
	}}
	c.Jobs[0].Running, c.Jobs[0].Fixed = plan.Decisions[0].Grant, true
	if cert := bound.Certify(&c, plan); cert.Ratio() < 0.999 {
		t.Errorf("four cores are left, and the job has them: %s", cert.String())
	}
	c.Jobs[0].Fixed = false
	if cert := bound.Certify(&c, plan); cert.Ratio() > 0.95 {
		t.Errorf("twelve cores each are better: %s", cert.String())
	}
}

func TestAJobThatRunsOnAnOverdrawnNodeIsNotWorthMoreThanTheBound(t *testing.T) {
	c := clusterOf(of(1, 8, 24, 500))
	c.Jobs = []policy.Job{hungry(t, 1, 2)}
	plan := policy.Plan{Decisions: []policy.Decision{granted(1, size(2, 8, 125), "s0-n0000")}}
	c.Jobs[0].Running, c.Nodes[0].Foreign = plan.Decisions[0].Grant, size(8, 24, 500)
	if cert := bound.Certify(&c, plan); cert.Value > cert.Bound || cert.Ratio() < 0.999 {
		t.Errorf("it has what is there: %s", cert.String())
	}
}

func TestWhereAJobMayNotStartNothingIsToBeGained(t *testing.T) {
	reserve := func(n *policy.Node) {
		n.Reserved = []policy.Reservation{{Name: "maint", From: epoch.Add(time.Hour), To: epoch.Add(2 * time.Hour)}}
	}
	for name, c := range map[string]func(c *policy.Cluster){
		"reserved": func(c *policy.Cluster) { reserve(&c.Nodes[1]) },
		"closed":   func(c *policy.Cluster) { c.Nodes[1].Closed = "drained" },
		"another": func(c *policy.Cluster) {
			c.Nodes[1].GPUType, c.Jobs[0].GPUType = "a100", "h100"
			c.Nodes[0].GPUType = "h100"
		},
		"not named": func(c *policy.Cluster) { c.Jobs[0].Only = []string{c.Nodes[0].Name} },
		"excluded":  func(c *policy.Cluster) { c.Jobs[0].Except = []string{c.Nodes[1].Name} },
		"bare":      func(c *policy.Cluster) { c.Nodes[0].Features = []string{"ib"}; c.Jobs[0].Features = []string{"ib"} },
		"taken":     func(c *policy.Cluster) { c.Nodes[1].Foreign = size(8, 64, 500) },
	} {
		site := clusterOf(of(1, 8, 8, 500), of(1, 8, 64, 500))
		site.Jobs = []policy.Job{hungry(t, 1, 1)}
		plan := policy.Plan{Decisions: []policy.Decision{granted(1, size(1, 8, 500), site.Nodes[0].Name)}}
		if cert := bound.Certify(&site, plan); cert.Ratio() > 0.9 {
			t.Errorf("the larger node is better: %s", cert.String())
		}
		c(&site)
		if cert := bound.Certify(&site, plan); cert.Ratio() < 0.999 {
			t.Errorf("%s: the job has all that it can: %s", name, cert.String())
		}
	}
}

// Six GPUs on nodes of four: the plan takes two nodes, and three would leave each part more cores.
func TestAGangMayBeDividedOtherwise(t *testing.T) {
	c := clusterOf(of(3, 4, 12, 500))
	c.Jobs = []policy.Job{hungry(t, 1, 6)}
	plan := policy.Plan{Decisions: []policy.Decision{granted(1, size(3, 12, 500), c.Nodes[0].Name, c.Nodes[1].Name)}}
	wide := policy.Plan{Decisions: []policy.Decision{
		granted(1, size(2, 12, 500), c.Nodes[0].Name, c.Nodes[1].Name, c.Nodes[2].Name),
	}}
	cert, better := bound.Certify(&c, plan), bound.Certify(&c, wide)
	if better.Value <= cert.Value || better.Value > cert.Bound {
		t.Errorf("divided by two: %s; by three: %s", cert.String(), better.String())
	}
}
