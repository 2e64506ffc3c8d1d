package policy

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/predict"
)

// everySharing runs a property on snapshots in which jobs share GPUs, under every policy and allocator.
func everySharing(t *testing.T, holds func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan)) {
	profiles := busyModels(t)
	everyPlanOf(t, func(t *rapid.T) Cluster { return wildSharing(t, profiles) }, holds)
}

func TestCheckPassesEveryPlanInWhichJobsShare(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		if err := Check(c, plan); err != nil {
			t.Fatalf("%s %s: %v", p.Name, a.Name, err)
		}
	})
}

// sharersOf are the jobs of each device under a plan.
func sharersOf(c Cluster, plan Plan) map[[2]string][]sharer {
	jobs := map[int]*Job{}
	for i := range c.Jobs {
		jobs[c.Jobs[i].ID] = &c.Jobs[i]
	}
	all := map[[2]string][]sharer{}
	for _, d := range plan.Decisions {
		if d.Grant != nil && d.Grant.Device != "" {
			at := [2]string{d.Grant.Nodes[0], d.Grant.Device}
			all[at] = append(all[at], sharer{jobs[d.Job], d})
		}
	}
	return all
}

type sharer struct {
	j *Job
	d Decision
}

// comes says that it was not on that device before.
func (s sharer) comes() bool {
	return s.j.Running == nil || s.j.Running.Device != s.d.Grant.Device ||
		!slices.Equal(s.j.Running.Nodes, s.d.Grant.Nodes)
}

func TestNoNodeGivesAwayMoreThanItHasWhereJobsShare(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		for _, n := range c.Nodes {
			after, changed := n.Foreign, false
			seen := map[string]bool{}
			for j, d := range decided(c, plan) {
				if d.Grant == nil || !slices.Contains(d.Grant.Nodes, n.Name) {
					continue
				}
				changed = changed || !unchanged(j, d)
				own := d.Grant.PerNode
				if d.Grant.Device != "" && seen[d.Grant.Device] {
					own.GPUs = 0
				}
				seen[d.Grant.Device] = true
				after = after.Plus(own)
			}
			if changed && !after.Fits(n.Total) {
				t.Fatalf("%s %s: %s: %s given away of %s", p.Name, a.Name, n.Name, after, n.Total)
			}
		}
	})
}

func TestWhoComesToAnotherKeepsEverybodyAtTheSpeedThatHeAccepts(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		nodes := map[string]Node{}
		for _, n := range c.Nodes {
			nodes[n.Name] = n
		}
		for at, list := range sharersOf(c, plan) {
			if len(list) < 2 || !slices.ContainsFunc(list, sharer.comes) {
				continue
			}
			var memory gres.Memory
			tenants, gains, node := []predict.Tenant{}, []float64{}, nodes[at[0]]
			mode, users := predict.LookAhead, map[string]int{}
			for _, s := range list {
				need, busy, gain := s.j.Share.Memory, 1.0, 1.0
				if s.j.Profile != nil && need == 0 {
					need = s.j.Profile.GPUMemory
				}
				if p := ProfileOn(s.j.Profile, node.GPUType); p != nil {
					gain = p.Gain(s.d.Grant.PerNode, gres.Proportional(node.Total, 1))
					if p.GPUBusy > 0 {
						busy = min(1, p.GPUBusy*max(1, gain))
					}
				}
				if need == 0 {
					t.Fatalf("job %d is paired, and nobody knows its memory", s.j.ID)
				}
				memory += need
				users[s.j.User]++
				tenants = append(tenants, predict.Tenant{Class: s.j.Share.Class, Busy: busy})
				gains = append(gains, gain)
			}
			d := node.device(at[1])
			if d.Mode == share.Fill && len(users) == 1 && users[""] == 0 {
				mode = predict.Fill
			}
			if float64(memory) > 0.95*float64(d.Memory) || len(list) > d.Slots {
				t.Fatalf("%v: %d jobs with %s on %+v", at, len(list), memory, d)
			}
			for i, speed := range predict.Speeds(mode, tenants) {
				if high := tenants[i].Class == share.High; high && speed < 0.9-1e-9 || !high &&
					speed*gains[i] < 0.2-1e-9 {
					t.Fatalf("%s %s: job %d of class %s would have %.3f × %.3f", p.Name, a.Name, list[i].j.ID,
						tenants[i].Class, speed, gains[i])
				}
			}
		}
	})
}

func TestNobodyComesToWhoWasMeasuredToBeSlowedDownWhereItIs(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		for at, list := range sharersOf(c, plan) {
			stays := func(s sharer) bool { return s.j.Kept != nil && !s.comes() }
			if slices.ContainsFunc(list, stays) && slices.ContainsFunc(list, sharer.comes) {
				t.Fatalf("%s %s: somebody comes to %v: %+v", p.Name, a.Name, at, list)
			}
		}
	})
}

