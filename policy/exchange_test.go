package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// cramped are two servers of two GPUs, of which the first has two hungry jobs and the second two that need little, and
// somebody waits. A hungry job and a light one exchange places.
func cramped(t testing.TB) Cluster {
	c := paperCluster(2)
	hungry, light := paperModel(t, "res18"), paperModel(t, "gnmt")
	for i := range c.Nodes {
		c.Nodes[i].Total = gres.Vector{GPUs: 2, CPUs: 6, Memory: 125000}
		for range 2 {
			c.Jobs = append(c.Jobs, Job{
				ID: len(c.Jobs) + 1, GPUs: 1, Arrival: epoch.Add(-3 * time.Hour), Started: epoch.Add(-2 * time.Hour),
				Saves: true, Restart: 30 * time.Second,
				Profile: hungry, Running: &Placement{Nodes: []string{c.Nodes[i].Name},
					PerNode: gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}},
			})
		}
		hungry = light
	}
	c.Jobs = append(c.Jobs, Job{ID: 5, GPUs: 1, Arrival: epoch, Saves: true})
	return c
}

// sentElsewhere counts the running jobs that a plan sends to other nodes.
func sentElsewhere(c Cluster, plan Plan) int {
	n := 0
	for j, d := range decided(c, plan) {
		if j.Running != nil && d.Grant != nil && !slices.Equal(d.Grant.Nodes, j.Running.Nodes) {
			n++
		}
	}
	return n
}

func TestPlacesAreExchangedOnlyByJobsThatMayBeRestartedThere(t *testing.T) {
	each := func(jobs []int, change func(j *Job)) func(c *Cluster) {
		return func(c *Cluster) {
			for _, i := range jobs {
				change(&c.Jobs[i-1])
			}
		}
	}
	light := []int{3, 4}
	for _, w := range []struct {
		name   string
		change func(c *Cluster)
		moved  int
	}{
		{"nothing stands in the way", func(*Cluster) {}, 2},
		{"they must not be touched", each(light, func(j *Job) { j.Fixed = true }), 0},
		{"they have no checkpoint", each(light, func(j *Job) { j.Saves = false }), 0},
		{"they have just been started", func(c *Cluster) {
			c.Rules.MinRun = time.Hour
			each(light, func(j *Job) { j.Started = epoch.Add(-time.Minute) })(c)
		}, 0},
		{"their last restart has not paid for itself", each(light,
			func(j *Job) { j.Restarts, j.Started = 1, epoch.Add(-14*time.Minute) }), 0},
		{"their last restart has paid for itself", each(light,
			func(j *Job) { j.Restarts, j.Started = 1, epoch.Add(-15*time.Minute) }), 2},
		{"their last restart cost nothing",
			each(light, func(j *Job) { j.Restarts, j.Restart, j.Started = 1, 0, epoch.Add(-time.Minute) }), 2},
		{"they may be restarted once more", func(c *Cluster) { c.Rules.MaxRestarts = 1 }, 0},
		{"they are about to end", each(light, func(j *Job) { j.Length = 14 * time.Minute }), 0},
		{"they have some time left", each(light, func(j *Job) { j.Length = 16 * time.Minute }), 2},
		{"they are bound to their node", each(light, func(j *Job) { j.Only = []string{"n0001"} }), 0},
		{"they exclude the other node", each(light, func(j *Job) { j.Except = []string{"n0000"} }), 0},
		{"they want what the other node has not", func(c *Cluster) {
			c.Nodes[1].Features = []string{"ib"}
			each(light, func(j *Job) { j.Features = []string{"ib"} })(c)
		}, 0},
		{"they may not start for now", each(light, func(j *Job) { j.Barred = "later" }), 0},
		{"the other node is closed", func(c *Cluster) { c.Nodes[0].Closed = "drained" }, 0},
		{"a reservation begins on the other node before they end", func(c *Cluster) {
			c.Nodes[0].Reserved = []Reservation{{"maint", epoch.Add(time.Hour), epoch.Add(2 * time.Hour)}}
			each([]int{1, 2}, func(j *Job) { j.TimeLimit = 30 * time.Minute })(c)
			each(light, func(j *Job) { j.TimeLimit = 2 * time.Hour })(c)
		}, 0},
		{"their profile says nothing about the other node's GPUs", func(c *Cluster) {
			c.Nodes[0].GPUType, c.Nodes[1].GPUType = "h100", "v100"
		}, 0},
		{"a quota leaves the hungry nothing more", func(c *Cluster) {
			c.Quotas = []Quota{{"q", Unbounded, Unbounded, Unbounded, 6, Unbounded}}
			each([]int{1, 2}, func(j *Job) { j.Quotas = []int{0} })(c)
		}, 0},
		{"a round may stop one job", func(c *Cluster) { c.Rules.MaxPreemptions = 1 }, 0},
		{"the restarts cost more than is gained", each([]int{1, 2, 3, 4},
			func(j *Job) { j.Restart = 10 * time.Minute }), 0},
		{"nodes are kept for who waits", func(c *Cluster) {
			c.Jobs[4].Arrival, c.Jobs[4].GPUs = epoch.Add(-2*time.Hour), 2
			each([]int{1, 2, 3, 4}, func(j *Job) { j.Arrival = epoch.Add(-3 * time.Hour); j.Attained = 2 * 3600 })(c)
		}, 0},
	} {
		c := cramped(t)
		w.change(&c)
		plan := Decide(c, FIFO(), Tune())
		if err := Check(c, plan); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		if got := sentElsewhere(c, plan); got != w.moved {
			t.Errorf("%s, and %d jobs move, want %d\n%s", w.name, got, w.moved, drawPlan(c, plan))
		}
	}
}

