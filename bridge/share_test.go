package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmtest"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/learned"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// shareAll is a planner that sends all who may share to one GPU of the first node, and gives the others a GPU of
// their own there. Who runs goes on, but those that are to leave.
type shareAll struct {
	device string
	leave  map[int]bool
	seen   policy.Cluster
}

func (s *shareAll) Plan(_ context.Context, _ int, c policy.Cluster, _ policy.Policy, _ policy.Allocator) (policy.Plan,
	error) {
	s.seen = c
	var plan policy.Plan
	for i := range c.Jobs {
		plan.Decisions = append(plan.Decisions, s.decide(&c, &c.Jobs[i]))
	}
	return plan, nil
}

func (s *shareAll) decide(c *policy.Cluster, j *policy.Job) policy.Decision {
	place := policy.Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: gres.Vector{GPUs: 1, CPUs: 6, Memory: 125000}}
	if j.Share != nil {
		place.Device = s.device
	}
	switch {
	case j.Barred != "":
		return policy.Decision{Job: j.ID, Reason: policy.Barred, Why: j.Barred}
	case s.leave[j.ID] && j.Running != nil:
		return policy.Decision{Job: j.ID, Reason: policy.GivesWay, Why: "is told to"}
	case s.leave[j.ID]:
		return policy.Decision{Job: j.ID, Reason: policy.Turn, Why: "is told to"}
	case j.Running != nil:
		return policy.Decision{Job: j.ID, Grant: j.Running, Gain: 1}
	}
	return policy.Decision{Job: j.ID, Grant: &place, Gain: 1, Reason: policy.Starts}
}

// newShared is a cluster of a node with four GPUs of 80 GiB and four shards each, and a daemon that shares them.
func newShared(t *testing.T) (*world, *shareAll) {
	t.Helper()
	total := gres.Vector{GPUs: 4, CPUs: 24, Memory: 500000}
	w := newSite(t, slurmtest.Divided(slurmtest.Rack(1, total, "gpu", "other"), 4))
	plans := &shareAll{device: "g1", leave: map[int]bool{}}
	w.runner.Settings.Planner = plans
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	return w, plans
}

// planned holds rounds whose plans are the test's own.
func (w *world) planned(n int) (last bridge.Report) {
	w.t.Helper()
	for range n {
		if last = w.rounds(1); last.Fallback != "" {
			w.t.Errorf("the plan of round %d is refused: %s", last.Round, last.Fallback)
		}
	}
	return last
}

const sharing = "synergy-profile=light.json synergy-checkpoint=USR1@30 synergy-share=%s,mem=8"

func (w *world) sharer(class string, change ...func(*slurmtest.Spec)) int {
	w.t.Helper()
	return w.submit(1, fmt.Sprintf(sharing, class), change...)
}

// mustSit holds a job to a seat on a GPU, and to an annotation that tells its node of it.
func (w *world) mustSit(id int, device string, class share.Class) {
	w.t.Helper()
	j := w.job(id)
	if j.State != slurm.Running || j.Runs.Shard != device {
		w.t.Errorf("job %d is %s with %+v, want it on %s", id, j.State, j.Runs, device)
	}
	var told struct {
		Share struct {
			Class  share.Class `json:"class"`
			Memory int         `json:"gpu_memory_mib"`
			Device string      `json:"device"`
		} `json:"share"`
	}
	err := json.Unmarshal([]byte(j.Extra), &told)
	if got := told.Share; err != nil || got.Class != class || got.Memory != 8192 || got.Device != device {
		w.t.Errorf("job %d: %v: its node is told %+v by %s", id, err, got, j.Extra)
	}
	if start := fmt.Sprintf(`{"v":1,"lua":0,"job":%d,"round":`, id); !strings.HasPrefix(j.Extra, start) {
		w.t.Errorf("annotation %s: want it to begin with %s", j.Extra, start)
	}
}

