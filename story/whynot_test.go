package story

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// models are the profiles that are installed.
func models(t interface{ Fatal(...any) }) (all []*sensitivity.Profile) {
	for _, name := range []string{"res18.json", "gnmt.json", "lstm.json"} {
		text, err := fs.ReadFile(profiles.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

var server = gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}

// site draws a cluster with what a site has: kinds of nodes, some closed or reserved, limits, jobs that ask for this
// and that, some of which run.
func site(t *rapid.T, known []*sensitivity.Profile) policy.Cluster {
	c := policy.Cluster{Now: noon, Rules: policy.Rules{
		MinRun:         rapid.SampledFrom([]time.Duration{0, 10 * time.Minute}).Draw(t, "min run"),
		MaxPreemptions: rapid.SampledFrom([]int{0, 1}).Draw(t, "max preemptions"),
		Patience:       rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "patience"),
	}}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := policy.Node{Name: fmt.Sprintf("n%d", i), Total: server}
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			n.Closed = "drained: fan"
		case 1:
			n.Total, n.GPUType = gres.Vector{GPUs: 4, CPUs: 20, Memory: 400000}, "a100"
		case 2:
			n.Foreign = gres.Vector{GPUs: rapid.IntRange(0, 8).Draw(t, "foreign"),
				CPUs: rapid.IntRange(0, 24).Draw(t, "foreign cores"), Memory: 100000}
		case 3:
			n.Reserved = []policy.Reservation{{Name: "maint",
				From: noon.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "from")) * time.Hour)}}
		}
		c.Nodes = append(c.Nodes, n)
	}
	quota := policy.Quota{Name: "GrpTRES of account ml", Jobs: policy.Unbounded, Nodes: policy.Unbounded,
		GPUs: rapid.IntRange(0, 12).Draw(t, "quota"), CPUs: rapid.IntRange(-20, 30).Draw(t, "cores"),
		Memory: policy.Unbounded}
	quota.CPUs = max(quota.CPUs, policy.Unbounded)
	c.Quotas = []policy.Quota{quota}
	for id := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		c.Jobs = append(c.Jobs, drawJob(t, id+1, known))
	}
	return c
}

func drawJob(t *rapid.T, id int, known []*sensitivity.Profile) policy.Job {
	j := policy.Job{ID: id, Name: "job", User: "alice", Arrival: noon.Add(-time.Hour), Tasks: 1,
		GPUs:      rapid.SampledFrom([]int{1, 1, 2, 3, 4, 8, 8, 16}).Draw(t, "GPUs"),
		Nodes:     rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "nodes asked"),
		TimeLimit: time.Duration(rapid.IntRange(0, 3).Draw(t, "limit")) * time.Hour,
		Saves:     rapid.Bool().Draw(t, "saves"), Priority: int64(rapid.IntRange(0, 2).Draw(t, "priority"))}
	if k := rapid.IntRange(-2, len(known)-1).Draw(t, "profile"); k >= 0 {
		j.Profile, j.ProfileName = known[k], "known.json"
	}
	switch rapid.IntRange(0, 9).Draw(t, "wants") {
	case 0:
		j.GPUType = "a100"
	case 1:
		j.Only = []string{"n0"}
	case 2:
		j.Except = []string{"n1"}
	case 3:
		j.Floor = gres.Vector{CPUs: rapid.IntRange(0, 30).Draw(t, "floor"), Memory: 200000}
	case 4:
		j.Tasks = 2
	case 5:
		j.Ceiling = gres.Vector{CPUs: rapid.IntRange(1, 10).Draw(t, "ceiling")}
	case 6:
		j.Quotas = []int{0}
	}
	return j
}

// roundOf decides about a cluster in which some jobs run already, as the round before has left them.
func roundOf(t *rapid.T, c policy.Cluster, a policy.Allocator) bridge.Report {
	first := policy.Decide(c, policy.FIFO(), a)
	for i := range c.Jobs {
		if g := first.Decisions[i].Grant; g != nil && rapid.Bool().Draw(t, "runs") {
			has := *g
			c.Jobs[i].Running, c.Jobs[i].Started = &has, noon.Add(-5*time.Minute)
		}
	}
	return bridge.Report{Round: 7, Began: noon, Snapshot: c, Plan: policy.Decide(c, policy.Slurm(), a)}
}

