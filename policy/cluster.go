// Package policy decides one round: a Policy says who goes first, an Allocator how much each job gets and where, and
// Check trusts neither. Decide is a pure function of its arguments: no clock, no randomness, no I/O, no globals; the
// same snapshot gives the same plan in the daemon, the simulator and a test. It knows nodes and jobs, and nothing of
// Slurm.
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
	// Quotas are the site's limits on what groups of jobs may hold together: associations, QOS. Job.Quotas are numbers
	// of this list.
	Quotas []Quota `json:"quotas,omitempty"`
	// Unmanaged are jobs that wait for room beside those of the plan, in the order in which they are considered: the
	// larger Priority first, then the smaller ID.
	Unmanaged []Unmanaged `json:"unmanaged,omitempty"`
	// UnmanagedGPUs is on how many GPUs jobs beside those of the plan were started within the last Rules.Horizon; one
	// that needs none counts as one. As many may be asked for again at any time: nothing is lent of the share that goes
	// with so many of the GPUs that are free.
	UnmanagedGPUs int `json:"unmanaged_gpus,omitempty"`
}

// Quota bounds what the jobs of a group may hold together, as a QOS or an association does. Amounts are what is left to
// the jobs of the snapshot, running and granted ones alike: the site's number less what the group's other jobs hold, at
// least 0. Unbounded stands where the site has no number.
type Quota struct {
	Name   string      `json:"name"` // for people: "GrpTRES of account ml"
	Jobs   int         `json:"jobs"`
	Nodes  int         `json:"nodes"` // of each job, added up
	GPUs   int         `json:"gpus"`
	CPUs   int         `json:"cpus"`
	Memory gres.Memory `json:"memory"` // MiB
}

// Unbounded is an amount of a Quota that is none.
const Unbounded = -1

// Less is what the quota leaves when one more job holds so much on each of so many nodes; never less than nothing.
func (q Quota) Less(nodes int, perNode gres.Vector) Quota {
	held := perNode.Times(nodes)
	q.Jobs, q.Nodes = less(q.Jobs, 1), less(q.Nodes, nodes)
	q.GPUs, q.CPUs, q.Memory = less(q.GPUs, held.GPUs), less(q.CPUs, held.CPUs), less(q.Memory, held.Memory)
	return q
}

func less[N int | gres.Memory](bound, held N) N {
	if bound == Unbounded {
		return bound
	}
	return max(0, bound-held)
}

// Slack is by how much of its memory a node may exceed another and still be its equal to a gang: firmware and kernels
// leave nodes of one make with amounts that differ by a few MiB.
const Slack = 1.0 / 64

// NearlyEqual says whether a node with so much memory is the equal, to a gang, of one with less and as many GPUs of one
// type and cores.
func NearlyEqual(less, more gres.Memory) bool { return float64(more) <= float64(less)*(1+Slack) }

// GangTotals is for each node what the share of a gang is reckoned with there, since a gang has one size on all its
// nodes: what the node has, but of memory only as much as the smallest of those that are equal to it.
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

// Reservation is a time in which a node belongs to others than the jobs of the queue: maintenance, a course, a group's
// own days.
type Reservation struct {
	Name string    `json:"name"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"` // zero: for good
}

