package story

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// crowded is a round on two nodes: job 1 runs on all of n1 but two cores, job 2 on half of n2, and job 3 waits for
// eight GPUs.
func crowded() bridge.Report {
	first := policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 8, CPUs: 22, Memory: 500000}}
	second := policy.Placement{Nodes: []string{"n2"}, PerNode: gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}}
	runs := func(id int, user string, p *policy.Placement) policy.Job {
		return policy.Job{ID: id, Name: "job", User: user, GPUs: p.PerNode.GPUs, Tasks: 1, Running: p, Saves: true,
			Started: noon.Add(-time.Hour), ProfileName: "res18.json"}
	}
	return bridge.Report{Round: 7, Began: noon,
		Snapshot: policy.Cluster{Now: noon,
			Nodes: []policy.Node{{Name: "n1", Total: server}, {Name: "n2", Total: server}},
			Jobs: []policy.Job{runs(1, "alice", &first), runs(2, "bob", &second),
				{ID: 3, Name: "large", User: "carol", GPUs: 8, Tasks: 1, Arrival: noon.Add(-time.Hour)}}},
		Plan: policy.Plan{Decisions: []policy.Decision{
			{Job: 1, Grant: &first, Gain: 1.2, Fair: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}},
			{Job: 2, Grant: &second, Gain: 1.5, Fair: gres.Vector{GPUs: 4, CPUs: 12, Memory: 250000}},
			{Job: 3, Reason: policy.Turn, Why: "4 GPUs are free, it needs 8"}}},
		Waits: []bridge.Wait{{Job: 3, Reason: bridge.ForRoom, Cause: bridge.CauseTurn,
			Why: "4 GPUs are free, it needs 8", Place: 2, Partition: "gpu"}},
	}
}

// TestARunningJobIsToldTheFirstReasonWhyItHasNoMoreCores each by what is changed of a round.
func TestARunningJobIsToldTheFirstReasonWhyItHasNoMoreCores(t *testing.T) {
	for _, c := range []struct {
		says   string
		change func(r *bridge.Report, j *policy.Job)
	}{
		{"by its profile they are of no use to it, or of less than a restart costs",
			func(*bridge.Report, *policy.Job) {}},
		{"it has no profile", func(_ *bridge.Report, j *policy.Job) { j.ProfileName = "" }},
		{"it ran far below what its profile claims", func(_ *bridge.Report, j *policy.Job) { j.Owed = true }},
		{"the site allows it no more than 12 cores on a node",
			func(_ *bridge.Report, j *policy.Job) { j.Ceiling.CPUs = 12 }},
		{"no core is idle on n2", func(r *bridge.Report, _ *policy.Job) { r.Snapshot.Nodes[1].Foreign.CPUs = 12 }},
		{"3 cores idle on n2, and its 4 tasks there get equal parts", func(r *bridge.Report, j *policy.Job) {
			j.Tasks, r.Snapshot.Nodes[1].Foreign.CPUs = 4, 9
		}},
		{"GrpTRES of ml leaves 0 cores", func(r *bridge.Report, j *policy.Job) {
			j.Quotas = []int{0}
			r.Snapshot.Quotas = []policy.Quota{{Name: "GrpTRES of ml", Jobs: policy.Unbounded, Nodes: policy.Unbounded,
				GPUs: policy.Unbounded, CPUs: 12, Memory: policy.Unbounded}}
		}},
		{"12 cores idle beside it; another size takes a restart, and it has declared no checkpoint",
			func(_ *bridge.Report, j *policy.Job) { j.Saves, j.Fixed = false, true }},
		{"it was started 1h0m0s ago: for 2h0m0s it is left alone",
			func(r *bridge.Report, _ *policy.Job) { r.Snapshot.Rules.MinRun = 2 * time.Hour }},
		{"it has had 5, as many as the rules allow", func(r *bridge.Report, j *policy.Job) {
			j.Restarts, r.Snapshot.Rules.MaxRestarts = 5, 5
		}},
		{"with them it would train", func(r *bridge.Report, j *policy.Job) { j.Profile = models(t)[0] }},
		{"it is restarted with 4 GPUs, 12 cores", func(_ *bridge.Report, j *policy.Job) {
			j.Running = &policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 4, CPUs: 1}}
		}},
	} {
		report := crowded()
		c.change(&report, &report.Snapshot.Jobs[1])
		if got := AskWhyNot(2, &report); got.State != StateRuns || !strings.Contains(got.Says, c.says) {
			t.Errorf("%s: %s, want %q", got.State, got.Says, c.says)
		}
	}
}