// trial says whether the round's plan would still keep all promises if it gave a job, changed as a test likes, some
// size on these nodes. whole is the report with all profiles.
func trial(whole, report bridge.Report, id int, change func(*policy.Job), nodes ...string) bool {
	c := whole.Snapshot
	c.Jobs = slices.Clone(c.Jobs)
	at := slices.IndexFunc(c.Jobs, func(j policy.Job) bool { return j.ID == id })
	c.Jobs[at] = report.Snapshot.Jobs[at]
	j := &c.Jobs[at]
	j.Barred = ""
	change(j)
	if j.GPUs%len(nodes) != 0 {
		return false
	}
	plan := policy.Plan{Decisions: slices.Clone(report.Plan.Decisions)}
	at = slices.IndexFunc(plan.Decisions, func(d policy.Decision) bool { return d.Job == id })
	for _, size := range someSizes(whole, j, nodes) {
		plan.Decisions[at] = policy.Decision{Job: id, Grant: &policy.Placement{Nodes: nodes, PerNode: size}}
		if policy.Check(c, plan) == nil {
			return true
		}
	}
	return false
}

// someSizes are the share, what is free, and the floor of a job; under a quota also any number of cores.
func someSizes(report bridge.Report, j *policy.Job, nodes []string) (all []gres.Vector) {
	gpus, tasks := j.GPUs/len(nodes), max(1, j.Tasks)
	free := gres.Vector{CPUs: 1 << 20, Memory: 1 << 40}
	fair := gres.Vector{}
	for _, n := range report.Snapshot.Nodes {
		if slices.Contains(nodes, n.Name) {
			has := freeOn(report, n.Name)
			free = gres.Vector{CPUs: min(free.CPUs, has.CPUs), Memory: min(free.Memory, has.Memory)}
			fair = fair.Max(gres.Proportional(n.Total, gpus))
		}
	}
	cores := []int{free.CPUs / tasks * tasks, (fair.CPUs + tasks - 1) / tasks * tasks, j.Floor.CPUs}
	if j.Ceiling.CPUs > 0 {
		cores = append(cores, j.Ceiling.CPUs/tasks*tasks)
	}
	if len(j.Quotas) > 0 {
		for n := range 24 {
			cores = append(cores, n+1)
		}
	}
	for _, n := range cores {
		for _, memory := range []gres.Memory{free.Memory, fair.Memory, max(fair.Memory, j.Floor.Memory)} {
			if n > 0 && memory >= 0 {
				all = append(all, gres.Vector{GPUs: gpus, CPUs: n, Memory: memory})
			}
		}
	}
	return all
}

// freeOn is what a node has left under the plan.
func freeOn(report bridge.Report, name string) (free gres.Vector) {
	for _, n := range report.Snapshot.Nodes {
		if n.Name == name {
			free = n.Total.Minus(n.Foreign)
		}
	}
	for _, d := range report.Plan.Decisions {
		if d.Grant != nil && slices.Contains(d.Grant.Nodes, name) {
			free = free.Minus(d.Grant.PerNode)
		}
	}
	return free
}

// profiled jobs get sizes of a list, and others may do as well; of a report without profiles why-not says so.
func profiled(job *policy.Job) bool { return job.ProfileName != "" }

var (
	fewerGPUs = regexp.MustCompile(`^there would be room now with (\d+) GPUs? on one node in place of \d+: (n\d)$`)
	spreadTo  = regexp.MustCompile(`^there would be room now for its \d+ GPUs? as (\d+) nodes? ` +
		`with \d+ each: (n[\dn, ]*)$`)
	fewNodes = regexp.MustCompile(`^there would be room now with (\d+) GPUs on (\d+) nodes ` +
		`in place of \d+: (n[\dn, ]*)$`)
	noneHas = regexp.MustCompile(`no node has (\d+) free GPUs?`)
)

