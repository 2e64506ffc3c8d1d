// Package artifact is the simulator published with the paper (Synergy, OSDI'22), with its arithmetic rebuilt bit for
// bit, including its faults, so that our results can be compared with the published ones. It is a reference: only
// simulations use it, and it uses nothing of the planner.
//
// Every 300 s all resources are taken from all jobs. The queue is sorted by the policy (order.go); the allocator serves
// one job after the other (allocate.go, tune.go, opt.go) wherever it fits (place.go); and a placed job is credited the
// whole round at once. Nothing changes at other times, moving costs nothing, and comparisons have no tolerance.
//
// It differs from the published program where that would stop or produce no results. A replay does not end while jobs
// are still to arrive, unless it is Strict; a simulation ends when no job is left. Servers with six cores per GPU do
// not cause a division by zero (class.go). Opt is given the right number of cores under every policy (opt.go). Jobs may
// have any number of GPUs, and input that the program would misread or hang on is an error.
package artifact

import (
	"context"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Policy is the order of jobs.
type Policy string

// The policies, as the artifact implements them.
const (
	FIFO   Policy = "fifo"
	SRTF   Policy = "srtf"   // shortest remaining time first
	LAS    Policy = "las"    // least attained service first, in GPU-seconds
	FTF    Policy = "ftf"    // finish-time fairness of Themis
	DRF    Policy = "drf"    // dominant resource fairness: the smallest dominant part of the cluster first
	Tetris Policy = "tetris" // the smallest remaining volume first, time by resources
)

// Allocator decides how much jobs get.
type Allocator string

// The allocators. Opt is the paper's upper bound: its program on one imaginary machine, without placement on servers.
const (
	Proportional Allocator = "proportional"
	Greedy       Allocator = "greedy"
	Tune         Allocator = "tune"
	Opt          Allocator = "opt"
)

// Placement decides on which servers a job runs.
type Placement string

// The placements: first fit by GPU number, which the artifact calls random, and on as few servers as possible.
const (
	FirstFit    Placement = "random"
	Consolidate Placement = "consolidate"
)

// Mode is how jobs arrive, which decides the time of the first round and the end of the simulation.
type Mode string

// The modes.
const (
	Generated Mode = "generated" // each job is drawn when the one before arrives; the first round is at 0
	Replay    Mode = "replay"    // all jobs are known; the first round is the first one after the first arrival
	Static    Mode = "static"    // all jobs arrive at the beginning; the first round is at 1 s
)

// Config is one simulation.
type Config struct {
	Cluster   cluster.Cluster // equal servers only
	Ratio     int             // cores per GPU for which the models are, 3 to 6; 0: those of the servers
	Policy    Policy
	Allocator Allocator
	Placement Placement
	Mode      Mode
	Jobs      trace.Source
	Window    outcome.Window // the simulation ends when all its jobs have finished; empty: see Mode
	Round     float64        // seconds; 0: 300
	Until     float64        // seconds; 0: only the end of the mode
	// Strict ends a replay at the first round without a job, even if more are to arrive, as the published program does.
	Strict bool
	// Prioritize gives the jobs of the window priority from the start.
	Prioritize bool
	// Detail records rounds and spans.
	Detail bool
	// Progress is called from time to time with the number of finished jobs and the simulated time in seconds; nil: it
	// is not called.
	Progress func(finished int, at float64)
}

// Run simulates until the window is complete; without a window until no job is left and none is to arrive; and in any
// case only to the first round at or after Until, which is not held. Mode Generated takes jobs from the source as it
// needs them, so an endless source requires a window or Until. The other modes take all jobs first.
//
// The outcome contains the jobs that arrived, with what they held up to the end. If the run ends with the window, other
// jobs that end at that moment may count as unfinished, as in the artifact. Opt places no jobs, so it has no spans.
// Errors say what cannot be simulated, and what is expected.
func Run(ctx context.Context, config Config) (outcome.Run, error) {
	e, err := newEngine(config)
	if err != nil {
		return outcome.Run{}, err
	}
	if err := e.simulate(ctx); err != nil {
		return outcome.Run{}, err
	}
	return e.outcome(), nil
}
