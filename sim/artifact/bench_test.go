package artifact_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// bench simulates jobs that have been drawn before.
func bench(b *testing.B, c artifact.Config, source trace.Source, count int) {
	var drawn []trace.Job
	for range count {
		j, more := source.Next()
		if !more {
			break
		}
		drawn = append(drawn, j)
	}
	finished := 0
	b.ReportAllocs()
	for b.Loop() {
		c.Jobs = trace.Of(drawn)
		finished = 0
		run := simulate(b, c)
		for i := range run.Jobs {
			if run.Jobs[i].Done() {
				finished++
			}
		}
	}
	b.ReportMetric(float64(b.N*finished)/b.Elapsed().Seconds(), "jobs/s")
}

func BenchmarkTheCheckRun(b *testing.B) {
	c := theCheckRun(b)
	bench(b, c, c.Jobs, 12_000)
}

// BenchmarkReplay is the check run with all jobs known, so that the order of equal events is kept.
func BenchmarkReplay(b *testing.B) {
	c := theCheckRun(b)
	c.Mode = artifact.Replay
	bench(b, c, c.Jobs, 12_000)
}

func BenchmarkTheCheckRunUnder(b *testing.B) {
	for _, s := range []struct {
		policy    artifact.Policy
		allocator artifact.Allocator
	}{
		{artifact.FIFO, artifact.Proportional}, {artifact.FIFO, artifact.Greedy}, {artifact.SRTF, artifact.Tune},
		{artifact.LAS, artifact.Tune},
		{artifact.FTF, artifact.Tune}, {artifact.DRF, artifact.Tune}, {artifact.Tetris, artifact.Greedy},
	} {
		b.Run(string(s.policy)+"-"+string(s.allocator), func(b *testing.B) {
			c := theCheckRun(b)
			c.Policy, c.Allocator = s.policy, s.allocator
			bench(b, c, c.Jobs, 40_000)
		})
	}
}

func BenchmarkSeveralGPUs(b *testing.B) {
	for _, policy := range []artifact.Policy{artifact.FIFO, artifact.LAS} {
		for _, placement := range []artifact.Placement{artifact.FirstFit, artifact.Consolidate} {
			b.Run(string(policy)+"-"+string(placement), func(b *testing.B) {
				c := theCheckRun(b)
				c.Policy, c.Placement = policy, placement
				bench(b, c, draw(b, 3.5, workload.PaperMix, 42, 0), 12_000)
			})
		}
	}
}

// BenchmarkPhilly has as many jobs as the trace of that name, on as many GPUs as the paper's larger cluster.
func BenchmarkPhilly(b *testing.B) {
	for _, policy := range []artifact.Policy{artifact.FIFO, artifact.SRTF, artifact.LAS} {
		b.Run(string(policy), func(b *testing.B) {
			c := theCheckRun(b)
			c.Policy, c.Cluster, c.Window, c.Mode = policy, servers(64, 8, 24), outcome.Window{}, artifact.Replay
			bench(b, c, draw(b, 16, workload.PaperMix, 42, 82_000), 82_000)
		})
	}
}

func BenchmarkOpt(b *testing.B) {
	for _, policy := range []artifact.Policy{artifact.FIFO, artifact.LAS} {
		b.Run(string(policy), func(b *testing.B) {
			c := theCheckRun(b)
			c.Policy, c.Allocator = policy, artifact.Opt
			bench(b, c, c.Jobs, 40_000)
		})
	}
}