func TestAJobThatWaitsIsToldWhatIsMissingWhoHasItAndWhatHelps(t *testing.T) {
	report := crowded()
	got := AskWhyNot(3, &report)
	if got.State != StateWaits || got.Says != "it waits: 4 GPUs are free, it needs 8" || got.Ahead != 0 {
		t.Errorf("%+v", got)
	}
	k := got.Kinds[0]
	if len(got.Kinds) != 1 || k.Lacks != LacksGPUs || k.Nearest != "n2" || k.Free.GPUs != 4 ||
		k.Says != "4 GPUs free where it needs 8, at best on n2" || k.Holders[0].User != "bob" ||
		!k.Holders[0].GivesBack {
		t.Errorf("%+v", got.Kinds)
	}
	want := []string{"there would be room now with 4 GPUs on one node in place of 8: n2"}
	if !slices.Equal(got.Helps, want) {
		t.Errorf("%q, want %q", got.Helps, want)
	}
}

// TestWhatHelpsIsNamed where it does: each change of the request that a site's users can make.
func TestWhatHelpsIsNamed(t *testing.T) {
	soon := policy.Reservation{Name: "maint", From: noon.Add(90 * time.Minute)}
	for _, c := range []struct {
		helps  string
		change func(r *bridge.Report, j *policy.Job)
	}{
		{"for its 4 GPUs as 1 node with 4 each: n2", func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.Nodes = 4, 2 }},
		{"if it did not ask for GPUs of type h100: n2",
			func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.GPUType = 4, "h100" }},
		{"without its constraint on features: n2",
			func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.Features = 4, []string{"ib"} }},
		{"if it excluded no nodes: n2",
			func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.Except = 4, []string{"n2"} }},
		{"on a node that it does not name, or of another partition: n2",
			func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.Only = 4, []string{"n1"} }},
		{"if it asked for no more than 12 cores and 250G on a node: n2",
			func(_ *bridge.Report, j *policy.Job) { j.GPUs, j.Floor.CPUs = 4, 20 }},
		{"with a time limit of at most 1h30m0s, before reservation maint begins: n2",
			func(r *bridge.Report, j *policy.Job) {
				j.GPUs, j.TimeLimit, r.Snapshot.Nodes[1].Reserved = 4, 2*time.Hour, []policy.Reservation{soon}
			}},
	} {
		report := crowded()
		c.change(&report, &report.Snapshot.Jobs[2])
		if got := AskWhyNot(3, &report); !slices.Contains(got.Helps, "there would be room now "+c.helps) {
			t.Errorf("%q, want %q", got.Helps, c.helps)
		}
	}
}

func TestALimitThatLeavesTooLittleIsNamedWithWhoHoldsTheRest(t *testing.T) {
	report := crowded()
	report.Snapshot.Quotas = []policy.Quota{{Name: "GrpTRES of ml", Jobs: policy.Unbounded, Nodes: policy.Unbounded,
		GPUs: 10, CPUs: policy.Unbounded, Memory: policy.Unbounded}}
	report.Snapshot.Jobs[1].Quotas, report.Snapshot.Jobs[2].Quotas = []int{0}, []int{0}
	got := AskWhyNot(3, &report)
	if len(got.Quotas) != 1 || got.Quotas[0].Says != "leaves 6 GPUs where it needs 8" ||
		!slices.Equal(got.Quotas[0].Holds, []int{2}) {
		t.Errorf("%+v", got.Quotas)
	}
}

func TestAJobThatIsNotManagedIsToldWhy(t *testing.T) {
	report := crowded()
	report.Outside = []bridge.Outside{{Job: 8, Why: "exclusive"}, {Job: 9, Why: "held"}}
	report.Waits = append(report.Waits, bridge.Wait{Job: 9, Reason: bridge.OnHold, Cause: bridge.CauseHeld,
		User: "erin"})
	if got := AskWhyNot(8, &report); got.State != StateOutside || !strings.Contains(got.Says, "exclusive") {
		t.Errorf("%+v", got)
	}
	if got := AskWhyNot(9, &report); got.State != StateWaits || got.User != "erin" || got.Helps[0] !=
		"whoever holds it can release it: scontrol release 9" {
		t.Errorf("%+v", got)
	}
	if got := AskWhyNot(10, &report); got.State != StateUnknown {
		t.Errorf("%+v", got)
	}
}

