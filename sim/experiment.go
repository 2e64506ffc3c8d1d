// Package sim runs experiments: every workload under every schedule on one cluster, several simulations at a time, each
// as if it were alone. It schedules nothing itself and draws nothing: engines do the one, package workload the other.
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

// Experiment is the cross product of workloads and schedules on one cluster. It is data: two equal experiments have
// equal outcomes.
type Experiment struct {
	Engine    Engine
	Cluster   cluster.Cluster
	Ratio     int // cores per GPU that the table of models is for, 3 to 6; 0 for models of one's own
	Workloads []Workload
	Schedules []Schedule
	Window    outcome.Window // the jobs that the figures count; the zero window counts all
	Round     time.Duration
	Until     time.Duration // in the simulation; 0: when all jobs of the window have finished
	Reference Reference
	Site      Site
	Detail    bool // keep rounds and spans
	Parallel  int  // simulations at a time; 0: as many as there are processors
	// Progress is told from time to time how far all simulations are, never by two of them at once; nil: nobody.
	Progress func(Progress)
}

// Workload is one sequence of jobs. Every simulation reads it from the beginning.
type Workload struct {
	Name   string          // for people: the file it came from, or how it is drawn
	Split  string          // the parts of the models, where they were drawn; empty where not
	Jobs   []trace.Job     // in the order of their arrival; empty: they are drawn
	Draw   workload.Config // its Jobs are 0 for a workload without end
	Static bool            // all jobs are there from the beginning
	Load   float64         // jobs an hour, where arrivals were drawn; 0 where not
	Seed   int64           // of what was drawn, be it only the models of a site's jobs
}

// Schedule is who goes first and who gets how much, as the engine names them.
type Schedule struct {
	Policy    string
	Allocator string
	Placement string // of the artifact engine; empty for the other
}

// Reference is what only the artifact engine can be told.
type Reference struct {
	Strict     bool // end at the first round without a job, as the published program does
	Prioritize bool // the jobs of the window go first from the start
}

// Site is what only the production engine can be told.
type Site struct {
	Profiles map[string]*sensitivity.Profile // by model; they say what a restart costs
	Rules    policy.Rules
	Slurm    production.Delays
	AtRounds bool         // jobs end with the round, as in the artifact
	Certify  bool         // rounds that are kept say how good their plans are; see package policy/bound
	Users    users.Habits // without its seed, which is the workload's
	Mode     share.Mode   // by which way nodes have GPUs shared; empty: by turns
	Backfill backfill.Backfill
}

// Run simulates every workload under every schedule: all schedules of the first workload, in the order in which they
// stand, then those of the second. The outcomes are in this order whatever finishes first. When a simulation fails,
// those behind it are given up and the error of the first that failed in this order is returned, under its name.
func (e Experiment) Run(ctx context.Context) ([]outcome.Run, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return e.all(ctx, e.simulate)
}

// cell is one simulation of the cross product.
type cell struct {
	number   int
	workload Workload
	schedule Schedule
}

// cells is the cross product in the order of the outcomes.
func (e Experiment) cells() []cell {
	var all []cell
	for _, w := range e.Workloads {
		for _, s := range e.Schedules {
			all = append(all, cell{len(all), w, s})
		}
	}
	return all
}

// Drawn are the workloads that a configuration gives at every load from every seed.
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

// Source is the workload from its beginning, for one simulation.
func (w Workload) Source() (trace.Source, error) {
	if w.drawn() {
		return workload.New(w.Draw)
	}
	return trace.Of(w.Jobs), nil
}

// Endless says that there is always one more job.
func (w Workload) Endless() bool { return w.length() == 0 }

func (w Workload) drawn() bool { return len(w.Jobs) == 0 }

// length is how many jobs the workload has; 0: no end.
func (w Workload) length() int {
	if w.drawn() {
		return w.Draw.Jobs
	}
	return len(w.Jobs)
}
