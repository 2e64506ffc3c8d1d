package artifact_test

import (
	"fmt"
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
	source, err := workload.New(workload.Config{Classes: classes, Split: split, Load: load, Jobs: count, Seed: seed,
		GPUs: mix})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// theCheckRun is the one whose figures the artifact's authors printed.
func theCheckRun(t testing.TB) artifact.Config {
	return artifact.Config{
		Cluster: cluster.Paper(), Policy: artifact.FIFO, Allocator: artifact.Tune, Placement: artifact.FirstFit,
		Mode: artifact.Generated, Jobs: draw(t, 9, workload.OneGPU, 42, 0),
		Window: outcome.Window{First: 4000, End: 5000},
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
		t.Errorf("mean %v h, p99 %v h, p99.9 %v h; want 21.876600555555555, 156.93307777777775, 170.61199750000023",
			got.Mean, got.P99, got.P999)
	}
}

func TestTheSameInputGivesTheSameOutcomeToTheLastByte(t *testing.T) {
	for _, allocator := range []artifact.Allocator{artifact.Tune, artifact.Opt} {
		for _, policy := range []artifact.Policy{artifact.SRTF, artifact.LAS} {
			var texts [2]string
			for k := range texts {
				c := theCheckRun(t)
				c.Policy, c.Allocator, c.Detail, c.Window = policy, allocator, true, outcome.Window{}
				c.Jobs = draw(t, 6, workload.PaperMix, 7, 500)
				texts[k] = fmt.Sprintf("%+v", simulate(t, c))
			}
			if texts[0] != texts[1] {
				t.Errorf("%s, %s: two outcomes", policy, allocator)
			}
		}
	}
}

func TestDetailChangesNothingElse(t *testing.T) {
	c := theCheckRun(t)
	plain := simulate(t, c)
	c.Jobs, c.Detail = draw(t, 9, workload.OneGPU, 42, 0), true
	detailed := simulate(t, c)
	if len(detailed.Rounds) != detailed.Held || len(detailed.Spans) < len(detailed.Jobs)/2 {
		t.Errorf("%d of %d rounds and %d spans are recorded", len(detailed.Rounds), detailed.Held, len(detailed.Spans))
	}
	detailed.Rounds, detailed.Spans = nil, nil
	if a, b := fmt.Sprintf("%+v", plain), fmt.Sprintf("%+v", detailed); a != b {
		t.Error("the outcomes differ")
	}
}

func TestProgressIsToldAndGrows(t *testing.T) {
	c := theCheckRun(t)
	told, last := 0, 0
	c.Progress = func(finished int, at float64) {
		if finished < last || at > 2_537_700 {
			t.Errorf("%d jobs have finished at %g s, %d before", finished, at, last)
		}
		told, last = told+1, finished
	}
	if simulate(t, c); told < 5 || last < 5000 {
		t.Errorf("told %d times, of %d jobs at last", told, last)
	}
}
