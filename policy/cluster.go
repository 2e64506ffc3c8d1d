// Package policy decides one round: a Policy says which job goes first, an Allocator how much each job gets and where,
// and Check verifies the plan. Decide is a pure function of its arguments: no clock, no randomness, no I/O, no globals;
// the same snapshot gives the same plan in the daemon, the simulator and a test. It knows nodes and jobs, and nothing
// of Slurm.
//
//   - A snapshot is never changed. No order comes from a map, and every order ends in the job ID.
//   - GPUs alone decide which jobs run. Every job has an option within its proportional share, so any assignment by
//     GPUs is feasible; only jobs with a floor above the share are an exception.
//   - Budgets are counted in steps, never in time, so a plan depends on the snapshot alone. What a Planner keeps from
//     round to round is compared with the snapshot before it is used.
//   - Every attribute that distinguishes jobs is part of classKey, or different jobs are taken for equal.
//   - A gang has the same amounts on all its nodes, which are equal: Slurm knows one size per job.
//   - Check shares no code with the planner; of this package it uses what this file exports.
//
// To read the planner, begin with Planner.decide. A snapshot is put on the board (layout.go), the jobs are put in the
// policy's order (order.go), and each has its turn (allocation.go): it stays, or gets a place that is free, or one that
// is made free by preemption (preemption.go, recall.go, evacuate.go). Then the passes of the allocator (pass.go)
// arrange the starting jobs, change running jobs where that gains more than it costs, and fill whole servers. All state
// of a round is on the board; everything else is a function over it.
//
// Words that the comments use:
//
//   - A job is meant by its number i, a server by its number n: indexes in the board's lists, ascending in ID and name.
//     A server is a Node on the board. A gang is a job on several nodes, with one size on each. A job's place is the
//     servers that it is on; room is what servers have free.
//   - The share is the proportional share: as large a part of a server's cores and memory as the job has of its GPUs.
//     A size is the GPUs, cores and memory on each node; a menu lists the sizes that a job may have on a server.
//   - The gain of a size is its throughput relative to that with the share of the same server. The speed is relative to
//     the share of the reference server, so that servers can be compared. Both are 1 without a profile.
//   - What a job is owed is its share, within its terms (floor, pace, ceiling); its demand is the smallest size with
//     the largest gain. What it has beyond the least size on its menu is a loan: another job that needs it calls it
//     back, by restarting the borrower with less. A job can be asked to give back if it saves and the rules allow its
//     restart.
//   - A job of which the size or the place changes restarts. The net of a change is what it gains within a time, less
//     the cost of the restart, in GPU-seconds. The stops are how many running jobs the round may still stop or restart.
//   - A class is the jobs that placement cannot tell apart. A denial records that a search for one of them has failed.
//   - Kept nodes are those on which what is free is kept for one job that has waited longer than rules.patience. A kept
//     job (statusKept) is another thing: it runs, and goes on where it is. A GPU is stranded if it is free without the
//     cores and memory of its share.
//   - On a shared GPU (device) each job has a slot and is a tenant. The leader is the one that the planner sees.
package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Cluster is a snapshot at the start of a round. Decide never changes it.
type Cluster struct {
	Now   time.Time `json:"now"`
	Nodes []Node    `json:"nodes"`
	Jobs  []Job     `json:"jobs"` // every managed job, waiting or running
	Rules Rules     `json:"rules"`
	// Quotas are the site's limits on what groups of jobs (associations, QOS) may hold together. Job.Quotas are indexes
	// into this list.
	Quotas []Quota `json:"quotas,omitempty"`
	// Unmanaged are waiting jobs that the plan does not decide on, in the order in which they are considered: the
	// larger Priority first, then the smaller ID.
	Unmanaged []Unmanaged `json:"unmanaged,omitempty"`
	// UnmanagedGPUs is on how many GPUs unmanaged jobs were started within the last Rules.Horizon; a job without GPUs
	// counts as one. As many may be asked for again at any time, so the share of that many free GPUs is not lent.
	UnmanagedGPUs int `json:"unmanaged_gpus,omitempty"`
}

// Quota bounds what the jobs of a group may hold together, as a QOS or an association does. Amounts are what is left to
// the jobs of the snapshot, running and granted ones alike: the site's number less what the group's other jobs hold, at
// least 0. Unbounded means that the site has no limit.
type Quota struct {
	Name   string      `json:"name"` // for messages: "GrpTRES of account ml"
	Jobs   int         `json:"jobs"`
	Nodes  int         `json:"nodes"` // summed over jobs
	GPUs   int         `json:"gpus"`
	CPUs   int         `json:"cpus"`
	Memory gres.Memory `json:"memory"` // MiB
}

