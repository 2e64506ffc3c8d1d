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

// plannerPlugin is the site's own planner, a plugin. Its failures are counted in every round, and logged once for each
// kind of failure; its recovery is logged, too.
type plannerPlugin struct {
	planner *plugin.Planner
	log     zerolog.Logger
	count   func(outcome string)
	fault   plugin.Fault // of the last round; empty: none
}

var _ bridge.Planner = (*plannerPlugin)(nil)

// A plugin may take a planPart-th of a round for a plan, and planMost at most.
const (
	planPart = 4
	planMost = 30 * time.Second
)

// newPlannerPlugin is the planner that the flags name; nil if they name none.
func newPlannerPlugin(f flags, log zerolog.Logger, numbers *metrics) *plannerPlugin {
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
	return &plannerPlugin{planner: planner, log: log, count: numbers.plan}
}

// orNone is the planner as rounds know it. A nil pointer in the interface would not be nil there, so none is returned
// as nil itself.
func (a *plannerPlugin) orNone() bridge.Planner {
	if a == nil {
		return nil
	}
	return a
}

func (a *plannerPlugin) close() {
	if a != nil {
		a.planner.Close()
	}
}

// Plan implements bridge.Planner.
func (a *plannerPlugin) Plan(ctx context.Context, round int, c policy.Cluster, p policy.Policy,
	how policy.Allocator) (policy.Plan, error) {
	plan, err := a.planner.Plan(ctx, round, c, p, how)
	a.note(round, err)
	return plan, err
}

// note counts and logs how the request of a round ended. Any other error is not the plugin's, as of a round that was
// stopped, and counts as nothing.
func (a *plannerPlugin) note(round int, err error) {
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

// fail logs a failure as a warning if it is new. Resting, the pause after a failure, is never new.
func (a *plannerPlugin) fail(round int, failure *plugin.Failure) {
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
