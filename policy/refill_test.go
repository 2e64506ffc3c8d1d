package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// inUse draws servers of a few shapes that are full of jobs with their proportional share, wherever they fell, and some
// jobs that wait.
func inUse(t *rapid.T, profiles []*sensitivity.Profile) Cluster {
	c := Cluster{Now: epoch, Rules: Rules{MaxPreemptions: rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max preemptions")}}
	totals := []gres.Vector{
		{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, {GPUs: 8, CPUs: 64, Memory: 500 * gres.Gigabyte},
		{GPUs: 8, CPUs: 24, Memory: 300 * gres.Gigabyte}, {GPUs: 4, CPUs: 12, Memory: 250 * gres.Gigabyte},
	}
	job := func(gpus int) Job {
		return Job{
			ID: len(c.Jobs) + 1, GPUs: gpus, Profile: rapid.SampledFrom(profiles).Draw(t, "profile"),
			Arrival: epoch.Add(-2 * time.Hour),
			Saves:   rapid.IntRange(0, 9).Draw(t, "saves") > 0,
			Restart: time.Duration(rapid.IntRange(0, 120).Draw(t, "restart")) * time.Second,
		}
	}
	for i := range rapid.IntRange(2, 5).Draw(t, "servers") {
		n := Node{Name: fmt.Sprintf("n%d", i), Total: rapid.SampledFrom(totals).Draw(t, "total")}
		c.Nodes = append(c.Nodes, n)
		for free := n.Total.GPUs; free > 0; {
			j := job(min(free, rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "gpus")))
			free -= j.GPUs
			j.Running, j.Started = &Placement{Nodes: []string{n.Name}, PerNode: gres.Proportional(n.Total, j.GPUs)},
				epoch.Add(-time.Hour)
			c.Jobs = append(c.Jobs, j)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "waiting") {
		c.Jobs = append(c.Jobs, job(1))
	}
	return c
}

// netOf is what a plan brings over rules.payback to the jobs that another grants something, too, restarts taken off, in
// GPU-seconds in the unit of speeds. A restart that both make is taken off alike, at the lower of both speeds: to the
// planner what has to be restarted anyway is free to go elsewhere.
func netOf(c Cluster, plan, other Plan) (net float64) {
	both := Plan{}
	for i, d := range plan.Decisions {
		if other.Decisions[i].Grant == nil {
			d.Grant = nil
		}
		both.Decisions = append(both.Decisions, d)
	}
	payback := c.Rules.payback()
	net = rateIn(c, both) * payback.Seconds()
	for i := range both.Decisions {
		alone := Plan{make([]Decision, len(both.Decisions))}
		if j := byNumber(c, both.Decisions[i].Job); j.Running != nil && both.Decisions[i].Grant != nil &&
			!unchanged(j, both.Decisions[i]) {
			alone.Decisions[i] = both.Decisions[i]
			rate := rateIn(c, alone)
			if !unchanged(j, other.Decisions[i]) {
				alone.Decisions[i] = other.Decisions[i]
				rate = min(rate, rateIn(c, alone))
			}
			net -= float64(rate * min(payback, j.restartLoss(c.Now)).Seconds())
		}
	}
	return net
}

func byNumber(c Cluster, id int) *Job {
	for i := range c.Jobs {
		if c.Jobs[i].ID == id {
			return &c.Jobs[i]
		}
	}
	return nil
}

// TestFillingAllServersAnewPaysForItsRestarts: beside the plan without, everybody runs who ran, and together they are
// worth more by all that the restarts cost.
func TestFillingAllServersAnewPaysForItsRestarts(t *testing.T) {
	profiles, more := paperModels(t), 0
	rapid.Check(t, func(t *rapid.T) {
		c := inUse(t, profiles)
		before, after := Decide(c, FIFO(), withStarts()), Decide(c, FIFO(), Opt())
		if err := Check(c, after); err != nil {
			t.Fatalf("%s\n%s", err, sketch(c))
		}
		same := true
		for i := range before.Decisions {
			if before.Decisions[i].Grant != nil && after.Decisions[i].Grant == nil {
				t.Fatalf("job %d: %+v, and without %+v\n%s", before.Decisions[i].Job, after.Decisions[i],
					before.Decisions[i], sketch(c))
			}
			same = same && sameGrant(before.Decisions[i], after.Decisions[i])
		}
		if same {
			return
		}
		more++
		if was, is := netOf(c, before, after), netOf(c, after, before); is < was {
			t.Fatalf("nets %.1f GPU-seconds, and without %.1f\n%s", is, was, sketch(c))
		}
	})
	if t.Logf("%d plans are others", more); more == 0 {
		t.Error("no plan is another")
	}
}

// An exchange of two goes between servers of one shape. Between unlike ones it takes the whole filling of both.
func TestTwoJobsExchangePlacesWithOneBetweenUnlikeServers(t *testing.T) {
	c := paperCluster(2)
	c.Nodes[0].Total = gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}
	c.Nodes[1].Total = gres.Vector{GPUs: 2, CPUs: 24, Memory: 125000}
	for id, gpus := range []int{2, 1, 1} {
		on := c.Nodes[min(id, 1)^1]
		j := Job{
			ID: id + 1, GPUs: gpus, Profile: paperModel(t, "res18"), Arrival: epoch.Add(-3 * time.Hour),
			Started: epoch.Add(-2 * time.Hour), Saves: true,
			Restart: 30 * time.Second,
			Running: &Placement{Nodes: []string{on.Name}, PerNode: gres.Proportional(on.Total, gpus)},
		}
		if id == 0 {
			j.Profile = paperModel(t, "gnmt")
		}
		c.Jobs = append(c.Jobs, j)
	}
	c.Jobs = append(c.Jobs, Job{ID: 4, GPUs: 1, Arrival: epoch, Saves: true})
	for _, a := range []Allocator{Tune(), Opt()} {
		plan := Decide(c, FIFO(), a)
		if err := Check(c, plan); err != nil {
			t.Fatal(err)
		}
		for j, d := range decided(c, plan) {
			if j.ID < 4 && slices.Equal(d.Grant.Nodes, j.Running.Nodes) {
				t.Errorf("%s: job %d stays: %+v", a.Name, j.ID, d)
			}
		}
	}
	if n := sentElsewhere(c, Decide(c, FIFO(), withStarts())); n > 0 {
		t.Errorf("%d exchange places without", n)
	}
}

func TestWhatOneRestartDoesNotPayForIsLeft(t *testing.T) {
	c := cramped(t)
	for i := range c.Jobs {
		c.Jobs[i].Restart = time.Hour // longer than rules.payback
	}
	for j, d := range decided(c, Decide(c, FIFO(), Opt())) {
		if j.Running != nil && !unchanged(j, d) {
			t.Errorf("job %d: %+v", j.ID, d)
		}
	}
}
