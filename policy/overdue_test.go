package policy

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// TestNobodyStarvesUnderOverload: on a cluster to which a third more short jobs come than it can run, long ones that
// came first end under every policy by the time that an eighth of the cluster's GPUs needs for all of them, after
// rules.patience and beside what a run and a round last.
func TestNobodyStarvesUnderOverload(t *testing.T) {
	const long, gpus, length = 6, 16, 2 * time.Hour
	bound := DefaultPatience + long*length/(gpus*overdueShare) + length + 30*time.Minute
	for _, p := range Policies() {
		if p.Name == Slurm().Name {
			continue // the site's priorities are its own
		}
		t.Run(p.Name, func(t *testing.T) {
			s := &site{t: t, cluster: paperCluster(2), policy: p, alloc: Tune(), draw: rand.New(rand.NewSource(5))}
			s.cluster.Rules = Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20}
			for id := 1; id <= long; id++ {
				s.submit(id, length)
			}
			left := long
			for id := 1000; left > 0; id += 11 {
				if s.cluster.Now.Sub(epoch) > bound {
					t.Fatalf("%d of %d long jobs have not ended after %v", left, long, bound)
				}
				for k := range 11 { // of ten minutes each: 22 GPUs' worth
					s.submit(id+k, 10*time.Minute)
				}
				s.play(1)
				left = 0
				for i := range s.cluster.Jobs {
					if s.cluster.Jobs[i].ID <= long {
						left++
					}
				}
			}
			t.Logf("all ended after %v, at most %v", s.cluster.Now.Sub(epoch), bound)
		})
	}
}

// submit adds a job of one GPU, which saves.
func (s *site) submit(id int, length time.Duration) {
	p := paperModel(s.t, "gnmt")
	s.cluster.Jobs = append(s.cluster.Jobs, Job{
		ID: id, GPUs: 1, User: []string{"ann", "bob"}[boolToInt(length > time.Hour)], Saves: true,
		Arrival: s.cluster.Now,
		Length:  length,
		Restart: 30 * time.Second, Profile: p, ProfileName: p.Model,
	})
}

// queueOf draws a few jobs that come within hours, some of them gangs of several sizes, most so long that they outlast
// anybody's patience.
func queueOf(t *testing.T, draw *rand.Rand) []Job {
	p := paperModel(t, "gnmt")
	var jobs []Job
	for id := 1 + draw.Intn(3); len(jobs) < 6+draw.Intn(8); id += 1 + draw.Intn(3) {
		jobs = append(jobs, Job{
			ID: id, GPUs: []int{1, 2, 2, 3, 4, 5, 6, 8}[draw.Intn(8)], User: []string{"ann", "bob"}[draw.Intn(2)],
			Saves: draw.Intn(5) > 0, Restart: time.Duration(draw.Intn(120)) * time.Second,
			Length: time.Duration(1+draw.Intn(300)) * time.Minute, Profile: p, ProfileName: p.Model,
			Priority: int64(draw.Intn(4)),
			Arrival:  epoch.Add(time.Duration(draw.Intn(4)*draw.Intn(60)) * time.Minute),
		})
		j := &jobs[len(jobs)-1]
		j.Fixed = !j.Saves
	}
	return jobs
}

// TestNobodyIsStoppedForOneLaterInTheOrderButByWhoWasPassedOver: over queues of jobs that are longer than anybody's
// patience, under every policy. Whoever was passed over has waited too long, and came first; and under first come,
// first served nobody is stopped at all for one that came later.
func TestNobodyIsStoppedForOneLaterInTheOrderButByWhoWasPassedOver(t *testing.T) {
	for _, p := range Policies() {
		t.Run(p.Name, func(t *testing.T) {
			stops := 0
			for seed := range int64(12) {
				draw := rand.New(rand.NewSource(seed))
				s := &site{t: t, cluster: paperCluster(1 + draw.Intn(2)), policy: p, alloc: Tune(), draw: draw}
				s.cluster.Rules = Rules{MinRun: time.Duration(draw.Intn(20)) * time.Minute,
					MaxPreemptions: []int{0, 1, 3, 20}[draw.Intn(4)]}
				stops += s.playOut(queueOf(t, draw))
			}
			t.Logf("%d stops for others", stops)
		})
	}
}

// playOut plays rounds until all jobs have ended, and judges each stop for another.
func (s *site) playOut(coming []Job) (stops int) {
	for rounds := 0; rounds < 500 && (len(coming) > 0 || len(s.cluster.Jobs) > 0); rounds++ {
		for k := len(coming) - 1; k >= 0; k-- {
			if !coming[k].Arrival.After(s.cluster.Now) {
				s.cluster.Jobs, coming = append(s.cluster.Jobs, coming[k]), slices.Delete(coming, k, k+1)
			}
		}
		slices.SortFunc(s.cluster.Jobs, func(x, y Job) int { return x.ID - y.ID })
		plan := Decide(s.cluster, s.policy, s.alloc)
		if err := Check(s.cluster, plan); err != nil {
			s.t.Fatal(err)
		}
		stops += s.judgeStops(plan)
		s.train(plan)
	}
	if left := len(coming) + len(s.cluster.Jobs); left > 0 {
		s.t.Errorf("%d jobs have not ended after %v", left, s.cluster.Now.Sub(epoch))
	}
	return stops
}