// Rules are the administrator's limits on what a plan may do. The zero value forbids nothing.
type Rules struct {
	// MinRun is how long a job that was started is left alone.
	MinRun time.Duration `json:"min_run_ns"`
	// MaxPreemptions bounds the running jobs that one round may stop; 0 is no bound.
	MaxPreemptions int `json:"max_preemptions"`
	// MaxRestarts is after how many restarts a job is not stopped any more; 0 is no bound.
	MaxRestarts int `json:"max_restarts,omitempty"`
	// Horizon is how far ahead a place counts for a job that waits, against the restarts that it takes; 0 is
	// DefaultHorizon. A job with less left to do counts only that.
	Horizon time.Duration `json:"horizon_ns"`
	// Payback is the time in which a restart of a running job for a better size or place must have earned what it cost;
	// 0 is DefaultPayback. A job with less left to do counts only that. For so long after a restart nobody is restarted
	// for a gain again.
	Payback time.Duration `json:"payback_ns,omitempty"`
	// Patience is how long a job may be passed over before nodes are kept free for it; 0 is DefaultPatience.
	Patience time.Duration `json:"patience_ns"`
	// Stranded is the share of the cluster's GPUs, from 0 to 1, that jobs which cannot be asked to give back may leave
	// without their proportional share of cores and memory in any case; 0 is DefaultStranded. Beyond that such a job
	// has what is idle if it gains more by it than is expected to be lost: a GPU that is left without its share counts
	// for the part of the time, until the job ends by its Length or TimeLimit, in which somebody would have had it.
	// Those who wait would have it at once; after them as many GPUs are asked for, evenly, as by the jobs that came
	// within the last Horizon; and GPUs that have their share are taken first. So a job that ends soon may have nearly
	// all that is idle, and one of which nobody knows when it ends leaves their share to as many GPUs as are asked for
	// in a Horizon.
	Stranded float64 `json:"stranded"`
	// CallableOnly says that nothing is lent that could not be called back: jobs that cannot be asked to give back have
	// no more than their proportional share, and Stranded does not matter. Jobs that no plan decides on may then come
	// at any time, and find beside every GPU that is free what goes with it.
	CallableOnly bool `json:"callable_only,omitempty"`
	// Round is how long it is until the next round; 0 is DefaultRound.
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

// Ending is what comes free on a node at some time.
type Ending struct {
	At   time.Time   `json:"at"`
	Size gres.Vector `json:"size"`
}

// Node is one server.
type Node struct {
	Name     string      `json:"name"`
	GPUType  string      `json:"gpu_type,omitempty"` // empty where the site has no types
	Features []string    `json:"features,omitempty"`
	Total    gres.Vector `json:"total"`
	// Foreign is what jobs that are not in the snapshot hold: the site's other partitions, jobs without our directive.
	Foreign gres.Vector `json:"foreign"`
	// ForeignEnds is which parts of Foreign come free by themselves, and when at the latest: by the time limits of
	// those jobs, in any order. Of the rest nobody knows.
	ForeignEnds []Ending `json:"foreign_ends,omitempty"`
	// Closed says why no job may be started here (drained, down, …); empty when it is open. What runs there may go on.
	Closed string `json:"closed,omitempty"`
	// Reserved are the reservations that the node is or will be in, ascending in From. A job may run here only as long
	// as its time limit ends before those that are not its own begin.
	Reserved []Reservation `json:"reserved,omitempty"`
	// Devices are its GPUs one by one, where jobs can be sent to one of them and share it; empty: GPUs are a number.
	Devices []Device `json:"devices,omitempty"`
}

// Has says whether a node has a feature that a job asks for, or one of several that are joined by |.
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
	Name   string      `json:"name"`       // as Slurm's type of it says: g1
	Memory gres.Memory `json:"memory_mib"` // of the GPU
	Seats  int         `json:"seats"`      // how many jobs can be on it at once, at most share.MostJobs
	// Mode is by which way its node has it shared; empty: by turns. How fast jobs are together is reckoned with it, see
	// SharedBy.
	Mode share.Mode `json:"mode,omitempty"`
	// Foreign says that a job which is not in the snapshot uses it, whole or in part.
	Foreign bool `json:"foreign,omitempty"`
	// Job is the job of the snapshot that has it as a GPU of its own, with no Placement.Device; 0: none. Where a job
	// holds GPUs of the node and no device says which, nobody can be sent to one that nobody uses.
	Job int `json:"job,omitempty"`
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
	Features []string `json:"features,omitempty"` // a node must have all of them, see Node.Has
	Only     []string `json:"only,omitempty"`     // nodes the user named; empty: any
	Except   []string `json:"except,omitempty"`   // nodes the user excluded
	// Floor is what its user asked for and must have on each node, whatever its profile says; zero in a field: nothing.
	// Cores are rounded up to whole ones for each task. A run that holds less, as one may that began before its floor
	// was known, is not restarted for that.
	Floor gres.Vector `json:"floor,omitzero"`
	// Pace are amounts on each node with which a run was reckoned, such as those of the user's request where it has a
	// time limit: the job is never slower than with these, as far as the ceiling allows; a field that is zero is as in
	// the share. Zero: nobody reckoned. Without a profile it is as good as a floor.
	Pace gres.Vector `json:"pace,omitzero"`
	// Ceiling is the most that the site or its user's own request allows it on each node; zero in a field: no bound. It
	// is stronger than the share: a job under a ceiling is owed the smaller of both, and what the ceiling takes from it
	// of one resource is no reason to give it less of another: of cores and memory each it has at least the smaller of
	// share and ceiling then, whatever its profile says. A floor above it is a job that cannot run.
	Ceiling gres.Vector `json:"ceiling,omitzero"`
	// PerCore says that it is given memory by the core, in whole MiB: its amounts on a node are multiples of its cores
	// there, and of a share that is none it is owed the next lower one.
	PerCore bool `json:"per_core,omitempty"`
	// Quotas are the numbers, in Cluster.Quotas, of those that it counts against; ascending.
	Quotas []int `json:"quotas,omitempty"`
	// Priority is Slurm's own order, the larger first: the tier of the job's partition in the bits above 32, and its
	// priority. It is what the policy slurm goes by.
	Priority int64 `json:"priority,omitempty"`
	// TimeLimit is after which a run is ended; 0: never.
	TimeLimit time.Duration `json:"time_limit_ns,omitempty"`
	// Reservation is the one that it was submitted to; empty: none. Only then names the nodes of it.
	Reservation string `json:"reservation,omitempty"`
	// Profile is nil when the job has none that can be used: it then gets exactly the proportional share.
	Profile *sensitivity.Profile `json:"-"`
	// ProfileName is Profile's name for reports and for replay.
	ProfileName string `json:"profile,omitempty"`

	// Owed says that the job shall have the proportional share and nothing else: it was given what it holds for a
	// profile that proved wrong. Where it runs with another size it is restarted for that. Profile is nil then.
	Owed bool `json:"owed,omitempty"`

	// Share is that it may share a GPU, and how; nil: it is never put on one that another job uses. Only a job with one
	// GPU has it.
	Share *share.Request `json:"share,omitempty"`
	// Kept is what was measured of an important job in its present run beside others; nil: it kept share.HighKeeps of
	// its speed alone, or nobody measured. As long as it stays where it runs nobody is seated beside it any more.
	Kept *Kept `json:"kept,omitempty"`

	// Unruly says that it would not give its turn back on a GPU that it shared, again and again. It is given no seat
	// any more, and leaves the one that it has beside others; where it must not be stopped nobody is seated beside it.
	Unruly bool `json:"unruly,omitempty"`

	// Barred says why the job may not start in this round (a dependency, its own begin time); empty when it may.
	Barred string `json:"barred,omitempty"`

	// Running is what the job holds now; nil while it waits.
	Running *Placement `json:"running,omitempty"`
	Started time.Time  `json:"started,omitzero"` // of the current run
	// Restarts is how often Slurm has put the job back into the queue, for whatever reason.
	Restarts int `json:"restarts,omitempty"`
	// Saves says that the job declared a checkpoint, so that it can be asked to give way.
	Saves bool `json:"saves"`
	// Fixed says that a running job must not be stopped or changed: it declared no checkpoint and the administrator
	// does not allow its preemption, or it is just starting or ending.
	Fixed bool `json:"fixed"`
	// Stays says that a running job goes on as it is in this round, but for what it was lent and others need.
	Stays bool `json:"stays,omitempty"`

	Attained float64       `json:"attained_gpu_s"` // GPU-seconds of service in all runs
	Done     time.Duration `json:"done_ns"`        // progress, in time at the proportional share
	Length   time.Duration `json:"length_ns"`      // expected length at the proportional share; 0: unknown
	Restart  time.Duration `json:"restart_ns"`     // cost of one checkpoint and restart
}

