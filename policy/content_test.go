package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// carryOut has the plan come true: who is granted runs, since the snapshot's moment where it was not running
// so before.
func carryOut(c Cluster, plan Plan) Cluster {
	next := c
	next.Jobs = append([]Job(nil), c.Jobs...)
	for i, d := range plan.Decisions {
		j := &next.Jobs[i]
		if d.Grant == nil || j.Running == nil || !d.Grant.Equal(*j.Running) {
			j.Started = c.Now
		}
		j.Running = d.Grant
	}
	return next
}

// later lets time pass: who runs gets on, up to its end.
func later(t *rapid.T, c Cluster) Cluster {
	passed := time.Duration(rapid.IntRange(1, 2000).Draw(t, "minutes")) * time.Minute
	next := c
	next.Now = c.Now.Add(passed)
	next.Jobs = append([]Job(nil), c.Jobs...)
	for i := range next.Jobs {
		j := &next.Jobs[i]
		j.Done += passed * time.Duration(rapid.IntRange(1, 3).Draw(t, "gain"))
		j.Attained += passed.Seconds() * float64(j.GPUs)
	}
	return next
}

func TestAPlanWithWhichAllAreContentStandsHoweverMuchTimePasses(t *testing.T) {
	profiles := models(t, "alexnet", "res18", "res50", "gnmt", "lstm", "m5", "deepspeech")
	seen := 0
	var content Contentment
	rapid.Check(t, func(rt *rapid.T) {
		c := tame(rt, profiles, fineSize)
		c.Jobs = c.Jobs[:min(len(c.Jobs), rapid.IntRange(1, 30).Draw(rt, "of these"))]
		p := rapid.SampledFrom(Policies()).Draw(rt, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(rt, "allocator")
		for range 4 {
			plan := Decide(c, p, a)
			if content.Of(&c, plan) {
				seen++
				c = later(rt, c)
				if next := Decide(c, p, a); !content.Of(&c, next) {
					rt.Fatalf("%s × %s changed its mind: %+v", p.Name, a.Name, next.Decisions)
				}
				return
			}
			c = carryOut(c, plan)
		}
	})
	if seen < 5 {
		t.Errorf("only %d plans left all content", seen)
	}
}

func TestNobodyIsContentWhileSomethingCouldHappen(t *testing.T) {
	profile := models(t, "res18")[0]
	server := shapes[0]
	server.Name = "n0"
	full := gres.Vector{GPUs: 1, CPUs: 9, Memory: 62500}
	content := func() Cluster {
		return Cluster{Now: epoch, Nodes: []Node{server}, Jobs: []Job{{
			ID: 1, GPUs: 1, Profile: profile, Saves: true, Arrival: epoch,
			Running: &Placement{Nodes: []string{"n0"}, PerNode: full},
		}}}
	}
	if c := content(); !new(Contentment).Of(&c, Decide(c, FIFO(), Tune())) {
		t.Fatal("one job with all it wants is not content")
	}
	for _, c := range []struct {
		name   string
		change func(*Cluster)
	}{
		{"a job waits", func(c *Cluster) { c.Jobs = append(c.Jobs, Job{ID: 2, GPUs: 1, Arrival: epoch, Barred: "later"}) }},
		{"a job starts", func(c *Cluster) { c.Jobs[0].Running = nil }},
		{"a job could be faster", func(c *Cluster) { c.Jobs[0].Running.PerNode.CPUs, c.Jobs[0].Fixed = 8, true }},
		{"a server is closed", func(c *Cluster) { c.Nodes[0].Closed = "drained" }},
		{"somebody else uses a server", func(c *Cluster) { c.Nodes[0].Foreign = gres.Vector{CPUs: 1} }},
		{"servers differ", func(c *Cluster) { c.Nodes = append(c.Nodes, shapes[2]) }},
		{"there are no servers", func(c *Cluster) { c.Nodes = nil }},
	} {
		cluster := content()
		c.change(&cluster)
		if new(Contentment).Of(&cluster, Decide(cluster, FIFO(), Tune())) {
			t.Errorf("%s, and all are said to be content", c.name)
		}
	}
}
