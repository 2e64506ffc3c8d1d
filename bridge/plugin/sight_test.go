package plugin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// site is what one side sees: jobs and nodes that come, go and change.
type site struct {
	at    time.Time
	jobs  map[int]*slurm.Job
	nodes map[string]slurm.Node
}

func (s *site) observed() slurm.Observed {
	seen := slurm.Observed{At: s.at}
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		seen.Jobs = append(seen.Jobs, s.jobs[id])
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		seen.Nodes = append(seen.Nodes, s.nodes[name])
	}
	return seen
}

// happen changes one thing. A job that changes is another one from then on, as slurm.Observed promises.
func (s *site) happen(t *rapid.T) {
	s.at = s.at.Add(time.Duration(rapid.IntRange(0, 2e9).Draw(t, "passes")))
	id, name := rapid.IntRange(1, 12).Draw(t, "job"), fmt.Sprintf("n%d", rapid.IntRange(1, 5).Draw(t, "node"))
	switch rapid.SampledFrom([]string{"job", "job ends", "node", "node leaves"}).Draw(t, "what") {
	case "job":
		s.jobs[id] = &slurm.Job{
			ID: id, Name: rapid.String().Draw(t, "name"), Comment: rapid.String().Draw(t, "comment"),
			Extra: rapid.String().Draw(t, "extra"),
			State: rapid.SampledFrom([]slurm.State{slurm.Pending, slurm.Running, slurm.Finished}).Draw(t,
				"state"),
			Submitted: s.at, Begin: rapid.SampledFrom([]time.Time{{}, s.at.Add(time.Hour)}).Draw(t, "begin"),
			Request: slurm.Request{CPUs: rapid.IntRange(0, 99).Draw(t, "cpus"),
				Pin: rapid.SampledFrom([][]string{nil, {"n1", "n2"}}).Draw(t, "pin")},
		}
	case "job ends":
		delete(s.jobs, id)
	case "node":
		total := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500000}
		s.nodes[name] = slurm.Node{
			Name: name, Partitions: []string{"gpu"}, Total: total,
			Allocated: gres.Vector{CPUs: rapid.IntRange(0, 24).Draw(t, "held")},
			Closed:    rapid.SampledFrom([]string{"", "DRAIN"}).Draw(t, "closed"),
		}
	case "node leaves":
		delete(s.nodes, name)
	}
}

// overWire is an answer as it arrives.
func overWire(t *rapid.T, answer *slurmpb.ObserveResponse) *slurmpb.ObserveResponse {
	text, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	arrived := &slurmpb.ObserveResponse{}
	if err := proto.Unmarshal(text, arrived); err != nil {
		t.Fatal(err)
	}
	return arrived
}

func TestBothSidesSeeTheSameWhateverHappensBetweenTwoLooks(t *testing.T) {
	added := 0
	rapid.Check(t, func(t *rapid.T) {
		world := site{at: noon, jobs: map[int]*slurm.Job{}, nodes: map[string]slurm.Node{}}
		var server, client lastSeen
		var last slurm.Observed // that the client had, of what
		shown := map[int]*slurm.Job{}
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				world.happen(t)
			}
			switch rapid.SampledFrom([]string{"", "", "", "the plugin begins anew", "the daemon begins anew"}).Draw(t,
				"fault") {
			case "the plugin begins anew":
				server = lastSeen{}
			case "the daemon begins anew":
				client, last = lastSeen{}, slurm.Observed{}
			}
			if rapid.IntRange(0, 3).Draw(t, "the answer is lost") == 0 {
				server.show(world.observed(), client.version)
			}
			answer := overWire(t, server.show(world.observed(), client.version))
			seen, err := client.take(answer)
			if err != nil {
				t.Fatal(err)
			}
			mustEqual(t, seen, world.observed())
			if answer.Base != 0 {
				added++
				mustKeepPointers(t, last, seen, shown, world.jobs)
			}
			last, shown = seen, maps.Clone(world.jobs)
		}
	})
	if added == 0 {
		t.Error("no answer added to an earlier one: nothing was tried")
	}
}

func mustEqual(t *rapid.T, got, want slurm.Observed) {
	if !got.At.Equal(want.At) || len(got.Jobs) != len(want.Jobs) || len(got.Nodes) != len(want.Nodes) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	for i := range want.Jobs {
		if a, b := timeless(got.Jobs[i]), timeless(want.Jobs[i]); !reflect.DeepEqual(a, b) {
			t.Fatalf("got %+v, want %+v", a, b)
		}
	}
	for i := range want.Nodes {
		if !reflect.DeepEqual(got.Nodes[i], want.Nodes[i]) {
			t.Fatalf("got %+v, want %+v", got.Nodes[i], want.Nodes[i])
		}
	}
}

// timeless is a job whose times are in the same zone.
func timeless(j *slurm.Job) slurm.Job {
	copied := *j
	for _, at := range []*time.Time{&copied.Submitted, &copied.Begin, &copied.Started} {
		if !at.IsZero() {
			*at = at.UTC()
		}
	}
	return copied
}

