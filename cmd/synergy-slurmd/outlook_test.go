package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
)

// held is the report of a round that saw a server with one job on it and jobs that wait for it.
func held(at time.Time, waiting int) bridge.Report {
	all := gres.Vector{GPUs: 8, CPUs: 64, Memory: 512 * gres.Gigabyte}
	c := policy.Cluster{Now: at, Nodes: []policy.Node{{Name: "n1", Total: all}}}
	c.Jobs = append(c.Jobs, policy.Job{ID: 1, GPUs: 8, Length: 2 * time.Hour, Started: at,
		Running: &policy.Placement{Nodes: []string{"n1"}, PerNode: all}})
	for id := 2; id < 2+waiting; id++ {
		c.Jobs = append(c.Jobs, policy.Job{ID: id, GPUs: 8, TimeLimit: time.Hour, Arrival: at})
	}
	return bridge.Report{Snapshot: c}
}

// estimated has the outlook come to its end.
func (o *outlook) estimated(t *testing.T, config Config, report bridge.Report) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o.look(config, fiveMinutes, report)
	o.done.Wait()
	o.stop()
}

func TestEstimatesAreMadeFromTheLastRoundAndStandUntilTheNextAreMade(t *testing.T) {
	o, at := &outlook{}, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	if _, _, known := o.Start(2); known {
		t.Error("an estimate before the first round")
	}
	o.estimated(t, fullConfig(), held(at, 2))
	start, words, known := o.Start(2)
	if in := start.P50.Sub(at); !known || in < 90*time.Minute || in > 150*time.Minute {
		t.Errorf("job 2 starts in %s, want about the two hours of job 1", in)
	}
	if !strings.HasPrefix(words, "expected to start about 2026-01-02T1") || !strings.Contains(words, ", between ") {
		t.Errorf("in words: %s", words)
	}
	if _, _, known := o.Start(1); known {
		t.Error("a job that runs is expected to start")
	}
	config := fullConfig()
	config.EstimateStarts = false
	o.estimated(t, config, held(at, 2))
	if _, _, known := o.Start(2); known {
		t.Error("an estimate where the site wants none")
	}
}

func TestARoundThatBeginsEndsTheEstimates(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := &outlook{}
	report := held(time.Now(), 3000)
	o.look(fullConfig(), fiveMinutes, report)
	o.stop()
	if f := o.latest.Load(); f == nil || !f.Cut || f.Draws != 1 {
		t.Errorf("%+v: want what there was until it was cut", f)
	}
	o.stop() // and again does no harm
}

func TestTheHabitsOfASiteAreLearnedAndOutliveTheDaemon(t *testing.T) {
	o, at := &outlook{}, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	o.recall(forecast.Habits{0, 0.5, 1})
	if !slices.Equal(o.Habits(), forecast.Habits{0, 0.5, 1}) {
		t.Errorf("recalled %v", o.Habits())
	}
	config := fullConfig()
	config.EstimateStarts = false // that is no reason not to learn
	for k := range forecast.EnoughHabits + 1 {
		report := held(at.Add(time.Duration(k)*fiveMinutes), 0)
		j := &report.Snapshot.Jobs[0] // in each round another
		j.ID, j.TimeLimit, j.Done = k+1, time.Hour, 27*time.Minute
		o.estimated(t, config, report)
	}
	learned := o.Habits()
	if len(learned) < 10 || learned[5] < 0.45 || learned[5] > 0.55 {
		t.Errorf("learned %v from jobs that all used half of their limits", learned)
	}
	o.recall(nil)
	if len(o.Habits()) != len(learned) {
		t.Error("nothing was recalled, and what was known is forgotten")
	}
}
