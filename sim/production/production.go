// Package production simulates a site that runs synergy-slurmd: the daemon's own rounds, planner and diff, against the
// Slurm in memory of bridge/slurmtest, under a virtual clock. It holds no scheduling of its own, and the rounds do not
// know that they are simulated.
//
// Users submit with the proportional share, a declared length that is right, and a checkpoint; some of them without
// one, or without a word for the daemon, where Config says so. A job's length is its
// iterations at the speed of that share on the first group of servers that can hold it.
package production

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// Config is one simulation.
type Config struct {
	Cluster   cluster.Cluster
	Policy    policy.Policy
	Allocator policy.Allocator
	Rules     policy.Rules
	// Profiles are by model. Their checkpoint and start seconds are what a restart costs, and what the planner reckons
	// with.
	Profiles map[string]*sensitivity.Profile
	Jobs     trace.Source   // in the order of arrival
	Window   outcome.Window // the simulation ends when all its jobs have finished, where it is not empty
	Round    time.Duration  // from one round to the next; 0: DefaultRound
	First    time.Duration  // when the first round is held
	Until    time.Duration  // 0: when all jobs have finished
	// Poll is how often a round that acts looks again; 0: DefaultPoll.
	Poll time.Duration
	// Users says who opts in, and who has a checkpoint.
	Users users.Habits
	// Mode is by which way nodes have GPUs shared; empty: by turns.
	Mode share.Mode
	// Slurm is how long Slurm takes for what it does.
	Slurm Delays
	// AtRounds counts a job's end at the end of the round in which it ended, as the paper's artifact does. Nobody can
	// use what it leaves earlier anyway.
	AtRounds bool
	// Detail records rounds and spans.
	Detail bool
	// Certify has rounds say how good their plans are, where Detail records them.
	Certify bool
	// Watch is shown what each round sees and decides, to look at until it returns; nil: nobody looks.
	Watch func(*policy.Cluster, policy.Plan)
	// Progress is told from time to time how many jobs have finished and what time it is in the simulation; nil:
	// nobody.
	Progress func(finished int, at float64)
}

// Defaults of the daemon.
const (
	DefaultRound = 5 * time.Minute
	DefaultPoll  = time.Second
)

// Delays are what a simulated Slurm takes its time for; zero is no time. The costs of a restart, checkpoint and
// warm-up, are the profiles'.
type Delays struct {
	Scheduler time.Duration // from a change until the scheduler looks
	Teardown  time.Duration // of an ended job
	Launch    time.Duration // from a job's start until it trains, in every run
}

// Run simulates, and ends early with ctx. An error names the job or the round.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	if err := config.check(); err != nil {
		return outcome.Run{}, err
	}
	s := newSite(config)
	if err := s.play(ctx); err != nil {
		return outcome.Run{}, err
	}
	return s.outcome(), nil
}

func (c *Config) check() error {
	if c.Round == 0 {
		c.Round = DefaultRound
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if err := c.Cluster.Check(); err != nil {
		return err
	}
	switch {
	case len(c.Profiles) == 0:
		return errors.New("profiles: none given")
	case c.Round < time.Second:
		return fmt.Errorf("round = %s: want at least 1s", c.Round)
	case c.Poll < 0 || c.Poll > c.Round:
		return fmt.Errorf("poll = %s: want a time up to the round of %s", c.Poll, c.Round)
	case c.First < 0:
		return fmt.Errorf("first round at %s: want a time that is not negative", c.First)
	case c.Until < 0:
		return fmt.Errorf("until = %s: want a time that is not negative", c.Until)
	}
	return nil
}
