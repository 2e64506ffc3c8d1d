package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// soundRound is a snapshot and a plan that keeps every promise: job 1 runs on, job 2 moves to job 3's place, who waits,
// gang 4 starts, job 5 must not start yet, job 6 must not be touched.
func soundRound(t *testing.T) (Cluster, Plan) {
	c := paperCluster(4)
	share := func(gpus int) gres.Vector { return gres.Proportional(c.Nodes[0].Total, gpus) }
	p := paperModel(t, "res18")
	c.Nodes[3].Closed, c.Nodes[3].GPUType = "drained", "a100"
	c.Rules = Rules{MaxPreemptions: 2, MinRun: time.Minute}
	c.Quotas = []Quota{{"ml", -1, -1, -1, -1, -1}, {"nlp", -1, -1, -1, -1, -1}}
	c.Jobs = []Job{
		{ID: 1, GPUs: 1, Profile: p, Running: &Placement{[]string{"n0000"}, share(1)}},
		{ID: 2, GPUs: 2, Profile: p, Running: &Placement{[]string{"n0000"}, share(2)}, Tasks: 2},
		{ID: 3, GPUs: 4, Running: &Placement{[]string{"n0001"}, share(4)}},
		{ID: 4, GPUs: 4, Nodes: 2},
		{ID: 5, GPUs: 1, Barred: "it depends on job 1"},
		{ID: 6, GPUs: 1, Running: &Placement{[]string{"n0003"}, share(1)}, Fixed: true},
		{ID: 7, GPUs: 1, Running: &Placement{[]string{"n0002"}, share(1)}, Started: epoch},
	}
	return c, Plan{[]Decision{
		{Job: 1, Grant: c.Jobs[0].Running},
		{Job: 2, Grant: &Placement{[]string{"n0001"}, share(2)}, Reason: GivesWay, Why: "gives way to job 4"},
		{Job: 3, Reason: GivesWay, Why: "gives way to job 2"},
		{Job: 4, Grant: &Placement{[]string{"n0000", "n0001"}, share(2)}, Reason: Starts},
		{Job: 5, Reason: Barred, Why: "it depends on job 1"},
		{Job: 6, Grant: c.Jobs[5].Running},
		{Job: 7, Grant: c.Jobs[6].Running},
	}}
}

func TestCheckPassesASoundPlan(t *testing.T) {
	if err := Check(soundRound(t)); err != nil {
		t.Fatal(err)
	}
}

