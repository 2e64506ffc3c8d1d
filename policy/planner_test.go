package policy

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// What a planner keeps from one round to the next must not be seen in its plans, whatever has happened in between.
func TestAPlannerPlansAsOneThatHasNeverPlanned(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		var planner Planner
		c := wild(t, profiles)
		for range 5 {
			p := rapid.SampledFrom(Policies()).Draw(t, "policy")
			a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
			plan := Decide(c, p, a)
			shuffled := deepCopy(c)
			r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
			r.Shuffle(len(c.Jobs), func(i, k int) { shuffled.Jobs[i], shuffled.Jobs[k] = shuffled.Jobs[k], shuffled.Jobs[i] })
			for range 2 {
				if again := planner.Decide(shuffled, p, a); !reflect.DeepEqual(plan, again) {
					t.Fatalf("%s %s: %s", p.Name, a.Name, firstDifference(plan, again))
				}
			}
			c = someTimeLater(t, carriedOut(c, plan), profiles)
		}
	})
}

// A planner lives for years and sees one large backlog: what it holds on to must not be that of then.
func TestAPlannerForgetsTheJobsAndNodesThatAreGone(t *testing.T) {
	var planner Planner
	large, small := Cluster{Now: epoch}, Cluster{Now: epoch}
	for i := range 64 {
		large.Jobs = append(large.Jobs, Job{ID: i + 1, GPUs: 1})
		large.Nodes = append(large.Nodes, Node{Name: fmt.Sprintf("n%02d", i),
			Total: gres.Vector{GPUs: 1, CPUs: 1, Memory: 1000}})
	}
	small.Jobs, small.Nodes = large.Jobs[:1:1], large.Nodes[:1:1]
	planner.Decide(large, FIFO(), Tune())
	planner.Decide(deepCopy(small), FIFO(), Tune())
	for i, j := range planner.board.jobs[:cap(planner.board.jobs)] {
		if i > 0 && j != nil {
			t.Fatalf("holds on to job %d, which is gone", j.ID)
		}
	}
	for i, n := range planner.board.nodesByName[:cap(planner.board.nodesByName)] {
		if i > 0 && n != nil {
			t.Fatalf("holds on to node %s, which is gone", n.Name)
		}
	}
}

// someTimeLater is a cluster when jobs have trained, ended and come, and users and administrators have changed their
// minds.
func someTimeLater(t *rapid.T, c Cluster, profiles []*sensitivity.Profile) Cluster {
	passed := time.Duration(rapid.IntRange(0, 20).Draw(t, "minutes")) * time.Minute
	c.Now = c.Now.Add(passed)
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Running != nil {
			j.Done, j.Attained = j.Done+passed, j.Attained+passed.Seconds()*float64(j.GPUs)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "changed jobs") {
		if len(c.Jobs) > 0 {
			changeJob(t, &c.Jobs[rapid.IntRange(0, len(c.Jobs)-1).Draw(t, "job")], profiles)
		}
	}
	if len(c.Nodes) > 0 && rapid.IntRange(0, 2).Draw(t, "a node changes") == 0 {
		changeNode(t, &c.Nodes[rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "node")])
	}
	if c.Quotas != nil && rapid.IntRange(0, 2).Draw(t, "a quota changes") == 0 {
		c.Quotas = []Quota{wildQuota(t, "one"), c.Quotas[1]}
	}
	c.Jobs = slices.DeleteFunc(c.Jobs, func(Job) bool { return rapid.IntRange(0, 7).Draw(t, "ends") == 0 })
	next := 1
	for _, j := range c.Jobs {
		next = max(next, j.ID+1)
	}
	for id := range rapid.IntRange(0, 4).Draw(t, "newcomers") {
		j := wildJob(t, next+id, profiles)
		if c.Quotas != nil {
			j.Quotas = wildQuotas(t)
		}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

func changeJob(t *rapid.T, j *Job, profiles []*sensitivity.Profile) {
	switch rapid.IntRange(0, 11).Draw(t, "what") {
	case 11:
		j.TimeLimit = time.Hour
	case 10:
		j.Quotas = wildQuotas(t)
	case 9:
		j.Floor, j.Ceiling = wildAmounts(t, "floor"), wildAmounts(t, "ceiling")
	case 0:
		j.Profile = rapid.SampledFrom(profiles).Draw(t, "profile")
	case 1:
		j.Saves = !j.Saves
	case 2:
		j.Except = []string{"n1"}
	case 3:
		if len(j.Except) > 0 {
			j.Except[0] = "n0" // in the memory where the last snapshot had another
		}
	case 4:
		j.Features = []string{"ib"}
	case 5:
		j.Tasks = 4
	case 6:
		if j.Running != nil && len(j.Running.Nodes) > 0 {
			j.Running.Nodes[0] = "gone"
		}
	case 7:
		if j.Running != nil {
			j.Running.PerNode = j.Running.PerNode.Plus(gres.Vector{CPUs: 1})
		}
	case 8:
		j.Running, j.GPUs = nil, 2
	}
}

func changeNode(t *rapid.T, n *Node) {
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 5:
		n.Reserved = wildReservations(t)
	case 0:
		n.Closed = "drained"
	case 1:
		n.Features = []string{"ib"}
	case 2:
		n.Total.CPUs += 4
	case 3:
		n.GPUType = "a100"
	case 4:
		n.Name = fmt.Sprint(n.Name, "b")
	}
}

