// Command backfill compares the daemon's default, Slurm's order with Tune, with Slurm's own backfill with proportional
// requests: 128 GPUs, rounds of 15 s, time limits as short as they can be, profiles that are right. It prints the table
// of docs/performance.md, and fails where a mean or a 99th percentile is worse by more than 2 %. Files in
// the recorded format (job_id,model,arrival,iterations,gpus), named as arguments, are replayed, too.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

const (
	round   = 15 * time.Second
	restart = time.Minute // of which a third is the save
	allowed = 1.02
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "backfill:", err)
		stop()
		os.Exit(1)
	}
}

// compare prints the table, a row for each trace, and counts the traces that are worse. A trace that cannot be read or
// simulated ends it at once; worse ones do not, so that the table is whole.
func compare(ctx context.Context, logs []string) error {
	site, err := newSite()
	if err != nil {
		return err
	}
	fmt.Println("| trace | jobs | mean under Slurm, min | Slurm's order × Tune | ratio " +
		"| p99 under Slurm, min | Slurm's order × Tune | ratio | restarts |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	worse := 0
	compareOn := func(name string, jobs sim.Workload, err error) error {
		within := false
		if err == nil {
			within, err = site.row(ctx, name, jobs)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !within {
			worse++
		}
		return nil
	}
	for _, d := range draws {
		jobs, err := d.jobs(site)
		if err := compareOn(d.String(), jobs, err); err != nil {
			return err
		}
	}
	for _, path := range logs {
		jobs, err := recorded(path)
		if err := compareOn(filepath.Base(path), jobs, err); err != nil {
			return err
		}
	}
	if worse > 0 {
		return fmt.Errorf(
			"%d traces have a mean or a 99th percentile that is worse than Slurm's by more than 2 %%",
			worse,
		)
	}
	return ctx.Err()
}

// newSite is the cluster of all traces: 16 nodes of 8 GPUs, with the built-in profiles. The shortest run and the
// preemptions of a round are the daemon's defaults; restarts of a job are not limited.
func newSite() (*site, error) {
	own, err := sim.Profiles(profiles.FS)
	if err != nil {
		return nil, err
	}
	on, err := cluster.Parse("16x8:24:500")
	if err != nil {
		return nil, err
	}
	return &site{sim.Experiment{
		Engine: sim.Production, Cluster: on, Ratio: 3, Round: round,
		Schedules: []sim.Schedule{sim.Backfill, {Policy: "slurm", Allocator: "tune"}},
		Site: sim.Site{
			Profiles: sim.WithRestart(own, restart/3, restart-restart/3),
			Rules:    policy.Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20}, Backfill: backfill.Defaults(),
		},
	}}, nil
}

// site runs both schedules over one trace after the other.
type site struct{ experiment sim.Experiment }

// row runs both schedules over a trace and prints a row of the table; within says that neither the mean nor the 99th
// percentile is worse than Slurm's by more than is allowed.
func (s *site) row(ctx context.Context, name string, jobs sim.Workload) (within bool, err error) {
	e := s.experiment
	jobs.Name, e.Workloads = name, []sim.Workload{jobs}
	runs, err := e.Run(ctx)
	if err != nil {
		return false, err
	}
	if len(runs) != 2 {
		return false, errors.New("want an outcome of each schedule")
	}
	alone, err := outcome.Summarise(runs[0])
	if err != nil {
		return false, err
	}
	ours, err := outcome.Summarise(runs[1])
	if err != nil {
		return false, err
	}
	was, is := alone.CompletionHours, ours.CompletionHours
	mean, late := is.Mean/was.Mean, is.P99/was.P99
	fmt.Printf(
		"| %s | %d | %.1f | %.1f | **%.3f** | %.0f | %.0f | **%.3f** | %d |\n",
		name,
		len(jobs.Jobs),
		was.Mean*60,
		is.Mean*60,
		mean,
		was.P99*60,
		is.P99*60,
		late,
		ours.Preemptions,
	)
	return mean <= allowed && late <= allowed, nil
}