func TestWhoDoesNotGiveTurnsBackComesToNobodyAndNobodyComesToHim(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		for at, list := range sharersOf(c, plan) {
			unruly := func(s sharer) bool { return s.j.Unruly }
			if slices.ContainsFunc(list, unruly) && slices.ContainsFunc(list, sharer.comes) {
				t.Fatalf("%s %s: somebody comes to %v: %+v", p.Name, a.Name, at, list)
			}
		}
	})
}

// TestOneAloneLeavesAnImportantJobThatWasMeasuredToBeSlowedDown, and no other until it was measured anew.
func TestOneAloneLeavesAnImportantJobThatWasMeasuredToBeSlowedDown(t *testing.T) {
	above, _ := readDrawing(t, "testdata/drawings/share_measured_too_slow.txt")
	d := parseDrawing(t, above)
	var left []int
	for range 3 {
		plan := Decide(d.cluster, d.policy, d.allocator)
		if err := Check(d.cluster, plan); err != nil {
			t.Fatal(err)
		}
		for _, decision := range plan.Decisions {
			if decision.Reason == Parts {
				left = append(left, decision.Job)
			}
		}
		d.cluster = carryOut(d.cluster, plan)
		d.cluster.Now = d.cluster.Now.Add(time.Hour)
	}
	if !slices.Equal(left, []int{3}) {
		t.Errorf("jobs %v leave, want job 3 alone", left)
	}
}

// TestNobodyHasLessThanHisShareButWhoAccepts: an unimportant job beside others.
func TestNobodyHasLessThanHisShareButWhoAccepts(t *testing.T) {
	everySharing(t, func(t *rapid.T, c Cluster, p Policy, a Allocator, plan Plan) {
		beside := sharersOf(c, plan)
		for j, d := range decided(c, plan) {
			if d.Grant == nil || unchanged(j, d) || j.GPUs != 1 || len(d.Grant.Nodes) != 1 {
				continue
			}
			if j.Share != nil && j.Share.Class == share.Low && d.Grant.Device != "" &&
				len(beside[[2]string{d.Grant.Nodes[0], d.Grant.Device}]) > 1 {
				continue
			}
			node := c.Nodes[slices.IndexFunc(c.Nodes, func(n Node) bool { return n.Name == d.Grant.Nodes[0] })]
			fair := gres.Proportional(node.Total, 1)
			if p := ProfileOn(j.Profile, node.GPUType); p != nil &&
				p.Gain(d.Grant.PerNode, fair) < min(1,
					p.Gain(inWholeMiB(j, underCeiling(j, fair), d.Grant.PerNode.CPUs), fair))-1e-9 {
				t.Fatalf("job %d: %s is less than it is owed of %s", j.ID, d.Grant.PerNode, fair)
			}
		}
	})
}

func TestWhereJobsShareEveryJobIsDecidedOnceAndTheSnapshotStaysAsItIs(t *testing.T) {
	profiles := busyModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := wildSharing(t, profiles)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		before := asJSON(t, c)
		plan := Decide(c, p, a)
		if asJSON(t, c) != before {
			t.Fatal("the snapshot has changed")
		}
		again := new(Planner)
		again.Decide(wildSharing(t, profiles), p, a)
		shuffled := c
		shuffled.Jobs = rapid.Permutation(c.Jobs).Draw(t, "another order")
		shuffled.Nodes = rapid.Permutation(c.Nodes).Draw(t, "another order of nodes")
		if got := asJSON(t, again.Decide(shuffled, p, a)); got != asJSON(t, plan) {
			t.Fatalf("%s %s: got\n%s\nwant\n%s", p.Name, a.Name, got, asJSON(t, plan))
		}
	})
}

// TestDevicesMeanNothingWhereNobodyShares: the plan is that for a cluster of numbers, byte for byte.
func TestDevicesMeanNothingWhereNobodyShares(t *testing.T) {
	profiles := busyModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := wild(t, profiles)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		want := asJSON(t, Decide(c, p, a))
		for n := range c.Nodes {
			c.Nodes[n].Devices = wildDevices(t, &c.Nodes[n])
		}
		if got := asJSON(t, Decide(c, p, a)); got != want {
			t.Fatalf("%s %s: got\n%s\nwant\n%s", p.Name, a.Name, got, want)
		}
	})
}