func TestAPlannerNoticesWhatHasChanged(t *testing.T) {
	image := paperModel(t, "res18")
	for _, c := range []struct {
		name   string
		change func(c *Cluster)
	}{
		{"nothing", func(*Cluster) {}},
		{"a node has closed", func(c *Cluster) { c.Nodes[1].Closed = "drained" }},
		{"a node has lost a feature", func(c *Cluster) { c.Nodes[1].Features = nil }},
		{"a node has lost a feature, where it was written", func(c *Cluster) { c.Nodes[1].Features[0] = "old" }},
		{"a node has got a type", func(c *Cluster) { c.Nodes[1].GPUType = "a100" }},
		{"a node has more cores", func(c *Cluster) { c.Nodes[1].Total.CPUs = 48 }},
		{"a node has another name", func(c *Cluster) { c.Nodes[1].Name = "n2" }},
		{"a node has gone", func(c *Cluster) { c.Nodes = c.Nodes[:1] }},
		{"somebody else uses a node", func(c *Cluster) { c.Nodes[1].Foreign.GPUs = 7 }},
		{"a job wants a feature that there is not", func(c *Cluster) { c.Jobs[1].Features[0] = "nvme" }},
		{"a job excludes another node", func(c *Cluster) { c.Jobs[2].Except[0] = "n1" }},
		{"a job has named another node", func(c *Cluster) { c.Jobs[3].Only[0] = "n0" }},
		{"a job has named no node", func(c *Cluster) { c.Jobs[3].Only = nil }},
		{"a job wants a type that there is not", func(c *Cluster) { c.Jobs[1].GPUType = "a100" }},
		{"a job has another profile", func(c *Cluster) { c.Jobs[0].Profile = paperModel(t, "gnmt") }},
		{"a job has more tasks", func(c *Cluster) { c.Jobs[0].Tasks = 5 }},
		{"a job wants two nodes", func(c *Cluster) { c.Jobs[0].Nodes = 2 }},
		{"a job wants more GPUs", func(c *Cluster) { c.Jobs[0].GPUs = 4 }},
		{"a job runs with less", func(c *Cluster) { c.Jobs[4].Running.PerNode.CPUs = 6 }},
		{"a job runs elsewhere", func(c *Cluster) { c.Jobs[4].Running.Nodes[0] = "n1" }},
		{"a job runs where nobody knows", func(c *Cluster) { c.Jobs[4].Running.Nodes[0] = "gone" }},
		{"a job has a floor", func(c *Cluster) { c.Jobs[0].Floor.Memory = 400000 }},
		{"a job has a pace", func(c *Cluster) { c.Jobs[3].Pace.CPUs = 20 }},
		{"a job has a ceiling", func(c *Cluster) { c.Jobs[0].Ceiling.CPUs = 4 }},
		{"a job counts against a quota", func(c *Cluster) { c.Jobs[0].Quotas = []int{1} }},
		{"a job counts against another quota", func(c *Cluster) { c.Jobs[3].Quotas[0] = 1 }},
		{"a quota leaves less", func(c *Cluster) { c.Quotas[0].Jobs = 0 }},
		{"a node is reserved", func(c *Cluster) { c.Nodes[1].Reserved = []Reservation{{Name: "maint", From: epoch.Add(time.Hour)}} }},
		{"a job does not save any more", func(c *Cluster) { c.Jobs[3].Saves = false }},
		{"a job saves", func(c *Cluster) { c.Jobs[2].Saves = true }},
		{"who came first has gone", func(c *Cluster) { c.Jobs = c.Jobs[1:] }},
		{"another has come first", func(c *Cluster) { c.Jobs[8].Arrival = epoch.Add(-24 * time.Hour) }},
	} {
		before := func() Cluster {
			c := paperCluster(2)
			c.Quotas = []Quota{{"one", 9, 9, 9, 99, 9e5}, {"two", 0, 0, 0, 0, 0}}
			c.Nodes[0].Name, c.Nodes[1].Name, c.Nodes[1].Features = "n0", "n1", []string{"ib"}
			c.Nodes[0].Foreign.GPUs, c.Nodes[1].Foreign.GPUs = 3, 1
			c.Jobs = []Job{
				{ID: 1, GPUs: 2, Profile: image}, {ID: 2, GPUs: 2, Features: []string{"ib"}},
				{ID: 3, GPUs: 1, Except: []string{"n0"}},
				{ID: 4, GPUs: 1, Only: []string{"n1"}, Saves: true, Quotas: []int{0}},
				{ID: 5, GPUs: 2, Profile: image, Saves: true, Restart: time.Second},
				{ID: 6, GPUs: 8}, {ID: 7, GPUs: 1, Saves: true}, {ID: 8, GPUs: 2, Nodes: 2, Saves: true},
				{ID: 9, GPUs: 1, Saves: true},
			}
			for i := range c.Jobs {
				c.Jobs[i].Arrival = epoch.Add(-time.Duration(9-i) * time.Minute)
			}
			c.Jobs[4].Arrival, c.Jobs[5].Arrival, c.Jobs[7].Arrival = epoch.Add(-2*time.Hour), epoch.Add(-time.Hour),
				epoch.Add(-5*time.Minute)
			c.Jobs[4].Running = &Placement{Nodes: []string{"n0"},
				PerNode: gres.Vector{GPUs: 2, CPUs: 8, Memory: 125000}}
			return c
		}
		var planner Planner
		cluster := before()
		for range 2 {
			planner.Decide(cluster, FIFO(), Tune())
		}
		c.change(&cluster)
		want := Decide(cluster, FIFO(), Tune())
		if got := planner.Decide(cluster, FIFO(), Tune()); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s", c.name, firstDifference(want, got))
		}
		if old := before(); c.name != "nothing" && reflect.DeepEqual(Decide(old, FIFO(), Tune()), want) {
			t.Errorf("%s: and that changes nothing", c.name)
		}
	}
}