// Unmanaged is a job that waits, and that no plan decides on: the workload manager starts it by itself wherever it has
// room. A plan makes that room where it lacks only what was lent, and keeps it.
type Unmanaged struct {
	ID       int   `json:"id"`
	Priority int64 `json:"priority,omitempty"` // as Job.Priority
	// Nodes and PerNode are what it asks for: so much on each of so many nodes.
	Nodes   int         `json:"nodes"`
	PerNode gres.Vector `json:"per_node"`
	On      []string    `json:"on"` // the nodes that it may use, ascending
}

// Kept is which part of its speed alone an important job had beside others on its device.
type Kept struct {
	Part   float64 `json:"part"`   // less than share.HighKeeps
	Beside []int   `json:"beside"` // the jobs of the snapshot that were there, ascending
}

// Placement is where a job runs and with how much: the same amounts on every node, as Slurm wants a gang.
type Placement struct {
	Nodes   []string    `json:"nodes"`    // ascending
	PerNode gres.Vector `json:"per_node"` // GPUs, cores and memory on each
	// Device is the GPU of the one node on which the job has a seat, which others may share with it; empty: its GPUs
	// are its own. PerNode.GPUs is 1 for each who sits there: all who name the same device of a node hold one GPU
	// together.
	Device string `json:"device,omitempty"`
}

// Total is the sum over the placement's nodes.
func (p Placement) Total() gres.Vector { return p.PerNode.Times(len(p.Nodes)) }

// Equal says whether two placements are the same nodes with the same amounts. Nodes are in ascending order in both.
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
	// Reason is Why in one word of a fixed set, for counting; empty when the job is granted what it had.
	Reason Reason `json:"reason,omitempty"`
	// Why says in words why a job waits, or why a running one is changed or stopped; of one that starts, what its
	// profile does not say.
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
	// InReservation: a reservation begins on the nodes that could hold it before its time limit ends, or has begun.
	InReservation Reason = "reserved"
	InQuota       Reason = "quota" // the jobs of a group hold all that the site leaves them
	Limit         Reason = "limit" // it could run if another job were stopped, which the rules do not allow now
	// Clearing: it is out of patience, and its nodes are emptied for it over several rounds. What is idle on them
	// meanwhile is nobody else's.
	Clearing Reason = "clearing"
)

// The reasons why a job waits that could have run beside others on a GPU, see Job.Share.
const (
	NoSeat    Reason = "no-seat"    // as many jobs as may be are on each
	GPUMemory Reason = "gpu-memory" // the jobs on each leave too little of the GPU's memory
	Slowdown  Reason = "slowdown"   // by prediction, or as was measured, somebody would be slower than he accepts
)

// The reasons why a running job is stopped or restarted.
const (
	GivesWay Reason = "gives-way" // a job that goes first takes its GPUs
	Shrinks  Reason = "shrinks"   // it gives back what it holds beyond its share
	Grows    Reason = "grows"     // it gains more than its restart costs
	Moves    Reason = "moves"     // it leaves its place to a job that gains more by that than all the restarts cost
	Starts   Reason = "starts"    // it waited and is granted
	Shares   Reason = "shares"    // it waited and is granted a seat beside others on their GPU
	Parts    Reason = "parts"     // it leaves a GPU that is not enough for all who share it
)