func TestWhoMaySharePlansAsEverWhereThereAreNoDevices(t *testing.T) {
	profiles := busyModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := wild(t, profiles)
		p := rapid.SampledFrom(Policies()).Draw(t, "policy")
		a := rapid.SampledFrom(Allocators()).Draw(t, "allocator")
		want := asJSON(t, Decide(c, p, a))
		for i := range c.Jobs {
			if c.Jobs[i].GPUs == 1 {
				c.Jobs[i].Share = wildShare(t)
			}
		}
		if got := asJSON(t, Decide(c, p, a)); got != want {
			t.Fatalf("%s %s: got\n%s\nwant\n%s", p.Name, a.Name, got, want)
		}
	})
}

func asJSON(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSharingSettles: a cluster on which nothing happens comes to rest, and its plan stands.
func TestSharingSettles(t *testing.T) {
	c := Cluster{Now: epoch, Rules: Rules{Patience: 1000 * time.Hour}}
	for _, name := range []string{"n1", "n2"} {
		n := Node{Name: name, Total: gres.Vector{GPUs: 2, CPUs: 16, Memory: 250 * gres.Gigabyte}}
		for _, d := range []string{"g0", "g1"} {
			n.Devices = append(n.Devices, Device{Name: d, Memory: 80000, Slots: 4})
		}
		c.Nodes = append(c.Nodes, n)
	}
	profiles := busyModels(t)
	for i := range 12 {
		j := Job{ID: i + 1, GPUs: 1, Saves: true, Profile: profiles[11+i%4], Arrival: epoch, Restart: 30 * time.Second}
		j.Share = &share.Request{Class: share.Low}
		if i%3 == 0 {
			j.Share.Class = share.High
		}
		c.Jobs = append(c.Jobs, j)
	}
	running := 0
	for range 6 {
		plan := Decide(c, FIFO(), Tune())
		if err := Check(c, plan); err != nil {
			t.Fatal(err)
		}
		c, running = carryOut(c, plan), 0
		c.Now = c.Now.Add(time.Hour)
		for i := range c.Jobs {
			if c.Jobs[i].Running != nil {
				running++
			}
		}
	}
	plan := Decide(c, FIFO(), Tune())
	for i, d := range plan.Decisions {
		if !d.Grant.equalOrNil(c.Jobs[i].Running) {
			t.Errorf("job %d does not come to rest: %+v, %s", d.Job, d.Grant, d.Why)
		}
	}
	if running < 7 {
		t.Errorf("%d of 12 jobs run on 4 GPUs, want more", running)
	}
}

func (p *Placement) equalOrNil(q *Placement) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Equal(*q)
}

