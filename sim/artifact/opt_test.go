package artifact_test

import (
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func TestOptComesOutAsPublishedButForTies(t *testing.T) {
	for _, r := range recordedRuns(t) {
		if r.Allocator != artifact.Tune {
			continue
		}
		r.Allocator = artifact.Opt
		r.Jobs = trace.Of(jobs(t, r.trace))
		begin := time.Now()
		run := simulate(t, r.Config)
		s, err := outcome.Summarise(run)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: mean %.4f h, last %.3f h, rounds %d, %s", r.name, s.CompletionHours.Mean, run.Ended/3600, run.Held, time.Since(begin))
	}
}
