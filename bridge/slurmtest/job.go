package slurmtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Spec is a submission: what a user writes on the command line of sbatch and what job_submit.lua makes of it.
type Spec struct {
	Name      string
	User      string
	Partition string // empty: the first partition of the first node
	Comment   string
	Admin     string // an administrator's comment
	Extra     string
	// Request is what the job asks for. Numbers left at zero are filled in as sbatch does: one node, one task a node,
	// one CPU a task. GPUs and GRES imply each other.
	Request bridge.Request
	// Lease is what job_submit.lua gives a job with our directive: it may not begin before, and its extra is the lua's
	// annotation.
	Lease     time.Duration
	Begin     time.Time // the user's own --begin
	TimeLimit time.Duration
	Deadline  time.Time // is told, and ends nothing here
	// Priority is Slurm's own: the scheduler takes the larger first, and equal ones in the order of their IDs.
	Priority    int64
	QOS         string
	Account     string
	Container   string
	Reservation string // which it is submitted to
	Features    []string
	Except      []string // nodes it excludes
	After       int      // a job that must end first; 0: none
	Held        bool
	NoRequeue   bool
	Tasks       []int  // indices of an array, ascending; empty: it is none
	AtOnce      int    // how many of them may run at once; 0: all
	Exclusive   bool   // gets its nodes whole, whatever it asked for
	Untold      bool   // that is a rule of its partition, and nobody tells it of the job
	Shape       string // het, exclusive, …; empty for a plain batch job
	Interactive bool   // srun or salloc: it is never requeued, and takes no signal of ours
	Odd         string
	Work        Work
}

// Work is how a job behaves once it runs. The zero value runs at any size until it is cancelled, and dies of every
// signal, whomever that is for.
type Work struct {
	Length  time.Duration // at rate 1; 0: without end
	Launch  time.Duration // passes at the beginning of every run, before anything is done
	Restart time.Duration // passes after that in every run but the first, before it goes on
	// Rate is how many seconds of Length pass in a second with what the job was given; nil: 1. It must be a function of
	// its argument alone.
	Rate     func(bridge.Allocated) float64
	OnSignal Reaction      // of the batch script
	OnSteps  Reaction      // of the tasks of its steps; Hangs is a job that has none, too
	OnTerm   Reaction      // within KillWait; what has not saved by then is killed
	Ready    time.Duration // from the start of a run until its traps are set: a signal before that kills it
	Save     time.Duration
	// Checkpoint is how much progress lies between the checkpoints that the job makes on its own; 0: it makes none, and
	// a kill takes it back to the last save.
	Checkpoint time.Duration
	Fails      bool // at its end
}

// Reaction is what a job does when a signal reaches it.
type Reaction string

// What a job may do about a signal. Saves takes Work.Save and exits with the requeue code. Requeues takes as long and
// then says scontrol requeue of itself: refused to a job without the requeue flag, which goes on.
const (
	Dies     Reaction = ""
	Saves    Reaction = "saves"
	Hangs    Reaction = "hangs"
	Requeues Reaction = "requeues"
)

// History is the accounting record of a job: all that remains of it after its end.
type History struct {
	Job       int
	Name      string
	Submitted time.Time // first
	Ended     time.Time // zero while it lives
	End       End
	Restarts  int
	Done      time.Duration // progress that is safe: at the end, all of it
	Runs      []Run
}

// Run is one run of a job.
type Run struct {
	Start    time.Time
	Stop     time.Time // when it was told to stop or ended; zero while it runs
	Freed    time.Time // when its nodes were free again
	Nodes    []string
	Devices  [][]int // the GPUs of each node, ascending
	PerNode  gres.Vector
	Progress time.Duration // made in this run, what was lost included
	Lost     time.Duration // of Progress
}

// End is how a job ended, in Slurm's words.
type End string

