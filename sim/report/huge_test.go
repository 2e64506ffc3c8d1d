package report

import (
	"math/rand/v2"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// huge is a run of many jobs on 512 GPUs, with a round for every three of them and a span for each. It simulates
// nothing: it has the size of a large site's year, and not its meaning.
func huge(jobs int) outcome.Run {
	random := rand.New(rand.NewPCG(1, 2))
	rounds := jobs * 10 / 33
	ended := float64(rounds) * 300
	run := outcome.Run{
		Setting: outcome.Setting{Engine: "production", Policy: "fifo", Allocator: "tune", Cluster: "64x8:24:500",
			RoundSeconds: 300},
		GPUs: 512, CPUs: 1536, Memory: 32000, Held: rounds, Ended: ended, BusyGPUs: 450 * ended,
	}
	for i := range rounds {
		held := 400 + 112*random.Float64()
		run.Rounds = append(run.Rounds, outcome.Round{
			At: float64(i) * 300, GPUs: held, CPUs: 3 * held, Memory: 60 * held, Demand: held * (1 + random.Float64()),
		})
	}
	for i := range jobs {
		arrival, length, gpus := 0.9*ended*float64(i)/float64(jobs), 300+20_000*random.ExpFloat64(), 1<<random.IntN(4)
		job := outcome.Job{
			ID: i, Model: toyModels[random.IntN(len(toyModels))].name, User: "user", GPUs: gpus, Arrival: arrival,
			Length:   length,
			FirstRun: arrival + 300, Finish: arrival + 300 + length, Starts: 1, AttainedGPU: length * float64(gpus),
		}
		run.Jobs = append(run.Jobs, job)
		run.Spans = append(run.Spans, outcome.Span{
			Job: i, Model: job.Model, Server: random.IntN(64), GPUs: gpus, From: job.FirstRun, To: job.Finish,
		})
	}
	return run
}

// BenchmarkAReportOfAHugeRun is of 82,000 jobs and some 25,000 rounds.
func BenchmarkAReportOfAHugeRun(b *testing.B) {
	runs := []outcome.Run{huge(82_000)}
	dir := b.TempDir()
	for b.Loop() {
		if err := Write(dir, runs, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
