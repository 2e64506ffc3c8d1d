package artifact

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// defaultRound is the round of the paper, in seconds.
const defaultRound = 300

// newEngine checks the configuration and prepares a simulation; jobs are read later, by begin.
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
		exact:   hasFewDigits(config.Round) && hasFewDigits(shape.server[:]...) && hasFewDigits(shape.fair[:]...),
	}
	for k := range e.servers {
		e.servers[k].left = e.server
	}
	return e, nil
}

// outcome returns the result of the simulation. Package sim replaces its setting by one that also names the workload.
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
	sortSpans(e.run.Spans)
	return e.run
}

// result is the outcome of the i-th job. Its length is in seconds at the proportional share.
func (e *engine) result(i int) outcome.Job {
	j, given := &e.jobs[i], e.given[i]
	return outcome.Job{
		ID: given.ID, Model: given.Model, User: given.User, GPUs: given.GPUs, Arrival: given.Arrival,
		Length:   float64(given.Iterations) * j.model.Iteration,
		FirstRun: j.firstStart, Finish: j.finish, Starts: j.starts, AttainedGPU: j.attained * j.n,
	}
}
