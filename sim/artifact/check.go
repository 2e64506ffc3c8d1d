package artifact

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Bounds of a job's values. Larger ones are mistakes of units.
const (
	maxSeconds = 1e10       // seconds
	maxJobs    = 10_000_000 // in modes in which all jobs are known from the beginning
)

// check returns an error for the first setting that is invalid, or nil if all are valid.
func (c Config) check() error {
	switch {
	case !slices.Contains([]Policy{FIFO, SRTF, LAS, FTF, DRF, Tetris}, c.Policy):
		return fmt.Errorf("policy = %q: want one of %s, %s, %s, %s, %s, %s", c.Policy, FIFO, SRTF, LAS, FTF, DRF,
			Tetris)
	case !slices.Contains([]Allocator{Proportional, Greedy, Tune, Opt}, c.Allocator):
		return fmt.Errorf("allocator = %q: want one of %s, %s, %s, %s", c.Allocator, Proportional, Greedy, Tune, Opt)
	case !slices.Contains([]Placement{FirstFit, Consolidate}, c.Placement):
		return fmt.Errorf("placement = %q: want %s or %s", c.Placement, FirstFit, Consolidate)
	case !slices.Contains([]Mode{Generated, Replay, Static}, c.Mode):
		return fmt.Errorf("mode = %q: want %s, %s or %s", c.Mode, Generated, Replay, Static)
	case c.Jobs == nil:
		return errors.New("jobs: there is no source: want one")
	case !(c.Round > 0 && c.Round <= maxSeconds):
		return fmt.Errorf(
			"round = %g s: want more than 0 and at most %g, usually %d",
			c.Round,
			maxSeconds,
			defaultRound,
		)
	case !(c.Until >= 0) || math.IsInf(c.Until, 1):
		return fmt.Errorf("until = %g s: want a moment from 0, which is none", c.Until)
	case c.Window != outcome.Window{} && c.Window.End <= c.Window.First:
		return fmt.Errorf("window %d-%d is empty: want its first job and, larger, the one behind its last",
			c.Window.First, c.Window.End)
	}
	return nil
}

// models returns the table of models for the ratio in the configuration, or if that has none, for the cores per GPU of
// the servers. It is an error if there is no table for the ratio, or if Opt is to use a ratio for which its matrices do
// not hold.
func (c Config) models(s *shape) ([]models.Model, error) {
	ratio := cmp.Or(c.Ratio, s.ratio())
	if c.Allocator == Opt && ratio != optRatio {
		return nil, fmt.Errorf("allocator = %s: the sensitivity matrices hold for %d cores for each GPU: "+
			"want that ratio, named or on the servers", Opt, optRatio)
	}
	set, err := models.Set(ratio)
	if err != nil && c.Ratio == 0 {
		return nil,
			fmt.Errorf("cluster: %g cores for %d GPUs of a server: want %d to %d for each GPU, or a ratio named: "+
				"the models are known for no other", s.server[cpu], s.gpus, models.LeastRatio, models.MostRatio)
	}
	return set, err
}

// checkJob returns an error for a job that cannot be simulated. Most would otherwise wait for ever or are mistakes of
// units.
func (e *engine) checkJob(given trace.Job) error {
	id, known := models.Find(given.Model)
	most := e.count * e.gpus
	switch {
	case !known:
		return fmt.Errorf("model = %q: want one of %s", given.Model, strings.Join(e.modelNames(), ", "))
	case given.GPUs < 1:
		return fmt.Errorf("gpus = %d: want 1 or more", given.GPUs)
	case given.GPUs > most:
		return fmt.Errorf("gpus = %d: the cluster has %d: leave the job out, or take a larger cluster", given.GPUs,
			most)
	case given.Iterations < 1:
		return fmt.Errorf("iterations = %d: want 1 or more", given.Iterations)
	}
	iteration := e.models[id].Iteration
	switch length := float64(given.Iterations) * iteration; {
	case length > maxSeconds:
		return fmt.Errorf("iterations = %d: that takes %g s: want at most %g s", given.Iterations, length, maxSeconds)
	case iterations(e.Round, iteration) < 1:
		return fmt.Errorf("model = %s: an iteration takes %g s and never ends in rounds of %g s: want longer rounds",
			given.Model, iteration, e.Round)
	}
	return e.checkOrder(given)
}

// modelNames lists the models that a job may name, for the error about another one.
func (e *engine) modelNames() []string {
	var names []string
	for _, m := range e.models {
		names = append(names, m.Name)
	}
	return names
}

// checkOrder requires arrivals in order, and ascending IDs in mode Generated. There jobs are read one by one, so
// ascending IDs take the place of checkUniqueIDs, and show when no job of the window can follow.
func (e *engine) checkOrder(given trace.Job) error {
	if !(given.Arrival >= 0 && given.Arrival <= maxSeconds) {
		return fmt.Errorf("arrival = %g s: want 0 to %g", given.Arrival, maxSeconds)
	}
	if len(e.given) == 0 {
		return nil
	}
	last := e.given[len(e.given)-1]
	switch {
	case given.Arrival < last.Arrival:
		return fmt.Errorf("arrival = %g s: job %d before it arrives at %g s: want jobs in the order of their arrival",
			given.Arrival, last.ID, last.Arrival)
	case e.Mode == Generated && given.ID <= last.ID:
		return fmt.Errorf("it comes after job %d: want ascending IDs in mode %s", last.ID, e.Mode)
	}
	return nil
}

// checkUniqueIDs returns an error if two jobs have the same ID, by which the window and the outcome identify jobs.
func (e *engine) checkUniqueIDs() error {
	ids := make([]int, len(e.given))
	for i, given := range e.given {
		ids[i] = given.ID
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			return fmt.Errorf("job %d: two jobs have this ID: want each once", ids[i])
		}
	}
	return nil
}

// checkWindow returns an error if the window has no job, since the simulation would not end with it. It can tell only
// once all jobs are known, and returns nil before.
func (e *engine) checkWindow() error {
	if !e.hasWindow() || !e.sourceEmpty {
		return nil
	}
	least, most := e.given[0].ID, e.given[0].ID
	for _, given := range e.given {
		if e.Window.Has(given.ID) {
			return nil
		}
		least, most = min(least, given.ID), max(most, given.ID)
	}
	return fmt.Errorf("window %d-%d has no job: the jobs are %d to %d", e.Window.First, e.Window.End, least, most)
}
