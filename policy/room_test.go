package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// What is lent is asked back on whichever server it is, however many servers come before it that can give nothing.
func TestTheLastOfManyServersGivesBackWhatItLends(t *testing.T) {
	hungry, c := paperModel(t, "alexnet"), paperCluster(3*maxCompared)
	all := gres.Vector{GPUs: 1, CPUs: 24, Memory: 125000}
	for n, node := range c.Nodes {
		c.Jobs = append(c.Jobs, Job{
			ID: n + 1, GPUs: 1, Nodes: 1, Arrival: epoch.Add(-time.Hour), Started: epoch.Add(-time.Hour),
			Profile: hungry,
			Running: &Placement{Nodes: []string{node.Name}, PerNode: all}, Fixed: n+1 < len(c.Nodes),
			Saves:   n+1 == len(c.Nodes),
			Restart: 30 * time.Second,
		})
	}
	newcomer := len(c.Jobs) + 1
	c.Jobs = append(c.Jobs, Job{ID: newcomer, GPUs: 1, Nodes: 1, Arrival: epoch, Profile: hungry, Saves: true})
	plan := Decide(c, FIFO(), Tune())
	if err := Check(c, plan); err != nil {
		t.Fatal(err)
	}
	last := c.Nodes[len(c.Nodes)-1].Name
	if d := plan.Decisions[newcomer-1]; d.Grant == nil || fmt.Sprint(d.Grant.Nodes) != fmt.Sprintf("[%s]", last) {
		t.Errorf("the newcomer is told %q, want a place on %s", d.Why, last)
	}
}