// judgeStops finds fault with each job that gives way to one that the policy has after it, and that nobody has passed
// over.
func (s *site) judgeStops(plan Plan) (stops int) {
	c := &s.cluster
	var pl Planner
	on := pl.boardFor(c, s.policy, s.alloc)
	for i, d := range plan.Decisions {
		var id int
		if n, _ := fmt.Sscanf(d.Why, "gives way to job %d", &id); d.Reason != GivesWay || n != 1 {
			continue
		}
		stops++
		k := slices.IndexFunc(c.Jobs, func(j Job) bool { return j.ID == id })
		victim, taker := &c.Jobs[i], &c.Jobs[k]
		first := taker.Arrival.Before(victim.Arrival) || taker.Arrival.Equal(victim.Arrival) && id < victim.ID
		passed := first && totalWait(on, taker) >= c.Rules.patience()
		if on.states[k].key >= on.states[i].key && !passed || s.policy.Name == "fifo" && !first {
			s.t.Errorf("after %v: job %d, which came at %v, is stopped for job %d, which came at %v and has waited %v",
				c.Now.Sub(epoch), victim.ID, victim.Arrival.Sub(epoch), id, taker.Arrival.Sub(epoch),
				totalWait(on, taker))
		}
	}
	return stops
}

// TestALoanIsNotCalledBackOnNodesThatAreClearedOverSeveralRounds: nobody starts there in this round, so a run that the
// rules protect goes on with what it was lent. On n1 all cores are taken by a job that may be asked in ten minutes.
func TestALoanIsNotCalledBackOnNodesThatAreClearedOverSeveralRounds(t *testing.T) {
	p, all := paperModel(t, "alexnet"), gres.Vector{GPUs: 1, CPUs: 24, Memory: 62500}
	c := paperCluster(2)
	c.Rules = Rules{MinRun: 10 * time.Minute}
	c.Jobs = []Job{
		{ID: 1, GPUs: 2, Nodes: 2, Saves: true, Arrival: c.Now.Add(-2 * DefaultPatience)},
		{ID: 2, GPUs: 1, Saves: true, Arrival: c.Now, Started: c.Now, Floor: gres.Vector{CPUs: 24},
			Running: &Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: all}},
		{ID: 3, GPUs: 1, Saves: true, Arrival: c.Now, Started: c.Now, Profile: p, ProfileName: p.Model,
			Running: &Placement{Nodes: []string{c.Nodes[1].Name}, PerNode: all}},
	}
	for _, order := range Policies() {
		plan := new(Planner).Decide(c, order, Tune())
		if err := Check(c, plan); err != nil {
			t.Errorf("%s: %v", order.Name, err)
		}
		if order.Name == Slurm().Name {
			continue // under Slurm's own priorities no nodes are cleared for a job that has waited for long
		}
		if d := plan.Decisions[0]; d.Reason != Clearing {
			t.Errorf("%s: the gang is told %s: %s", order.Name, d.Reason, d.Why)
		}
	}
}

// TestAGangMayHaveAnyOfItsShapes: no two nodes have 8 GPUs, and 16 GPUs on four nodes of 4 are as good. It waits for
// room, and is not told that there are no such nodes.
func TestAGangMayHaveAnyOfItsShapes(t *testing.T) {
	c := Cluster{Now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	gpus := []int{8, 4, 4, 4, 4}
	for k, n := range gpus {
		name := fmt.Sprintf("n%d", k)
		total := gres.Vector{GPUs: n, CPUs: 3 * n, Memory: gres.Memory(1000 * n)}
		c.Nodes = append(c.Nodes, Node{Name: name, Total: total})
		c.Jobs = append(c.Jobs, Job{ID: k + 1, GPUs: n, Nodes: 1, Fixed: true, Started: c.Now.Add(-time.Hour),
			Running: &Placement{Nodes: []string{name}, PerNode: total}})
	}
	c.Jobs = append(c.Jobs, Job{ID: 9, GPUs: 16, Arrival: c.Now})
	plan := Decide(c, FIFO(), Tune())
	if d := plan.Decisions[len(gpus)]; d.Grant != nil || d.Reason == Shape {
		t.Errorf("it waits for %s: %s", d.Reason, d.Why)
	}
	next := slices.Collect(new(Planner).Ahead(c, FIFO(), Tune()))
	if len(next) != 1 || next[0].Nodes != 4 {
		t.Errorf("next in line are %+v, want it on 4 nodes", next)
	}
}
