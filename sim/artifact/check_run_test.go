package artifact_test

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// draw is a source of the artifact's own workloads, with the paper's mix of models.
func draw(t testing.TB, load float64, mix workload.Mix, seed int64, count int) trace.Source {
	t.Helper()
	classes, err := workload.Paper(3)
	if err != nil {
		t.Fatal(err)
	}
	split, err := workload.ParseSplit("20,70,10")
	if err != nil {
		t.Fatal(err)
	}
	source, err := workload.New(workload.Config{Classes: classes, Split: split, Load: load, Jobs: count, Seed: seed, GPUs: mix})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// theCheckRun is the one whose figures the artifact's authors printed.
func theCheckRun(t testing.TB) artifact.Config {
	return artifact.Config{
		Cluster: cluster.Paper(), Policy: artifact.FIFO, Allocator: artifact.Tune, Placement: artifact.FirstFit,
		Mode: artifact.Generated, Jobs: draw(t, 9, workload.OneGPU, 42, 0), Window: outcome.Window{First: 4000, End: 5000},
	}
}

func TestThePublishedFiguresComeOutToTheLastDigit(t *testing.T) {
	run := simulate(t, theCheckRun(t))
	finished := 0
	for _, j := range run.Jobs {
		if j.Done() {
			finished++
		}
	}
	if finished != 6109 || run.Ended != 2_537_700 {
		t.Errorf("%d jobs have finished by %g s, want 6109 by 2537700", finished, run.Ended)
	}
	// Two rounds are before the first arrival.
	if run.Held != 8457+2 {
		t.Errorf("%d rounds, want 8459", run.Held)
	}
	summary, err := outcome.Summarise(run)
	if err != nil {
		t.Fatal(err)
	}
	got := summary.CompletionHours
	if got.Mean != 21.876600555555555 || got.P99 != 156.93307777777775 || got.P999 != 170.61199750000023 {
		t.Errorf("mean %v h, p99 %v h, p99.9 %v h; want 21.876600555555555, 156.93307777777775, 170.61199750000023", got.Mean, got.P99, got.P999)
	}
}