// Unbounded is the amount of a Quota without a limit.
const Unbounded = -1

// Less is what the quota leaves when one more job holds perNode on each of so many nodes; never below 0. An amount
// without limit stays Unbounded.
func (q Quota) Less(nodes int, perNode gres.Vector) Quota {
	held := perNode.Times(nodes)
	q.Jobs, q.Nodes = lessHeld(q.Jobs, 1), lessHeld(q.Nodes, nodes)
	q.GPUs, q.CPUs, q.Memory = lessHeld(q.GPUs, held.GPUs), lessHeld(q.CPUs, held.CPUs), lessHeld(q.Memory, held.Memory)
	return q
}

// lessHeld is what a bound leaves beside held, at least 0; Unbounded stays Unbounded.
func lessHeld[N int | gres.Memory](bound, held N) N {
	if bound == Unbounded {
		return bound
	}
	return max(0, bound-held)
}

// Slack is by how much of its memory a node may exceed another and still be equal to it for a gang: firmware and
// kernels leave nodes of one make with amounts that differ by a few MiB.
const Slack = 1.0 / 64

// NearlyEqual reports whether two nodes with as many GPUs of one type and as many cores are equal for a gang, given
// their memory.
func NearlyEqual(less, more gres.Memory) bool { return float64(more) <= float64(less)*(1+Slack) }

// GangTotals is, for each node, the total from which the share of a gang is computed there. It is the node's own, but
// with the memory of the smallest node that is equal to it, since a gang has one size on all its nodes. Check demands
// no more than that share. The planner may use a larger node (findModels), never a smaller one: its nodes are in
// groups, and here each node is compared by itself.
func GangTotals(nodes []Node) []gres.Vector {
	order := make([]int, len(nodes))
	for n := range order {
		order[n] = n
	}
	compareMakes := func(x, y int) int { // as many GPUs of one type and cores
		return cmp.Or(cmp.Compare(nodes[x].Total.GPUs, nodes[y].Total.GPUs),
			cmp.Compare(nodes[x].Total.CPUs, nodes[y].Total.CPUs),
			cmp.Compare(nodes[x].GPUType, nodes[y].GPUType))
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(compareMakes(x, y), cmp.Compare(nodes[x].Total.Memory, nodes[y].Total.Memory))
	})
	totals := make([]gres.Vector, len(nodes))
	least := 0
	for _, n := range order {
		for compareMakes(order[least], n) != 0 || !NearlyEqual(nodes[order[least]].Total.Memory,
			nodes[n].Total.Memory) {
			least++
		}
		totals[n] = nodes[n].Total
		totals[n].Memory = nodes[order[least]].Total.Memory
	}
	return totals
}

// Reservation is a time in which a node is not available to the jobs of the queue: maintenance, a course, a group's own
// days.
type Reservation struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // zero: without end
}

// Rules are the administrator's limits on what a plan may do. The zero value forbids nothing.
type Rules struct {
	// MinRun is how long a started job is not stopped.
	MinRun time.Duration `json:"min_run_ns"`
	// MaxPreemptions bounds the running jobs that one round may stop; 0: no bound.
	MaxPreemptions int `json:"max_preemptions"`
	// MaxRestarts is after how many restarts a job is no longer stopped; 0: no bound.
	MaxRestarts int `json:"max_restarts,omitempty"`
	// Horizon is for how long a waiting job's place counts against the restarts that it takes; 0: DefaultHorizon. A job
	// with less left to do counts only that.
	Horizon time.Duration `json:"horizon_ns"`
	// Payback is the time in which a restart of a running job for a better size or place must have gained what it cost;
	// 0: DefaultPayback. A job with less left to do counts only that. For as long after a restart, no job is restarted
	// for a gain again.
	Payback time.Duration `json:"payback_ns,omitempty"`
	// Patience is how long a job may be passed over before nodes are kept for it; 0: DefaultPatience.
	Patience time.Duration `json:"patience_ns"`
	// Stranded is the part of the cluster's GPUs, from 0 to 1, that jobs which cannot be asked to give back may always
	// leave without their proportional share of cores and memory; 0: DefaultStranded. Beyond that, such a job gets what
	// is idle if it gains more by it than is expected to be lost. A GPU without its share counts as lost for the part
	// of the time, until the job ends by its Length or TimeLimit, in which a job would have used it. Waiting jobs would
	// use it at once; after them as many GPUs are asked for, evenly over time, as by the jobs that came within the last
	// Horizon; and GPUs that have their share are taken first. So a job that ends soon may get nearly all that is idle,
	// and a job whose end is unknown leaves their share to as many GPUs as are asked for in a Horizon.
	Stranded float64 `json:"stranded"`
	// CallableOnly says that nothing is lent that could not be called back: jobs that cannot be asked to give back have
	// no more than their proportional share, and Stranded has no effect. Unmanaged jobs may then come at any time and
	// find, beside every free GPU, its share.
	CallableOnly bool `json:"callable_only,omitempty"`
	// Round is how long it is until the next round; 0: DefaultRound.
	Round time.Duration `json:"round_ns,omitempty"`
}

