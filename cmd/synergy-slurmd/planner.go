package main

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
)

// adviser is the site's own planner. It is told to the log when it fails, once for each way of failing, and when it
// plans again; and counted in every round.
type adviser struct {
	planner *plugin.Planner
	log     zerolog.Logger
	count   func(outcome string)
	fault   plugin.Fault // of the last round; empty: none
}

var _ bridge.Planner = (*adviser)(nil)

// patience is the part of a round that a plugin may take, and the most that any may.
const (
	planPart = 4
	planMost = 30 * time.Second
)

// newAdviser is the planner that the flags name; nil when they name none.
func newAdviser(f flags, log zerolog.Logger, numbers *metrics) *adviser {
	if f.planner == "" {
		return nil
	}
	limit := f.plannerLimit
	if limit == 0 {
		limit = min(planMost, f.round/planPart)
	}
	lines := log.With().Str("plugin", f.planner).Logger()
	if err := plugin.Inspect(f.planner, f.plannerSum); err != nil {
		log.Error().Err(err).Str("remedy",
			"mend it: it is looked at again before each start").Msg("the built-in planner plans for now")
	}
	numbers.ofPlanner(plugin.Faults())
	planner := plugin.New(f.planner, f.plannerSum, limit,
		func(line string) { lines.Debug().Str("line", line).Msg("planner plugin says") })
	return &adviser{planner: planner, log: log, count: numbers.plan}
}

// orNone is the planner as rounds know it.
func (a *adviser) orNone() bridge.Planner {
	if a == nil {
		return nil
	}
	return a
}

func (a *adviser) close() {
	if a != nil {
		a.planner.Close()
	}
}

// Plan implements bridge.Planner.
func (a *adviser) Plan(ctx context.Context, round int, c policy.Cluster, p policy.Policy,
	how policy.Allocator) (policy.Plan, error) {
	plan, err := a.planner.Plan(ctx, round, c, p, how)
	a.note(round, err)
	return plan, err
}

// note tells what became of a round's question.
func (a *adviser) note(round int, err error) {
	var failure *plugin.Failure
	switch {
	case errors.As(err, &failure):
		a.count(string(failure.Fault))
		a.fail(round, failure)
	case err == nil:
		a.count(string(done))
		if a.fault != "" {
			a.log.Info().Int("round", round).Msg("the planner plugin plans again")
		}
		a.fault = ""
	}
}

// fail says what is new. A plugin that rests has failed before.
func (a *adviser) fail(round int, failure *plugin.Failure) {
	level := zerolog.WarnLevel
	if failure.Fault == a.fault || failure.Fault == plugin.Resting {
		level = zerolog.DebugLevel
	}
	if failure.Fault != plugin.Resting {
		a.fault = failure.Fault
	}
	a.log.WithLevel(level).Int("round", round).Err(failure).Str("remedy", remedyOfPlanner).
		Msg("the built-in planner plans in its place")
}
