package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/snapshot"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// shared is a round in which jobs 1 and 2 share a GPU, 3 has one that nobody shares, 4 a whole one, 5 waits and 6 has
// not opted in. The profile of job 1 is beside the snapshot, as in a report that was sent; with four cores, its share,
// it keeps its GPU busy for a tenth of the time.
func shared() *bridge.Report {
	at := func(device string) *policy.Placement {
		size := gres.Vector{GPUs: 1, CPUs: 2, Memory: 100}
		return &policy.Placement{Nodes: []string{"n1"}, PerNode: size, Device: device}
	}
	wants := func(class share.Class, memory gres.Memory) *share.Request {
		return &share.Request{Class: class, Memory: memory}
	}
	r := &bridge.Report{Round: 7}
	r.Snapshot.Nodes = []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 4, CPUs: 16, Memory: 1000},
		Devices: []policy.Device{{Name: "g0", Memory: 80000, Slots: 4}}}}
	r.Snapshot.Jobs = []policy.Job{
		{ID: 1, GPUs: 1, Share: wants(share.High, 0)}, {ID: 2, GPUs: 1, Share: wants(share.Low, 5)},
		{ID: 3, GPUs: 1, Share: wants(share.High, 0)}, {ID: 4, GPUs: 1, Share: wants(share.Low, 5)},
		{ID: 5, GPUs: 1, Share: wants(share.Low, 0)}, {ID: 6, GPUs: 1},
	}
	r.Profiles = snapshot.Profiles{{Jobs: []int{1}, Profile: &sensitivity.Profile{GPUBusy: .1, GPUMemory: 3000,
		CoresPerGPU: []float64{4, 8}, MemoryPerGPU: []gres.Memory{100}, Throughput: [][]float64{{10}, {20}}}}}
	r.Plan.Decisions = []policy.Decision{{Job: 1, Grant: at("g0")}, {Job: 2, Grant: at("g0")},
		{Job: 3, Grant: at("g1")}, {Job: 4, Grant: at("")}, {Job: 5, Reason: policy.Turn,
			Why: "others go first"}, {Job: 6, Grant: at("")}}
	return r
}

func TestWhyAJobSharesAGPUOrNot(t *testing.T) {
	for job, c := range map[int]struct {
		with []int
		says []string
	}{
		1: {[]int{1, 2}, []string{"it shares GPU g0 of n1 by turns with look-ahead; by prediction",
			"job 1, this one, high: 0.93",
			"job 2, low: 0.73"}},
		2: {[]int{1, 2}, []string{"job 1, high: 0.93", "job 2, this one, low: 0.73"}},
		3: {[]int{3}, []string{"it is alone on GPU g1 of n1; others may be put beside it",
			"how much of the GPU's memory it needs is not known",
			"it would, by turns with look-ahead, keep 0.82 of its speed, and 0.90 is promised"}},
		4: {nil, []string{"it has a whole GPU of n1 to itself"}},
		5: {nil, []string{"others go first", "how much of the GPU's memory it needs is not known"}},
		6: {nil, []string{"its comment has no synergy-share"}},
	} {
		report := shared()
		why := story.AskWhyNot(job, report)
		got := sharingOf(report, &why)
		var with []int
		for _, one := range got.With {
			with = append(with, one.Job)
		}
		text := strings.Join(got.Says, "\n")
		if !slices.Equal(with, c.with) {
			t.Errorf("job %d is with %v, want %v", job, with, c.with)
		}
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("job %d:\n%s\nwant %q", job, text, part)
			}
		}
	}
	none := shared()
	none.Snapshot.Nodes[0].Devices = nil
	why := story.AskWhyNot(5, none)
	text := strings.Join(sharingOf(none, &why).Says, " ")
	if !strings.Contains(text, "no node has GPUs that jobs can be sent to") {
		t.Error(text)
	}
}