// mustKeepPointers: what is the same job at the other side is the same here, and what is not is not.
func mustKeepPointers(t *rapid.T, last, seen slurm.Observed, before, now map[int]*slurm.Job) {
	had := map[int]*slurm.Job{}
	for _, j := range last.Jobs {
		had[j.ID] = j
	}
	for _, j := range seen.Jobs {
		if same := before[j.ID] == now[j.ID]; (had[j.ID] == j) != same {
			t.Fatalf("job %d: the same there %v, here %v", j.ID, same, !same)
		}
	}
}

func TestWhatCannotBeIsNotTaken(t *testing.T) {
	node := func(name string) *slurmpb.Node { return &slurmpb.Node{Name: name} }
	job := func(id int64) *slurmpb.Job { return &slurmpb.Job{Id: id, State: slurmpb.State_PENDING} }
	had := lastSeen{7, []slurm.Node{{Name: "n1"}}, []*slurm.Job{{ID: 3}}}
	for name, c := range map[string]struct {
		sent *slurmpb.ObserveResponse
		says string
	}{
		"no time":      {&slurmpb.ObserveResponse{}, "at_ns is 0"},
		"another base": {&slurmpb.ObserveResponse{AtNs: 1, Base: 6}, "base 6: want the version 7"},
		"gone from everything": {&slurmpb.ObserveResponse{AtNs: 1, JobsGone: []int64{3}},
			"an answer that says all"},
		"gone and never there": {&slurmpb.ObserveResponse{AtNs: 1, Base: 7, JobsGone: []int64{4}},
			"4 is said to be gone"},
		"gone twice": {&slurmpb.ObserveResponse{AtNs: 1, Base: 7, JobsGone: []int64{3, 3}},
			"3 is said to be gone"},
		"gone and different": {&slurmpb.ObserveResponse{AtNs: 1, Base: 7, Jobs: []*slurmpb.Job{job(3)},
			JobsGone: []int64{3}}, "3 is said to be gone"},
		"a node gone and never there": {&slurmpb.ObserveResponse{AtNs: 1, Base: 7, NodesGone: []string{"n2"}},
			"n2 is said to be gone"},
		"jobs out of order": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{job(2), job(1)}},
			"job 1 comes after 2"},
		"a job twice": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{job(2), job(2)}},
			"job 2 comes after 2"},
		"job 0": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{job(0)}},
			"want a number from 1"},
		"a job that overflows": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{job(1<<40 + 1)}},
			"want a number from 1"},
		"a job in no state": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{{Id: 1}}},
			"state 0: want PENDING"},
		"a job in a new state": {&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{{Id: 1, State: 9}}},
			"state 9: want PENDING"},
		"a pin out of order": {&slurmpb.ObserveResponse{AtNs: 1,
			Jobs: []*slurmpb.Job{{Id: 1, State: slurmpb.State_PENDING,
				Request: &slurmpb.Request{Pin: []string{"n2", "n1"}}}}}, "want ascending names"},
		"nodes out of order": {&slurmpb.ObserveResponse{AtNs: 1,
			Nodes: []*slurmpb.Node{node("n2"), node("n1")}}, `"n1" comes after "n2"`},
		"a node twice": {&slurmpb.ObserveResponse{AtNs: 1,
			Nodes: []*slurmpb.Node{node("n2"), node("n2")}}, `"n2" comes after "n2"`},
		"a node without name": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{node("")}},
			"has no name"},
		"a node that paints": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{node("n\x1b[2J")}},
			"printable"},
		"a node with a novel": {&slurmpb.ObserveResponse{AtNs: 1,
			Nodes: []*slurmpb.Node{node(strings.Repeat("n", 256))}}, "at most 255 bytes"},
		"less than nothing": {&slurmpb.ObserveResponse{AtNs: 1,
			Nodes: []*slurmpb.Node{{Name: "n", Total: &slurmpb.Vector{Cpus: -1}}}}, "want 0 to 2^40"},
		"some of its devices": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{divided("g0")}},
			"1 devices of 2 GPUs"},
		"a device twice": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{divided("g0", "g0")}},
			"a type of its own"},
		"a device that paints": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{divided("g0", "\x1b[2J")}},
			"printable"},
		"a device in no shards": {&slurmpb.ObserveResponse{AtNs: 1, Nodes: []*slurmpb.Node{{Name: "n",
			Total: &slurmpb.Vector{Gpus: 1}, Devices: []*slurmpb.Device{{Type: "g0"}}}}}, "0 shards"},
		"a reservation without name": {&slurmpb.ObserveResponse{AtNs: 1, Reservations: []*slurmpb.Reservation{{}}},
			"want 1 to 255 bytes"},
		"a reservation twice": {&slurmpb.ObserveResponse{AtNs: 1,
			Reservations: []*slurmpb.Reservation{{Name: "r"}, {Name: "r"}}}, `"r" comes after "r"`},
		"a reservation of nodes out of order": {&slurmpb.ObserveResponse{AtNs: 1, Reservations: []*slurmpb.Reservation{
			{Name: "r", Nodes: []string{"n2", "n1"}}}}, "want ascending names"},
		"more than can be had": {&slurmpb.ObserveResponse{AtNs: 1,
			Nodes: []*slurmpb.Node{{Name: "n", Allocated: &slurmpb.Vector{Gpus: 1 << 41}}}}, "want 0 to 2^40"},
	} {
		client := had
		if _, err := client.take(c.sent); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if client.version != 0 {
			t.Errorf("%s: the next look would add to it", name)
		}
	}
}

