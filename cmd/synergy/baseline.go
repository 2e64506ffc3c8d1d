package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// noBaseline is the value of --baseline that shows the daemon's schedules only.
const noBaseline = "none"

// baselineGroup defines the options of the schedules without the daemon, and of which part of the jobs takes part in
// what.
func (p *productionOptions) baselineGroup() group {
	g := newGroup("Without the daemon, next to the schedules of the production engine")
	g.flags.StringVar(&p.baseline, "baseline", "",
		"`list` of as-it-was, the log's own starts and ends, and backfill, Slurm alone with proportional requests; "+
			"or none (default both, where a log tells starts and ends)")
	g.keys.Var(&p.bfInterval, "bf-interval", "`time` between two plans of backfill, as in slurm.conf")
	g.keys.Var(&p.bfResolution, "bf-resolution", "`time` to which backfill rounds, as in slurm.conf")
	g.keys.Var(&p.bfWindow, "bf-window", "`time` that backfill looks ahead, as in slurm.conf")
	g.keys.Float64Var(&p.optIn, "opt-in", 1, "`part` of the jobs that is the daemon's; the others go by Slurm alone")
	g.flags.Float64Var(&p.checkpoints, "checkpoints", 1, "`part` of the jobs that has a checkpoint")
	g.keys.Float64Var(&p.share, "share", 0, "`part` of the jobs of one GPU that may share it, half of them important")
	g.keys.StringVar(&p.shareMode, "share-mode", string(share.Turns),
		"by which `way` nodes have them share it: turns, or fill where all on a GPU are of one user")
	return g
}

// setBackfillDefaults sets the defaults of the options bf-interval, bf-resolution and bf-window, before they are
// defined.
func (p *productionOptions) setBackfillDefaults() {
	usual := backfill.Defaults()
	p.bfInterval, p.bfResolution, p.bfWindow = durationFlag(
		usual.Interval,
	), durationFlag(
		usual.Resolution,
	), durationFlag(
		usual.Window,
	)
}

// backfillConfig is how Slurm's backfill scheduler is configured in the simulation. A time out of range is an error.
func (p *productionOptions) backfillConfig() (backfill.Backfill, error) {
	b := backfill.Defaults()
	b.Interval, b.Resolution = time.Duration(p.bfInterval), time.Duration(p.bfResolution)
	b.Window = time.Duration(p.bfWindow)
	for name, is := range map[string]time.Duration{"bf-interval": b.Interval, "bf-resolution": b.Resolution} {
		if is < time.Second || is > time.Hour {
			return b, fmt.Errorf("--%s %s: want a time from 1s to 1h", name, is)
		}
	}
	if b.Window < time.Minute || b.Window > 30*day {
		return b, fmt.Errorf("--bf-window %s: want a time from 1m to 720h", b.Window)
	}
	return b, nil
}

// userHabits are which parts of the jobs opt in, have a checkpoint and share GPUs.
func (p *productionOptions) userHabits() (users.Habits, error) {
	if !(p.optIn >= 0 && p.optIn <= 1) { // written so that NaN fails
		return users.Habits{}, fmt.Errorf("--opt-in %g: want a part of the jobs, from 0 to 1", p.optIn)
	}
	if !(p.checkpoints >= 0 && p.checkpoints <= 1) {
		return users.Habits{}, fmt.Errorf("--checkpoints %g: want a part of the jobs, from 0 to 1", p.checkpoints)
	}
	if !(p.share >= 0 && p.share <= 1) {
		return users.Habits{}, fmt.Errorf("--share %g: want a part of the jobs of one GPU, from 0 to 1", p.share)
	}
	return users.Habits{Outside: 1 - p.optIn, Unsaved: 1 - p.checkpoints, Sharing: p.share}, nil
}

// parseShareMode returns how the simulated nodes share their GPUs. Turns is returned as the empty mode, which the
// simulator takes for its default.
func (p *productionOptions) parseShareMode() (share.Mode, error) {
	m, err := share.ParseMode(p.shareMode)
	if err != nil {
		return "", fmt.Errorf("--share-mode %w", err)
	}
	if m == share.Turns {
		return "", nil
	}
	return m, nil
}

// baselines returns the schedules without the daemon, which are shown before its own for comparison. Without --baseline
// they are both, if the log says when its jobs started and ended (usualBaselines).
func (o *options) baselines(workloads []sim.Workload, notes io.Writer) ([]sim.Schedule, error) {
	if !o.changed("baseline") {
		return usualBaselines(sim.Engine(o.schedules.engine), workloads, notes), nil
	}
	names, err := parseList(o.production.baseline)
	if err != nil {
		return nil, fmt.Errorf("--baseline %w", err)
	}
	if slices.Equal(names, []string{noBaseline}) {
		return nil, nil
	}
	var all []sim.Schedule
	for _, name := range names {
		s, err := sim.Baseline(name)
		if err != nil {
			return nil, fmt.Errorf("--baseline %s: want as-it-was, backfill, both with a comma between, or none", name)
		}
		if s == sim.AsItWas {
			for _, w := range workloads {
				if err := w.CheckPast(); err != nil {
					return nil, fmt.Errorf("--baseline %s: workload %s: %w", name, w.Name, err)
				}
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// usualBaselines returns the baselines without --baseline. The artifact engine has none. The production engine has both
// if each workload says when its jobs really started and ended, and none otherwise. If a log of Slurm says it only for
// some jobs, the reason is written to notes.
func usualBaselines(engine sim.Engine, workloads []sim.Workload, notes io.Writer) []sim.Schedule {
	if engine != sim.Production {
		return nil
	}
	for _, w := range workloads {
		if err := w.CheckPast(); err != nil {
			if w.HasPast() {
				fmt.Fprintf(notes, "synergy: %s: no row as it was: %v\n", w.Name, err)
			}
			return nil
		}
	}
	return []sim.Schedule{sim.AsItWas, sim.Backfill}
}
