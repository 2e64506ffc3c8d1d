// Package production simulates a site that runs synergy-slurmd: the daemon's own rounds, planner and diff, against the Slurm in
// memory of bridge/slurmtest, under a virtual clock. It holds no scheduling of its own.
package production

import (
	"context"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Config is one simulation.
type Config struct {
	Cluster   cluster.Cluster
	Policy    policy.Policy
	Allocator policy.Allocator
	Rules     policy.Rules
	Profiles  map[string]*sensitivity.Profile // by model
	Jobs      trace.Source
	Window    outcome.Window // the simulation ends when all its jobs have finished, where it is not empty
	Round     time.Duration
	Until     time.Duration // 0: when all jobs have finished
	// Slurm is how long Slurm takes for what it does.
	Slurm Delays
	// AtRounds counts a job's end at the end of the round in which it ended, as the paper's artifact does. Nobody can use what it
	// leaves earlier anyway.
	AtRounds bool
	// Detail records rounds and spans.
	Detail bool
	// Progress is told from time to time how many jobs have finished and what time it is in the simulation; nil: nobody.
	Progress func(finished int, at float64)
}

// Delays are what a simulated Slurm takes its time for. The costs of a restart, checkpoint and warm-up, are the profiles'.
type Delays struct {
	Scheduler time.Duration // from a change until the scheduler looks
	Teardown  time.Duration // of an ended job
	Launch    time.Duration // from a job's start until it trains, in every run
}

// Run simulates.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	panic("not built yet")
}