func TestWhyNamesTheModeByWhichSpeedsWereReckoned(t *testing.T) {
	for _, c := range []struct {
		user string // of the second job
		mode predict.Mode
		says string
	}{
		{"ann", predict.Fill, "it shares GPU g0 of n1 by MPS; by prediction, of their speeds alone:\njob 1, this " +
			"one, high: 0.98\njob 2, low: 0.65"},
		{"bob", predict.LookAhead, "by turns with look-ahead; by prediction, of their speeds alone:\njob 1, this " +
			"one, high: 0.93\njob 2, low: 0.73"},
	} {
		report := shared()
		report.Snapshot.Nodes[0].Devices[0].Mode = share.Fill
		report.Snapshot.Jobs[0].User, report.Snapshot.Jobs[1].User = "ann", c.user
		why := story.AskWhyNot(1, report)
		got := sharingOf(report, &why)
		if text := strings.Join(got.Says, "\n"); got.Mode != c.mode || !strings.Contains(text, c.says) {
			t.Errorf("beside a job of %s:\n%s\nreckoned for %s, want %s", c.user, text, got.Mode, c.says)
		}
	}
}

// TestAJobWithMoreThanItsShareIsTakenToBeAsBusyAsThePlannerTakesIt: with twice its cores it trains twice as fast.
func TestAJobWithMoreThanItsShareIsTakenToBeAsBusyAsThePlannerTakesIt(t *testing.T) {
	report := shared()
	report.Plan.Decisions[0].Grant.PerNode.CPUs = 8
	why := story.AskWhyNot(1, report)
	if got := sharingOf(report, &why).With[0].Speed; math.Abs(got-1/1.14) > 1e-9 {
		t.Errorf("busy for a fifth of the time it is expected to run at %.4f, want %.4f", got, 1/1.14)
	}
}

func TestWhereANodeFillsItsGPUsAnUnimportantJobIsToldThatItHasPartOfOneAlone(t *testing.T) {
	const half = "by MPS, which gives class low part of the GPU's threads also while nobody else is there, it runs " +
		"at 0.68 of its speed by prediction"
	for class, want := range map[share.Class]string{share.Low: half, share.High: ""} {
		report := shared()
		report.Snapshot.Nodes[0].Devices[0] = policy.Device{Name: "g1", Memory: 80000, Slots: 4, Mode: share.Fill}
		j := &report.Snapshot.Jobs[2]
		j.User, j.Share.Class, j.Share.Memory = "ann", class, 5
		why := story.AskWhyNot(3, report)
		got := sharingOf(report, &why)
		text := strings.Join(got.Says, "\n")
		if !strings.Contains(text, want) || want == "" && strings.Contains(text+string(got.Mode), "runs at") {
			t.Errorf("class %s, by %q:\n%s", class, got.Mode, text)
		}
	}
}

func TestAnImportantJobIsToldOfEachWayInWhichItWouldKeepTooLittle(t *testing.T) {
	report := shared()
	report.Snapshot.Nodes[0].Devices[0].Mode = share.Fill
	why := story.AskWhyNot(3, report)
	text := strings.Join(sharingOf(report, &why).Says, "\n")
	for _, want := range []string{
		"beside a job of another user that is always busy it would, by turns with look-ahead, keep 0.82",
		"beside a job of its own user that is always busy it would, by MPS, keep 0.80",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %q", text, want)
		}
	}
}

func TestWhoIsSlowedDownByWhomIsTold(t *testing.T) {
	kept := &policy.Kept{Part: 0.83, Beside: []int{2}}
	for job, want := range map[int]string{1: "job 1 was measured to keep 0.83 of its speed alone",
		2: "job 1 was measured to keep 0.83 of its speed alone", 3: "g1 of n1\nit was measured to keep 0.83"} {
		report := shared()
		report.Snapshot.Jobs[0].Kept, report.Snapshot.Jobs[2].Kept = kept, kept
		why := story.AskWhyNot(job, report)
		text := strings.Join(sharingOf(report, &why).Says, "\n")
		if !strings.Contains(text, want) || strings.Contains(text, "others may be put beside it") {
			t.Errorf("job %d:\n%s\nwant %q", job, text, want)
		}
	}
}
