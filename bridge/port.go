// Package bridge runs rounds against a workload manager. A round is a straight line: observe, decide, check, diff,
// write the intent down, act, settle. It is level-triggered: each round looks at what is, never at what should have
// become of the last one, and every verb may be said twice. The package owns the small port through which it sees
// Slurm; it knows no API version, logs nothing and counts nothing.
package bridge

import (
	"context"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Slurm is all that a round needs of a workload manager. slurmrest drives a real one, slurmtest is one in memory; both
// pass the suite in bridge/conformance. Methods may be called from several goroutines, but never for the same job at
// once.
type Slurm interface {
	// Observe tells what is: all nodes, and all jobs that wait or run. It is cheap enough to be called every second.
	Observe(ctx context.Context) (Observed, error)
	// Update makes the request of a pending job exactly this. It changes all of it or answers with an error after which
	// the job must be observed again, since Slurm may have applied a part. ErrNotPending: the job has started or ended
	// meanwhile. ErrHeld: somebody holds it, and it was left as it is; an update that moves only the begin time and the
	// annotation of a job that goes on waiting may have done so before the hold is noticed, and lifts none.
	Update(ctx context.Context, update Update) error
	// Signal sends a signal to a running job, after making sure that its exit with the requeue code, or its own
	// requeue, puts it back into the queue. A job that is not running answers ErrNotRunning. One that has no steps does
	// not notice a signal to them.
	Signal(ctx context.Context, job int, signal Signal) error
	// Requeue stops a running job and puts it back into the queue. A job that is already pending is left alone.
	Requeue(ctx context.Context, job int) error
}

// Signal is a signal, and whom in a job it reaches.
type Signal struct {
	Name string // USR1, …
	To   Target
}

func (s Signal) String() string {
	if s.To == Script {
		return s.Name
	}
	return s.Name + "/" + string(s.To)
}

// Target is whom in a job a signal reaches.
type Target string

// The targets. A batch script that is spared may be one that would die of the signal.
const (
	Script Target = ""      // the batch script alone
	Steps  Target = "steps" // the tasks of all steps, and not the batch script
)

// Watcher says at the cost of one small request whether a look is worth its while. A workload manager need not have
// one.
type Watcher interface {
	// Quiet says that nothing is known to have happened to any job since the last observation. What happens to nodes it
	// need not notice.
	Quiet(ctx context.Context) (bool, error)
}

// Splitter gives tasks of an array that wait jobs of their own, which carry all that the job of the array does. Only
// then can each be sized and placed by itself. A task that has one, or that there is not any more, is left alone. A
// workload manager need not be able to.
type Splitter interface {
	Split(ctx context.Context, array int, tasks []int) error
}

// Observed is the state of the cluster at one moment.
type Observed struct {
	At    time.Time // by Slurm's clock, as all times of jobs are
	Nodes []Node    // ascending in name; none changes once it has been handed out
	// Jobs are the pending, running and completing ones of every partition, ascending in ID. None changes once it has
	// been handed out: the same pointer as in an earlier look says that nothing about the job is different.
	//
	// Those that carry our directive (Managed) are told for some time after their end too, as Finished and with their
	// End, so that who asked one to leave learns how it left.
	Jobs []*Job
	// Reservations are those that are active or to come, ascending in name.
	Reservations []Reservation
}

// Reservation keeps nodes for some time from jobs that were not submitted to it.
type Reservation struct {
	Name  string
	From  time.Time
	To    time.Time // zero: for good
	Nodes []string  // ascending
}

// End is how a job ended, or its last run.
type End struct {
	State  string // in Slurm's word: COMPLETED, FAILED, CANCELLED, TIMEOUT, …
	Code   int    // exit code of the batch script
	Signal int    // that killed it; 0: none
}

// Node is a node as Slurm knows it.
type Node struct {
	Name    string
	GPUType string // the common type of its GPUs; empty for none or several
	// Types are its GPUs by type where they are of several, unless they are Devices; empty: GPUType says it.
	Types      []TypedGPUs
	Features   []string
	Partitions []string
	Total      gres.Vector // what jobs can be given: effective CPUs, memory without the system's part, GPUs
	Allocated  gres.Vector // what jobs hold, those that are still being torn down included
	Completing bool        // a job is being torn down here; nothing starts before it is gone
	Closed     string      // why nothing can be started here (DRAIN, DOWN, …); empty when it is open
	// Devices are its GPUs one by one, by index, where each has a type of its own and shards; empty: GPUs are a number.
	Devices []Device
}

// TypedGPUs are the GPUs of one type of a node.
type TypedGPUs struct {
	Type      string // empty: of none
	Total     int
	Allocated int
}

// Device is one GPU of a node to which jobs can be sent by its type.
type Device struct {
	Type   string // of this GPU alone: g1
	Shards int    // into which Slurm divides it
}

// State is the base state of a job.
type State string

// The states that a round distinguishes. Everything else is over, for us.
const (
	Pending  State = "PENDING"
	Running  State = "RUNNING" // CONFIGURING included
	Finished State = "FINISHED"
)

// Job is a job as Slurm knows it.
type Job struct {
	ID        int
	Name      string
	User      string
	Partition string // several, joined by commas, while it may start in any of them
	Comment   string
	Extra     string // our annotation, or whatever a user wrote there
	Admin     string // what an administrator said of it (AdminComment): users cannot write there

	State      State
	Completing bool // still being torn down, after its end or between two runs
	// Configuring: it has its nodes, and Slurm resumes or prepares them: nothing of it runs yet. Of a job whose nodes
	// were resumed Slurm counts the run from when that is done.
	Configuring bool
	Held        bool   // priority 0: by the user or an administrator
	Reason      string // Slurm's own word for why it waits; empty just after an update
	// why a round must not touch it: het job, exclusive by user, …; empty for a plain batch job and an interactive one
	Shape      string
	Whole      bool // it gets its nodes whole, all cores and GPUs of them, whatever it asks for (--exclusive)
	Dependency bool // it waits for another job

	Array int // the array of which it is a task, or which it stands for; 0: none
	Task  int // its index there, where it is one task
	// indices of the tasks that it stands for, ascending, or the first of them: they have no jobs of their own yet;
	// empty: it is one task
	Tasks  []int
	AtOnce int // how many tasks of its array may run at once; 0: all

	// Interactive: somebody waits at a terminal (srun, salloc). It has no script to signal and cannot be requeued: it
	// is sized at its start and never moved, and ends with its node.
	Interactive bool

	Submitted time.Time // of the current run: every requeue moves it
	Begin     time.Time // not before this time, while pending; zero: at once
	Started   time.Time // of the current run, while running
	TimeLimit time.Duration
	// when its time limit ends the run, while running: time in which it was suspended does not count; zero: not told,
	// or never
	Ends     time.Time
	Deadline time.Time // by which it must have ended; zero: none
	Restarts int
	Requeue  bool // Slurm would put it back after a requeue exit

	Priority    int64  // Slurm's own, the larger first
	QOS         string // empty where the site has no accounting
	Account     string
	Reservation string // it was submitted to; empty: none
	Container   string // path of the OCI bundle that it runs in, by --container; empty: none that Slurm knows of
	End         End    // of a Finished job

	Request  Request   // what it asks for
	Runs     Allocated // what it holds, while running
	Features []string  // node features it asks for, all of them; of some that are joined by | one will do
	Except   []string  // nodes it excludes
	Odd      string    // what in its request a round cannot honour (e.g. GPUs by socket); empty when it can
}

// Request is what a job asks Slurm for, in the words in which it is read and written.
type Request struct {
	Nodes       int `json:"nodes"`         // number of nodes
	Tasks       int `json:"tasks"`         // all nodes together
	CPUsPerTask int `json:"cpus_per_task"` //
	CPUs        int `json:"cpus"`          // minimum in all
	CPUsPerNode int `json:"cpus_per_node"` // minimum on each node
	// on each node, MiB; 0 with MemoryPerCPU or for the partition's default
	Memory       gres.Memory `json:"memory,omitempty"`
	MemoryPerCPU gres.Memory `json:"mem_per_cpu,omitempty"` // MiB
	// CPUsPerGPU and MemoryPerGPU (MiB) are amounts that follow the GPUs wherever these go: a round gives exactly that.
	CPUsPerGPU   int         `json:"cpus_per_gpu,omitempty"`
	MemoryPerGPU gres.Memory `json:"mem_per_gpu,omitempty"`
	GRES         string      `json:"gres,omitempty"` // on each node, as Slurm prints it: gres/gpu:2
	GPUs         int         `json:"gpus"`           // all nodes together
	GPUType      string      `json:"gpu_type,omitempty"`
	Pin          []string    `json:"pin,omitempty"` // required nodes, ascending; empty: any
	// Partition is the partitions in which it may start, joined by commas, where there are several. In an update also
	// one of them; empty: it stays where it is.
	Partition string `json:"partition,omitempty"`
	// Shard is the type of the one GPU of which the job asks for a shard, in place of the GPU of its own that GPUs and
	// GRES say; empty: it does not.
	Shard string `json:"shard,omitempty"`
}

// Allocated is what a running job holds. Amounts are the same on every node of a job that a round started; where Slurm
// gave different amounts PerNode has the largest of each.
type Allocated struct {
	Nodes   []string // ascending
	PerNode gres.Vector
	Devices []string // which GPUs, one entry a node as Slurm prints it: gpu:2(IDX:0-1)
	// Shard is the type of the GPU of which it holds a shard; PerNode.GPUs is 1 then, too. Empty: it holds whole ones.
	Shard string
}

// Update is the whole request of a pending job and when it may begin.
type Update struct {
	Job     int
	Begin   time.Time // a time not after now starts it at once
	Request Request
	Extra   string // our annotation
}