// breaches are ways to break the sound plan, and what Check must say of each.
var breaches = []struct {
	name  string
	spoil func(c *Cluster, p *Plan)
	want  string
}{
	{"a job without decision", func(_ *Cluster, p *Plan) { p.Decisions = slices.Delete(p.Decisions, 2, 3) },
		"job 3: no decision"},
	{"two decisions", func(_ *Cluster, p *Plan) { p.Decisions = slices.Insert(p.Decisions, 2, p.Decisions[1]) },
		"job 2: decided twice, or not in the snapshot"},
	{"a job that nobody knows", func(_ *Cluster, p *Plan) { p.Decisions = append(p.Decisions, Decision{Job: 9, Why: "?"}) },
		"job 9: decided twice, or not in the snapshot"},
	{"decisions out of order", func(_ *Cluster, p *Plan) { slices.Reverse(p.Decisions[4:]) },
		"job 6: its decision comes after that of job 7"},
	{"no reason", func(_ *Cluster, p *Plan) { p.Decisions[2].Why = "" }, "job 3: waits without a reason"},
	{"half a gang", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = []string{"n0000"} },
		"job 4: 2 GPUs on each of 1 nodes, want 4 in all"},
	{"no node at all", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = nil },
		"job 4: 2 GPUs on each of 0 nodes, want 4 in all"},
	{"fewer nodes than asked for", func(c *Cluster, p *Plan) {
		p.Decisions[3].Grant = &Placement{[]string{"n0002"}, gres.Proportional(c.Nodes[0].Total, 4)}
	}, "job 4: 1 nodes, want 2"},
	{"one node twice", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = []string{"n0000", "n0000"} },
		"job 4: nodes n0000 and n0000 are not in ascending order"},
	{"nodes out of order", func(_ *Cluster, p *Plan) { slices.Reverse(p.Decisions[3].Grant.Nodes) },
		"job 4: nodes n0001 and n0000 are not in ascending order"},
	{"a node that nobody knows", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = []string{"n0000", "n7"} },
		"job 4: node n7 is not in the snapshot"},
	{"a closed node", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = []string{"n0002", "n0003"} },
		"job 4: node n0003 is closed: drained"},
	{"a node not asked for", func(c *Cluster, _ *Plan) { c.Jobs[3].Except = []string{"n0001"} },
		"job 4: node n0001 is not one that it asked for"},
	{"another type of GPU", func(c *Cluster, _ *Plan) { c.Jobs[1].GPUType = "a100" },
		"job 2: node n0001 is not one that it asked for"},
	{"a job that may not start", func(_ *Cluster, p *Plan) { p.Decisions[4].Grant = p.Decisions[0].Grant },
		"job 5: started, but it depends on job 1"},
	{"a fixed job stopped", func(_ *Cluster, p *Plan) {
		p.Decisions[5].Grant, p.Decisions[5].Reason, p.Decisions[5].Why = nil, Turn, "?"
	},
		"job 6: stopped or changed, and must not be touched"},
	{"a fixed job moved", func(_ *Cluster, p *Plan) { p.Decisions[5].Grant = p.Decisions[0].Grant },
		"job 6: stopped or changed, and must not be touched"},
	{"a job stopped that has just started", func(_ *Cluster, p *Plan) { p.Decisions[6].Grant = p.Decisions[0].Grant },
		"job 7: stopped or changed, and must not be touched"},
	{"a job stopped that was restarted too often", func(c *Cluster, _ *Plan) {
		c.Rules.MaxRestarts, c.Jobs[2].Restarts = 3, 3
	}, "job 3: stopped or changed, and must not be touched"},
	{"too many stopped", func(c *Cluster, _ *Plan) { c.Rules.MaxPreemptions = 1 },
		"2 running jobs stopped, the rules allow 1 in a round"},
	{"slower than the share", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 4 },
		"job 2: gpu=2 cpu=4 mem=125G on n0001 is 0.720 of the proportional throughput"},
	{"less than the share without profile", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.PerNode.Memory-- },
		"job 4: gpu=2 cpu=6 mem=124.999G on n0000 is less than the proportional share gpu=2 cpu=6 mem=125G"},
	{"a gang's share of a node that is not the equal of its other",
		func(c *Cluster, _ *Plan) { c.Nodes[1].Total.Memory += 9000 },
		"job 4: gpu=2 cpu=6 mem=125G on n0001 is less than the proportional share gpu=2 cpu=6 mem=127.25G"},
	{"less cores than asked for", func(c *Cluster, _ *Plan) { c.Jobs[1].Floor.CPUs = 7 },
		"job 2: gpu=2 cpu=6 mem=125G on n0001, and its user asked for 7 cores and 0G"},
	{"less memory than asked for", func(c *Cluster, _ *Plan) { c.Jobs[3].Floor.Memory = 126000 },
		"job 4: gpu=2 cpu=6 mem=125G on n0000, and its user asked for 0 cores and 126G"},
	{"slower than reckoned", func(c *Cluster, _ *Plan) { c.Jobs[1].Pace.CPUs = 8 },
		"job 2: gpu=2 cpu=6 mem=125G on n0001 is slower than gpu=2 cpu=8 mem=125G, which its user reckoned with"},
	{"slower than reckoned, as far as anybody knows", func(c *Cluster, _ *Plan) { c.Jobs[3].Pace.Memory = 130000 },
		"job 4: gpu=2 cpu=6 mem=125G on n0000 is slower than gpu=2 cpu=6 mem=130G, which its user reckoned with"},
	{"more cores than allowed", func(c *Cluster, _ *Plan) { c.Jobs[3].Ceiling.CPUs = 5 },
		"job 4: gpu=2 cpu=6 mem=125G on each node, and the site allows it 5 cores and 0G"},
	{"more memory than allowed", func(c *Cluster, _ *Plan) { c.Jobs[3].Ceiling.Memory = 100000 },
		"job 4: gpu=2 cpu=6 mem=125G on each node, and the site allows it 0 cores and 100G"},
	{"less than the share under a ceiling", func(c *Cluster, p *Plan) {
		c.Jobs[3].Ceiling, p.Decisions[3].Grant.PerNode.CPUs = gres.Vector{CPUs: 5}, 4
	}, "job 4: gpu=2 cpu=4 mem=125G on n0000 is less than the proportional share gpu=2 cpu=5 mem=125G"},
	{"slower than under its ceiling", func(c *Cluster, p *Plan) {
		c.Jobs[1].Ceiling, p.Decisions[1].Grant.PerNode.CPUs = gres.Vector{CPUs: 5}, 2
	}, "job 2: gpu=2 cpu=2 mem=125G on n0001 is 0.370 of the proportional throughput"},
	{"more GPUs than a quota leaves", func(c *Cluster, _ *Plan) {
		c.Quotas[0].GPUs, c.Jobs[0].Quotas, c.Jobs[3].Quotas = 4, []int{0}, []int{0}
	}, "ml: 5 GPUs given away, it leaves 4"},
	{"more jobs than a quota leaves", func(c *Cluster, _ *Plan) {
		c.Quotas[1].Jobs, c.Jobs[3].Quotas, c.Jobs[6].Quotas = 1, []int{0, 1}, []int{1}
	}, "nlp: 2 jobs given away, it leaves 1"},
	{"more nodes than a quota leaves", func(c *Cluster, _ *Plan) { c.Quotas[0].Nodes, c.Jobs[3].Quotas = 1, []int{0} },
		"ml: 2 nodes given away, it leaves 1"},
	{"more cores than a quota leaves", func(c *Cluster, _ *Plan) { c.Quotas[0].CPUs, c.Jobs[3].Quotas = 11, []int{0} },
		"ml: 12 cores given away, it leaves 11"},
	{"more memory than a quota leaves", func(c *Cluster, _ *Plan) { c.Quotas[0].Memory, c.Jobs[3].Quotas = 200000, []int{0} },
		"ml: 250000 MiB of memory given away, it leaves 200000"},
	{"another size under a quota that is overdrawn", func(c *Cluster, _ *Plan) {
		c.Quotas[0].GPUs, c.Jobs[1].Quotas, c.Jobs[5].Quotas, c.Jobs[6].Quotas = 3, []int{0}, []int{0}, []int{0}
	}, "ml: 4 GPUs given away, it leaves 3"},
	{"a run into a reservation", func(c *Cluster, _ *Plan) {
		c.Nodes[1].Reserved, c.Jobs[1].TimeLimit = []Reservation{{"maint", epoch.Add(time.Hour), time.Time{}}},
			time.Hour
		c.Jobs[3].TimeLimit = 61 * time.Minute
	}, "job 4: node n0001 is in reservation maint from 2026-01-01 13:00:00, before which it does not end"},
	{"a start within a reservation", func(c *Cluster, _ *Plan) {
		c.Nodes[1].Reserved, c.Jobs[1].Reservation = []Reservation{{"maint", epoch.Add(-time.Hour),
			epoch.Add(time.Hour)}}, "maint"
		c.Jobs[3].TimeLimit = time.Second
	}, "job 4: node n0001 is in reservation maint from 2026-01-01 11:00:00, before which it does not end"},
	{"a start within a reservation by one that was submitted to another", func(c *Cluster, _ *Plan) {
		c.Nodes[1].Reserved, c.Jobs[1].Reservation = []Reservation{{"maint", epoch.Add(-time.Hour),
			epoch.Add(time.Hour)}}, "maint"
		c.Jobs[3].Reservation = "course"
	}, "job 4: node n0001 is in reservation maint from 2026-01-01 11:00:00, before which it does not end"},
	{"a job stopped that cannot come back", func(c *Cluster, _ *Plan) {
		for i := range c.Nodes {
			c.Nodes[i].Reserved = []Reservation{{"maint", epoch.Add(70 * time.Minute), time.Time{}}}
			c.Jobs[i].TimeLimit = time.Hour
		}
		c.Jobs[2].Restart = time.Second
	}, "job 3: stopped, and reservation maint begins before it could have run again"},
	{"cores that tasks cannot share", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 7 },
		"job 2: 7 cores cannot be divided over 2 tasks"},
	{"no cores", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 0 },
		"job 2: 0 cores cannot be divided over 2 tasks"},
	{"memory made up", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.Memory = -1000 },
		"job 2: -1G of memory"},
	{"more than a node has", func(c *Cluster, _ *Plan) { c.Nodes[1].Foreign = gres.Vector{GPUs: 5} },
		"node n0001: gpu=9 cpu=12 mem=250G given away, it has gpu=8 cpu=24 mem=500G"},
}