// TestTheQueueHasWhoStartsFirstThenThePoliciesOrder whatever the order of the report.
func TestTheQueueHasWhoStartsFirstThenThePoliciesOrder(t *testing.T) {
	report := crowded()
	report.Waits[0].Starts = &forecast.Spread{P50: noon}
	held := bridge.Wait{Job: 9, Reason: bridge.OnHold, Cause: bridge.CauseHeld, User: "erin", GPUs: 1}
	dependent := bridge.Wait{Job: 8, Reason: bridge.ByItself, Cause: bridge.CauseDependency}
	report.Waits = append(report.Waits, dependent, held, bridge.Wait{Job: 7, Place: 1, Reason: bridge.ForRoom})
	report.Snapshot.Jobs[1].Running = nil
	report.Steps = []bridge.Step{{Job: 2, Verb: bridge.Start, Error: "slurmrestd: 503"}, {Job: 3, Verb: bridge.Arm}}
	var order, places []int
	all := Queue(&report)
	for _, w := range all {
		order, places = append(order, w.Job), append(places, w.Place)
	}
	if !slices.Equal(order, []int{2, 7, 3, 9, 8}) || !slices.Equal(places, []int{0, 1, 2, 0, 0}) {
		t.Errorf("%v at %v", order, places)
	}
	if all[0].Reason != Starting || !strings.Contains(all[0].Why, "slurmrestd: 503") || !all[2].Armed ||
		all[2].Starts == nil ||
		all[2].User != "carol" || all[2].Partition != "gpu" || all[3].User != "erin" {
		t.Errorf("%+v", all)
	}
	if top := TopOf(&report); len(top.Jobs) != 1 || top.GPUs.Idle != 4 {
		t.Errorf("a job whose start failed runs: %+v", top)
	}
	report.Steps[0].Error = ""
	if top := TopOf(&report); len(top.Jobs) != 2 || len(Queue(&report)) != 4 {
		t.Errorf("a job that was started is not told: %+v", top)
	}
	if got := ReasonsOf(all)[0]; got != (Reasons{bridge.ForRoom, 2}) {
		t.Errorf("%+v", got)
	}
}

func TestWhoGainsMostIsFirstAndNodesAddUp(t *testing.T) {
	report := crowded()
	report.Snapshot.Nodes[1].Foreign = gres.Vector{GPUs: 1, CPUs: 2}
	report.Plan.Decisions[1].Fair.CPUs = 9
	top := TopOf(&report)
	if top.Jobs[0].Job != 2 || top.GPUs != (Amount{Total: 16, Share: 12, Foreign: 1, Idle: 3}) ||
		top.Cores != (Amount{Total: 48, Share: 31, Lent: 3, Foreign: 2, Idle: 12}) {
		t.Errorf("%+v", top)
	}
	if want := (8*1.2 + 4*1.5) / 12; top.Gain < want-1e-9 || top.Gain > want+1e-9 {
		t.Errorf("gain %g, want %g", top.Gain, want)
	}
}

func TestAStandingCountsWhatFailed(t *testing.T) {
	report := crowded()
	report.Steps = []bridge.Step{{Job: 2, Verb: bridge.Preempt, Error: "signal: 500"}}
	report.LimitsGap = "sacctmgr: 503"
	got := StandingOf(&report)
	if got.Runs != 2 || got.Waits != 1 || !slices.Equal(got.Failed, []string{"preempt job 2: signal: 500"}) ||
		!slices.Equal(got.Gaps, []string{"sacctmgr: 503"}) {
		t.Errorf("%+v", got)
	}
}

// FuzzAReportIsAskedAnything checks that no report, wherever it comes from, breaks an answer.
func FuzzAReportIsAskedAnything(f *testing.F) {
	text, err := json.Marshal(crowded())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"snapshot":{"nodes":[{"name":"n","total":{"gpus":9000000000000000000,"cpus":1}}],"jobs":[{"id":1,` +
		`"gpus":9000000000000000000,"tasks_per_node":-3,"quotas":[-1,7]}]},"plan":{"decisions":[{"job":1},` +
		`{"job":1,"grant":{"nodes":[],"per_node":{}}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var report bridge.Report
		if json.Unmarshal(text, &report) != nil {
			return
		}
		Queue(&report)
		TopOf(&report)
		StandingOf(&report)
		for id := range 4 {
			AskWhyNot(id, &report)
		}
	})
}
