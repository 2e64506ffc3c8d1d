package main

import (
	"path/filepath"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// claim is one sentence of the paper with the configuration in which it is looked at: the figure of policy × base over
// that of policy × ours.
type claim struct {
	says, published string
	setup           setup
	policy          string
	base, ours      string
	of              func(outcome.Summary) float64
	form            string // how a ratio is printed
}

// setup is a workload on a cluster.
type setup struct {
	load      float64 // jobs an hour; 0: a batch
	split     string
	gpus      workload.Mix
	durations workload.Durations
	servers   int
	ratio     int
	without   string         // a model that is not in the workload
	jobs      int            // 0: without end, and the window is what counts
	seeds     int            // how many workloads are drawn; 0: one
	recorded  string         // a recorded trace in place of what is drawn
	window    outcome.Window // of the jobs that count
}

func mean(s outcome.Summary) float64     { return s.Completion.Mean }
func makespan(s outcome.Summary) float64 { return s.Makespan }

// published is the window of jobs that all simulations of the paper count.
var published = outcome.Window{First: 4000, End: 5000}

// single is the paper's workload of one-GPU jobs on 128 GPUs.
func single(load float64, split string) setup {
	return setup{load: load, split: split, gpus: workload.OneGPU, durations: workload.PaperDurations, servers: 16,
		ratio: 3, window: published}
}

// several is the one with 1, 2, 4 and 8 GPUs.
func several(load float64) setup {
	s := single(load, "20,70,10")
	s.gpus = workload.PaperMix
	return s
}

// physical are workloads for the 32 GPUs of the paper's own cluster: 100 short jobs, all at once or 30 an hour. The
// published ones have no m5. A hundred jobs are few, and the last of them makes the makespan: ten such workloads are
// drawn.
func physical(load float64) setup {
	return setup{load: load, split: "60,30,10", gpus: workload.OneGPU, durations: workload.SmallDurations,
		without: "m5", servers: 4, ratio: 3, jobs: 100, seeds: 10}
}

// withRatio is the setup on nodes with this many cores per GPU.
func withRatio(s setup, ratio int) setup {
	s.ratio = ratio
	return s
}

const times = "%.2f×"

// artifactsOpt is the bound of the artifact, with which the allocator of each world is compared.
const artifactsOpt = "opt of the artifact"

var claims = []claim{
	{"mean completion, proportional ÷ Tune", "up to 3.4×", single(9, "20,70,10"), "fifo", "proportional", "tune", mean,
		times},
	{"the same, several GPUs a job", "up to 3.4×", several(3.5), "las", "proportional", "tune", mean, times},
	{"the same, several GPUs a job", "up to 3.4×", several(3.5), "srtf", "proportional", "tune", mean, times},
	{"makespan of a batch, proportional ÷ Tune", "1.4×", physical(0), "fifo", "proportional", "tune", makespan, times},
	{"mean completion on 32 GPUs, proportional ÷ Tune", "1.5×", physical(30), "srtf", "proportional", "tune", mean,
		times},
	{"mean completion, Tune ÷ the artifact's Opt", "within 10 %", single(9, "20,70,10"), "fifo", "tune", artifactsOpt,
		mean, times},
	{"mean completion, Tune ÷ the engine's own Opt", "within 10 %", single(9, "20,70,10"), "fifo", "tune", "opt", mean,
		times},
	{"the same, split 33,33,33", "within 10 %", single(7, "33,33,33"), "fifo", "tune", "opt", mean, times},
	{"the same, several GPUs a job, SRTF", "within 10 %", several(3.5), "srtf", "tune", "opt", mean, times},
	{"mean completion, 4 cores a GPU", "smaller than with 3", withRatio(single(9, "20,70,10"), 4), "fifo",
		"proportional", "tune", mean, times},
	{"mean completion, 5 cores a GPU", "smaller again", withRatio(single(9, "20,70,10"), 5), "fifo", "proportional",
		"tune", mean, times},
	{"mean completion, 6 cores a GPU", "smaller again", withRatio(single(9, "20,70,10"), 6), "fifo", "proportional",
		"tune", mean, times},
	{"mean completion, split 33,33,33", "gains in every split", single(7, "33,33,33"), "fifo", "proportional", "tune",
		mean, times},
	{"mean completion, split 50,0,50", "gains in every split", single(7, "50,0,50"), "fifo", "proportional", "tune",
		mean, times},
	{"mean completion under DRF, Greedy ÷ Tune", "Tune is better", several(4), "drf", "greedy", "tune", mean, times},
	{"mean completion under Tetris, Greedy ÷ Tune", "Tune is better", several(4), "tetris", "greedy", "tune", mean,
		times},
}

// drawnFrom are the seeds, the paper's first.
func (s setup) drawnFrom() []int64 {
	seeds := []int64{seed}
	for len(seeds) < s.seeds {
		seeds = append(seeds, seeds[len(seeds)-1]+1)
	}
	return seeds
}

// experiment is the setup as the simulator takes it, without engine and schedules. A batch is drawn as static arrivals.
// A recorded trace takes the place of everything that would be drawn.
func (s setup) experiment() (sim.Experiment, error) {
	split, err := workload.ParseSplit(s.split)
	if err != nil {
		return sim.Experiment{}, err
	}
	classes, err := workload.Paper(s.ratio)
	if err != nil {
		return sim.Experiment{}, err
	}
	classes = slices.DeleteFunc(classes, func(c workload.Class) bool { return c.Name == s.without })
	on, err := cluster.Ratio(s.ratio)
	if err != nil {
		return sim.Experiment{}, err
	}
	on.Groups[0].Servers = s.servers
	arrivals := workload.Poisson
	if s.load == 0 {
		arrivals = workload.Static
	}
	if s.recorded != "" {
		return s.replay(on)
	}
	drawn := sim.Drawn("drawn", workload.Config{
		Classes: classes, Split: split, Jobs: s.jobs, GPUs: s.gpus, Durations: s.durations, Arrivals: arrivals,
	}, []float64{s.load}, s.drawnFrom())
	return sim.Experiment{Cluster: on, Ratio: s.ratio, Workloads: drawn, Window: s.window}, nil
}

// replay is the experiment with the jobs of a file.
func (s setup) replay(on cluster.Cluster) (sim.Experiment, error) {
	t, err := trace.Open(s.recorded, trace.Recorded)
	if err != nil {
		return sim.Experiment{}, err
	}
	w := sim.Workload{Name: t.Name, Jobs: t.Jobs, Static: s.load == 0}
	return sim.Experiment{Cluster: on, Ratio: s.ratio, Workloads: []sim.Workload{w}, Window: s.window}, nil
}

// of are the claims about the traces that were published with the artifact, in a folder.
func of(folder string) []claim {
	batch, dynamic := physical(0), physical(30)
	batch.recorded, dynamic.recorded = filepath.Join(folder, "static_100job.csv"),
		filepath.Join(folder, "dynamic_100job.csv")
	return []claim{
		{"makespan of the published batch, proportional ÷ Tune", "1.4×", batch, "fifo", "proportional", "tune",
			makespan, times},
		{"mean completion of the published trace, proportional ÷ Tune", "1.5×", dynamic, "srtf", "proportional", "tune",
			mean, times},
	}
}
