package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// soundRound is a snapshot and a plan that keeps every promise: job 1 runs on, job 2 moves to job 3's place, who waits, gang 4
// starts, job 5 must not start yet, job 6 must not be touched.
func soundRound(t *testing.T) (Cluster, Plan) {
	c := paperCluster(4)
	share := func(gpus int) gres.Vector { return gres.Proportional(c.Nodes[0].Total, gpus) }
	p := paperModel(t, "res18")
	c.Nodes[3].Closed, c.Nodes[3].GPUType = "drained", "a100"
	c.Rules = Rules{MaxPreemptions: 2, MinRun: time.Minute}
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
	{"a job without decision", func(_ *Cluster, p *Plan) { p.Decisions = slices.Delete(p.Decisions, 2, 3) }, "job 3: no decision"},
	{"two decisions", func(_ *Cluster, p *Plan) { p.Decisions = slices.Insert(p.Decisions, 2, p.Decisions[1]) },
		"job 2: decided twice, or not in the snapshot"},
	{"a job that nobody knows", func(_ *Cluster, p *Plan) { p.Decisions = append(p.Decisions, Decision{Job: 9, Why: "?"}) },
		"job 9: decided twice, or not in the snapshot"},
	{"decisions out of order", func(_ *Cluster, p *Plan) { slices.Reverse(p.Decisions[4:]) }, "job 6: its decision comes after that of job 7"},
	{"no reason", func(_ *Cluster, p *Plan) { p.Decisions[2].Why = "" }, "job 3: waits without a reason"},
	{"half a gang", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = []string{"n0000"} },
		"job 4: 2 GPUs on each of 1 nodes, want 4 in all"},
	{"no node at all", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Nodes = nil }, "job 4: 2 GPUs on each of 0 nodes, want 4 in all"},
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
	{"another type of GPU", func(c *Cluster, _ *Plan) { c.Jobs[1].GPUType = "a100" }, "job 2: node n0001 is not one that it asked for"},
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
	{"too many stopped", func(c *Cluster, _ *Plan) { c.Rules.MaxPreemptions = 1 }, "2 running jobs stopped, the rules allow 1 in a round"},
	{"slower than the share", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 4 },
		"job 2: gpu=2 cpu=4 mem=125G on n0001 is 0.720 of the proportional throughput"},
	{"less than the share without profile", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.PerNode.Memory-- },
		"job 4: gpu=2 cpu=6 mem=124.999G on n0000 is less than the proportional share gpu=2 cpu=6 mem=125G"},
	{"cores that tasks cannot share", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 7 },
		"job 2: 7 cores cannot be divided over 2 tasks"},
	{"no cores", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 0 }, "job 2: 0 cores cannot be divided over 2 tasks"},
	{"memory made up", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.Memory = -1000 }, "job 2: -1G of memory"},
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

func TestCheckCountsWhatRunsOnAnOverdrawnNodeAndLeavesItAlone(t *testing.T) {
	c, p := soundRound(t)
	c.Nodes[2].Foreign = gres.Vector{GPUs: 8, CPUs: 24}
	if err := Check(c, p); err != nil {
		t.Errorf("job 7 ran there before: %v", err)
	}
}