// TestWhyNotSaysNothingOfANodeThatIsNotSo over random rounds: where it says that something is missing, no size of the
// job's passes the check of plans there; where it says that there is room, one does; and each change that it names
// makes room.
func TestWhyNotSaysNothingOfANodeThatIsNotSo(t *testing.T) {
	known := models(t)
	met := map[Lack]int{}
	helped := 0
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom([]policy.Allocator{policy.Tune(), policy.Proportional()}).Draw(t, "allocator")
		report := roundOf(t, site(t, known), a)
		whole := report
		if rapid.Bool().Draw(t, "without profiles") { // as reports are read from JSON
			report.Snapshot.Jobs = slices.Clone(report.Snapshot.Jobs)
			for i := range report.Snapshot.Jobs {
				report.Snapshot.Jobs[i].Profile = nil
			}
		}
		before := fmt.Sprintf("%+v", report)
		for _, d := range report.Plan.Decisions {
			job := findFirst(report.Snapshot.Jobs, func(j policy.Job) bool { return j.ID == d.Job })
			answer := AskWhyNot(d.Job, &report)
			if answer.Says == "" {
				t.Fatalf("job %d: no sentence: %+v", d.Job, answer)
			}
			if d.Grant != nil || job.Running != nil {
				continue
			}
			for _, k := range answer.Kinds {
				wide := k.Needs.GPUs != job.GPUs // it needs several nodes
				for _, name := range k.Nodes {
					met[k.Lacks]++
					free := freeOn(report, name)
					fits := !wide && trial(whole, report, d.Job, func(*policy.Job) {}, name)
					switch {
					case k.Lacks == LacksGPUs && free.GPUs >= k.Needs.GPUs:
						t.Fatalf("job %d: %s on %s, which has %v free", d.Job, k.Says, name, free)
					case k.Lacks != LacksNothing && fits && !(profiled(job) &&
						(k.Lacks == LacksCores || k.Lacks == LacksMemory)):
						t.Fatalf("job %d (%+v): %s lacks %s: %s; and a plan with it there is good", d.Job, *job, name,
							k.Lacks, k.Says)
					case k.Lacks == LacksNothing && !wide && !fits:
						t.Fatalf("job %d (%+v): %s has room: %s; and no plan with it there is good", d.Job, *job, name,
							k.Says)
					}
				}
			}
			for _, text := range answer.Helps {
				if m := fewerGPUs.FindStringSubmatch(text); m != nil {
					gpus, _ := strconv.Atoi(m[1])
					if !trial(whole, report, d.Job, func(j *policy.Job) { j.GPUs, j.Nodes = gpus, 1 }, m[2]) {
						t.Fatalf("job %d (%+v): %q, and no such plan is good", d.Job, *job, text)
					}
					helped++
				}
				if m := fewNodes.FindStringSubmatch(text); m != nil {
					gpus, _ := strconv.Atoi(m[1])
					nodes, _ := strconv.Atoi(m[2])
					if !trial(whole, report, d.Job, func(j *policy.Job) { j.GPUs, j.Nodes = gpus, nodes },
						strings.Split(m[3], ", ")...) {
						t.Fatalf("job %d (%+v): %q, and no such plan is good", d.Job, *job, text)
					}
					helped++
				}
				if m := spreadTo.FindStringSubmatch(text); m != nil {
					nodes, _ := strconv.Atoi(m[1])
					if !trial(whole, report, d.Job, func(j *policy.Job) { j.Nodes = nodes },
						strings.Split(m[2], ", ")...) {
						t.Fatalf("job %d (%+v): %q, and no such plan is good", d.Job, *job, text)
					}
					helped++
				}
			}
			if m := noneHas.FindStringSubmatch(answer.Says); m != nil {
				most, _ := strconv.Atoi(m[1])
				for i := range report.Snapshot.Nodes {
					n := &report.Snapshot.Nodes[i]
					if n.Closed == "" && suits(job, n) && freeOn(report, n.Name).GPUs >= most && len(n.Reserved) == 0 {
						t.Fatalf("job %d: %q, and %s has %v free", d.Job, answer.Says, n.Name, freeOn(report, n.Name))
					}
				}
			}
		}
		if fmt.Sprintf("%+v", report) != before {
			t.Fatal("the report was changed")
		}
	})
	for _, lack := range []Lack{LacksPlace, LacksLeave, LacksType, LacksSize, LacksOpen, LacksTime, LacksGPUs,
		LacksCores, LacksNothing} {
		if met[lack] == 0 {
			t.Errorf("no round has a node that lacks %q: what is said of it is not tested", lack)
		}
	}
	if helped == 0 {
		t.Error("no round has a job that a change helps")
	}
}