// What counts is how many shapes of servers there are, not how many servers.
func TestJobsOnServersOfTwoShapesExchangePlacesHoweverManyServersThereAre(t *testing.T) {
	for _, pairs := range []int{1, 3, 40} {
		var c Cluster
		for k := range pairs {
			one := cramped(t)
			one.Nodes[1].Total = gres.Vector{GPUs: 2, CPUs: 10, Memory: 125000}
			for i := range one.Nodes {
				one.Nodes[i].Name = fmt.Sprintf("n%02d%d", k, i)
			}
			for _, j := range one.Jobs[:4] {
				j.ID += 4 * k
				if j.Running != nil {
					j.Running.Nodes = []string{fmt.Sprintf("n%02d%d", k, (j.ID-1-4*k)/2)}
				}
				c.Jobs = append(c.Jobs, j)
			}
			nodes := append(c.Nodes, one.Nodes...)
			jobs := c.Jobs
			c = one
			c.Nodes, c.Jobs = nodes, jobs
		}
		p := &Planner{}
		plan := p.Decide(c, FIFO(), Tune())
		if err := Check(c, plan); err != nil {
			t.Fatal(err)
		}
		if moved := sentElsewhere(c, plan); moved < pairs {
			t.Errorf("%d servers: %d jobs change places, want at least %d", 2*pairs, moved, pairs)
		}
	}
}

// Nobody's turn comes sooner or later because others exchange places: the same jobs run as where no restart for a gain
// ever pays.
func TestWhoRunsDoesNotDependOnExchanges(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := tame(t, profiles, fineSize)
		for i := range c.Jobs {
			c.Jobs[i].Restart = time.Minute
		}
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		with := runs(Decide(c, p, Tune()))
		c.Rules.Payback = time.Nanosecond
		if without := runs(Decide(c, p, Tune())); !slices.Equal(with, without) {
			t.Fatalf("%s: %v run, without exchanges %v", p.Name, with, without)
		}
	})
}

// A plan with exchanges is worth more than without, restarts taken off: that is what they are for.
func TestExchangesNetMoreThanTheyCost(t *testing.T) {
	c := cramped(t)
	net := 0.0
	for j, d := range decided(c, Decide(c, FIFO(), Tune())) {
		if j.Running == nil {
			continue
		}
		net += (d.Gain - 1) * DefaultPayback.Seconds()
		if !unchanged(j, d) {
			net -= d.Gain * j.Restart.Seconds()
		}
	}
	if net < 500 {
		t.Errorf("%.0f GPU-seconds are gained", net)
	}
}

// Who was restarted for a gain is not restarted for another before rules.payback has gone by, over three and a half
// days of a full cluster, under policies with which nobody gives way and some do. And it comes to an end: a job is not
// restarted again and again.
func TestNobodyIsRestartedForAGainBeforeTheLastOneHasPaid(t *testing.T) {
	for _, p := range []Policy{FIFO(), SRTF(), LAS(), FTF()} {
		l := newLong(t, 33, 34, manyGPUs, 500*gres.Gigabyte)
		l.cluster.Rules.MinRun = 0
		again, restarted, gained := 0, map[int]time.Time{}, 0
		for range 14 * 288 / 4 {
			l.arrive()
			now := l.cluster.Now
			plan := l.planner.Decide(l.cluster, p, Tune())
			for j, d := range decided(l.cluster, plan) {
				if j.Running == nil || unchanged(j, d) {
					continue
				}
				if d.Reason == Grows || d.Reason == Moves {
					gained++
					if at, was := restarted[j.ID]; was && now.Sub(at) < DefaultPayback {
						again++
					}
				}
				restarted[j.ID] = now
			}
			l.train(plan, true)
		}
		if again > 0 || gained == 0 {
			t.Errorf("%s: %d jobs were restarted for a gain, %d of them before their last restart had paid", p.Name,
				gained, again)
		}
		if most := 4 * l.ended; gained > most {
			t.Errorf("%s: %d restarts for a gain of %d jobs", p.Name, gained, l.ended)
		}
		t.Logf("%s: %d restarts for a gain, %d jobs ended", p.Name, gained, l.ended)
	}
}