// Defaults for the zero values of Rules.
const (
	DefaultHorizon  = time.Hour
	DefaultPayback  = 15 * time.Minute
	DefaultPatience = time.Hour
	DefaultStranded = 0.1
	DefaultRound    = 5 * time.Minute
)

func (r Rules) horizon() time.Duration { return cmp.Or(r.Horizon, DefaultHorizon) }

func (r Rules) payback() time.Duration { return cmp.Or(r.Payback, DefaultPayback) }

func (r Rules) patience() time.Duration { return cmp.Or(r.Patience, DefaultPatience) }

func (r Rules) round() time.Duration { return cmp.Or(r.Round, DefaultRound) }

func (r Rules) stranded() float64 { return cmp.Or(r.Stranded, DefaultStranded) }

// Ending is an amount that becomes free on a node at some time.
type Ending struct {
	At   time.Time   `json:"at"`
	Size gres.Vector `json:"size"`
}

// Node is one server.
type Node struct {
	Name     string      `json:"name"`
	GPUType  string      `json:"gpu_type,omitempty"` // empty if the site has no types
	Features []string    `json:"features,omitempty"`
	Total    gres.Vector `json:"total"`
	// Foreign is what jobs outside the snapshot hold: jobs of other partitions, jobs without our directive.
	Foreign gres.Vector `json:"foreign"`
	// ForeignEnds are the parts of Foreign that become free by themselves, and when at the latest, by the time limits
	// of those jobs; in any order. The end of the rest is unknown.
	ForeignEnds []Ending `json:"foreign_ends,omitempty"`
	// Closed says why no job may be started here (drained, down, …); empty: the node is open. Running jobs may go on.
	Closed string `json:"closed,omitempty"`
	// Reserved are the reservations that the node is or will be in, ascending in From. A job may run here only if its
	// time limit ends before a reservation that is not its own begins.
	Reserved []Reservation `json:"reserved,omitempty"`
	// Devices are its GPUs one by one, if jobs can be sent to one of them and share it; empty: GPUs are only counted.
	Devices []Device `json:"devices,omitempty"`
}

// Has reports whether a node has a feature that a job asks for, or one of several that are joined by |.
func (n *Node) Has(feature string) bool {
	for one := range strings.SplitSeq(feature, "|") {
		if slices.Contains(n.Features, one) {
			return true
		}
	}
	return false
}

// Device is one GPU of a node that jobs can share.
type Device struct {
	Name   string      `json:"name"`       // its own type in Slurm, such as g1
	Memory gres.Memory `json:"memory_mib"` // of the GPU
	Slots  int         `json:"seats"`      // slots: how many jobs can be on it at once, at most share.MostJobs
	// Mode is the way in which its node has it shared; empty: by turns. Speeds are predicted with it, see SharedBy.
	Mode share.Mode `json:"mode,omitempty"`
	// Foreign says that a job outside the snapshot uses it, in whole or in part.
	Foreign bool `json:"foreign,omitempty"`
	// Job is the job of the snapshot that has it as a GPU of its own, without a Placement.Device; 0: none. If a job
	// holds GPUs of the node and no device says which, unused devices cannot be told, and no job is sent to one.
	Job int `json:"job,omitempty"`
}

