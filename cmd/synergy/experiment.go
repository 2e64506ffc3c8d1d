package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

// experiment is the simulation that the options describe. Remarks about the named files are written to notes. Errors
// name options as they were given.
func (o *options) experiment(notes io.Writer) (sim.Experiment, error) {
	e, err := o.buildExperiment(notes)
	return e, o.withGivenNames(err)
}

// buildExperiment is the simulation that the options describe. Its errors name all options as flags, whether they were
// typed or stand in a file; experiment renames them.
func (o *options) buildExperiment(notes io.Writer) (sim.Experiment, error) {
	if err := o.checkCombinations(); err != nil {
		return sim.Experiment{}, err
	}
	e := sim.Experiment{
		Engine: sim.Engine(o.schedules.engine), Round: time.Duration(o.schedules.round),
		Until:  time.Duration(o.recorded.until),
		Detail: o.output.rounds != "" || o.output.report != "", Parallel: o.output.parallel,
		Reference: sim.Reference{Prioritize: o.reference.prioritize, Strict: o.reference.strict},
	}
	if e.Round < time.Second || e.Round > day {
		return sim.Experiment{}, fmt.Errorf("--round %s is out of range: want 1s to 24h, 5m is usual", e.Round)
	}
	g, err := o.readSetup()
	if err != nil {
		return sim.Experiment{}, err
	}
	e.Cluster, e.Ratio = g.cluster, g.ratio
	if e.Engine == sim.Production {
		if e.Site, err = o.simSite(g); err != nil {
			return sim.Experiment{}, err
		}
	}
	if e.Schedules, err = o.schedules.allSchedules(e.Engine); err != nil {
		return sim.Experiment{}, err
	}
	if o.recorded.window != "" {
		if e.Window, err = parseWindow(o.recorded.window); err != nil {
			return sim.Experiment{}, fmt.Errorf("--window %w", err)
		}
	}
	if e.Workloads, err = o.workloads(g, notes); err != nil {
		return sim.Experiment{}, err
	}
	before, err := o.baselines(e.Workloads, notes)
	if err != nil {
		return sim.Experiment{}, err
	}
	e.Schedules = append(before, e.Schedules...)
	return e, o.checkExperiment(e)
}

const day = 24 * time.Hour

// checkExperiment finds what is wrong with the experiment, such as jobs without end, and what the command cannot write
// of it.
func (o *options) checkExperiment(e sim.Experiment) error {
	if o.output.record != "" && len(e.Workloads) > 1 {
		return fmt.Errorf("--record writes one workload, and there are %d: name one load and one seed",
			len(e.Workloads))
	}
	for _, w := range e.Workloads {
		if w.Endless() && e.Until == 0 && o.recorded.window == "" {
			return errors.New(
				"the jobs come without end: say how many with --jobs, which of them count with --window, or until " +
					"when with --until")
		}
	}
	return e.Check()
}

// allSchedules are the schedules that the options name: every policy with every allocator and placement, or those of
// --scheduler. The production engine places jobs as the daemon does, so they have no placement there.
func (s schedules) allSchedules(engine sim.Engine) ([]sim.Schedule, error) {
	placements := []string{""}
	if engine == sim.Artifact {
		var err error
		if placements, err = parseList(s.placement); err != nil {
			return nil, fmt.Errorf("--placement %w", err)
		}
	}
	if len(s.schedulers) > 0 {
		return s.namedSchedulers(engine, placements[0])
	}
	policies, err := parseList(s.policy)
	if err != nil {
		return nil, fmt.Errorf("--policy %w", err)
	}
	allocators, err := parseList(s.allocator)
	if err != nil {
		return nil, fmt.Errorf("--allocator %w", err)
	}
	return combineSchedules(policies, canonicalNames(allocators), canonicalNames(placements)), nil
}

// namedSchedulers returns the schedules of --scheduler, in the artifact's spelling. placement is the default for a
// schedule that names none. A schedule that names one is an error with the production engine, which places jobs as the
// daemon does.
func (s schedules) namedSchedulers(engine sim.Engine, placement string) ([]sim.Schedule, error) {
	var all []sim.Schedule
	for _, text := range s.schedulers {
		schedule, err := parseScheduler(text)
		if err != nil {
			return nil, fmt.Errorf("--scheduler %w", err)
		}
		if schedule.Placement == "" {
			schedule.Placement = placement
		} else if engine == sim.Production {
			return nil,
				fmt.Errorf(
					"--scheduler %q: the production engine places jobs as the daemon does: leave +place out, or take "+
						"--engine artifact", text)
		}
		all = append(all, schedule)
	}
	return all, nil
}