func TestCheckRefusesEveryBreachByName(t *testing.T) {
	for _, b := range breaches {
		t.Run(b.name, func(t *testing.T) {
			c, p := soundRound(t)
			b.spoil(&c, &p)
			err := Check(c, p)
			if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), b.want) {
				t.Errorf("got %v\nwant %s", err, b.want)
			}
		})
	}
}

func TestCheckTakesNoMoreThanTheSiteAllowsForWhatIsOwed(t *testing.T) {
	c, p := soundRound(t)
	c.Jobs[1].Ceiling, c.Jobs[3].Ceiling = gres.Vector{CPUs: 5, Memory: 100000}, gres.Vector{CPUs: 4, Memory: 100000}
	c.Jobs[1].Pace, c.Jobs[3].Pace = gres.Vector{CPUs: 12, Memory: 400000}, gres.Vector{CPUs: 12}
	p.Decisions[1].Grant.PerNode = gres.Vector{GPUs: 2, CPUs: 4, Memory: 100000} // its two tasks cannot share five
	p.Decisions[3].Grant.PerNode = gres.Vector{GPUs: 2, CPUs: 4, Memory: 100000}
	if err := Check(c, p); err != nil {
		t.Error(err)
	}
}

func TestCheckLeavesAQuotaAloneThatIsOverdrawnByWhatRuns(t *testing.T) {
	c, p := soundRound(t)
	c.Quotas[0].GPUs, c.Jobs[0].Quotas, c.Jobs[2].Quotas, c.Jobs[6].Quotas = 1, []int{0}, []int{0}, []int{0}
	if err := Check(c, p); err != nil {
		t.Errorf("jobs 1 and 7 ran before, and job 3 ends: %v", err)
	}
}

