package policy

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// oneByOne is Tune without its last passes.
func oneByOne() Allocator {
	a := Tune()
	a.filling = nil
	return a
}

// withStarts is Tune as it is on equal servers: without the last of these passes.
func withStarts() Allocator {
	a := Tune()
	a.filling = a.filling[:1]
	return a
}

// rateIn is what a plan is worth: GPUs times speed, relative to the share of the reference server.
func rateIn(c Cluster, plan Plan) (sum float64) {
	var pl Planner
	pl.boardFor(&c, FIFO(), Tune())
	for at, d := range plan.Decisions {
		if d.Grant == nil {
			continue
		}
		b := &pl.board
		n := b.index[d.Grant.Nodes[0]]
		m := b.menu(b.states[at].class, d.Grant.PerNode.GPUs, n)
		sum += m.gainOf(d.Grant.PerNode) * m.unit * float64(d.Grant.Total().GPUs)
	}
	return sum
}

// crowdedSite draws servers of a few shapes on which hardly anybody runs, and more jobs than fit, of which some are
// odd.
func crowdedSite(t *rapid.T, profiles []*sensitivity.Profile) Cluster {
	c := Cluster{Now: epoch, Rules: wildRules(t), Quotas: []Quota{wildQuota(t, "one"), wildQuota(t, "two")}}
	kinds := []gres.Vector{
		{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, {GPUs: 8, CPUs: 64, Memory: 500 * gres.Gigabyte},
		{GPUs: 8, CPUs: 24, Memory: 300 * gres.Gigabyte}, {GPUs: 4, CPUs: 12, Memory: 250 * gres.Gigabyte},
	}[rapid.IntRange(0, 2).Draw(t, "kinds"):]
	for i := range rapid.IntRange(2, 8).Draw(t, "servers") {
		n := wildNode(t, i)
		if n.Total = rapid.SampledFrom(kinds[:2]).Draw(t, "kind"); rapid.IntRange(0, 9).Draw(t, "plain") > 0 {
			n = Node{Name: n.Name, Total: n.Total}
		}
		c.Nodes = append(c.Nodes, n)
	}
	free := freeOn(c.Nodes)
	limited, stubborn := rapid.IntRange(0, 3).Draw(t, "limited") == 0, rapid.IntRange(0, 3).Draw(t, "stubborn") == 0
	for id := range rapid.IntRange(2, 70).Draw(t, "jobs") {
		j := tameJob(t, id+1, profiles)
		j.Saves = !stubborn || rapid.Bool().Draw(t, "saves")
		if limited {
			j.Quotas = wildQuotas(t)
		}
		switch rapid.IntRange(0, 30).Draw(t, "odd") {
		case 0:
			j = wildJob(t, id+1, profiles)
			j.Quotas = wildQuotas(t)
		case 1:
			run(t, &j, c.Nodes, free, oddSize)
		}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

// TestFillingServersAnewChangesNeitherWhoRunsNorWhoIsStopped: beside the plan that is made one job after the other, the
// same jobs are granted something, those that run have just the same, no plan is worth less, and Check passes it.
func TestFillingServersAnewChangesNeitherWhoRunsNorWhoIsStopped(t *testing.T) {
	profiles, more := paperModels(t), 0
	rapid.Check(t, func(t *rapid.T) {
		c := crowdedSite(t, profiles)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		before, after := Decide(c, p, oneByOne()), Decide(c, p, withStarts())
		if err := Check(c, after); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, sketch(c))
		}
		for i := range before.Decisions {
			was, is := &before.Decisions[i], &after.Decisions[i]
			same := (was.Grant == nil) == (is.Grant == nil) && was.Reason == is.Reason
			if c.Jobs[i].Running != nil && same && was.Grant != nil {
				same = was.Grant.Equal(*is.Grant)
			}
			if !same {
				t.Fatalf("%s: job %d: %+v, and one after the other %+v\n%s", p.Name, is.Job, is, was, sketch(c))
			}
		}
		switch was, is := rateIn(c, before), rateIn(c, after); {
		case is < was*(1-1e-9):
			t.Fatalf("%s: worth %.4f, and one after the other %.4f\n%s", p.Name, is, was, sketch(c))
		case is > was*(1+1e-9):
			more++
		}
	})
	if t.Logf("%d plans are worth more", more); more == 0 {
		t.Error("no plan is worth more")
	}
}

// TestWhoCannotGiveBackIsLeftWithWhatItWasGiven: what such a job holds beyond its share is gone until it ends, and has
// been weighed against what others may miss.
func TestWhoCannotGiveBackIsLeftWithWhatItWasGiven(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := crowdedSite(t, profiles)
		before, after := Decide(c, FIFO(), oneByOne()), Decide(c, FIFO(), withStarts())
		for i := range c.Jobs {
			if was, is := before.Decisions[i].Grant, after.Decisions[i].Grant; was != nil && !c.Jobs[i].Saves &&
				!was.Equal(*is) {
				t.Fatalf("job %d: %+v, one after the other %+v\n%s", c.Jobs[i].ID, is, was, sketch(c))
			}
		}
	})
}

// TestWhileSomebodyWaitsForAServerItKeepsAsManyGPUsFree: who sits with whom has no say in who can start in the next
// round.
func TestWhileSomebodyWaitsForAServerItKeepsAsManyGPUsFree(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := crowdedSite(t, profiles)
		before, after := Decide(c, FIFO(), oneByOne()), Decide(c, FIFO(), withStarts())
		was, is := heldOn(c, grantedIn(before)), heldOn(c, grantedIn(after))
		for i := range c.Jobs {
			j := &c.Jobs[i]
			if d := &after.Decisions[i]; d.Grant != nil || j.Barred != "" || d.Reason != Turn && d.Reason != Gang {
				continue
			}
			for _, n := range c.Nodes {
				if suits(j, &n) && was[n.Name].GPUs > 0 && is[n.Name].GPUs != was[n.Name].GPUs {
					t.Fatalf("job %d waits (%s), and on %s %d GPUs are in use, one after the other %d\n%s", j.ID,
						after.Decisions[i].Why, n.Name,
						is[n.Name].GPUs, was[n.Name].GPUs, sketch(c))
				}
			}
		}
	})
}

// TestOfEqualJobsWhoGoesFirstIsFastest: turns decide who has the better of the places that equal jobs are given on
// servers of their own.
func TestOfEqualJobsWhoGoesFirstIsFastest(t *testing.T) {
	c := full(t, 16, 60, 30, oneGPU)
	first := map[*sensitivity.Profile]float64{}
	for j, d := range decided(c, Decide(c, FIFO(), Tune())) {
		if last, known := first[j.Profile]; known && d.Gain > last*(1+1e-9) {
			t.Errorf("job %d has %.3f, and one like it before it %.3f", j.ID, d.Gain, last)
		}
		first[j.Profile] = d.Gain
	}
}
