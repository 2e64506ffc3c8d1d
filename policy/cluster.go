// Package policy decides one round: a Policy says who goes first, an Allocator how much each job gets and where, and Check
// trusts neither. Decide is a pure function of its arguments: no clock, no randomness, no I/O, no globals; the same snapshot
// gives the same plan in the daemon, the simulator and a test. It knows nodes and jobs, and nothing of Slurm.
package policy

import (
	"cmp"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Cluster is a snapshot at the start of a round. Decide never changes it.
type Cluster struct {
	Now   time.Time `json:"now"`
	Nodes []Node    `json:"nodes"`
	Jobs  []Job     `json:"jobs"` // every managed job, waiting or running
	Rules Rules     `json:"rules"`
}

// Rules are the administrator's limits on what a plan may do. The zero value forbids nothing.
type Rules struct {
	// MinRun is how long a job that was started is left alone.
	MinRun time.Duration `json:"min_run_ns"`
	// MaxPreemptions bounds the running jobs that one round may stop; 0 is no bound.
	MaxPreemptions int `json:"max_preemptions"`
	// MaxRestarts is after how many restarts a job is not stopped any more; 0 is no bound.
	MaxRestarts int `json:"max_restarts,omitempty"`
	// Horizon is how far ahead a change to a running job may count its gain; 0 is DefaultHorizon. A job with less left to do
	// counts only that.
	Horizon time.Duration `json:"horizon_ns"`
	// Patience is how long a job may be passed over before nodes are kept free for it; 0 is DefaultPatience.
	Patience time.Duration `json:"patience_ns"`
	// Stranded is the share of the cluster's GPUs, from 0 to 1, that jobs which cannot be asked to give back may leave without
	// their proportional share of cores and memory; 0 is DefaultStranded.
	Stranded float64 `json:"stranded"`
}

// Defaults for the zero values of Rules.
const (
	DefaultHorizon  = time.Hour
	DefaultPatience = time.Hour
	DefaultStranded = 0.1
)

func (r Rules) horizon() time.Duration { return cmp.Or(r.Horizon, DefaultHorizon) }

func (r Rules) patience() time.Duration { return cmp.Or(r.Patience, DefaultPatience) }

// allowAfter says whether a job may be stopped that has been restarted so often.
func (r Rules) allowAfter(restarts int) bool { return r.MaxRestarts == 0 || restarts < r.MaxRestarts }

func (r Rules) stranded() float64 { return cmp.Or(r.Stranded, DefaultStranded) }

// Node is one server.
type Node struct {
	Name     string      `json:"name"`
	GPUType  string      `json:"gpu_type,omitempty"` // empty where the site has no types
	Features []string    `json:"features,omitempty"`
	Total    gres.Vector `json:"total"`
	// Foreign is what jobs that are not in the snapshot hold: the site's other partitions, jobs without our word.
	Foreign gres.Vector `json:"foreign"`
	// Closed says why no job may be started here (drained, down, …); empty when it is open. What runs there may go on.
	Closed string `json:"closed,omitempty"`
}

// Job is one managed job. Its GPU count is fixed; cores and memory are the planner's to choose.
type Job struct {
	ID      int       `json:"id"`
	Name    string    `json:"name,omitempty"`
	User    string    `json:"user,omitempty"`
	Arrival time.Time `json:"arrival"` // first submission; a requeue does not change it
	GPUs    int       `json:"gpus"`    // all nodes together, ≥ 1
	// Nodes is how many nodes the user asked for; 0 leaves the choice to the planner where Slurm allows it.
	Nodes int `json:"nodes,omitempty"`
	// Tasks is the number of tasks on each node, at least 1; cores are given to tasks in equal parts.
	Tasks    int      `json:"tasks_per_node,omitempty"`
	GPUType  string   `json:"gpu_type,omitempty"` // empty: any
	Features []string `json:"features,omitempty"` // a node must have all of them
	Only     []string `json:"only,omitempty"`     // nodes the user named; empty: any
	Except   []string `json:"except,omitempty"`   // nodes the user excluded
	// Profile is nil when the job has none that can be used: it then gets exactly the proportional share.
	Profile *sensitivity.Profile `json:"-"`
	// ProfileName is Profile's name for reports and for replay.
	ProfileName string `json:"profile,omitempty"`

	// Owed says that the job shall have the proportional share and nothing else: it was given what it holds for a profile that proved
	// wrong. Where it runs with another size it is restarted for that. Profile is nil then.
	Owed bool `json:"owed,omitempty"`

	// Barred says why the job may not start in this round (a dependency, its own begin time); empty when it may.
	Barred string `json:"barred,omitempty"`

	// Running is what the job holds now; nil while it waits.
	Running *Placement `json:"running,omitempty"`
	Started time.Time  `json:"started,omitzero"` // of the current run
	// Restarts is how often Slurm has put the job back into the queue, for whatever reason.
	Restarts int `json:"restarts,omitempty"`
	// Saves says that the job declared a checkpoint, so that it can be asked to give way.
	Saves bool `json:"saves"`
	// Fixed says that a running job must not be stopped or changed: it declared no checkpoint and the administrator does not
	// allow its preemption, or it is just starting or ending.
	Fixed bool `json:"fixed"`

	Attained float64       `json:"attained_gpu_s"` // GPU-seconds of service in all runs
	Done     time.Duration `json:"done_ns"`        // progress, in time at the proportional share
	Length   time.Duration `json:"length_ns"`      // expected length at the proportional share; 0: unknown
	Restart  time.Duration `json:"restart_ns"`     // cost of one checkpoint and restart
}

// Placement is where a job runs and with how much: the same amounts on every node, as Slurm wants a gang.
type Placement struct {
	Nodes   []string    `json:"nodes"`    // ascending
	PerNode gres.Vector `json:"per_node"` // GPUs, cores and memory on each
}

// Total is the sum over the placement's nodes.
func (p Placement) Total() gres.Vector { return p.PerNode.Times(len(p.Nodes)) }

// Plan is the outcome of a round: exactly one decision for every job of the snapshot, ascending in ID.
type Plan struct {
	Decisions []Decision `json:"decisions"`
}

// Decision is a grant or the one reason why there is none.
type Decision struct {
	Job   int        `json:"job"`
	Grant *Placement `json:"grant,omitempty"`
	// Gain is the granted throughput relative to the proportional share of the same node; 1 for a job without profile.
	Gain float64 `json:"gain,omitempty"`
	// Fair is the proportional share of the granted GPUs on one of the granted nodes.
	Fair gres.Vector `json:"fair,omitzero"`
	// Reason is Why in one word of a fixed set, for counting; empty when the job is granted what it had.
	Reason Reason `json:"reason,omitempty"`
	// Why says in words why a job waits, or why a running one is changed or stopped.
	Why string `json:"why,omitempty"`
}

// Reason is the one word for why a job waits or is changed.
type Reason string

// The reasons why a job waits.
const (
	Barred   Reason = "barred"    // it may not start yet, whatever is free
	Shape    Reason = "shape"     // no node of the cluster could ever hold it
	Closed   Reason = "closed"    // the nodes that could hold it are drained or down
	Turn     Reason = "turn"      // the GPUs are held by jobs that go first
	Gang     Reason = "gang"      // enough GPUs are free, but not together
	Cores    Reason = "cores"     // GPUs are free, but not the cores that go with them
	RAM      Reason = "memory"    // GPUs are free, but not the memory that goes with them
	HeldBack Reason = "held-back" // what is free is kept for a job that has waited too long
	Limit    Reason = "limit"     // it could run if another job were stopped, which the rules do not allow now
)

// The reasons why a running job is stopped or restarted.
const (
	GivesWay Reason = "gives-way" // a job that goes first takes its GPUs
	Shrinks  Reason = "shrinks"   // it gives back what it holds beyond its share
	Grows    Reason = "grows"     // it gains more than its restart costs
	Starts   Reason = "starts"    // it waited and is granted
)