func TestCheckLetsRunWhoEndsInTimeOrOwnsTheReservationOrComesAfterIt(t *testing.T) {
	c, p := soundRound(t)
	past := Reservation{"past", epoch.Add(-time.Hour), epoch}
	for i := range c.Nodes {
		c.Nodes[i].Reserved = []Reservation{past, {"maint", epoch.Add(70 * time.Minute), time.Time{}}}
	}
	c.Jobs[1].TimeLimit, c.Jobs[2].TimeLimit, c.Jobs[2].Restart = 70*time.Minute, 59*time.Minute, time.Minute
	c.Jobs[3].Reservation = "maint"
	if err := Check(c, p); err != nil {
		t.Error(err)
	}
}

func TestCheckCountsWhatRunsOnAnOverdrawnNodeAndLeavesItAlone(t *testing.T) {
	c, p := soundRound(t)
	c.Nodes[2].Foreign = gres.Vector{GPUs: 8, CPUs: 24}
	if err := Check(c, p); err != nil {
		t.Errorf("job 7 ran there before: %v", err)
	}
}

func TestToAGangNodesAreEqualThatDifferByAFewMiB(t *testing.T) {
	c, p := soundRound(t)
	c.Nodes[1].Total.Memory += 100
	if err := Check(c, p); err != nil {
		t.Errorf("a gang with the share of the smaller node: %v", err)
	}
	p.Decisions[3].Grant.PerNode.Memory--
	if err := Check(c, p); err == nil {
		t.Error("a gang has less than the share of the smallest of its nodes")
	}
}
