package main

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// world is an engine and the assumptions under which it simulates.
type world struct {
	name    string
	engine  sim.Engine
	restart time.Duration // what one costs; a third of it is the save
	min     time.Duration // for which a started job is left alone
	rounded bool          // ends count at rounds
}

// The worlds, in the order of the columns: the paper's artifact, the daemon under the artifact's assumptions, and the
// daemon as it is configured on a site.
var worlds = []world{
	{name: "artifact", engine: sim.Artifact},
	{name: "production, free restarts", engine: sim.Production, rounded: true},
	{name: "production, 60 s restarts", engine: sim.Production, restart: time.Minute, min: 10 * time.Minute},
}

// latest is when a simulation is given up: an overloaded cluster under a policy that lets jobs starve never finishes
// its window.
const latest = 2000 * time.Hour

// on is the experiment in this world. The artifact needs a placement, and random is the published one; the production
// engine refuses any.
func (w world) on(e sim.Experiment) (sim.Experiment, error) {
	own, err := sim.Profiles(profiles.FS)
	if err != nil {
		return e, err
	}
	e.Engine, e.Until = w.engine, latest
	e.Round = 5 * time.Minute
	e.Site = sim.Site{
		Profiles: sim.WithRestart(own, w.restart/3, w.restart-w.restart/3), AtRounds: w.rounded,
		Rules: policy.Rules{MinRun: w.min, MaxPreemptions: maxPreemptions(w)},
	}
	for i := range e.Schedules {
		e.Schedules[i].Placement = ""
		if w.engine == sim.Artifact {
			e.Schedules[i].Placement = "random"
		}
	}
	return e, nil
}

// maxPreemptions is the daemon's default, where restarts cost something; 0, without a limit, where they are free, since
// the artifact has none.
func maxPreemptions(w world) int {
	if w.restart == 0 {
		return 0
	}
	return 20
}

// run simulates the schedules of one policy in this world, and sums the outcomes up.
func (w world) run(ctx context.Context, e sim.Experiment, first string, allocators []string) ([]outcome.Summary,
	error) {
	e.Schedules = nil
	for _, a := range allocators {
		e.Schedules = append(e.Schedules, sim.Schedule{Policy: first, Allocator: a})
	}
	e, err := w.on(e)
	if err != nil {
		return nil, err
	}
	runs, err := e.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	sums := make([]outcome.Summary, len(runs))
	for i, run := range runs {
		if sums[i], err = outcome.Summarise(run); err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return sums, nil
}
