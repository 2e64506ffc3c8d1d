package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Baselines without the daemon, to compare the schedules of the production engine with.
var (
	// AsItWas is not simulated: it has the log's own starts, ends and sizes.
	AsItWas = Schedule{Policy: outcome.AsItWas, Allocator: "log"}
	// Backfill is Slurm alone, with requests of the proportional share; see package sim/backfill.
	Backfill = Schedule{Policy: outcome.Backfill, Allocator: outcome.Proportional}
)

// Baselines lists the policy names of the baselines.
func Baselines() []string { return []string{AsItWas.Policy, Backfill.Policy} }

// Baseline returns the baseline with this name.
func Baseline(name string) (Schedule, error) {
	for _, s := range []Schedule{AsItWas, Backfill} {
		if s.Policy == name {
			return s, nil
		}
	}
	return Schedule{}, fmt.Errorf("baseline %q: want one of %v", name, Baselines())
}

func (s Schedule) isBaseline() bool { return s == AsItWas || s == Backfill }

// checkBaselines requires that the log says what became of each job, if AsItWas is among the schedules, since that
// shows nothing else.
func (e Experiment) checkBaselines() error {
	if !slices.Contains(e.Schedules, AsItWas) {
		return nil
	}
	for _, w := range e.Workloads {
		if err := w.CheckPast(); err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
	}
	return nil
}

// HasPast says whether the log has the times of at least one job. It is false for drawn jobs.
func (w Workload) HasPast() bool {
	return slices.ContainsFunc(w.Jobs, func(j trace.Job) bool { return j.Told.Past.Known() })
}

// CheckPast returns an error if a workload cannot be shown under AsItWas, because its jobs are drawn or the log lacks
// the times of some, and otherwise nil.
func (w Workload) CheckPast() error {
	if w.isDrawn() {
		return errors.New("its jobs are drawn: want a log for what they were")
	}
	unknown := 0
	for _, j := range w.Jobs {
		if !j.Told.Past.Known() {
			unknown++
		}
	}
	if unknown > 0 {
		return fmt.Errorf("nobody tells when %d of its %d jobs ran: want an sacct log with Start and End, whose own "+
			"arrivals, durations and GPUs count", unknown, len(w.Jobs))
	}
	return nil
}

// onSlurmAlone runs a cell under the baseline Backfill. Nothing of the daemon applies: no rules, no habits of users, no
// shared GPUs. With Detail the cluster is recorded at the times of rounds, so that reports can show both next to each
// other.
func (e Experiment) onSlurmAlone(ctx context.Context, c cell, tell func(finished int, at float64)) (outcome.Run,
	error) {
	jobs, err := c.workload.Source()
	if err != nil {
		return outcome.Run{}, err
	}
	config := backfill.Config{
		Cluster: e.Cluster, Profiles: e.Site.Profiles, Jobs: jobs, Window: e.Window,
		WindowJobs: c.workload.jobsIn(e.Window), Until: e.Until,
		Slurm: backfill.Slurm{
			Scheduler: e.Site.Slurm.Scheduler, Teardown: e.Site.Slurm.Teardown, Launch: e.Site.Slurm.Launch,
			Backfill: e.Site.Backfill,
		},
		Progress: tell,
	}
	if e.Detail {
		config.Sample = e.Round
	}
	return backfill.Run(ctx, config)
}