func TestAPlannerOfOthersHasSharingToo(t *testing.T) {
	above, _ := readDrawing(t, "testdata/drawings/share_low_beside_high.txt")
	d := parseDrawing(t, above)
	plan, err := Shared(d.cluster, d.policy, d.allocator, func(c Cluster) (Plan, error) {
		if strings.Contains(jsonOf(t, c), `"share":`) || strings.Contains(jsonOf(t, c), `"device":`) {
			t.Error("it is told of sharing")
		}
		return Decide(c, d.policy, d.allocator), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := jsonOf(t, plan), jsonOf(t, Decide(d.cluster, d.policy, d.allocator)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNobodyIsAheadBehindWhoNeedsARoundToHaveADevice(t *testing.T) {
	c := Cluster{Now: epoch, Nodes: []Node{{Name: "n1", Total: gres.Vector{GPUs: 1, CPUs: 8, Memory: 64000},
		Foreign: gres.Vector{GPUs: 1}, Devices: []Device{{Name: "g0", Memory: 80000, Slots: 4}}}}}
	for id := 1; id <= 3; id++ {
		c.Jobs = append(c.Jobs, Job{ID: id, GPUs: 1, Arrival: epoch.Add(time.Duration(id) * time.Second)})
	}
	ahead := func(request *share.Request, foreign bool) int {
		c.Jobs[1].Share, c.Nodes[0].Devices[0].Foreign = request, foreign
		return len(firstOf(9, new(Planner).Ahead(c, FIFO(), Tune())))
	}
	for _, row := range []struct {
		request *share.Request
		foreign bool
		want    int
	}{
		{nil, false, 3},
		{&share.Request{Class: share.Low, Memory: 1000}, false, 1},
		{&share.Request{Class: share.Low, Memory: 1000}, true, 3},
		{&share.Request{Class: share.Low, Memory: 79000}, false, 3}, // more than jobs may need of the device
		{&share.Request{Class: share.Low}, false, 3},                // nobody knows how much
	} {
		if got := ahead(row.request, row.foreign); got != row.want {
			t.Errorf("%+v, foreign %t: %d are ahead, want %d", row.request, row.foreign, got, row.want)
		}
	}
}

func TestThoseOnOneDeviceHoldOneGPUTogether(t *testing.T) {
	on := func(node, device string, gpus int) *Placement {
		return &Placement{Nodes: []string{node}, PerNode: gres.Vector{GPUs: gpus}, Device: device}
	}
	gang := &Placement{Nodes: []string{"n1", "n2"}, PerNode: gres.Vector{GPUs: 2}}
	if got := GPUsHeld(on("n1", "g0", 1), on("n1", "g0", 1), on("n2", "g0", 1), on("n1", "", 1), on("n1", "", 1), gang,
		nil); got != 8 {
		t.Errorf("%d GPUs are held, want 8", got)
	}
}

// Its GPU is not free for others when it alone moves on, and its partners' seats are on it.
func TestALeaderWithPartnersIsOfferedNoOtherNode(t *testing.T) {
	c := paperCluster(2)
	for n := range c.Nodes {
		c.Nodes[n].Devices = []Device{{Name: "g0", Memory: 80000, Slots: 4}, {Name: "g1", Memory: 80000, Slots: 4}}
	}
	light := *paperModel(t, "res18")
	light.GPUBusy = 0.2 // so nobody has to part
	for id, device := range []string{"g0", "g0", "g1"} {
		at := Placement{Nodes: []string{c.Nodes[0].Name}, PerNode: gres.Proportional(c.Nodes[0].Total, 1),
			Device: device}
		class := share.Low
		if id == 0 {
			class = share.High
		}
		c.Jobs = append(c.Jobs, Job{ID: id + 1, GPUs: 1, Saves: true, Profile: &light, Arrival: epoch.Add(-time.Hour),
			Started: epoch.Add(-time.Hour), Share: &share.Request{Class: class, Memory: 8000}, Running: &at})
	}
	seen := map[int][]string{}
	_, err := Shared(c, FIFO(), Tune(), func(alone Cluster) (Plan, error) {
		for i := range alone.Jobs {
			seen[alone.Jobs[i].ID] = alone.Jobs[i].Only
		}
		return Decide(alone, FIFO(), Tune()), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][]string{1: {c.Nodes[0].Name}, 3: nil} // 2 sits beside 1, and is not the planner's to see
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("the planner may place %v, want %v", seen, want)
	}
}

// A node is kept for job 2, so of two jobs that are alike only the one has a seat there that would give it back.
func TestWhoStaysForGoodKeepsNoOtherFromASeat(t *testing.T) {
	d := parseDrawing(t, `rules patience=60 min-run=3600
node n1 gpu=2 cpu=24 mem=500 devices=g0:80:4,g1:80:4
job 1 gpu=1 share=high:10 profile=lstm busy=0.1 runs=n1:5:100:g0 saves
job 2 gpu=2 arrival=-900
job 3 gpu=1 share=low:10 floor=1:20 saves
job 4 gpu=1 share=low:10 floor=1:20 saves
`)
	forGood := func(_ *Cluster, j *Job) float64 {
		if j.ID == 3 {
			return math.Inf(1)
		}
		return 0
	}
	p := By("one for good", func(_ *Cluster, j *Job) float64 { return float64(j.ID) }, forGood)
	plan := Decide(d.cluster, p, Tune())
	if err := Check(d.cluster, plan); err != nil {
		t.Fatal(err)
	}
	if one, other := plan.Decisions[2].Grant, plan.Decisions[3].Grant; one != nil ||
		other == nil || other.Device != "g0" {
		t.Errorf("want a seat on g0 for job 4 alone, got\n%s", drawPlan(d.cluster, plan))
	}
}

// TestAJobThatWouldLeaveItsDeviceGivesNothingBackWhileItsRunIsProtected: it has taken its word back, so with another
// size it has a GPU of its own, which is more than to give back what it was lent.
func TestAJobThatWouldLeaveItsDeviceGivesNothingBackWhileItsRunIsProtected(t *testing.T) {
	p := paperModel(t, "alexnet")
	c := paperCluster(1)
	c.Rules = Rules{MinRun: 10 * time.Minute}
	c.Nodes[0].Devices = []Device{{Name: "g0", Memory: 80000, Slots: 4}}
	c.Jobs = []Job{
		{ID: 1, GPUs: 1, Saves: true, Arrival: c.Now, Started: c.Now, Profile: p, ProfileName: p.Model,
			Running: &Placement{Nodes: []string{c.Nodes[0].Name}, Device: "g0",
				PerNode: gres.Vector{GPUs: 1, CPUs: 24, Memory: 62500}}},
		{ID: 2, GPUs: 1, Saves: true, Arrival: c.Now},
	}
	for _, order := range Policies() {
		if err := Check(c, new(Planner).Decide(c, order, Tune())); err != nil {
			t.Errorf("%s: %v", order.Name, err)
		}
	}
}
