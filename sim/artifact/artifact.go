// Package artifact is the simulator that was published with the paper (Synergy, OSDI'22), its arithmetic rebuilt bit
// for bit, faults included, so that our figures can be laid next to the published ones. It is a reference and no
// product: nothing but simulation uses it, and it uses nothing of the planner.
//
// Every 300 s all is taken from everybody. The queue is sorted by the policy (order.go); the allocator gives to one job
// after the other (allocate.go, tune.go, opt.go), wherever that fits (place.go); who has been placed is credited the
// whole round at once. Nothing moves at any other moment, moving costs nothing, and comparisons have no tolerance.
//
// It departs from the published program where that cannot go on or gives no figures. A replay does not end while jobs
// are to come, unless it is Strict; a simulation ends when nobody is there and nobody is to come. Servers with six
// cores for each GPU do not make it divide by zero (class.go). Opt is told the right number of cores under every policy
// (opt.go). Jobs may have any number of GPUs, and what the program would take for something else, or hang on, is an
// error.
package artifact

import (
	"context"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Policy is the order of jobs.
type Policy string

// The policies, as the artifact means them.
const (
	FIFO   Policy = "fifo"
	SRTF   Policy = "srtf"
	LAS    Policy = "las"
	FTF    Policy = "ftf"
	DRF    Policy = "drf"
	Tetris Policy = "tetris"
)

// Allocator is how much jobs are given.
type Allocator string

// The allocators. Opt is the paper's bound: its program on one imaginary machine, never placed.
const (
	Proportional Allocator = "proportional"
	Greedy       Allocator = "greedy"
	Tune         Allocator = "tune"
	Opt          Allocator = "opt"
)

// Placement is where a job is put.
type Placement string

// The placements: first fit over GPU numbers, which the artifact calls random, and as few servers as possible.
const (
	FirstFit    Placement = "random"
	Consolidate Placement = "consolidate"
)

// Mode is how jobs come, which decides when the first round is and when the simulation ends.
type Mode string

// The modes.
const (
	Generated Mode = "generated" // each job is drawn when the one before arrives; the first round is at 0
	Replay    Mode = "replay"    // all jobs are known; the first round is the first after the first arrival
	Static    Mode = "static"    // all jobs are there from the beginning; the first round is at 1 s
)

// Config is one simulation.
type Config struct {
	Cluster   cluster.Cluster // equal servers only
	Ratio     int             // cores for each GPU that the models are for, 3 to 6; 0: as many as the servers have
	Policy    Policy
	Allocator Allocator
	Placement Placement
	Mode      Mode
	Jobs      trace.Source
	Window    outcome.Window // the simulation ends when all its jobs have finished, where it is not empty
	Round     float64        // seconds; 0: 300
	Until     float64        // seconds; 0: no end but that of the mode
	// Strict ends a replay at the first round without a job, although more are to arrive, as the published program
	// does.
	Strict bool
	// Prioritize gives the jobs of the window priority from the start.
	Prioritize bool
	// Detail records rounds and spans.
	Detail bool
	// Progress is told from time to time how many jobs have finished and what time it is in the simulation; nil:
	// nobody.
	Progress func(finished int, at float64)
}

// Run simulates. It ends when the window is complete; otherwise when nobody is there and nobody is to come; in any case
// with the first round at or after Until, which is not held. Mode Generated takes jobs from the source as it needs
// them, so that a source without end wants a window or Until. The others take all jobs before they begin.
//
// The outcome has the jobs that arrived, with what they held up to the end. Where the run ended with the window, other
// jobs that would have ended at that moment may not have, as in the artifact. Under Opt nobody is placed, so there are
// no spans. An error says what cannot be simulated, and what could be.
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
