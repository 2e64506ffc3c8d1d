package production

import (
	"runtime/metrics"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// bench simulates as many jobs of the source as the simulation asks for, each time the same. Beside the jobs that
// finish in a second it tells the most memory that was in use.
func bench(b *testing.B, c Config, draw func() trace.Source) {
	peak, finished := 0.0, 0
	c.Progress = func(int, float64) { peak = max(peak, megabytesInUse()) }
	b.ReportAllocs()
	for b.Loop() {
		c.Jobs, finished = draw(), 0
		run := simulate(b, c)
		for i := range run.Jobs {
			if run.Jobs[i].Done() {
				finished++
			}
		}
	}
	b.ReportMetric(float64(b.N*finished)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(peak, "peak-MB")
}

// megabytesInUse is what the process has of the system and has not given back.
func megabytesInUse() float64 {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	return float64(read[0].Value.Uint64()-read[1].Value.Uint64()) / 1e6
}

// drawn are jobs of the paper's models, language, image and speech as in its published workload.
func drawn(t testing.TB, c workload.Config) trace.Source {
	t.Helper()
	var err error
	if c.Classes, err = workload.Paper(3); err != nil {
		t.Fatal(err)
	}
	if c.Split, err = workload.ParseSplit("20,70,10"); err != nil {
		t.Fatal(err)
	}
	c.Seed = 42
	source, err := workload.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// BenchmarkTheCheckRun is the run of which the paper's artifact publishes the figures: one-GPU jobs at the load that a
// cluster of 128 GPUs just cannot bear, until a thousand in the middle have finished. Restarts cost nothing, as there.
func BenchmarkTheCheckRun(b *testing.B) {
	c := Config{
		Cluster: cluster.Paper(), Policy: policy.FIFO(), Allocator: policy.Tune(), Profiles: costing(b, 0, 0),
		Window: outcome.Window{First: 4000, End: 5000}, AtRounds: true,
	}
	bench(b, c, func() trace.Source { return drawn(b, workload.Config{Load: 9, GPUs: workload.OneGPU}) })
}

// BenchmarkPhilly has as many jobs as the Philly trace, most of them short and some with several GPUs, on 512 GPUs; a
// restart costs a minute.
func BenchmarkPhilly(b *testing.B) {
	c := Config{
		Cluster: servers(64, 8, 24, 500), Policy: policy.FIFO(), Allocator: policy.Tune(), Profiles: costing(b, 30, 30),
	}
	bench(b, c, func() trace.Source {
		return drawn(b, workload.Config{Load: 45, Jobs: 82_000, GPUs: workload.PaperMix,
			Durations: "lognormal:19m,2.2"})
	})
}