func TestTwoJobsThatMayShareSitOnOneGPU(t *testing.T) {
	w, plans := newShared(t)
	first, second, alone := w.sharer("high"), w.sharer("low"), w.submit(1, model("res18"))
	w.planned(1)
	w.mustSit(first, "g1", share.High)
	w.mustSit(second, "g1", share.Low)
	if j := w.job(alone); j.State != slurm.Running || j.Runs.Shard != "" || strings.Contains(j.Extra, "share") {
		t.Errorf("the one that did not say that it may share holds %+v, annotation %s", j.Runs, j.Extra)
	}
	if report := w.planned(1); report.Fallback != "" || len(report.Steps) != 0 {
		t.Errorf("the next round falls back for %q and takes steps %+v", report.Fallback, report.Steps)
	}
	node := plans.seen.Nodes[0]
	if node.Foreign != (gres.Vector{}) {
		t.Errorf("others are said to hold %s", node.Foreign)
	}
	want := []policy.Device{{Name: "g0", Memory: 81920, Slots: 4, Job: alone}, {Name: "g1", Memory: 81920, Slots: 4},
		{Name: "g2", Memory: 81920, Slots: 4}, {Name: "g3", Memory: 81920, Slots: 4}}
	if !slices.Equal(node.Devices, want) {
		t.Errorf("devices %+v, want %+v", node.Devices, want)
	}
	for _, j := range plans.seen.Jobs {
		if want := map[int]string{first: "g1", second: "g1"}[j.ID]; j.Running.Device != want {
			t.Errorf("job %d runs on device %q, want %q", j.ID, j.Running.Device, want)
		}
	}
}

func TestWhoSitsKeepsTheMemoryThatItWasGrantedWhateverItsCommentSaysLater(t *testing.T) {
	w, plans := newShared(t)
	id := w.sharer("low")
	w.planned(1)
	for _, says := range []string{"synergy-share=low,mem=1", "synergy-share=high,mem=70"} {
		w.slurm.SetComment(id, "synergy-profile=light.json "+says)
		w.planned(1)
		if got := plans.seen.Jobs[0].Share; got == nil || got.Memory != 8<<10 || got.Class != share.Low {
			t.Errorf("its comment says %s: the planner is told %+v", says, got)
		}
	}
}

func TestHowFastAJobIsBesideOthersTeachesNothing(t *testing.T) {
	for name, says := range map[string]string{"alone": "", "beside": " synergy-share=low,mem=8"} {
		w, _ := newShared(t)
		s := w.learning(t.TempDir())
		id := w.submit(1, auto+says, named(name))
		w.planned(1)
		w.say(id, fmt.Sprintf("synergy-curve=1:0.58/2:1.13@%d", w.clock.Now().Unix()))
		w.planned(2)
		if e := s.Of(learned.Key{User: "alice", Job: name}); (e != nil) != (says == "") {
			t.Errorf("%s: learned %+v", name, e)
		}
	}
}

func TestAGPUThatAnotherUsesIsForeign(t *testing.T) {
	for name, asks := range map[string]slurm.Request{
		"whole":        {GPUs: 1},
		"a shard":      {Shard: "g2"},
		"whole, typed": {GRES: "gres/gpu:g2:1"},
	} {
		t.Run(name, func(t *testing.T) {
			w, plans := newShared(t)
			if _, err := w.slurm.Submit(slurmtest.Spec{Partition: "other", Request: asks}); err != nil {
				t.Fatal(err)
			}
			w.sleep(time.Second)
			w.sharer("low")
			w.sharer("low")
			w.planned(2) // when both have a seat, the GPU of others is still one
			var foreign []string
			for _, d := range plans.seen.Nodes[0].Devices {
				if d.Foreign {
					foreign = append(foreign, d.Name)
				}
			}
			want := []string{"g2"}
			if name == "whole" {
				want = []string{"g0"}
			}
			if !slices.Equal(foreign, want) || plans.seen.Nodes[0].Foreign.GPUs != 1 {
				t.Errorf("others use %v and %s, want %v", foreign, plans.seen.Nodes[0].Foreign, want)
			}
		})
	}
}