// divided is a node of two GPUs that tells these.
func divided(types ...string) *slurmpb.Node {
	n := &slurmpb.Node{Name: "n", Total: &slurmpb.Vector{Gpus: 2}}
	for _, t := range types {
		n.Devices = append(n.Devices, &slurmpb.Device{Type: t, Shards: 4})
	}
	return n
}

func TestAJobThatCannotBeReckonedWithIsLeftAloneAndHarmsNobodyElse(t *testing.T) {
	var client lastSeen
	seen, err := client.take(&slurmpb.ObserveResponse{AtNs: 1, Jobs: []*slurmpb.Job{
		{Id: 1, State: slurmpb.State_PENDING, Request: &slurmpb.Request{MemoryMib: 1 << 62, Cpus: 5}},
		{Id: 2, State: slurmpb.State_PENDING, Request: &slurmpb.Request{MemoryMib: 1 << 40, Cpus: 5},
			Reason: "new\nline\x1b[2J " + strings.Repeat("x", 600)},
		{Id: 3, State: slurmpb.State_RUNNING, Runs: &slurmpb.Allocated{PerNode: &slurmpb.Vector{Cpus: -5}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if j := seen.Jobs[0]; j.Odd == "" || j.Request.Memory != 1<<40 {
		t.Errorf("got %+v", j)
	}
	if j := seen.Jobs[2]; j.Odd == "" || j.Runs.PerNode.CPUs != 0 {
		t.Errorf("got %+v", j)
	}
	if j := seen.Jobs[1]; j.Odd != "" || j.Request.Memory != 1<<40 || !strings.HasPrefix(j.Reason, "new line [2J x") ||
		len(j.Reason) > 510 {
		t.Errorf("got %+v", j)
	}
}

// FuzzObserved takes whatever a plugin may send. What is taken over must be in order, and fit to be reckoned with and
// shown.
func FuzzObserved(f *testing.F) {
	var server lastSeen
	job := &slurm.Job{ID: 3, State: slurm.Running, Runs: slurm.Allocated{Nodes: []string{"n1"},
		PerNode: gres.Vector{GPUs: 1}}}
	seen := slurm.Observed{At: noon, Nodes: []slurm.Node{{Name: "n1", Total: gres.Vector{GPUs: 8}}},
		Jobs: []*slurm.Job{job}}
	for _, version := range []int64{0, 1} {
		text, err := proto.Marshal(server.show(seen, version*server.version))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		seen.Jobs = append(seen.Jobs, &slurm.Job{ID: 9, State: slurm.Pending})
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var sent slurmpb.ObserveResponse
		if proto.Unmarshal(text, &sent) != nil {
			return
		}
		client := lastSeen{sent.Base, []slurm.Node{{Name: "n1"}},
			[]*slurm.Job{{ID: 3, State: slurm.Pending}, {ID: 5, State: slurm.Running}}}
		seen, err := client.take(&sent)
		if err != nil {
			return
		}
		for i, j := range seen.Jobs {
			r := j.Request
			for _, n := range []int{r.Nodes, r.Tasks, r.CPUsPerTask, r.CPUs, r.CPUsPerNode, int(r.Memory),
				int(r.MemoryPerCPU), r.GPUs, j.Restarts, int(j.TimeLimit)} {
				if n < 0 || n > maxAmount && n != int(j.TimeLimit) {
					t.Fatalf("job %d: %+v", j.ID, j)
				}
			}
			if !isSound(j.Runs.PerNode) || i > 0 && seen.Jobs[i-1].ID >= j.ID || j.ID < 1 || j.State == "" {
				t.Fatalf("job %d: %+v", j.ID, j)
			}
			for _, sentence := range []string{j.Reason, j.Shape, j.Odd} {
				if !printable.Is(sentence) {
					t.Fatalf("job %d says %q", j.ID, sentence)
				}
			}
		}
		for i, n := range seen.Nodes {
			if !isSound(n.Total) || !isSound(n.Allocated) || !n.Allocated.Fits(n.Total) ||
				i > 0 && seen.Nodes[i-1].Name >= n.Name || !printable.Is(n.Name+n.Closed) {
				t.Fatalf("node %q: %+v", n.Name, n)
			}
		}
	})
}
