package whatif_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// hungry trains faster with each core up to sixteen a GPU; modest with none.
var hungry, modest = model(16), model(1)

func model(knee float64) *sensitivity.Profile {
	p := &sensitivity.Profile{Version: 1, Model: "m", Task: "t", GPUType: "g", Batch: 1, MemoryPerGPU: []gres.Memory{1}}
	for cores := 1.0; cores <= 16; cores++ {
		p.CoresPerGPU = append(p.CoresPerGPU, cores)
		p.Throughput = append(p.Throughput, []float64{min(cores, knee)})
	}
	return p
}

// site has two servers of eight GPUs and 32 cores. Jobs run where they are told to.
func site(jobs ...policy.Job) whatif.Case {
	c := whatif.Case{Policy: policy.FIFO(), Allocator: policy.Tune()}
	c.Cluster.Now = noon
	for _, name := range []string{"n1", "n2"} {
		c.Cluster.Nodes = append(c.Cluster.Nodes, policy.Node{Name: name,
			Total: gres.Vector{GPUs: 8, CPUs: 32, Memory: 500 * gres.Gigabyte}})
	}
	c.Cluster.Jobs = jobs
	return c
}

func runs(id, gpus int, on string) policy.Job {
	return policy.Job{ID: id, GPUs: gpus, Nodes: 1, Started: noon.Add(-time.Hour), Done: time.Hour,
		Length: 10 * time.Hour, Fixed: true, Arrival: noon.Add(-24 * time.Hour),
		Running: &policy.Placement{Nodes: []string{on}, PerNode: gres.Vector{GPUs: gpus, CPUs: 4 * gpus,
			Memory: gres.Memory(gpus) * 62500}}}
}

func waiting(id, gpus, nodes int) policy.Job {
	return policy.Job{ID: id, GPUs: gpus, Nodes: nodes, Length: time.Hour, Saves: true,
		Arrival: noon.Add(-time.Hour + time.Duration(id)*time.Minute)}
}

