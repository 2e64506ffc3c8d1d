// Package sim runs experiments: every workload under every schedule on one cluster, with several independent
// simulations at a time. The package neither schedules nor draws: engines schedule, and package workload draws. No
// engine imports the other.
package sim

import (
	"context"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/production"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// Experiment is the cross product of workloads and schedules on one cluster. It is plain data: equal experiments have
// equal outcomes.
type Experiment struct {
	Engine    Engine
	Cluster   cluster.Cluster
	Ratio     int // cores per GPU of the table of models, 3 to 6; 0 with other profiles
	Workloads []Workload
	Schedules []Schedule
	Window    outcome.Window // the jobs that statistics count; the zero window counts all
	Round     time.Duration
	Until     time.Duration // simulated time; 0: until all jobs of the window have finished
	Reference Reference
	Site      Site
	Detail    bool // keep rounds and spans
	Parallel  int  // simulations at a time; 0: one per processor
	// Progress is called from time to time with the progress of all simulations, never concurrently; nil: not called.
	Progress func(Progress)
}

// Workload is one sequence of jobs. Every simulation reads it from the beginning.
type Workload struct {
	Name   string          // for messages: the file that it came from, or how it is drawn
	Split  string          // the parts of the models, if they were drawn; otherwise empty
	Jobs   []trace.Job     // in the order of arrival; empty: they are drawn
	Draw   workload.Config // how they are drawn; Jobs is 0 for an endless workload
	Static bool            // all jobs arrive at the beginning
	Load   float64         // jobs an hour, if arrivals were drawn; otherwise 0
	Seed   int64           // of everything drawn, even if only the models of a log's jobs are
}

// Schedule is a policy and an allocator, by the engine's names.
type Schedule struct {
	Policy    string
	Allocator string
	Placement string // for the artifact engine only
}

// Reference holds the options of the artifact engine only.
type Reference struct {
	Strict     bool // end at the first round without a job, as the published program does
	Prioritize bool // jobs of the window go first from the start
}

// Site holds the options of the production engine only.
type Site struct {
	Profiles map[string]*sensitivity.Profile // by model; they also contain the cost of a restart
	Rules    policy.Rules
	Slurm    production.Delays
	AtRounds bool         // jobs end at the end of a round, as in the artifact
	Certify  bool         // kept rounds have a certificate; see package policy/bound
	Users    users.Habits // the seed is the workload's
	Mode     share.Mode   // how jobs share a GPU; empty: in turns
	Backfill backfill.Backfill
}

// Run simulates every workload under every schedule: all schedules of the first workload in their order, then those of
// the second, and so on. The outcomes have this order, whichever finishes first. If a simulation fails, those after it
// in this order are cancelled, and Run returns the error of the first failed one in this order, with its name.
func (e Experiment) Run(ctx context.Context) ([]outcome.Run, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return e.runCells(ctx, e.simulate)
}

// cell is one simulation of the cross product of workloads and schedules.
type cell struct {
	number   int // index in the order of the outcomes
	workload Workload
	schedule Schedule
}

// cells returns the cross product in the order of the outcomes: all schedules of the first workload, then those of the
// second.
func (e Experiment) cells() []cell {
	var all []cell
	for _, w := range e.Workloads {
		for _, s := range e.Schedules {
			all = append(all, cell{len(all), w, s})
		}
	}
	return all
}

// Drawn returns a workload for each load and seed, with an otherwise equal configuration. Static jobs all arrive at the
// beginning, so such a workload has no load, whatever is given.
func Drawn(name string, config workload.Config, loads []float64, seeds []int64) []Workload {
	var all []Workload
	for _, load := range loads {
		for _, seed := range seeds {
			config.Load, config.Seed = load, seed
			w := Workload{Name: name, Draw: config, Static: config.Arrivals == workload.Static,
				Split: config.Split.String(), Load: load, Seed: seed}
			if w.Static {
				w.Load = 0
			}
			all = append(all, w)
		}
	}
	return all
}

// Source returns the workload's jobs from the beginning, for one simulation.
func (w Workload) Source() (trace.Source, error) {
	if w.isDrawn() {
		return workload.New(w.Draw)
	}
	return trace.Of(w.Jobs), nil
}

// Endless says whether the workload never runs out of jobs.
func (w Workload) Endless() bool { return w.length() == 0 }

// isDrawn says whether the jobs are drawn instead of given.
func (w Workload) isDrawn() bool { return len(w.Jobs) == 0 }

// jobsIn is how many of the given jobs have an ID in the window. It is 0 if the jobs are drawn: these have all IDs, so
// engines compute the number from the window.
func (w Workload) jobsIn(window outcome.Window) (n int) {
	for i := range w.Jobs {
		if window.Has(w.Jobs[i].ID) {
			n++
		}
	}
	return n
}

// length is the workload's number of jobs, or 0 if it is endless.
func (w Workload) length() int {
	if w.isDrawn() {
		return w.Draw.Jobs
	}
	return len(w.Jobs)
}