// Whose comment no longer has our word, or whose partition was dropped, keeps its shard.
func TestAGPUIsNotGivenAwayWhenOursLeavesItAndOneThatIsOursNoMoreStays(t *testing.T) {
	for name, lose := range map[string]func(w *world, id int){
		"comment edited": func(w *world, id int) { w.slurm.SetComment(id, "") },
		"canary": func(w *world, id int) {
			w.runner.Settings.Canary = bridge.Canary{Accounts: []string{"kept"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, plans := newShared(t)
			kept := func(s *slurmtest.Spec) { s.Account = "kept" }
			lost, ours := w.sharer("low"), w.sharer("high", kept)
			w.planned(1)
			lose(w, lost)
			w.planned(1)
			if len(plans.seen.Jobs) != 1 || plans.seen.Jobs[0].ID != ours {
				t.Fatalf("the snapshot has %+v, want job %d alone", plans.seen.Jobs, ours)
			}
			node := plans.seen.Nodes[0]
			if node.Foreign.GPUs != 1 || !node.Devices[1].Foreign {
				t.Errorf("others hold %s and of %+v, want one GPU that stays when ours leaves",
					node.Foreign, node.Devices)
			}
		})
	}
}

func TestNobodySharesWhereTheSiteDoesNotSayHowMuchMemoryGPUsHave(t *testing.T) {
	w, plans := newShared(t)
	w.runner.Settings.Sharing = bridge.Sharing{ByFeature: map[string]gres.Memory{"other": 1}}
	id := w.sharer("high")
	w.rounds(1)
	if devices := plans.seen.Nodes[0].Devices; devices != nil {
		t.Errorf("devices %+v", devices)
	}
	w.runner.Settings.Sharing = bridge.Sharing{}
	w.slurm.Cancel(id)
	id = w.sharer("high")
	report := w.rounds(1)
	if plans.seen.Jobs[len(plans.seen.Jobs)-1].Share != nil ||
		!strings.Contains(fmt.Sprint(report.Notes), "does not say how much memory its GPUs have") {
		t.Errorf("job %d may share: %+v, notes %+v", id, plans.seen.Jobs, report.Notes)
	}
}

// TestNobodyIsPutOnAGPUOfANodeWithoutABroker beside another: there the two would slice time. Who sits there when the
// broker goes stays, and the next comes when it is back.
func TestNobodyIsPutOnAGPUOfANodeWithoutABroker(t *testing.T) {
	w := newSite(t, slurmtest.Divided(slurmtest.Rack(1, gres.Vector{GPUs: 1, CPUs: 12, Memory: 250000}, "gpu"), 4))
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	has := func(features ...string) { slurmtest.SetFeatures(w.slurm, "n1", features...) }
	has()
	first := w.sharer("low")
	report := w.rounds(1)
	if j := w.job(first); j.State != slurm.Running || j.Runs.Shard != "" ||
		!strings.Contains(fmt.Sprint(report.Notes), "no node says that it has a broker") {
		t.Errorf("without one it is %s with %+v, notes %+v", j.State, j.Runs, report.Notes)
	}
	w.slurm.Cancel(first)
	w.rounds(1)
	has(bridge.Served)
	sits := w.sharer("low")
	w.rounds(1)
	device := w.job(sits).Runs.Shard
	has("fast")
	waits := w.sharer("low")
	w.rounds(2)
	if j := w.job(sits); j.Runs.Shard != device || device == "" || j.State != slurm.Running || j.Restarts > 0 {
		t.Errorf("who sits is %s with %+v after %d restarts", j.State, j.Runs, j.Restarts)
	}
	if j := w.job(waits); j.State != slurm.Pending {
		t.Errorf("another is %s with %+v", j.State, j.Runs)
	}
	has("fast", bridge.Served)
	w.rounds(1)
	w.mustSit(waits, device, share.Low)
}

// TestAJobIsNotToldThatADeviceWithoutABrokerIsFull: it is none for the job, of which it need not be told.
func TestAJobIsNotToldThatADeviceWithoutABrokerIsFull(t *testing.T) {
	w := newSite(t, slurmtest.Divided(slurmtest.Rack(2, gres.Vector{GPUs: 1, CPUs: 12, Memory: 250000}, "gpu"), 4))
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	sits := w.sharer("low")
	w.rounds(1)
	w.submit(1, "synergy-profile=light.json")
	w.rounds(1)
	slurmtest.SetFeatures(w.slurm, w.job(sits).Runs.Nodes[0])
	waits := w.sharer("low")
	w.rounds(1)
	if j := w.job(waits); j.State != slurm.Pending || !strings.Contains(j.Extra, "no GPU is free") ||
		strings.Contains(j.Extra, "as many as may be") {
		t.Errorf("it is %s and told %s", j.State, j.Extra)
	}
}

func TestTheLeastMemoryOfANodesFeaturesCounts(t *testing.T) {
	nodes := slurmtest.Divided(slurmtest.Rack(2, gres.Vector{GPUs: 1, CPUs: 8, Memory: 1000}, "gpu"), 4)
	nodes[0].Features = []string{"a", "b", "c"}
	w := newSite(t, nodes)
	plans := &shareAll{}
	w.runner.Settings.Planner = plans
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 9, ByFeature: map[string]gres.Memory{"b": 7, "a": 8}}
	w.sharer("low")
	w.rounds(1)
	for i, want := range []gres.Memory{7, 9} {
		if got := plans.seen.Nodes[i].Devices[0].Memory; got != want {
			t.Errorf("node %d has %d, want %d", i, got, want)
		}
	}
}