// Job is one managed job. Its GPU count is fixed; cores and memory are the planner's to choose.
type Job struct {
	ID      int       `json:"id"`
	Name    string    `json:"name,omitempty"`
	User    string    `json:"user,omitempty"`
	Arrival time.Time `json:"arrival"` // first submission; a requeue does not change it
	GPUs    int       `json:"gpus"`    // all nodes together, ≥ 1
	// Nodes is how many nodes the user asked for; 0: the planner chooses, where Slurm allows it.
	Nodes int `json:"nodes,omitempty"`
	// Tasks is the number of tasks on each node, at least 1; all tasks get equal numbers of cores.
	Tasks    int      `json:"tasks_per_node,omitempty"`
	GPUType  string   `json:"gpu_type,omitempty"` // empty: any
	Features []string `json:"features,omitempty"` // a node must have all of them, see Node.Has
	Only     []string `json:"only,omitempty"`     // nodes the user named; empty: any
	Except   []string `json:"except,omitempty"`   // nodes the user excluded
	// Floor is what the user asked for and the job must have on each node, whatever its profile says; a zero field is
	// no floor. Cores are rounded up to whole ones for each task. A run that holds less, since it began before its
	// floor was known, is not restarted for that.
	Floor gres.Vector `json:"floor,omitzero"`
	// Pace are amounts on each node from which the run's length was estimated, such as those of the user's request if
	// it has a time limit: the job is never slower than with these, as far as the ceiling allows. A zero field stands
	// for the share; all zero: there is no such estimate. Without a profile it acts as a floor.
	Pace gres.Vector `json:"pace,omitzero"`
	// Ceiling is the most that the site or the user's own request allows the job on each node; a zero field is no
	// bound. It is stronger than the share: a job under a ceiling is owed the smaller of both. What the ceiling takes
	// of one resource is no reason to give less of the other: of cores and of memory the job then has at least the
	// smaller of share and ceiling, whatever its profile says. A job with a floor above its ceiling cannot run.
	Ceiling gres.Vector `json:"ceiling,omitzero"`
	// PerCore says that the job is given memory by the core, in whole MiB: its memory on a node is a multiple of its
	// cores there, and of a share that is no multiple it is owed the next lower one.
	PerCore bool `json:"per_core,omitempty"`
	// Quotas are the indexes, in Cluster.Quotas, of those that the job counts in; ascending.
	Quotas []int `json:"quotas,omitempty"`
	// Priority is Slurm's own order, the larger first: the tier of the job's partition in the bits above 32, and its
	// priority. The policy slurm goes by it.
	Priority int64 `json:"priority,omitempty"`
	// TimeLimit is how long a run may last; 0: without limit.
	TimeLimit time.Duration `json:"time_limit_ns,omitempty"`
	// Reservation is the one that the job was submitted to; empty: none. With one, Only names nodes of it.
	Reservation string `json:"reservation,omitempty"`
	// Profile is nil if the job has none that can be used: it then gets exactly the proportional share.
	Profile *sensitivity.Profile `json:"-"`
	// ProfileName is the profile's name, for reports and replay.
	ProfileName string `json:"profile,omitempty"`

	// Owed says that the job shall have the proportional share and nothing else, since the profile by which it was
	// sized has proved wrong. If it runs with another size, it is restarted for that. Profile is nil then.
	Owed bool `json:"owed,omitempty"`

	// Share is how the job may share a GPU; nil: it is never put on one that another job uses. Only jobs with one GPU
	// have it.
	Share *share.Request `json:"share,omitempty"`
	// Kept is what an important (high-class) job was measured to keep of its speed in its present run beside others;
	// nil: at least share.HighKeeps, or not measured. As long as it stays where it runs, no job is added to its GPU.
	Kept *Kept `json:"kept,omitempty"`

	// Unruly says that the job has repeatedly not given back its slice of a shared GPU. It gets no slot any more and
	// leaves a GPU that it shares; if it must not be stopped, no job is added to that GPU.
	Unruly bool `json:"unruly,omitempty"`

	// Barred says why the job may not start in this round (a dependency, its own begin time); empty: it may.
	Barred string `json:"barred,omitempty"`

	// Running is what the job holds now; nil while it waits.
	Running *Placement `json:"running,omitempty"`
	Started time.Time  `json:"started,omitzero"` // of the current run
	// Restarts is how often Slurm has requeued the job, for whatever reason.
	Restarts int `json:"restarts,omitempty"`
	// Saves says that the job declared a checkpoint, so that it can be asked to save and leave.
	Saves bool `json:"saves"`
	// Fixed says that a running job must not be stopped or changed: it declared no checkpoint and the administrator
	// does not allow its preemption, or it is just starting or ending.
	Fixed bool `json:"fixed"`
	// Stays says that a running job goes on unchanged in this round, except that loans to it may be called back.
	Stays bool `json:"stays,omitempty"`

	Attained float64       `json:"attained_gpu_s"` // GPU-seconds of service in all runs
	Done     time.Duration `json:"done_ns"`        // progress, in time at the proportional share
	Length   time.Duration `json:"length_ns"`      // expected length at the proportional share; 0: unknown
	Restart  time.Duration `json:"restart_ns"`     // cost of one checkpoint and restart
}

