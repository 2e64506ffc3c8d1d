// Package production simulates a site with synergy-slurmd: it runs the daemon's own rounds, planner and diff against
// the Slurm in memory of bridge/slurmtest, under a virtual clock. The rounds cannot tell that they are simulated. Only
// settings differ from a real site: leases never end, calls are made one at a time, and the ledger stores no reports. A
// round is skipped only if policy.Contentment proves that time alone cannot change the plan.
//
// Users request the proportional share, declare a correct length, and have a checkpoint; Config can make some of them
// submit without a checkpoint or without a directive. A job's length is its iterations at the speed of that share on
// the first group of servers that can hold it.
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
	// Profiles are by model. Their checkpoint and start seconds are what a restart really costs and what the planner
	// assumes.
	Profiles map[string]*sensitivity.Profile
	Jobs     trace.Source   // in the order of arrival
	Window   outcome.Window // the simulation ends when all its jobs have finished; empty: see Until
	// WindowJobs is how many jobs have an ID in the window, as a log may have gaps; 0: every ID is a job.
	WindowJobs int
	Round      time.Duration // from one round to the next; 0: DefaultRound
	First      time.Duration // time of the first round
	Until      time.Duration // 0: until all jobs have finished
	// Poll is the interval at which an acting round observes Slurm; 0: DefaultPoll.
	Poll time.Duration
	// Users says which jobs opt in, have a checkpoint or share a GPU.
	Users users.Habits
	// Mode is how jobs share a GPU; empty: in turns.
	Mode share.Mode
	// Slurm holds the delays of the simulated Slurm.
	Slurm Delays
	// AtRounds counts a job as finished at the end of the round in which it ended, as the paper's artifact does. No job
	// can use the freed resources before that anyway.
	AtRounds bool
	// Detail records rounds and spans.
	Detail bool
	// Certify computes a certificate for each round that Detail records.
	Certify bool
	// Watch is called with what each round sees and decides, which is valid only during the call; nil: it is not
	// called.
	Watch func(*policy.Cluster, policy.Plan)
	// Progress is called from time to time with the number of finished jobs and the simulated time in seconds; nil: it
	// is not called.
	Progress func(finished int, at float64)
}

// Defaults of the daemon.
const (
	DefaultRound = 5 * time.Minute
	DefaultPoll  = time.Second
)

// Delays are the delays of a simulated Slurm; zero is no delay. The costs of a restart, checkpoint and warm-up, are in
// the profiles.
type Delays struct {
	Scheduler time.Duration // from a change until the scheduler runs
	Teardown  time.Duration // of an ended job
	Launch    time.Duration // from a job's start until it trains, in every run
}

// Run simulates until the end of config or of ctx. Errors name the job or the round.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	if err := config.check(); err != nil {
		return outcome.Run{}, err
	}
	s := newSite(config)
	if err := s.holdRounds(ctx); err != nil {
		return outcome.Run{}, err
	}
	return s.outcome(), nil
}

// check fills in the defaults, and returns an error for the first invalid value, or nil if all are valid.
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