// How jobs end; Requeued is no end of a job but of a run.
const (
	Completed End = "COMPLETED"
	Failed    End = "FAILED"
	Cancelled End = "CANCELLED"
	TimedOut  End = "TIMEOUT"
	NodeFail  End = "NODE_FAIL"
	Requeued  End = "REQUEUED"
)

// job is a job of the controller.
type job struct {
	id int
	part
	spec    Spec
	own     bridge.Request // as submitted
	request bridge.Request // as it is now
	parts   []string       // in which it may start, in the order in which they are tried
	in      string         // the one that a pass tries, or in which it runs; empty: none
	extra   string

	state      bridge.State
	completing bool
	// configuring: its nodes boot
	configuring bool
	held        bool
	priority    int64
	waits       bool // for spec.After
	requeue     bool
	queued      bool   // in Slurm.queue
	touched     int    // Slurm.passes at the last update
	blocked     string // why the last pass did not start it

	shown *bridge.Job // as it was observed last; nil: it looks different since

	begin     time.Time
	leased    time.Time // the begin time that the last update gave
	wake      *event    // the planned look at begin; nil: none
	submitted time.Time
	freed     time.Time // when its last run was torn down
	restarts  int

	run     *allocation // while it holds nodes
	end     End         // of the run that is being torn down, or of the job
	exit    exit        // of that run's batch script
	life    int         // counts starts and stops: an event of an earlier life is void
	done    time.Duration
	safe    time.Duration // of done, what a kill leaves
	saves   time.Time     // when the save under way will be done; zero: none
	history History
}

// exit is how a batch script came to its end.
type exit struct{ code, signal int }

// requeueCode is the exit code that puts a job back into the queue (RequeueExit).
const requeueCode = 98

// allocation is what a job holds.
type allocation struct {
	nodes   []*node // ascending in name
	perNode gres.Vector
	seen    bridge.Allocated
	started time.Time
	since   time.Time     // progress is counted up to here
	rate    float64       // 0 while it saves
	before  time.Duration // progress at the start
}

func byID(a, b *job) int { return cmp.Compare(a.id, b.id) }

// byTurn is the order in which the scheduler takes the queue.
func byTurn(a, b *job) int { return cmp.Or(cmp.Compare(b.priority, a.priority), byID(a, b)) }

// partition is what is told: all that it may start in, or the one that it has started in.
func (j *job) partition() string {
	if j.state != bridge.Pending {
		return j.in
	}
	return strings.Join(j.parts, ",")
}

// isTriedIn says that the job may run in a partition, as far as it is tried now.
func (j *job) isTriedIn(partition string) bool {
	if j.in != "" {
		return partition == j.in
	}
	return slices.Contains(j.parts, partition)
}

// gone says that nothing is left of the job but its history.
func (j *job) gone() bool { return j.state == bridge.Finished && !j.completing }

// show is a new picture of the job.
func (s *Slurm) show(j *job, now time.Time) *bridge.Job {
	seen := &bridge.Job{}
	seen.ID, seen.Name, seen.User, seen.Partition = j.id, j.spec.Name, j.spec.User, j.partition()
	seen.Admin = j.spec.Admin
	seen.Comment, seen.Extra, seen.Shape, seen.Odd = j.spec.Comment, j.extra, j.spec.Shape, j.spec.Odd
	seen.Whole = j.spec.Exclusive && !j.spec.Untold
	seen.State, seen.Completing, seen.Held, seen.Dependency = j.state, j.completing, j.held, j.waits
	seen.Interactive = j.spec.Interactive
	seen.Submitted, seen.TimeLimit, seen.Restarts, seen.Requeue = j.submitted, j.spec.TimeLimit, j.restarts, j.requeue
	seen.Request, seen.Features, seen.Except = j.request, j.spec.Features, j.spec.Except
	seen.Request.Partition = bridge.Several(seen.Partition)
	seen.Deadline, seen.Priority, seen.QOS, seen.Account = j.spec.Deadline, j.priority, j.spec.QOS, j.spec.Account
	seen.Container = j.spec.Container
	seen.Reservation = j.spec.Reservation
	seen.Array, seen.Task, seen.Tasks, seen.AtOnce = j.array, j.task, j.tasks, j.atOnce
	switch j.state {
	case bridge.Pending:
		seen.Reason = s.reason(j, now)
		if j.begin.After(now) {
			seen.Begin = j.begin
			s.gallery.lastsUntil(j.begin)
		}
	case bridge.Running:
		seen.Started, seen.Runs, seen.Configuring = j.run.started, j.run.seen, j.configuring
		if j.spec.TimeLimit > 0 {
			seen.Ends = j.run.started.Add(j.spec.TimeLimit)
		}
	case bridge.Finished:
		seen.End = bridge.End{State: string(j.end), Code: j.exit.code, Signal: j.exit.signal}
	}
	if j.completing {
		tearing(j, seen)
	}
	return seen
}

