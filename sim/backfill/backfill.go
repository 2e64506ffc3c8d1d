// Package backfill simulates a site under Slurm alone: jobs that ask for their proportional share, sched/builtin's walk
// through the queue at every change, and sched/backfill's plan by time limits in between, as slurmctld 24.11 does both.
// It is what the daemon is compared with, and knows nothing of it: no job is sized, moved or stopped.
//
// It knows one partition, and of priorities the number with which a job comes: nobody ages. QOS, accounts' limits,
// reservations and dependencies are none of its business.
package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Config is one simulation.
type Config struct {
	Cluster  cluster.Cluster
	Profiles map[string]*sensitivity.Profile // by model
	Jobs     trace.Source                    // in the order of arrival
	Window   outcome.Window                  // the simulation ends when all its jobs have finished, if not empty
	Until    time.Duration                   // 0: when all jobs have finished
	Slurm    Slurm
	// Sample is the time between two records of the cluster; 0: none are kept, nor who held what when.
	Sample time.Duration
	// Progress is told from time to time how many jobs have finished and what time it is in the simulation; nil:
	// nobody.
	Progress func(finished int, at float64)
}

// Slurm is how the scheduler is set up, by the names of slurm.conf, and what it takes its time for. Zero is no time.
type Slurm struct {
	Scheduler time.Duration // batch_sched_delay: from a change until the scheduler looks
	Teardown  time.Duration // of an ended job
	Launch    time.Duration // from a job's start until it trains
	Backfill
}

// Backfill is sched/backfill's own parameters.
type Backfill struct {
	Interval   time.Duration // bf_interval
	Resolution time.Duration // bf_resolution
	Window     time.Duration // bf_window: no start is planned further ahead
	Tested     int           // bf_max_job_test: no more jobs are looked at
}

// Defaults are Slurm's.
func Defaults() Backfill {
	return Backfill{Interval: 30 * time.Second, Resolution: time.Minute, Window: 24 * time.Hour, Tested: 500}
}

// Run simulates, and ends early with ctx. An error names the job.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	if err := config.check(); err != nil {
		return outcome.Run{}, err
	}
	c := newController(config)
	for c.more() {
		if err := ctx.Err(); err != nil {
			return outcome.Run{}, err
		}
		if err := c.step(); err != nil {
			return outcome.Run{}, err
		}
	}
	return c.outcome(), nil
}

func (c *Config) check() error {
	if err := c.Cluster.Check(); err != nil {
		return err
	}
	b := c.Slurm.Backfill
	switch {
	case len(c.Profiles) == 0:
		return errors.New("profiles: none given")
	case c.Until < 0:
		return fmt.Errorf("until = %s: want a time that is not negative", c.Until)
	case b.Interval < time.Second:
		return fmt.Errorf("bf_interval = %s: want at least 1s", b.Interval)
	case b.Resolution < time.Second:
		return fmt.Errorf("bf_resolution = %s: want at least 1s", b.Resolution)
	case b.Window < time.Minute:
		return fmt.Errorf("bf_window = %s: want at least 1m", b.Window)
	case b.Tested < 1:
		return fmt.Errorf("bf_max_job_test = %d: want at least 1", b.Tested)
	}
	return nil
}