// Unmanaged is a waiting job that no plan decides on: the workload manager starts it by itself wherever it has room. A
// plan makes that room where only loans are in the way, and keeps it.
type Unmanaged struct {
	ID       int   `json:"id"`
	Priority int64 `json:"priority,omitempty"` // see Job.Priority
	// Nodes and PerNode are its request: PerNode on each of so many nodes.
	Nodes   int         `json:"nodes"`
	PerNode gres.Vector `json:"per_node"`
	On      []string    `json:"on"` // the nodes that it may use, ascending
}

// Kept is the part of its speed alone that an important job kept beside others on its device.
type Kept struct {
	Part   float64 `json:"part"`   // less than share.HighKeeps
	Beside []int   `json:"beside"` // the jobs of the snapshot that were there, ascending
}

// Placement is where a job runs and with how much: the same amounts on every node, since Slurm knows one size per job.
type Placement struct {
	Nodes   []string    `json:"nodes"`    // ascending
	PerNode gres.Vector `json:"per_node"` // GPUs, cores and memory on each
	// Device is the GPU, of the only node, on which the job has a slot that others may share; empty: its GPUs are its
	// own. PerNode.GPUs is 1 for each job there, and all jobs that name the same device of a node hold one GPU
	// together.
	Device string `json:"device,omitempty"`
}

// Total is the sum over the placement's nodes.
func (p Placement) Total() gres.Vector { return p.PerNode.Times(len(p.Nodes)) }

// Equal reports whether two placements have the same nodes, in ascending order in both, and the same amounts.
func (p Placement) Equal(q Placement) bool {
	return p.PerNode == q.PerNode && p.Device == q.Device && slices.Equal(p.Nodes, q.Nodes)
}

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
	// Reason is Why in one word of a fixed set, for counting; empty if the job is granted what it had.
	Reason Reason `json:"reason,omitempty"`
	// Why says in words why a job waits, or why a running one is changed or stopped; of a job that starts, what its
	// profile does not cover.
	Why string `json:"why,omitempty"`
}

// Reason is the one word for why a job waits or is changed.
type Reason string

// The reasons why a job waits.
const (
	Barred   Reason = "barred"    // it may not start yet, whatever is free
	Shape    Reason = "shape"     // no node of the cluster could ever hold it
	Closed   Reason = "closed"    // the nodes that could hold it are drained or down
	Turn     Reason = "turn"      // jobs that go first hold the GPUs
	Gang     Reason = "gang"      // enough GPUs are free, but not together
	Cores    Reason = "cores"     // GPUs are free, but not the cores that go with them
	RAM      Reason = "memory"    // GPUs are free, but not the memory that goes with them
	HeldBack Reason = "held-back" // what is free is kept for a job that has waited longer than rules.patience
	// InReservation: on the nodes that could hold it a reservation has begun, or begins before its time limit ends.
	InReservation Reason = "reserved"
	InQuota       Reason = "quota" // jobs of the same group hold all that the site leaves them
	Limit         Reason = "limit" // it could run if other jobs were stopped, which the rules or the cost forbid now
	// Clearing: it has waited longer than rules.patience, and its nodes are emptied for it over several rounds. What is
	// idle on them meanwhile is given to no other job.
	Clearing Reason = "clearing"
)

// The reasons why a job waits that could have run beside others on a shared GPU, see Job.Share.
const (
	NoSlot    Reason = "no-seat"    // each GPU has as many jobs as it may have
	GPUMemory Reason = "gpu-memory" // the jobs on each leave too little of the GPU's memory
	Slowdown  Reason = "slowdown"   // by prediction or measurement, a job would be slower than it accepts
)

// The reasons why a job is started, stopped or restarted.
const (
	GivesWay Reason = "gives-way" // a job that goes first takes its GPUs
	Shrinks  Reason = "shrinks"   // it gives back what it holds beyond its share
	Grows    Reason = "grows"     // it gains more than its restart costs
	Moves    Reason = "moves"     // it moves, so that it or another job gains more than all the restarts cost
	Starts   Reason = "starts"    // it waited and is granted
	Shares   Reason = "shares"    // it waited and is granted a slot beside others on their GPU
	Parts    Reason = "parts"     // it leaves a shared GPU that is not enough for all its jobs
)
