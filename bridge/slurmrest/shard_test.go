package slurmrest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

func TestANodesDevicesAreToldWhereEachHasATypeAndShards(t *testing.T) {
	for text, want := range map[string][]slurm.Device{
		"gpu:g0:1,gpu:g1:1,shard:g0:4,shard:g1:2": {{Type: "g0", Shards: 4}, {Type: "g1", Shards: 2}},
		"gpu:8,shard:32":               nil,
		"gpu:g0:1,gpu:g1:1":            nil, // no shards
		"gpu:g0:1,gpu:g1:1,shard:g0:4": nil, // not of each
		"gpu:a100:2,shard:a100:8":      nil, // not alone
		"gpu:g0:1,gpu:g0:1,shard:g0:4": nil,
		"gpu:g0:1,gpu:g1:1,shard:8":    nil, // of which GPU is not said
		"":                             nil,
	} {
		if got := readNode(&wire.Node{Name: "n1", GRES: text}).Devices; !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// What Slurm 24.11.5 tells of two jobs with a shard of the last of four GPUs.
func TestAShardOfANamedGPUIsReadAsASeatOnIt(t *testing.T) {
	job := wire.Job{State: []string{"RUNNING"}, Batch: true, ThreadSpec: ordinarySpec,
		Nodes: wire.Number{Set: true, Number: 1}, PerNode: "gres/shard:g3:1",
		Devices: []string{"shard:1(0/4,0/4,0/4,1/4)"},
		Holds:   []wire.Held{{Node: "n1", CPUs: 3, Memory: 1000}}}
	read := readJob(&job)
	if read.Odd != "" || read.Request.Shard != "g3" || read.Request.GPUs != 1 {
		t.Errorf("asks for %+v, odd %q", read.Request, read.Odd)
	}
	if read.Runs.Shard != "g3" || read.Runs.PerNode != (gres.Vector{GPUs: 1, CPUs: 3, Memory: 1000}) {
		t.Errorf("holds %+v", read.Runs)
	}
	for _, other := range []func(*wire.Job){
		func(j *wire.Job) { j.PerNode = "gres/shard:1" },
		func(j *wire.Job) { j.PerNode = "gres/shard:g3:2" },
		func(j *wire.Job) { j.PerNode = "gres/shard:g3:1,gres/shard:g2:1" },
		func(j *wire.Job) { j.PerJob = "gres/gpu:1" },
		func(j *wire.Job) { j.Nodes.Number = 2 },
	} {
		changed := job
		other(&changed)
		if read := readJob(&changed); read.Request.Shard != "" || read.Odd == "" {
			t.Errorf("%q, %q on %d nodes: asks for %+v, odd %q", changed.PerNode, changed.PerJob, changed.Nodes.Number,
				read.Request, read.Odd)
		}
	}
}

func TestAJobGetsAShardInPlaceOfItsGPUAndItsGPUBack(t *testing.T) {
	fake, client, clock := watched(t, Options{})
	id := fake.jobNamed(t, "gated")
	own := find(t, observe(t, client), id).Request
	for _, c := range []struct{ shard, sent string }{
		{"g1", `"tres_per_node":"gres/shard:g1:1"`},
		{"g1", ""}, // it has that
		{"g0", `"tres_per_node":"gres/shard:g0:1"`},
		{"", `"tres_per_node":"gres/gpu:1"`},
	} {
		request := own
		request.Shard = c.shard
		if err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request}); err != nil {
			t.Fatalf("shard %q: %v", c.shard, err)
		}
		if body := fake.lastBody(); !strings.Contains(body, c.sent) ||
			c.sent == "" && strings.Contains(body, "tres") {
			t.Errorf("shard %q: sent %s, want %s", c.shard, body, c.sent)
		}
		if has := find(t, observe(t, client), id).Request; has.Shard != c.shard || has.GPUs != 1 {
			t.Errorf("shard %q: has %+v", c.shard, has)
		}
	}
}

// Slurm 24.11.5 answers all of these with error 2072, and what else stood in the update may be applied by then.
func TestAJobThatSlurmWouldGiveNoShardIsNotSentOne(t *testing.T) {
	for _, c := range []struct{ name, field, value string }{{"gpusjob", "", ""}, {"gated", "memory_per_tres",
		"gres/gpu:9"}} {
		fake, client, clock := watched(t, Options{})
		id := fake.jobNamed(t, c.name)
		if c.field != "" {
			fake.set(id, c.field, c.value)
			client.touch(id)
		}
		request := find(t, observe(t, client), id).Request
		request.Shard = "g1"
		fake.saw()
		err := client.Update(t.Context(), slurm.Update{Job: id, Begin: clock.at, Request: request})
		if !errors.Is(err, slurm.ErrRefused) || slices.ContainsFunc(fake.saw(), func(call string) bool {
			return strings.HasPrefix(call, "POST")
		}) {
			t.Errorf("%s %s: %v", c.name, c.field, err)
		}
	}
}

func TestAGPUOfWhichAnotherHasAShardIsNotCountedAgainForOneThatLeaves(t *testing.T) {
	sharer := func(id int, completing bool) *knownJob {
		return &knownJob{parsedJob: parsedJob{
			Job: slurm.Job{ID: id, State: slurm.Running, Completing: completing,
				Runs: slurm.Allocated{Nodes: []string{"n1"}, Shard: "g0"}},
			heldByNode: map[string]gres.Vector{"n1": {GPUs: 1, CPUs: 2, Memory: 10}},
		}}
	}
	for _, c := range []struct {
		jobs []*knownJob
		gpus int
	}{
		{[]*knownJob{sharer(1, true)}, 1},
		{[]*knownJob{sharer(1, true), sharer(2, false)}, 0},
		{[]*knownJob{sharer(1, true), sharer(2, true)}, 1},
		{[]*knownJob{sharer(1, false), sharer(2, false)}, 0},
	} {
		m := &jobCache{jobs: map[int]*knownJob{}}
		for _, job := range c.jobs {
			m.jobs[job.ID] = job
		}
		if got := m.uncounted()["n1"].GPUs; got != c.gpus {
			t.Errorf("%d jobs, the first leaving %v: %d GPUs beyond Slurm's count, want %d", len(c.jobs),
				c.jobs[0].Completing, got, c.gpus)
		}
	}
}
