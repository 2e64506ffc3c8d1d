package workload_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

func BenchmarkDrawing(b *testing.B) {
	published, synthetic, daily := single(b), several(b), several(b)
	daily.Arrivals, daily.Durations, daily.Assign = workload.Daily, "lognormal:30m,2", workload.Random
	for _, c := range []struct {
		name   string
		config workload.Config
	}{{"published", published}, {"synthetic", synthetic}, {"daily-lognormal-random", daily}} {
		b.Run(c.name, func(b *testing.B) {
			source, err := workload.New(c.config)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				source.Next()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkLog makes jobs of a log as long as Philly's.
func BenchmarkLog(b *testing.B) {
	entries := make([]trace.Entry, 117325)
	for i := range entries {
		entries[i] = trace.Entry{Submitted: float64(i * 60), Duration: float64(i * 37 % 700000), GPUs: 1 + i%20}
	}
	options := workload.FromLog{Classes: paper(b, 3), Split: split(b, "20,70,10"), Seed: 42, GPUs: workload.PowersOrOne,
		Durations: "paper", Keep: workload.PaperKeep(), Arrivals: "poisson", Load: 9}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := workload.FromEntries(entries, options); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(entries))/b.Elapsed().Seconds(), "jobs/s")
}
