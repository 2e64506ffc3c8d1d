package artifact_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

func TestWhatCannotBeSimulatedIsAnErrorThatSaysWhatCan(t *testing.T) {
	job := trace.Job{ID: 7, Model: "res18", GPUs: 1, Iterations: 1000}
	jobs := func(change func(j *trace.Job)) func(*artifact.Config) {
		return func(c *artifact.Config) {
			second := job
			second.ID, second.Arrival = 8, 10
			change(&second)
			c.Jobs = trace.Of([]trace.Job{job, second})
		}
	}
	group := func(change func(g *cluster.Group)) func(*artifact.Config) {
		return func(c *artifact.Config) { change(&c.Cluster.Groups[0]) }
	}
	for _, c := range []struct {
		change func(*artifact.Config)
		want   string
	}{
		{func(c *artifact.Config) { c.Policy = "srsf" },
			`policy = "srsf": want one of fifo, srtf, las, ftf, drf, tetris`},
		{func(c *artifact.Config) { c.Allocator = "fair" },
			`allocator = "fair": want one of proportional, greedy, tune, opt`},
		{func(c *artifact.Config) { c.Placement = "" }, `placement = "": want random or consolidate`},
		{func(c *artifact.Config) { c.Mode = "deployment" }, `mode = "deployment": want generated, replay or static`},
		{func(c *artifact.Config) { c.Jobs = nil }, `jobs: there is no source: want one`},
		{func(c *artifact.Config) { c.Jobs = trace.Of(nil) }, `mode replay: there are no jobs: want at least one`},
		{func(c *artifact.Config) { c.Round = -300 }, `round = -300 s: want more than 0`},
		{func(c *artifact.Config) { c.Round = math.NaN() }, `round = NaN s: want more than 0`},
		{func(c *artifact.Config) { c.Until = -1 }, `until = -1 s: want`},
		{func(c *artifact.Config) { c.Window = outcome.Window{First: 5, End: 5} }, `window 5-5 is empty`},
		{func(c *artifact.Config) { c.Window = outcome.Window{First: 9, End: 10} },
			`window 9-10 has no job: the jobs are 7 to 8`},
		{func(c *artifact.Config) {
			c.Cluster.Groups = append(c.Cluster.Groups, servers(1, 4, 24).Groups...)
		}, `cluster: its 2 groups differ: want equal servers`},
		{group(func(g *cluster.Group) { g.Servers = 0 }), `cluster: group 1: servers = 0`},
		{group(func(g *cluster.Group) { g.Storage = 0 }), `cluster: group 1: storage_mb_s = 0`},
		{group(func(g *cluster.Group) { g.CPUs = 64 }),
			`cluster: 64 cores for 8 GPUs of a server: want 3 to 6 for each GPU, or a ratio named`},
		{group(func(g *cluster.Group) { g.CPUs = 25 }),
			`cluster: 25 cores for 8 GPUs of a server: want 3 to 6 for each GPU`},
		{func(c *artifact.Config) {
			c.Allocator, c.Cluster.Groups[0].CPUs = artifact.Opt, 32
		}, `allocator = opt: the sensitivity matrices hold for 3 cores for each GPU`},
		{func(c *artifact.Config) { c.Ratio = 7 }, `CPU:GPU ratio = 7: want 3 to 6`},
		{jobs(func(j *trace.Job) { j.Model = "bert" }), `job 8: model = "bert": want one of alexnet, res18,`},
		{jobs(func(j *trace.Job) { j.GPUs = 0 }), `job 8: gpus = 0: want 1 or more`},
		{jobs(func(j *trace.Job) { j.GPUs = 33 }), `job 8: gpus = 33: the cluster has 32`},
		{jobs(func(j *trace.Job) { j.Iterations = 0 }), `job 8: iterations = 0: want 1 or more`},
		{jobs(func(j *trace.Job) { j.Iterations = math.MaxInt64 }),
			`job 8: iterations = 9223372036854775807: that takes 5.9`},
		{jobs(func(j *trace.Job) { j.ID = 7 }), `job 7: two jobs have this ID: want each once`},
		{jobs(func(j *trace.Job) { j.Arrival = -1 }), `job 8: arrival = -1 s: want 0 to 1e+10`},
		{jobs(func(j *trace.Job) { j.Arrival = math.NaN() }), `job 8: arrival = NaN s: want 0 to 1e+10`},
		{func(c *artifact.Config) {
			c.Jobs = trace.Of([]trace.Job{{ID: 1, Model: "m5", GPUs: 1, Iterations: 1, Arrival: 9}, job})
		}, `job 7: arrival = 0 s: job 1 before it arrives at 9 s: want jobs in the order of their arrival`},
		{func(c *artifact.Config) {
			c.Mode = artifact.Generated
			jobs(func(j *trace.Job) { j.ID = 6 })(c)
		}, `job 6: it comes after job 7: want ascending IDs in mode generated`},
		{func(c *artifact.Config) { c.Round = 0.5 },
			`job 7: model = res18: an iteration takes 0.64 s and never ends in rounds of 0.5 s`},
	} {
		config := artifact.Config{
			Cluster: servers(4, 8, 24), Policy: artifact.FIFO, Allocator: artifact.Tune, Placement: artifact.FirstFit,
			Mode: artifact.Replay,
		}
		jobs(func(*trace.Job) {})(&config)
		c.change(&config)
		if _, err := artifact.Run(t.Context(), config); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// The window's jobs are not known from the beginning when jobs are drawn one by one.
func TestAWindowWithoutJobsIsAnErrorInAFiniteDrawnWorkloadToo(t *testing.T) {
	c := theCheckRun(t)
	c.Jobs, c.Window = draw(t, 9, workload.OneGPU, 42, 30), outcome.Window{First: 30, End: 40}
	want := "window 30-40 has no job: the jobs are 0 to 29"
	if _, err := artifact.Run(t.Context(), c); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Of the network's 40 Gb/s on six GPUs, five shares leave a little less than a sixth one.
func TestAJobThatNeverFitsIsAnErrorThatNamesIt(t *testing.T) {
	c := artifact.Config{
		Cluster: servers(1, 6, 18), Policy: artifact.FIFO, Allocator: artifact.Proportional,
		Placement: artifact.FirstFit,
		Mode:      artifact.Replay, Jobs: trace.Of([]trace.Job{{ID: 3, Model: "gnmt", GPUs: 6, Iterations: 10}}),
	}
	_, err := artifact.Run(t.Context(), c)
	if want := "round 1 at 0 s: job 3: its 6 GPUs do not fit on the empty cluster"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Three thirds of 100 GB are a little more than that.
func TestWhereTuneFindsNoPlaceTheErrorNamesJobAndRound(t *testing.T) {
	c := artifact.Config{
		Cluster: servers(1, 3, 9), Policy: artifact.FIFO, Allocator: artifact.Tune, Placement: artifact.FirstFit,
		Mode: artifact.Replay, Jobs: trace.Of([]trace.Job{{ID: 3, Model: "alexnet", GPUs: 3, Iterations: 10}}),
	}
	c.Cluster.Groups[0].Memory = 100
	_, err := artifact.Run(t.Context(), c)
	want := "round 1 at 0 s: job 3: tune finds no place for 3 GPUs, although 3 are free"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestASimulationThatNobodyWantsAnyMoreEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := theCheckRun(t)
	c.Window = outcome.Window{}
	c.Progress = func(finished int, at float64) {
		if at > 1e6 {
			cancel()
		}
	}
	if _, err := artifact.Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
