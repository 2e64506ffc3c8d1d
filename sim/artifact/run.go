package artifact

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// defaultRound is the paper's, in seconds.
const defaultRound = 300

func newEngine(config Config) (*engine, error) {
	if config.Round == 0 {
		config.Round = defaultRound
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	shape, err := shapeOf(config.Cluster)
	if err != nil {
		return nil, err
	}
	set, err := config.models(&shape)
	if err != nil {
		return nil, err
	}
	e := &engine{
		Config: config, shape: shape, models: set,
		classes: make([][]*class, len(set)), key: keys[config.Policy],
		servers: make([]server, shape.count),
		exact:   short(config.Round) && short(shape.server[:]...) && short(shape.fair[:]...),
	}
	for k := range e.servers {
		e.servers[k].left = e.server
	}
	return e, nil
}

// models are those for the cores for each GPU that the configuration names, or that the servers have.
func (c Config) models(s *shape) ([]models.Model, error) {
	ratio := cmp.Or(c.Ratio, s.ratio())
	if c.Allocator == Opt && ratio != optRatio {
		return nil, fmt.Errorf("allocator = %s: the sensitivity matrices hold for %d cores for each GPU: want that ratio, named or on the servers",
			Opt, optRatio)
	}
	set, err := models.Set(ratio)
	if err != nil && c.Ratio == 0 {
		return nil, fmt.Errorf("cluster: %g cores for %d GPUs of a server: want %d to %d for each GPU, or a ratio named: the models are known for no other",
			s.server[cpu], s.gpus, models.LeastRatio, models.MostRatio)
	}
	return set, err
}

// check finds settings that are wrong.
func (c Config) check() error {
	switch {
	case !slices.Contains([]Policy{FIFO, SRTF, LAS, FTF, DRF, Tetris}, c.Policy):
		return fmt.Errorf("policy = %q: want one of %s, %s, %s, %s, %s, %s", c.Policy, FIFO, SRTF, LAS, FTF, DRF, Tetris)
	case !slices.Contains([]Allocator{Proportional, Greedy, Tune, Opt}, c.Allocator):
		return fmt.Errorf("allocator = %q: want one of %s, %s, %s, %s", c.Allocator, Proportional, Greedy, Tune, Opt)
	case !slices.Contains([]Placement{FirstFit, Consolidate}, c.Placement):
		return fmt.Errorf("placement = %q: want %s or %s", c.Placement, FirstFit, Consolidate)
	case !slices.Contains([]Mode{Generated, Replay, Static}, c.Mode):
		return fmt.Errorf("mode = %q: want %s, %s or %s", c.Mode, Generated, Replay, Static)
	case c.Jobs == nil:
		return fmt.Errorf("jobs: there is no source: want one")
	case !(c.Round > 0 && c.Round <= longest):
		return fmt.Errorf("round = %g s: want more than 0 and at most %g, usually %d", c.Round, longest, defaultRound)
	case !(c.Until >= 0) || math.IsInf(c.Until, 1):
		return fmt.Errorf("until = %g s: want a moment from 0, which is none", c.Until)
	case c.Window != outcome.Window{} && c.Window.End <= c.Window.First:
		return fmt.Errorf("window %d-%d is empty: want its first job and, larger, the one behind its last", c.Window.First, c.Window.End)
	}
	return nil
}

// outcome is what the simulation gave.
func (e *engine) outcome() outcome.Run {
	e.run.Setting = outcome.Setting{
		Engine: "artifact", Policy: string(e.Policy), Allocator: string(e.Allocator), Placement: string(e.Placement),
		Window: e.Window, RoundSeconds: e.Round,
	}
	e.run.GPUs, e.run.CPUs, e.run.Memory = e.count*e.gpus, int(e.total[cpu]), e.total[memory]
	e.run.Jobs = make([]outcome.Job, e.arrived)
	for i := range e.run.Jobs {
		e.run.Jobs[i] = e.result(i)
	}
	slices.SortFunc(e.run.Jobs, func(a, b outcome.Job) int { return cmp.Compare(a.ID, b.ID) })
	inOrder(e.run.Spans)
	return e.run
}

func (e *engine) result(i int) outcome.Job {
	j, given := &e.jobs[i], e.given[i]
	return outcome.Job{
		ID: given.ID, Model: given.Model, User: given.User, GPUs: given.GPUs, Arrival: given.Arrival,
		Length:   float64(given.Iterations) * j.model.Iteration,
		FirstRun: j.first, Finish: j.finish, Starts: j.starts, AttainedGPU: j.attained * j.n,
	}
}