// tearing shows what is left of the run: the number of CPUs is the run's until the teardown ends, whatever an update
// says, and nobody tells any more which GPUs they were.
func tearing(j *job, seen *bridge.Job) {
	seen.Runs = j.run.seen
	seen.Runs.Devices = nil
	seen.Request.CPUs = j.run.perNode.CPUs * len(j.run.nodes)
}

// reason is Slurm's word for why a job waits. An update wipes it until the scheduler has looked again.
func (s *Slurm) reason(j *job, now time.Time) string {
	switch {
	case j.touched == s.passes:
		return ""
	case j.held:
		return "JobHeldUser"
	case j.waits:
		return "Dependency"
	case j.begin.After(now):
		return "BeginTime"
	}
	return j.blocked
}

// complete fills in what sbatch would.
func (s *Slurm) complete(r bridge.Request) (bridge.Request, error) {
	r.Nodes = max(r.Nodes, len(r.Pin), 1)
	r.Tasks = cmp.Or(r.Tasks, r.Nodes)
	r.CPUsPerTask = cmp.Or(r.CPUsPerTask, 1)
	r.CPUsPerNode = cmp.Or(r.CPUsPerNode, r.CPUsPerTask)
	r.Pin = slices.Sorted(slices.Values(r.Pin))
	if r.Memory == 0 && r.MemoryPerGPU == 0 {
		r.MemoryPerCPU = cmp.Or(r.MemoryPerCPU, s.options.MemoryPerCPU)
	}
	if r.GRES == "" && r.GPUs > 0 {
		r.GRES = gres.Count{Name: "gpu", Type: r.GPUType, Count: r.GPUs / r.Nodes}.String()
	}
	counts, err := gres.ParseCounts(r.GRES)
	if err != nil {
		return r, err
	}
	perNode, gpuType := gres.GPUs(counts)
	r.GPUs, r.GPUType = perNode*r.Nodes, gpuType
	if r.Shard != "" {
		shardOf(&r)
		r.GPUs = 1
	}
	r.CPUs = cmp.Or(r.CPUs, max(r.Tasks*r.CPUsPerTask, r.GPUs*r.CPUsPerGPU))
	return r, nil
}

// perNode is what a request takes on each node.
func (s *Slurm) perNode(r bridge.Request) gres.Vector {
	v := gres.Vector{
		GPUs:   share(r.GPUs, r.Nodes),
		CPUs:   max(r.CPUsPerNode, share(r.CPUs, r.Nodes), share(r.Tasks, r.Nodes)*r.CPUsPerTask),
		Memory: r.Memory,
	}
	switch {
	case r.MemoryPerGPU != 0:
		v.Memory = r.MemoryPerGPU * gres.Memory(v.GPUs)
	case r.Memory != 0:
	case r.MemoryPerCPU != 0:
		v.Memory = r.MemoryPerCPU * gres.Memory(v.CPUs)
	default:
		v.Memory = s.options.MemoryPerCPU * gres.Memory(v.CPUs)
	}
	return v
}

// share is a part of total for each of n, rounded up.
func share(total, n int) int { return (total + n - 1) / n }