func TestWhereFeaturesOfANodeSayBothItsGPUsAreSharedByTurns(t *testing.T) {
	nodes := slurmtest.Divided(slurmtest.Rack(4, gres.Vector{GPUs: 1, CPUs: 8, Memory: 1000}, "gpu"), 4)
	nodes[0].Features, nodes[1].Features, nodes[2].Features = []string{"a"}, []string{"c", "b"}, []string{"b", "a"}
	for site, wants := range map[share.Mode][]share.Mode{
		"":          {share.Fill, "", "", ""},
		share.Turns: {share.Fill, "", "", ""},
		share.Fill:  {share.Fill, "", "", share.Fill},
	} {
		w := newSite(t, nodes)
		plans := &shareAll{}
		w.runner.Settings.Planner = plans
		w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 9, Mode: site,
			ModeByFeature: map[string]share.Mode{"a": share.Fill, "b": share.Turns}}
		w.sharer("low")
		w.rounds(1)
		for i, want := range wants {
			if got := plans.seen.Nodes[i].Devices[0].Mode; got != want {
				t.Errorf("the site says %q: node %d has %q, want %q", site, i, got, want)
			}
		}
	}
}

func TestAJobThatSlurmWouldGiveNoShardMayNotShareAndIsTold(t *testing.T) {
	for says, change := range map[string]func(*slurmtest.Spec){
		"one GPU on one node":   func(s *slurmtest.Spec) { s.Request.GPUs = 2 },
		"cores or memory by":    func(s *slurmtest.Spec) { s.Request.MemoryPerGPU, s.Request.Memory = 1000, 0 },
		"waits at its terminal": func(s *slurmtest.Spec) { s.Interactive = true },
	} {
		t.Run(says, func(t *testing.T) {
			w, plans := newShared(t)
			w.sharer("low", change)
			report := w.rounds(1)
			if plans.seen.Jobs[0].Share != nil || !strings.Contains(fmt.Sprint(report.Notes), says) {
				t.Errorf("it may share: %+v, notes %+v", plans.seen.Jobs[0].Share, report.Notes)
			}
		})
	}
}

func TestAJobThatAsksForGPUsOfATypeMayNotShare(t *testing.T) {
	total := gres.Vector{GPUs: 4, CPUs: 24, Memory: 500000}
	nodes := slurmtest.Rack(2, total, "gpu")
	nodes[0] = slurmtest.Divided(nodes[:1], 4)[0]
	nodes[1].GPUType = "a100"
	w := newSite(t, nodes)
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	id := w.sharer("low", func(s *slurmtest.Spec) { s.Request.GRES = "gres/gpu:a100:1" })
	report := w.rounds(1)
	if j := w.job(id); j.Runs.Shard != "" || !slices.Equal(j.Runs.Nodes, []string{"n2"}) ||
		!strings.Contains(fmt.Sprint(report.Notes), "of one type by its name") {
		t.Errorf("it is %s with %+v, notes %+v", j.State, j.Runs, report.Notes)
	}
}

// A seat is written before a GPU of its own is given to anybody on the node: Slurm would give him the first that nobody
// uses, which may be the one where the seat is.
func TestWhoSitsDownBeginsBeforeWhoTakesAWholeGPUThere(t *testing.T) {
	w, plans := newShared(t)
	plans.device = "g0"
	alone, beside := w.submit(1, model("res18")), w.sharer("low")
	report := w.round()
	w.mustSit(beside, "g0", share.Low)
	if j := w.job(alone); j.State != slurm.Running || strings.Contains(fmt.Sprint(j.Runs.Devices), "gpu:g0:1") {
		t.Errorf("the other holds %+v: %+v", j.Runs, report.Steps)
	}
}

