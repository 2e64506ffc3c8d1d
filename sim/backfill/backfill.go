// Package backfill simulates a site under Slurm alone, as slurmctld 24.11 works: jobs ask for their proportional share,
// sched/builtin goes through the queue at every change, and sched/backfill plans by time limits in between. It is the
// baseline for the daemon, which it does not use: no job is resized, moved or preempted.
//
// It has one partition, and as priority the number with which a job comes, without ageing. It has no QOS, account
// limits, reservations or dependencies.
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
	Window   outcome.Window                  // the simulation ends when all its jobs have finished; empty: see Until
	// WindowJobs is how many jobs have an ID in the window, as a log may have gaps; 0: every ID is a job.
	WindowJobs int
	Until      time.Duration // 0: until all jobs have finished
	Slurm      Slurm
	// Sample is the time between two records of the cluster; 0: neither records nor spans are kept.
	Sample time.Duration
	// Progress is called from time to time with the number of finished jobs and the simulated time in seconds; nil: it
	// is not called.
	Progress func(finished int, at float64)
}

// Slurm holds settings of the scheduler, named as in slurm.conf, and the delays of a simulated Slurm; zero is no delay.
type Slurm struct {
	Scheduler time.Duration // batch_sched_delay: from a change until the scheduler runs
	Teardown  time.Duration // of an ended job
	Launch    time.Duration // from a job's start until it trains
	Backfill
}

// Backfill holds the parameters of sched/backfill.
type Backfill struct {
	Interval   time.Duration // bf_interval
	Resolution time.Duration // bf_resolution
	Window     time.Duration // bf_window: how far ahead starts are planned
	Tested     int           // bf_max_job_test: how many jobs of the queue are tried
}

// Defaults returns Slurm's defaults.
func Defaults() Backfill {
	return Backfill{Interval: 30 * time.Second, Resolution: time.Minute, Window: 24 * time.Hour, Tested: 500}
}

// Run simulates until the end of config or of ctx. Errors name the job.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	if err := config.check(); err != nil {
		return outcome.Run{}, err
	}
	c := newController(config)
	for c.mayContinue() {
		if err := ctx.Err(); err != nil {
			return outcome.Run{}, err
		}
		if err := c.step(); err != nil {
			return outcome.Run{}, err
		}
	}
	return c.outcome(), nil
}

// check returns an error for the first setting that is invalid, or nil if all are valid.
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
