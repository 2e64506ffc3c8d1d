package sim

import (
	"context"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/production"
)

// Engine is a simulator.
type Engine string

// The engines: Production runs the daemon's own rounds, Artifact reproduces the simulator published with the paper.
const (
	Production Engine = "production"
	Artifact   Engine = "artifact"
)

// Engines lists all engines.
func Engines() []Engine { return []Engine{Production, Artifact} }

// Policies lists the names of the engine's policies.
func (e Engine) Policies() []string {
	if e == Artifact {
		return namesOf(artifact.FIFO, artifact.SRTF, artifact.LAS, artifact.FTF, artifact.DRF, artifact.Tetris)
	}
	var names []string
	for _, p := range policy.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// Allocators lists the names of the engine's allocators.
func (e Engine) Allocators() []string {
	if e == Artifact {
		return namesOf(artifact.Proportional, artifact.Greedy, artifact.Tune, artifact.Opt)
	}
	var names []string
	for _, a := range policy.Allocators() {
		names = append(names, a.Name)
	}
	return names
}

// Placements lists the names of the engine's placements; none for the production engine, which has no choice.
func (e Engine) Placements() []string {
	if e == Artifact {
		return namesOf(artifact.FirstFit, artifact.Consolidate)
	}
	return nil
}

// namesOf converts terms of an engine to their names.
func namesOf[T ~string](terms ...T) []string {
	var names []string
	for _, t := range terms {
		names = append(names, string(t))
	}
	return names
}

// other returns the other engine, which errors suggest for a name that this one does not have.
func (e Engine) other() Engine {
	if e == Artifact {
		return Production
	}
	return Artifact
}

// simulate runs one cell on the experiment's engine, or under a baseline, which uses no engine. tell is called with the
// progress; it is nil if no progress is wanted.
func (e Experiment) simulate(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run, error) {
	if e.Engine == Artifact {
		return e.onArtifact(ctx, c, tell)
	}
	switch c.schedule {
	case AsItWas:
		return e.recordedOutcome(c), nil
	case Backfill:
		return e.onSlurmAlone(ctx, c, tell)
	}
	return e.onProduction(ctx, c, tell)
}

// onArtifact runs a cell on the artifact engine, which takes the names of the schedule as they are.
func (e Experiment) onArtifact(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run, error) {
	jobs, err := c.workload.Source()
	if err != nil {
		return outcome.Run{}, err
	}
	return artifact.Run(ctx, artifact.Config{
		Cluster:    e.Cluster,
		Ratio:      e.Ratio,
		Policy:     artifact.Policy(c.schedule.Policy),
		Allocator:  artifact.Allocator(c.schedule.Allocator),
		Placement:  artifact.Placement(c.schedule.Placement),
		Mode:       c.workload.mode(),
		Jobs:       jobs,
		Window:     e.Window,
		Round:      e.Round.Seconds(),
		Until:      e.Until.Seconds(),
		Strict:     e.Reference.Strict,
		Prioritize: e.Reference.Prioritize,
		Detail:     e.Detail,
		Progress:   tell,
	})
}

// mode is the artifact's name for the way in which the workload's jobs arrive.
func (w Workload) mode() artifact.Mode {
	switch {
	case w.Static:
		return artifact.Static
	case w.isDrawn():
		return artifact.Generated
	default:
		return artifact.Replay
	}
}

// firstRound is the time of the daemon's first round. In a static workload all jobs arrive at 0; the artifact waits one
// second for their submission, so the daemon does, too.
func (w Workload) firstRound() time.Duration {
	if w.Static {
		return time.Second
	}
	return 0
}

// onProduction runs a cell on the production engine. The users' habits are drawn with the workload's seed, so that all
// schedules of a workload have the same users.
func (e Experiment) onProduction(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run,
	error) {
	first, err := policy.ParsePolicy(c.schedule.Policy)
	if err != nil {
		return outcome.Run{}, err
	}
	much, err := policy.ParseAllocator(c.schedule.Allocator)
	if err != nil {
		return outcome.Run{}, err
	}
	jobs, err := c.workload.Source()
	if err != nil {
		return outcome.Run{}, err
	}
	habits := e.Site.Users
	habits.Seed = c.workload.Seed
	return production.Run(ctx, production.Config{
		Cluster:    e.Cluster,
		Policy:     first,
		Allocator:  much,
		Rules:      e.Site.Rules,
		Profiles:   e.Site.Profiles,
		Jobs:       jobs,
		Window:     e.Window,
		WindowJobs: c.workload.jobsIn(e.Window),
		First:      c.workload.firstRound(),
		Round:      e.Round,
		Until:      e.Until,
		Slurm:      e.Site.Slurm,
		AtRounds:   e.Site.AtRounds,
		Detail:     e.Detail,
		Certify:    e.Site.Certify,
		Users:      habits,
		Mode:       e.Site.Mode,
		Progress:   tell,
	})
}