func TestAJobThatLeavesItsSeatWaitsWithItsUsersOwnRequest(t *testing.T) {
	w, plans := newShared(t)
	leaves, stays := w.sharer("low"), w.sharer("high")
	own := w.job(leaves).Request
	w.planned(1)
	plans.leave[leaves] = true
	w.planned(1)
	j := w.job(leaves)
	if j.State != slurm.Pending || j.Request.Shard != "" || j.Request.GRES != own.GRES || len(j.Request.Pin) > 0 {
		t.Errorf("it is %s and asks for %+v, want %+v", j.State, j.Request, own)
	}
	w.mustBeAsSubmitted()
	w.mustSit(stays, "g1", share.High)
	delete(plans.leave, leaves)
	plans.device = "g3"
	w.planned(1)
	w.mustSit(leaves, "g3", share.Low)
}

func TestWhenTheDaemonIsGoneAWaitingSharerStartsOnAGPUOfItsOwn(t *testing.T) {
	w, plans := newShared(t)
	sits, waits := w.sharer("high"), w.sharer("low")
	plans.leave[waits] = true
	w.planned(1)
	w.sleep(time.Hour)
	w.mustSit(sits, "g1", share.High)
	if j := w.job(waits); j.State != slurm.Running || j.Runs.Shard != "" || j.Runs.PerNode.GPUs != 1 {
		t.Errorf("it is %s with %+v", j.State, j.Runs)
	}
}

// The ledger is lost while a job that is requeued still asks for its last shard: what its user asked for stands in its
// annotation.
func TestAnAnnotationGivesBackWhatASeatReplaced(t *testing.T) {
	w, plans := newShared(t)
	id := w.sharer("low")
	own := w.job(id).Request
	w.planned(1)
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	plans.leave[id] = true
	w.book = &ledger.Memory{}
	w.start(nil)
	w.planned(2)
	if j := w.job(id); j.Request.Shard != "" || j.Request.GRES != own.GRES {
		t.Errorf("it asks for %+v, want %+v", j.Request, own)
	}
	w.mustBeAsSubmitted()
}

