package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// change is one thing of an experiment that shall make a difference.
type change struct {
	name string
	make func(e *Experiment)
}

// paused is a workload in which everything has ended long before the last job comes.
func paused() Workload {
	return Workload{Name: "paused", Jobs: []trace.Job{
		{ID: 0, Model: "gnmt", GPUs: 1, Iterations: 30000},
		{ID: 1, Model: "gnmt", GPUs: 1, Iterations: 30000, Arrival: 1e6},
	}}
}

func TestEverythingThatAnExperimentSaysReachesTheProductionEngine(t *testing.T) {
	e := small(t, Production, Schedule{"las", "tune", ""})
	differ(t, e,
		change{"round", func(e *Experiment) { e.Round = 11 * time.Minute }},
		change{"until", func(e *Experiment) { e.Until = 3 * time.Hour }},
		change{"window", func(e *Experiment) { e.Window = outcome.Window{First: 0, End: 3} }},
		change{"policy", func(e *Experiment) { e.Schedules[0].Policy = "fifo" }},
		change{"allocator", func(e *Experiment) { e.Schedules[0].Allocator = "proportional" }},
		change{"rules", func(e *Experiment) { e.Site.Rules.MinRun = 100 * time.Hour }},
		change{"profiles", func(e *Experiment) { e.Site.Profiles = WithRestart(e.Site.Profiles, 0, time.Hour) }},
		change{"ends", func(e *Experiment) { e.Site.AtRounds = true }},
		change{"scheduler's delay", func(e *Experiment) { e.Site.Slurm.Scheduler = time.Minute }},
		change{"teardown", func(e *Experiment) { e.Site.Slurm.Teardown = time.Minute }},
		change{"launch", func(e *Experiment) { e.Site.Slurm.Launch = time.Minute }},
		change{"load", func(e *Experiment) { e.Workloads[0].Draw.Load = 30 }},
	)
}

func TestEverythingThatAnExperimentSaysReachesTheArtifactEngine(t *testing.T) {
	e := small(t, Artifact, Schedule{"srtf", "tune", "random"})
	differ(t, e,
		change{"round", func(e *Experiment) { e.Round = 11 * time.Minute }},
		change{"until", func(e *Experiment) { e.Until = 3 * time.Hour }},
		change{"window", func(e *Experiment) { e.Window = outcome.Window{First: 0, End: 3} }},
		change{"policy", func(e *Experiment) { e.Schedules[0].Policy = "fifo" }},
		change{"allocator", func(e *Experiment) { e.Schedules[0].Allocator = "proportional" }},
		change{"placement", func(e *Experiment) { e.Schedules[0].Placement = "consolidate" }},
		change{"ratio", func(e *Experiment) { e.Ratio = 6 }},
		change{"static", func(e *Experiment) { e.Workloads[0].Static = true }},
		change{"load", func(e *Experiment) { e.Workloads[0].Draw.Load = 30 }},
	)
	e.Window = outcome.Window{First: 30, End: 40}
	differ(t, e, change{"priority", func(e *Experiment) { e.Reference.Prioritize = true }})
	e.Window, e.Workloads = outcome.Window{}, []Workload{paused()}
	differ(t, e, change{"strictness", func(e *Experiment) { e.Reference.Strict = true }})
}

// differ wants each change to give other jobs or other spans.
func differ(t *testing.T, e Experiment, changes ...change) {
	t.Helper()
	e.Workloads = e.Workloads[len(e.Workloads)-1:]
	before := became(t, e)
	for _, c := range changes {
		other := e
		other.Workloads = append([]Workload(nil), e.Workloads...)
		other.Schedules = append([]Schedule(nil), e.Schedules...)
		c.make(&other)
		if bytes.Equal(became(t, other), before) {
			t.Errorf("another %s makes no difference", c.name)
		}
	}
}

// became is what became of the jobs, without what the settings say.
func became(t *testing.T, e Experiment) []byte {
	t.Helper()
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := outcome.WriteJobs(&out, runs); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