func ask(t *testing.T, c whatif.Case, job int, changes ...whatif.Change) whatif.Answer {
	t.Helper()
	a, err := whatif.Ask(c, changes, whatif.Options{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustSay(t *testing.T, said, want string) {
	t.Helper()
	if !strings.Contains(said, want) {
		t.Errorf("%q, want %q in it", said, want)
	}
}

func TestMoreCoresAreWorthWhatTheyTrainInTermsOfTheClusterAsItIs(t *testing.T) {
	j := runs(1, 8, "n1")
	j.Profile, j.Fixed, j.Saves, j.Restart = hungry, false, true, time.Second
	a := ask(t, site(j), 0, whatif.Cores{Amount: 8, How: whatif.More})
	mustSay(t, a.Sentence, "with 8 cores a node more the cluster trains 25.0 % more")
	if a.Before.Value != 8 || a.After.Value != 10 || len(a.Stops) != 1 {
		t.Errorf("value %v, then %v; stops %v: want 8, 10, and a restart", a.Before.Value, a.After.Value, a.Stops)
	}
	if ratio := a.After.Trained / a.Before.Trained; ratio < 1.2 || ratio > 1.26 {
		t.Errorf("over the next hours %v times as much, want nearly 1.25", ratio)
	}
	j.Profile = modest
	mustSay(t, ask(t, site(j), 0, whatif.Cores{Amount: 8, How: whatif.More}).Sentence, "trains as much; no more job")
}

func TestFewerCoresThanAJobHoldsRestartIt(t *testing.T) {
	j := runs(1, 8, "n1")
	j.Profile = hungry
	a := ask(t, site(j), 0, whatif.Cores{Amount: 2, How: whatif.PerGPU})
	mustSay(t, a.Sentence, "with 2 cores a GPU the cluster trains 50.0 % less")
	if len(a.Stops) != 1 || len(a.Starts) != 0 || a.After.Stops != 1 || a.After.Starts != 0 {
		t.Errorf("starts %v, stops %v: want one restart", a.Starts, a.Stops)
	}
}

func TestMoreNodesAreFreeAndNamedLikeNobody(t *testing.T) {
	c := site(runs(1, 8, "n1"), runs(2, 8, "n2"), waiting(5, 16, 2), waiting(6, 1, 1))
	c.Cluster.Nodes[0].Foreign, c.Cluster.Nodes[0].Closed = gres.Vector{CPUs: 1}, ""
	c.Cluster.Nodes[1].Name = "new1"
	c.Cluster.Jobs[1].Running.Nodes = []string{"new1"}
	a := ask(t, c, 5, whatif.AddNodes{N: 2, Like: "n1"})
	mustSay(t, a.Sentence, "job 5 would start now with 2 more nodes like n1")
	if got := fmt.Sprint(a.After.Job.Grant.Nodes, a.Starts, a.After.Nodes); got != "[new2 new3] [5] 4" {
		t.Errorf("%s: want job 5 on new2 and new3", got)
	}
}

// TestNobodyUsesTheGPUsOfANewNode though jobs use those of the node that it is like, and that one keeps them.
func TestNobodyUsesTheGPUsOfANewNode(t *testing.T) {
	c := site(waiting(5, 1, 1))
	c.Cluster.Nodes[0].Devices = []policy.Device{{Name: "g0", Slots: 4, Job: 5}, {Name: "g1", Slots: 4, Foreign: true}}
	if err := (whatif.AddNodes{N: 1, Like: "n1"}).Apply(&c); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Cluster.Nodes[2].Devices); got != "[{g0 0G 4  false 0} {g1 0G 4  false 0}]" {
		t.Errorf("%s", got)
	}
	if was := c.Cluster.Nodes[0].Devices; was[0].Job != 5 || !was[1].Foreign {
		t.Errorf("the other node's are %v", was)
	}
}

// TestAJobWithATaskForEachGPUKeepsThemOnEachNode though nobody says how many nodes the other GPUs are on.
func TestAJobWithATaskForEachGPUKeepsThemOnEachNode(t *testing.T) {
	job := waiting(5, 16, 2)
	job.Tasks = 8
	c := site(job)
	third := c.Cluster.Nodes[0]
	third.Name = "n3"
	c.Cluster.Nodes = append(c.Cluster.Nodes, third)
	a := ask(t, c, 5, whatif.NewRequest(&c, 5, 24, 0))
	if g := a.After.Job.Grant; g == nil || len(g.Nodes) != 3 || g.PerNode.GPUs != 8 {
		t.Errorf("%s: it gets %+v", a.Sentence, g)
	}
}

func TestNothingStartsOnDrainedNodesAndWhatRunsGoesOn(t *testing.T) {
	c := site(runs(1, 4, "n1"), waiting(5, 8, 1))
	a := ask(t, c, 5, whatif.Drain{Nodes: []string{"n1", "n2"}})
	mustSay(t, a.Sentence, "job 5 would not start now any more with n1, n2 drained")
	if a.After.Runs != 1 || a.After.Nodes != 0 {
		t.Errorf("%+v: want job 1 to go on, on nodes that are closed", a.After)
	}
}

func TestAJobThatGoesFirstStartsBeforeThoseThatCame(t *testing.T) {
	for _, p := range policy.Policies() {
		c := site(runs(1, 8, "n1"), waiting(5, 8, 1), waiting(6, 8, 1))
		c.Policy, c.Cluster.Jobs[2].Priority = p, -1
		c.Cluster.Jobs[2].Arrival, c.Cluster.Jobs[2].Length = noon, 5*time.Hour
		c.Cluster.Jobs[2].Attained = 1e6
		a := ask(t, c, 6, whatif.First{Job: 6})
		if a.Before.Job.Grant != nil || a.After.Job.Grant == nil {
			t.Errorf("%s: %s", p.Name, a.Sentence)
		}
	}
}

// TestAJobThatGoesFirstGoesBeforeThoseThatHaveWaitedTooLong: those go before whomever the policy would put first.
func TestAJobThatGoesFirstGoesBeforeThoseThatHaveWaitedTooLong(t *testing.T) {
	for _, p := range policy.Policies() {
		c := site(runs(1, 8, "n1"), waiting(5, 8, 1), waiting(6, 8, 1))
		c.Policy, c.Cluster.Jobs[1].Arrival = p, noon.Add(-20*time.Hour)
		a := ask(t, c, 6, whatif.First{Job: 6})
		if a.Before.Job.Grant != nil || a.After.Job.Grant == nil {
			t.Errorf("%s: %s", p.Name, a.Sentence)
		}
	}
}

func TestAJobIsToldByHowMuchItWouldStartSooner(t *testing.T) {
	c := site(runs(1, 8, "n1"), runs(2, 8, "n2"), waiting(5, 8, 1), waiting(6, 8, 1), waiting(7, 8, 1))
	c.Cluster.Jobs[0].Length, c.Cluster.Jobs[1].Length = 3*time.Hour, 6*time.Hour
	a := ask(t, c, 7, whatif.First{Job: 7})
	mustSay(t, a.Sentence, "job 7 would be expected to start about 2026-01-02T1")
	mustSay(t, a.Sentence, " sooner, if it went first: ")
	if a.Before.Job.Place != 3 || a.After.Job.Place != 1 {
		t.Errorf("from place %d to %d, want 3 to 1", a.Before.Job.Place, a.After.Job.Place)
	}
}

func TestWhatCannotBeIsSaidInASentence(t *testing.T) {
	c := site(runs(1, 8, "n1"), waiting(5, 4, 1))
	const more = whatif.More
	lots := whatif.Memory{Amount: -1000000, How: more}
	for want, change := range map[string]whatif.Change{
		`"n9" is no node of the cluster: want one of its 2, as n1`:                whatif.Drain{Nodes: []string{"n9"}},
		`"n7" is no node of the cluster`:                                          whatif.AddNodes{N: 1, Like: "n7"},
		"0 nodes: want 1 to 10000":                                                whatif.AddNodes{},
		"node n1 would have -8 cores: want 1 to 65536":                            whatif.Cores{Amount: -40, How: more},
		"node n1 would have -500G":                                                lots,
		"job 1 runs already: another number of GPUs or nodes is for a job that":   whatif.NewRequest(&c, 1, 2, 1),
		"job 8 is not in the snapshot":                                            whatif.NewRequest(&c, 8, 2, 1),
		"5 GPUs for job 5 cannot be divided equally over 2 nodes":                 whatif.NewRequest(&c, 5, 5, 2),
		"job 5 has declared a checkpoint already":                                 whatif.Checkpoint{Job: 5},
		"job 9 is not in the snapshot: want one that waits or runs":               whatif.Checkpoint{Job: 9},
		"job 1 runs already: to go first is for a job that waits":                 whatif.First{Job: 1},
		"job 7 is not in the snapshot: want one that waits":                       whatif.Profiled{Job: 7, Name: "x"},
		"job 1 runs already: to suit any node is for a job that waits":            whatif.Free{Job: 1},
		"job 1 runs already: to ask for no cores and memory is for a job that wa": whatif.Modest{Job: 1},
	} {
		if _, err := whatif.Ask(c, []whatif.Change{change}, whatif.Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}

func TestARequestIsToldAsTheRestOfASentence(t *testing.T) {
	c := site(waiting(5, 8, 1), waiting(6, 8, 2), waiting(7, 8, 0))
	for want, r := range map[string]*whatif.Request{
		"if it asked for 4 GPUs on one node instead of 8":            whatif.NewRequest(&c, 5, 4, 1),
		"if it asked for 4 GPUs on one node instead of 8 on 2 nodes": whatif.NewRequest(&c, 6, 4, 1),
		"if it asked for 8 GPUs on one node instead of 2":            whatif.NewRequest(&c, 6, 8, 1),
		"if it asked for one GPU instead of 8":                       whatif.NewRequest(&c, 6, 1, 0),
		"if it asked for one node instead of 2":                      whatif.NewRequest(&c, 6, 0, 1),
		"if it asked for 2 nodes":                                    whatif.NewRequest(&c, 7, 0, 2),
	} {
		if r.String() != want {
			t.Errorf("%q, want %q", r, want)
		}
	}
}

// TestEveryAnswerIsOneOfAPlanThatKeepsAllPromises asks of anything, and holds that nothing is changed that was given.
func TestEveryAnswerIsOneOfAPlanThatKeepsAllPromises(t *testing.T) {
	for n := range 12 {
		c := whatif.Case{Cluster: exam.Snapshot(6, n), Policy: policy.LAS(), Allocator: policy.Tune()}
		job := c.Cluster.Jobs[n%len(c.Cluster.Jobs)].ID
		before := inJSON(t, c.Cluster)
		for _, changes := range [][]whatif.Change{
			{whatif.AddNodes{N: 2}, whatif.By{Policy: policy.SRTF()}},
			{whatif.Cores{Amount: 2, How: whatif.PerGPU}}, {whatif.Cores{Amount: 4, How: whatif.More}},
			{whatif.Memory{Amount: 100 * gres.Gigabyte}, whatif.Sized{Allocator: policy.Greedy()}},
			{whatif.NewRequest(&c, job, 2, 1)}, {whatif.First{Job: job}}, {whatif.Checkpoint{Job: job}},
			{whatif.Free{Job: job}, whatif.Modest{Job: job}}, {whatif.Profiled{Job: job, Name: "x", Profile: hungry}},
			{whatif.Drain{Nodes: []string{c.Cluster.Nodes[0].Name}}},
		} {
			would, err := c.With(changes...)
			if err != nil {
				continue
			}
			plan := policy.Decide(would.Cluster, would.Policy, would.Allocator)
			if err := policy.Check(would.Cluster, plan); err != nil {
				t.Fatalf("snapshot %d, %v: %v", n, changes, err)
			}
			a := ask(t, c, job, changes...)
			if a.Sentence == "" || a.After.Runs+a.After.Waits != len(c.Cluster.Jobs) {
				t.Fatalf("snapshot %d, %v: %+v", n, changes, a)
			}
		}
		if _, err := whatif.Search(c, job, whatif.Options{}); err != nil {
			t.Fatal(err)
		}
		if inJSON(t, c.Cluster) != before {
			t.Fatalf("snapshot %d was changed", n)
		}
	}
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhoStartsNowIsAheadOfNobodyAnyMore: the snapshot is of before the round's own starts.
func TestWhoStartsNowIsAheadOfNobodyAnyMore(t *testing.T) {
	c := site(runs(1, 8, "n1"), waiting(2, 6, 1), waiting(3, 8, 1), waiting(4, 8, 1))
	a := ask(t, c, 4, whatif.First{Job: 4})
	if a.Before.Job.Place != 2 || a.After.Job.Grant == nil {
		t.Errorf("job 4 is number %d behind job 3 alone; first it has %v", a.Before.Job.Place, a.After.Job.Grant)
	}
}

func TestAJobThatHasToLeaveAnywayIsToldSo(t *testing.T) {
	leaves := runs(1, 4, "n1")
	leaves.Fixed, leaves.Saves, leaves.Arrival = false, true, noon
	c := site(leaves, runs(2, 8, "n2"), waiting(3, 8, 1))
	mustSay(t, ask(t, c, 1, whatif.Cores{Amount: 1, How: whatif.More}).Sentence, "job 1 has to leave anyway")
	mustSay(t, ask(t, c, 1, whatif.AddNodes{N: 1, Like: "n1"}).Sentence,
		"job 1 has to leave, and would stay with 1 more")
}