func TestAShardThatItsUserAskedForIsLeftToSlurm(t *testing.T) {
	for name, extra := range map[string]string{
		"nothing said":             "",
		"a request for many GPUs":  `{"v":1,"lua":0,"job":1,"round":7,"own":{"nodes":1,"tasks":1,"gpus":1,"gres":"gres/gpu:8"}}`,
		"a request for a shard":    `{"v":1,"lua":0,"job":1,"round":7,"own":{"nodes":1,"tasks":1,"gpus":1,"gres":"gres/shard:g1:1"}}`,
		"a request that is no GPU": `{"v":1,"lua":0,"job":1,"round":7,"own":{"nodes":1,"tasks":1,"gpus":1,"gres":"license:x:1"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newShared(t)
			id := w.submit(1, model("res18"), func(s *slurmtest.Spec) {
				s.Request.GPUs, s.Request.Shard, s.Extra, s.Lease = 0, "g2", extra, 0
				s.Begin = epoch.Add(time.Hour)
			})
			report := w.planned(1)
			if j := w.job(id); j.Request.Shard != "g2" {
				t.Errorf("it asks for %+v", j.Request)
			}
			if !strings.Contains(fmt.Sprint(report.Outside), "asks for shard") {
				t.Errorf("left alone: %+v", report.Outside)
			}
		})
	}
}

// TestDyingAtAnyCallLeavesNobodyASeat kills the daemon at every call of a round in which one leaves its seat, one sits
// down, and one gets a GPU of its own; starts another, and lets the cluster run empty.
func TestDyingAtAnyCallLeavesNobodyASeat(t *testing.T) {
	for _, moment := range []slurmtest.Moment{slurmtest.Before, slurmtest.After} {
		for n := 1; ; n++ {
			w, plans := newShared(t)
			ids := []int{w.sharer("low", length(9*time.Minute)), w.sharer("high", length(9*time.Minute))}
			w.planned(1)
			ids = append(ids, w.sharer("low", length(9*time.Minute)), w.submit(1, model("gnmt"), length(9*time.Minute)))
			plans.leave[ids[0]] = true
			w.start(slurmtest.DieAt(n, moment))
			_, err := w.runner.Round(ctx)
			died := errors.Is(err, slurmtest.ErrDied)
			if err != nil && !died {
				t.Fatalf("%s call %d: %v", moment, n, err)
			}
			w.start(nil)
			w.round()
			w.mustBeAsSubmitted()
			delete(plans.leave, ids[0])
			for k := 0; w.slurm.Active() > 0 && k < 20; k++ {
				w.planned(1)
				w.mustBeAsSubmitted()
			}
			w.mustHaveCompleted(ids)
			if t.Failed() {
				t.Fatalf("%s call %d", moment, n)
			}
			if !died {
				break
			}
		}
	}
}

func TestTheAuditSaysWhichGPUAJobIsSentTo(t *testing.T) {
	w, _ := newShared(t)
	id := w.sharer("low")
	want := bridge.Change{Field: "tres_per_node", Old: "gres/gpu:1", New: "gres/shard:g1:1"}
	if s := step(t, w.planned(1), id, bridge.Start); !slices.Contains(s.Changes, want) {
		t.Errorf("changes %+v, want %+v", s.Changes, want)
	}
}

func TestAShardThatSomebodyWritesOnAWaitingJobIsTakenBack(t *testing.T) {
	w, plans := newShared(t)
	id := w.sharer("low")
	plans.leave[id] = true
	w.planned(1)
	j := w.job(id)
	j.Request.Shard = "g1"
	update := slurm.Update{Job: id, Begin: j.Begin, Request: j.Request, Extra: j.Extra}
	if err := w.slurm.Update(ctx, update); err != nil {
		t.Fatal(err)
	}
	w.round()
	w.mustBeAsSubmitted()
}

func TestOnAFullClusterALightJobSitsBesideTheOtherAndLeavesTheOthersAlone(t *testing.T) {
	nodes := slurmtest.Divided(slurmtest.Rack(1, gres.Vector{GPUs: 1, CPUs: 12, Memory: 250000}, "gpu"), 4)
	w := newSite(t, nodes)
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	first := w.sharer("high")
	w.rounds(1)
	w.mustSit(first, "g0", share.High)
	alone, second := w.submit(1, model("res18")), w.sharer("low")
	w.rounds(2)
	w.mustSit(first, "g0", share.High)
	w.mustSit(second, "g0", share.Low)
	if j := w.job(alone); j.State != slurm.Pending || !strings.Contains(j.Extra, "no GPU is free") {
		t.Errorf("the one that did not say that it may share is %s, %s", j.State, j.Extra)
	}
	for _, id := range []int{first, second} {
		if past, _ := w.slurm.History(id); past.Restarts > 0 {
			t.Errorf("job %d was restarted %d times", id, past.Restarts)
		}
	}
}

// What is no longer allowed is not taken from who has it: he runs to his end, and nobody is put beside him.
func TestWhoSitsWhenSharingEndsIsLeftInPeace(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(w *world, id int)
		says string
	}{
		"for the site": {func(w *world, _ int) { w.runner.Settings.Sharing = bridge.Sharing{} },
			"nobody knows any more how much memory"},
		"by its user": {func(w *world, id int) { w.slurm.SetComment(id, "synergy-profile=light.json") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newShared(t)
			w.runner.Settings.Planner = nil
			sits := w.sharer("low")
			w.rounds(1)
			device := w.job(sits).Runs.Shard
			c.ends(w, sits)
			beside := w.sharer("low")
			report := w.rounds(2)
			if j := w.job(sits); j.Runs.Shard != device || device == "" || j.Restarts > 0 {
				t.Errorf("it is %s with %+v after %d restarts", j.State, j.Runs, j.Restarts)
			}
			if j := w.job(beside); j.State != slurm.Running || j.Runs.Shard == device {
				t.Errorf("the other is %s with %+v", j.State, j.Runs)
			}
			if !strings.Contains(fmt.Sprint(report.Outside), c.says) {
				t.Errorf("left alone: %+v, want %q", report.Outside, c.says)
			}
		})
	}
}

func TestAReleaseGivesBackWhatASeatReplaced(t *testing.T) {
	w, _ := newShared(t)
	id := w.sharer("low")
	own := w.job(id).Request
	w.planned(1)
	if err := w.slurm.Requeue(ctx, id); err != nil {
		t.Fatal(err)
	}
	w.sleep(5 * time.Second)
	w.start(nil)
	w.mustRelease()
	if j := w.job(id); j.Request.Shard != "" || j.Request.GRES != own.GRES {
		t.Errorf("it is %s and asks for %+v, want %+v", j.State, j.Request, own)
	}
	w.mustBeAsSubmitted()
}

func TestAJobThatNamesOneGPUOfANodeIsLeftToSlurm(t *testing.T) {
	w, _ := newShared(t)
	w.runner.Settings.Planner = nil
	id := w.submit(1, model("res18"), func(s *slurmtest.Spec) { s.Request.GRES = "gres/gpu:g2:1" })
	report := w.rounds(1)
	left := strings.Contains(fmt.Sprint(report.Outside), "one GPU of a node by its own type")
	if j := w.job(id); j.State != slurm.Running || !left {
		t.Errorf("it is %s, left alone: %+v, %s", j.State, report.Outside, j.Extra)
	}
}

// Slurm's main scheduler stops at the first job that it has no room for: while somebody sits down nobody is armed.
func TestWhoIsNextInLineDoesNotStandBeforeASeat(t *testing.T) {
	nodes := slurmtest.Divided(slurmtest.Rack(1, gres.Vector{GPUs: 1, CPUs: 12, Memory: 250000}, "gpu"), 4)
	w := newSite(t, nodes)
	w.runner.Settings.Sharing, w.runner.Settings.Ahead = bridge.Sharing{GPUMemory: 80 << 10}, 4
	w.sharer("high")
	w.rounds(1)
	next := w.submit(1, model("res18"))
	w.rounds(1)
	armed := func() bool { return !w.job(next).Begin.After(w.clock.Now()) }
	if !armed() {
		t.Fatal("the next in line is not armed")
	}
	sits, seated := w.sharer("low"), false
	w.start(func(c slurmtest.Call, at slurmtest.Moment) error {
		if at == slurmtest.Before && c.Update.Request.Shard != "" {
			if seated = true; armed() {
				t.Error("somebody is eligible before the seat")
			}
		}
		return nil
	})
	w.rounds(1)
	w.mustSit(sits, "g0", share.Low)
	w.rounds(1)
	if !seated || !armed() {
		t.Errorf("seated %v, and then armed again %v", seated, armed())
	}
}

// reporting is a node with one GPU whose daemon measures, an important job that has a seat there and an unimportant one
// that comes when the other has reported for a while.
func reporting(t *testing.T) (w *world, high, low int) {
	w = newSite(t, slurmtest.Divided(slurmtest.Rack(1, gres.Vector{GPUs: 1, CPUs: 24, Memory: 500000}, "gpu"), 4))
	w.runner.Settings.Sharing, w.runner.Settings.Audit = bridge.Sharing{GPUMemory: 80 << 10}, 2*time.Minute
	long := func(s *slurmtest.Spec) { s.Work.Length = 1000 * time.Hour }
	high = w.submit(1, fmt.Sprintf(sharing, "high")+" synergy-progress", long)
	w.rounds(1)
	w.trains(high, 3, 10)
	low = w.sharer("low", long)
	w.rounds(1)
	w.mustSit(low, "g0", share.Low)
	return w, high, low
}

// trains lets a job report before each of some rounds that it has done so much a second since the last one.
func (w *world) trains(id, rounds int, perSecond float64) (last bridge.Report) {
	w.t.Helper()
	for range rounds {
		says := directive.Parse(w.job(id).Comment)
		if says.BadProgress != nil {
			w.t.Fatal(says.BadProgress.Text)
		}
		said := says.Progress
		now, since := w.clock.Now(), said.At
		if since.IsZero() {
			since = now
		}
		done := said.Iterations + int64(now.Sub(since).Seconds()*perSecond)
		w.say(id, fmt.Sprintf("synergy-progress=%d@%d", done, now.Unix()))
		last = w.rounds(1)
	}
	return last
}

func TestWhoSlowsAnImportantJobDownLeavesItAndNobodyComesAnyMore(t *testing.T) {
	w, high, low := reporting(t)
	if report := w.trains(high, 4, 9.5); len(report.Slowed) != 0 {
		t.Fatalf("slowed down: %+v", report.Slowed)
	}
	w.mustSit(low, "g0", share.Low)
	report := w.trains(high, 4, 8)
	if len(report.Slowed) != 1 || report.Slowed[0].Job != high || report.Slowed[0].Part < 0.78 ||
		report.Slowed[0].Part > 0.82 || !slices.Equal(report.Slowed[0].Beside, []int{low}) {
		t.Errorf("slowed down: %+v, want job %d at 0.8 beside %d", report.Slowed, high, low)
	}
	if !strings.Contains(fmt.Sprint(report.Notes), "was measured to keep 0.8") {
		t.Errorf("notes %+v", report.Notes)
	}
	for range 3 {
		w.trains(high, 1, 10)
		if j := w.job(low); j.State == slurm.Running {
			t.Fatalf("job %d runs with %+v", low, j.Runs)
		}
	}
	w.mustSit(high, "g0", share.High)
	if n := w.job(high).Restarts; n != 0 {
		t.Errorf("the important job was restarted %d times", n)
	}
}

func TestAVerdictHoldsOverARestartOfTheDaemonAndEndsWithTheRun(t *testing.T) {
	w, high, _ := reporting(t)
	w.trains(high, 5, 8.7)
	w.start(nil)
	if report := w.trains(high, 1, 10); len(report.Slowed) != 1 {
		t.Errorf("after a restart of the daemon %+v are slowed down", report.Slowed)
	}
	w.slurm.SetComment(high, fmt.Sprintf(sharing, "high")) // it reports no more
	if err := w.slurm.Requeue(ctx, high); err != nil {
		t.Fatal(err)
	}
	if report := w.rounds(3); len(report.Slowed) != 0 || w.job(high).State != slurm.Running {
		t.Errorf("in its next run it is slowed down: %+v", report.Slowed)
	}
}

// says says something of a job as an administrator.
func (w *world) says(id int, text string) {
	w.slurm.Modify(id, func(s *slurmtest.Spec) { s.Admin = text })
}

func TestWhoDoesNotGiveTurnsBackLeavesTheGPUAndIsSeatedNoMoreUntilItIsForgiven(t *testing.T) {
	w := newSite(t, slurmtest.Divided(slurmtest.Rack(1, gres.Vector{GPUs: 1, CPUs: 24, Memory: 500000}, "gpu"), 4))
	w.runner.Settings.Sharing = bridge.Sharing{GPUMemory: 80 << 10}
	long := func(s *slurmtest.Spec) { s.Work.Length = 1000 * time.Hour }
	high, low := w.sharer("high", long), w.sharer("low", long)
	w.rounds(2)
	w.mustSit(high, "g0", share.High)
	w.mustSit(low, "g0", share.Low)
	w.says(low, "seen by ops synergy-offence=0@1767268800")
	report := w.rounds(3)
	if len(report.Unruly) != 1 || report.Unruly[0].Job != low || report.Unruly[0].GPU != 0 {
		t.Errorf("do not give turns back: %+v, want job %d", report.Unruly, low)
	}
	if !strings.Contains(fmt.Sprint(report.Notes), "would not give GPU 0 back to others again and again") {
		t.Errorf("notes %+v", report.Notes)
	}
	w.mustSit(high, "g0", share.High)
	if j := w.job(low); j.State != slurm.Pending || j.Restarts != 1 {
		t.Errorf("it is %s after %d restarts, want it to wait for a GPU of its own", j.State, j.Restarts)
	}
	w.says(low, "seen by ops")
	if report := w.rounds(2); len(report.Unruly) != 0 {
		t.Errorf("forgiven are %+v", report.Unruly)
	}
	w.mustSit(low, "g0", share.Low)
}

func TestAJobThatDoesNotShareIsAccusedOfNothing(t *testing.T) {
	w, _ := newShared(t)
	id := w.submit(1, "synergy-profile=light.json", func(s *slurmtest.Spec) { s.Admin = "synergy-offence=0@5" })
	if report := w.rounds(1); len(report.Unruly) != 0 || len(report.Notes) != 0 {
		t.Errorf("job %d: %+v, %+v", id, report.Unruly, report.Notes)
	}
}

func TestAJobWithoutReportsIsNeitherSlowNorFast(t *testing.T) {
	w, _, low := reporting(t)
	if report := w.rounds(8); len(report.Slowed) != 0 {
		t.Errorf("slowed down: %+v", report.Slowed)
	}
	w.mustSit(low, "g0", share.Low)
}
