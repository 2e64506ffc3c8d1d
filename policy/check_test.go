package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
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
		{ID: 1, GPUs: 1, Profile: p, Running: &Placement{Nodes: []string{"n0000"}, PerNode: share(1)}},
		{ID: 2, GPUs: 2, Profile: p, Running: &Placement{Nodes: []string{"n0000"}, PerNode: share(2)}, Tasks: 2},
		{ID: 3, GPUs: 4, Running: &Placement{Nodes: []string{"n0001"}, PerNode: share(4)}},
		{ID: 4, GPUs: 4, Nodes: 2},
		{ID: 5, GPUs: 1, Barred: "it depends on job 1"},
		{ID: 6, GPUs: 1, Running: &Placement{Nodes: []string{"n0003"}, PerNode: share(1)}, Fixed: true},
		{ID: 7, GPUs: 1, Running: &Placement{Nodes: []string{"n0002"}, PerNode: share(1)}, Started: epoch},
	}
	return c, Plan{[]Decision{
		{Job: 1, Grant: c.Jobs[0].Running},
		{Job: 2, Grant: &Placement{Nodes: []string{"n0001"}, PerNode: share(2)}, Reason: GivesWay,
			Why: "gives way to job 4"},
		{Job: 3, Reason: GivesWay, Why: "gives way to job 2"},
		{Job: 4, Grant: &Placement{Nodes: []string{"n0000", "n0001"}, PerNode: share(2)}, Reason: Starts},
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
		p.Decisions[3].Grant = &Placement{Nodes: []string{"n0002"}, PerNode: gres.Proportional(c.Nodes[0].Total, 4)}
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
	{"more than the share for good", func(c *Cluster, p *Plan) {
		c.Rules.CallableOnly, p.Decisions[3].Grant.PerNode.CPUs = true, 8
	}, "job 4: gpu=2 cpu=8 mem=125G on n0000, and a job that cannot give back may have gpu=2 cpu=6 mem=125G"},
	{"less than the share under a ceiling", func(c *Cluster, p *Plan) {
		c.Jobs[3].Ceiling, p.Decisions[3].Grant.PerNode.CPUs = gres.Vector{CPUs: 5}, 4
	}, "job 4: gpu=2 cpu=4 mem=125G on n0000 is less than the proportional share gpu=2 cpu=5 mem=125G"},
	{"fewer cores than the share, for a ceiling on memory", func(c *Cluster, p *Plan) {
		c.Jobs[1].Ceiling, p.Decisions[1].Grant.PerNode = gres.Vector{Memory: 1000}, gres.Vector{GPUs: 2, CPUs: 4,
			Memory: 1000}
	}, "job 2: 4 cores on n0001, and its share is 6: that it may have no more than 1G is no reason"},
	{"less memory than the share, for a ceiling on cores", func(c *Cluster, p *Plan) {
		c.Jobs[1].Ceiling, p.Decisions[1].Grant.PerNode = gres.Vector{CPUs: 2}, gres.Vector{GPUs: 2, CPUs: 2,
			Memory: 100000}
	}, "job 2: 100G on n0001, and its share is 125G: that it may have no more than 2 cores is no reason"},
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

// sharedRound is a snapshot and a plan in which jobs share GPUs, and every promise is kept: 1 runs and 2 joins it, 3
// and 4 start together, 5 has a GPU of its own.
func sharedRound(t *testing.T) (Cluster, Plan) {
	c := paperCluster(1)
	p := *paperModel(t, "res18")
	p.GPUBusy = 0.3
	for _, name := range []string{"g0", "g1", "g2"} {
		c.Nodes[0].Devices = append(c.Nodes[0].Devices, Device{Name: name, Memory: 80000, Slots: 2})
	}
	c.Nodes[0].Devices[2].Job = 5
	own := gres.Vector{GPUs: 1, CPUs: 9, Memory: 62500}
	c.Nodes[0].Total = gres.Vector{GPUs: 3, CPUs: 99, Memory: 900000}
	fair := gres.Proportional(c.Nodes[0].Total, 1)
	on := func(device string, size gres.Vector) *Placement {
		return &Placement{Nodes: []string{"n0000"}, PerNode: size, Device: device}
	}
	c.Jobs = []Job{
		{ID: 1, GPUs: 1, Profile: &p, Share: &share.Request{Class: share.High, Memory: 30000}, Running: on("g0", own)},
		{ID: 2, GPUs: 1, Profile: &p, Share: &share.Request{Class: share.Low, Memory: 20000}},
		{ID: 3, GPUs: 1, Share: &share.Request{Class: share.Low, Memory: 20000}},
		{ID: 4, GPUs: 1, Share: &share.Request{Class: share.Low, Memory: 20000}, Floor: gres.Vector{CPUs: 2,
			Memory: 4000}},
		{ID: 5, GPUs: 1, Running: on("", own)},
	}
	return c, Plan{[]Decision{
		{Job: 1, Grant: c.Jobs[0].Running},
		{Job: 2, Grant: on("g0", gres.Vector{GPUs: 1, CPUs: 4, Memory: 62500}), Reason: Shares},
		{Job: 3, Grant: on("g1", fair), Reason: Starts},
		{Job: 4, Grant: on("g1", gres.Vector{GPUs: 1, CPUs: 2, Memory: 4000}), Reason: Shares},
		{Job: 5, Grant: c.Jobs[4].Running},
	}}
}

func TestCheckPassesASoundPlanInWhichJobsShare(t *testing.T) {
	if err := Check(sharedRound(t)); err != nil {
		t.Fatal(err)
	}
}

// sharedBreaches are ways to break the sound plan in which jobs share.
var sharedBreaches = []struct {
	name  string
	spoil func(c *Cluster, p *Plan)
	want  string
}{
	{"a device that is not there", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.Device = "g9" },
		"node n0000: has no device g9"},
	{"a device that others use", func(c *Cluster, _ *Plan) { c.Nodes[0].Devices[0].Foreign = true },
		"node n0000: g0 is used by others"},
	{"a device that is a job's own", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Device = "g2" },
		"node n0000: g2 is the GPU of job 5 alone"},
	{"beside one that does not share", func(c *Cluster, _ *Plan) { c.Jobs[0].Share = nil },
		"job 1: on g0 of n0000, and it did not say that it may share a GPU"},
	{"who does not share", func(c *Cluster, _ *Plan) { c.Jobs[3].Share = nil },
		"job 4: on g1 of n0000, and it did not say that it may share a GPU"},
	{"with two GPUs", func(c *Cluster, _ *Plan) { c.Jobs[3].GPUs = 2 }, "job 4: on g1 of n0000, and it needs 2 GPUs"},
	{"more jobs than slots", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Device = "g0" },
		"node n0000: 3 jobs on g0, which has slots for 2"},
	{"more jobs than may ever be", func(c *Cluster, p *Plan) {
		c.Nodes[0].Devices[1].Slots = 9
		for id := 6; id < 9; id++ {
			j, d := c.Jobs[3], p.Decisions[3]
			j.ID, d.Job = id, id
			c.Jobs, p.Decisions = append(c.Jobs, j), append(p.Decisions, d)
		}
	}, "node n0000: 5 jobs on g1, which has slots for 4"},
	{"more memory than there is", func(c *Cluster, _ *Plan) { c.Jobs[1].Share.Memory = 46001 },
		"node n0000: the jobs on g0 need 76.001G of its memory, and it has 80G"},
	{"memory that nobody knows", func(c *Cluster, _ *Plan) { c.Jobs[1].Share.Memory = 0 },
		"job 2: on g0 of n0000, and nobody knows how much of its memory it needs"},
	{"two important jobs", func(c *Cluster, _ *Plan) { c.Jobs[1].Share.Class = share.High },
		"node n0000: 2 important jobs on g0"},
	{"an important job slowed down", func(c *Cluster, _ *Plan) {
		busy, unknown := *c.Jobs[0].Profile, *c.Jobs[0].Profile
		busy.GPUBusy, unknown.GPUBusy = 0.6, 0
		c.Jobs[0].Profile, c.Jobs[1].Profile = &busy, &unknown
	}, "job 1: would run at 0.8"},
	{"an unimportant job with nearly nothing", func(_ *Cluster, p *Plan) { p.Decisions[1].Grant.PerNode.CPUs = 1 },
		"job 2: would run at 0.0"},
	{"less than an unimportant job named", func(c *Cluster, _ *Plan) { c.Jobs[3].Floor.CPUs = 3 },
		"job 4: gpu=1 cpu=2 mem=4G on n0000, and its user asked for 3 cores and 4G"},
	{"less than it named not", func(c *Cluster, _ *Plan) { c.Jobs[3].Floor.Memory = 0 },
		"job 4: gpu=1 cpu=2 mem=4G on n0000 is less than gpu=0 cpu=2 mem=300G, and nobody knows what it can do " +
			"without"},
	{"less than its share alone", func(_ *Cluster, p *Plan) {
		p.Decisions[2].Grant, p.Decisions[2].Reason = nil, Turn
		p.Decisions[2].Why = "?"
	},
		"job 4: gpu=1 cpu=2 mem=4G on n0000 is less than the proportional share gpu=1 cpu=33 mem=300G"},
	{"a GPU more than there is", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.Device = "" },
		"node n0000: gpu=4 cpu=57 mem=491.5G given away, it has gpu=3 cpu=99 mem=900G"},
	{"more cores than there are", func(_ *Cluster, p *Plan) { p.Decisions[3].Grant.PerNode.CPUs = 90 },
		"node n0000: gpu=3 cpu=145 mem=491.5G given away, it has gpu=3 cpu=99 mem=900G"},
}

func TestCheckRefusesEveryBreachWhereJobsShareByName(t *testing.T) {
	for _, b := range sharedBreaches {
		t.Run(b.name, func(t *testing.T) {
			c, p := sharedRound(t)
			b.spoil(&c, &p)
			err := Check(c, p)
			said := func(line string) bool { return strings.HasPrefix(line, b.want) } // predictions are not this test's
			if err == nil || !slices.ContainsFunc(strings.Split(err.Error(), "\n"), said) {
				t.Errorf("got %v\nwant %s", err, b.want)
			}
		})
	}
}

func TestCheckLeavesThoseAloneWhoRunTogetherAlready(t *testing.T) {
	c, p := sharedRound(t)
	c.Jobs[1].Running, c.Jobs[1].Share.Class, c.Jobs[1].Share.Memory = p.Decisions[1].Grant, share.High, 70000
	if err := Check(c, p); err != nil {
		t.Errorf("job 2 is there already: %v", err)
	}
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