// A planner does not look again at servers where nobody gained by a larger size, as long as they stand as they did.
// Each of these keeps job 1, which would be faster with the free cores, from growing; and then it does not.
func TestAPlannerLooksAgainWhereSomethingStoodInTheWay(t *testing.T) {
	image := paperModel(t, "res18")
	share := gres.Vector{GPUs: 1, CPUs: 3, Memory: 62500}
	all := gres.Vector{GPUs: 1, CPUs: 21, Memory: 62500}
	for _, c := range []struct {
		name         string
		block, clear func(c *Cluster)
	}{
		{"its restart", func(c *Cluster) { c.Jobs[0].Restart = time.Hour },
			func(c *Cluster) { c.Jobs[0].Restart = time.Second }},
		{"its end", func(c *Cluster) { c.Jobs[0].Length = time.Second },
			func(c *Cluster) { c.Jobs[0].Length = time.Hour }},
		{"its progress", func(c *Cluster) { c.Jobs[0].Length, c.Jobs[0].Done = time.Hour, time.Hour },
			func(c *Cluster) { c.Jobs[0].Done = 0 }},
		{"a dependency", func(c *Cluster) { c.Jobs[0].Barred = "later" }, func(c *Cluster) { c.Jobs[0].Barred = "" }},
		{"no checkpoint", func(c *Cluster) { c.Jobs[0].Saves = false }, func(c *Cluster) { c.Jobs[0].Saves = true }},
		{"a profile", func(c *Cluster) { c.Jobs[0].Profile = nil }, func(c *Cluster) { c.Jobs[0].Profile = image }},
		{"a fixed place", func(c *Cluster) { c.Jobs[0].Fixed = true }, func(c *Cluster) { c.Jobs[0].Fixed = false }},
		{"its youth", func(c *Cluster) { c.Rules.MinRun = 2 * time.Hour },
			func(c *Cluster) { c.Now = c.Now.Add(2 * time.Hour) }},
		{"the payback", func(c *Cluster) { c.Rules.Payback = time.Second }, func(c *Cluster) { c.Rules.Payback = 0 }},
		{
			"its last restart", func(c *Cluster) { c.Jobs[0].Restarts, c.Jobs[0].Started = 1, epoch.Add(-14*time.Minute) },
			func(c *Cluster) { c.Now = c.Now.Add(time.Minute) },
		},
		{"a closed node", func(c *Cluster) { c.Nodes[0].Closed = "drained" },
			func(c *Cluster) { c.Nodes[0].Closed = "" }},
		{"foreign jobs", func(c *Cluster) { c.Nodes[0].Foreign.CPUs = 21 },
			func(c *Cluster) { c.Nodes[0].Foreign.CPUs = 0 }},
		{"a small node", func(c *Cluster) { c.Nodes[0].Total.CPUs = 3 },
			func(c *Cluster) { c.Nodes[0].Total.CPUs = 24 }},
		{
			"maintenance", func(c *Cluster) {
				c.Nodes[0].Reserved = []Reservation{{"maint", epoch.Add(time.Hour), epoch.Add(2 * time.Hour)}}
			},
			func(c *Cluster) { c.Now = c.Now.Add(2 * time.Hour) },
		},
		{
			"a reservation, after which as many begin as before",
			func(c *Cluster) {
				c.Jobs[0].Only, c.Jobs[0].TimeLimit = nil, 30*time.Minute
				c.Nodes[0].Reserved = []Reservation{{"maint", epoch.Add(10 * time.Minute), epoch.Add(20 * time.Minute)}}
				c.Nodes[1].Reserved = []Reservation{{"course", epoch.Add(80 * time.Minute), time.Time{}}}
			},
			func(c *Cluster) { c.Now = c.Now.Add(time.Hour) },
		},
		{"a quota", func(c *Cluster) { c.Quotas = []Quota{{"q", 1, 1, 1, 3, 62500}}; c.Jobs[0].Quotas = []int{0} },
			func(c *Cluster) { c.Quotas[0].CPUs = 24 }},
		{
			"a quota, for what a neighbour would give",
			func(c *Cluster) {
				c.Nodes[0].Total.CPUs = 6
				c.Quotas = []Quota{{"q", 1, 1, 1, 3, 62500}}
				c.Jobs[0].Quotas = []int{0}
				c.Jobs = append(c.Jobs, Job{
					ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0000"}, PerNode: share}, Profile: paperModel(t, "gnmt"),
					Saves: true,
				})
			},
			func(c *Cluster) { c.Quotas[0].CPUs = 24 },
		},
		{
			"a neighbour",
			func(c *Cluster) {
				c.Jobs = append(c.Jobs, Job{ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0000"}, PerNode: all}, Fixed: true})
			},
			func(c *Cluster) { c.Jobs = c.Jobs[:1] },
		},
		{
			"a larger neighbour",
			func(c *Cluster) {
				c.Jobs = append(c.Jobs, Job{ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0000"}, PerNode: all}, Fixed: true})
			},
			func(c *Cluster) { c.Jobs[1].Running = &Placement{Nodes: []string{"n0000"}, PerNode: share} },
		},
		{
			"a neighbour who has moved",
			func(c *Cluster) {
				c.Jobs = append(c.Jobs, Job{ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0000"}, PerNode: all}, Fixed: true})
			},
			func(c *Cluster) { c.Jobs[1].Running = &Placement{Nodes: []string{"n0001"}, PerNode: all} },
		},
		{
			"a neighbour who gives nothing back",
			func(c *Cluster) {
				c.Jobs = append(c.Jobs, Job{
					ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0000"}, PerNode: all}, Profile: paperModel(t, "gnmt"),
					Saves: true, Barred: "later",
				})
			},
			func(c *Cluster) { c.Jobs[1].Barred = "" },
		},
		{
			"a neighbour on another of its nodes",
			func(c *Cluster) {
				c.Jobs[0].GPUs, c.Jobs[0].Only, c.Jobs[0].Running = 2, nil,
					&Placement{Nodes: []string{"n0000", "n0001"}, PerNode: share}
				c.Jobs = append(c.Jobs, Job{ID: 2, GPUs: 1,
					Running: &Placement{Nodes: []string{"n0001"}, PerNode: all}, Fixed: true})
			},
			func(c *Cluster) { c.Jobs = c.Jobs[:1] },
		},
	} {
		cluster := paperCluster(2)
		cluster.Jobs = []Job{{
			ID: 1, GPUs: 1, Arrival: epoch, Started: epoch.Add(-time.Hour), Profile: image, Saves: true,
			Restart: 30 * time.Second,
			Running: &Placement{Nodes: []string{"n0000"}, PerNode: share}, Only: []string{"n0000"},
		}}
		c.block(&cluster)
		var planner Planner
		for range 3 {
			if plan := planner.Decide(cluster, FIFO(), Tune()); !unchanged(&cluster.Jobs[0], plan.Decisions[0]) {
				t.Fatalf("%s does not keep job 1 from growing: %s", c.name, drawn(plan.Decisions[0]))
			}
		}
		c.clear(&cluster)
		if plan := planner.Decide(cluster, FIFO(), Tune()); plan.Decisions[0].Gain <= 1 {
			t.Errorf("%s is gone, and job 1 is left as it was", c.name)
		}
	}
}
