package slurmtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Spec is a submission: the user's sbatch command and what job_submit.lua makes of it.
type Spec struct {
	Name      string
	User      string
	Partition string // empty: the first partition of the first node
	Comment   string
	Admin     string // AdminComment
	Extra     string
	// Request is what the job asks for. Zero numbers are filled in as by sbatch: one node, one task per node, one CPU
	// per task. GPUs and GRES imply each other.
	Request slurm.Request
	// Lease is what job_submit.lua gives a job with our directive: it may not begin before, and its Extra is the lua's
	// annotation.
	Lease     time.Duration
	Begin     time.Time // the user's own --begin
	TimeLimit time.Duration
	Deadline  time.Time // observed; ends only the lease job here
	// Priority is Slurm's own: the scheduler takes the largest first, and equal ones by ID.
	Priority    int64
	QOS         string
	Account     string
	Container   string
	Reservation string // the one that it is submitted to
	Features    []string
	Except      []string // nodes it excludes
	After       int      // ID of a job that must end first; 0: none
	Either      bool     // After is one of several alternatives
	Held        bool
	NoRequeue   bool
	Tasks       []int  // indices of an array, ascending; empty: no array
	AtOnce      int    // limit of running tasks; 0: all
	Exclusive   bool   // gets whole nodes, whatever it asked for
	Untold      bool   // Exclusive comes from the partition and is not shown for the job
	Shape       string // het, exclusive, …; empty for a plain batch job
	Interactive bool   // srun or salloc: cannot be requeued or signalled
	Odd         string
	Work        Work
}

// Work is the behaviour of a running job. The zero value runs with any size until it is cancelled, and dies of every
// signal to the script or the steps.
type Work struct {
	Length  time.Duration // at rate 1; 0: endless
	Launch  time.Duration // time at the start of every run without progress
	Restart time.Duration // additional time at the start of every run but the first
	// Rate is the progress in seconds of Length per second with an allocation; nil: 1. It must depend only on its
	// argument.
	Rate     func(slurm.Allocated) float64
	OnSignal Reaction      // of the batch script
	OnSteps  Reaction      // of the tasks of its steps; Hangs also for a job without steps
	OnTerm   Reaction      // within KillWait; a job that has not saved by then is killed
	Ready    time.Duration // from the start of a run until its traps are set; an earlier signal kills it
	Save     time.Duration
	// Checkpoint is the progress between the job's own checkpoints; 0: none, so a kill sets it back to the last save.
	Checkpoint time.Duration
	Fails      bool // when Length is done
}

// Reaction is what a job does on a signal.
type Reaction string

// The reactions. Saves takes Work.Save and exits with the requeue code. Requeues takes as long and then runs scontrol
// requeue for itself, which is refused without the requeue flag; the job then continues.
const (
	Dies     Reaction = ""
	Saves    Reaction = "saves"
	Hangs    Reaction = "hangs"
	Requeues Reaction = "requeues"
)

// History is the accounting record of a job, which remains after its end.
type History struct {
	Job       int
	Name      string
	Submitted time.Time // first submission
	Ended     time.Time // zero while it lives
	End       End
	Restarts  int
	Done      time.Duration // saved progress; at the end all of it
	Runs      []Run
}

// Run is one run of a job.
type Run struct {
	Start    time.Time
	Stop     time.Time // when it was told to stop, or ended; zero while it runs
	Freed    time.Time // when its nodes were free again
	Nodes    []string
	Devices  [][]int // the GPUs on each node, ascending
	PerNode  gres.Vector
	Progress time.Duration // made in this run, including what was lost
	Lost     time.Duration // part of Progress
}

// End is how a job ended, as a Slurm state.
type End string

// The ends. Requeued ends a run, not a job.
const (
	Completed End = "COMPLETED"
	Failed    End = "FAILED"
	Cancelled End = "CANCELLED"
	TimedOut  End = "TIMEOUT"
	NodeFail  End = "NODE_FAIL"
	Requeued  End = "REQUEUED"
)

// job is the controller's record of a job.
type job struct {
	id int
	arrayFields
	spec             Spec          // the submission; Modify changes a few of its fields
	userRequest      slurm.Request // as submitted
	request          slurm.Request // present request
	startPartitions  []string      // partitions in which it may start, in order
	currentPartition string        // the partition in which it runs, or is being tried; empty: none
	extra            string        // the annotation, as last written

	state      slurm.State
	completing bool
	// configuring: its nodes are booting
	configuring bool
	held        bool   // priority 0: never started until it is released
	priority    int64  // the larger one is tried first
	isDependent bool   // for spec.After to end
	lease       int    // the lease job for which it waits; 0: none
	requeue     bool   // Slurm's requeue flag: without it exit code 98 is a failure
	queued      bool   // in Slurm.queue
	updatePass  int    // value of Slurm.passes at the last update
	blocked     string // why the last pass did not start it

	lastObserved *slurm.Job // as last observed; nil: changed since

	begin      time.Time
	leaseBegin time.Time // begin time of the last update
	beginEvent *event    // planned consideration at begin; nil: none
	submitted  time.Time
	freed      time.Time // when the teardown of its last run ended
	restarts   int

	run           *allocation   // while it holds nodes
	end           End           // of the run in teardown, or of the job
	exit          exit          // of that run's batch script
	generation    int           // counts starts, stops and new plans; events of an earlier generation are void
	done          time.Duration // progress on Work.Length over all runs
	savedProgress time.Duration // part of done that survives a kill
	saveEnd       time.Time     // when the present save will be complete; zero: none
	history       History
}

// exit is how a batch script ended.
type exit struct{ code, signal int }

// requeueCode is the exit code with which a job is requeued (RequeueExit).
const requeueCode = 98

// allocation is what a job holds.
type allocation struct {
	nodes         []*node         // ascending in name
	perNode       gres.Vector     // the same on each node
	asObserved    slurm.Allocated // what is observed of it
	started       time.Time
	since         time.Time     // progress is counted up to this time
	rate          float64       // 0 while it saves
	startProgress time.Duration // progress at the start of the run
}

func byID(a, b *job) int { return cmp.Compare(a.id, b.id) }

// byPriority is the order in which the scheduler takes jobs: highest priority first, then lowest ID.
func byPriority(a, b *job) int { return cmp.Or(cmp.Compare(b.priority, a.priority), byID(a, b)) }

// partition is Slurm's partition field of the job: all partitions in which a waiting job may start, joined by commas,
// else the one in which it runs or ran.
func (j *job) partition() string {
	if j.state != slurm.Pending {
		return j.currentPartition
	}
	return strings.Join(j.startPartitions, ",")
}

// isTriedIn reports whether nodes of the partition may be used for the job: while the scheduler tries one of its
// partitions only that one, else each of them.
func (j *job) isTriedIn(partition string) bool {
	if j.currentPartition != "" {
		return partition == j.currentPartition
	}
	return slices.Contains(j.startPartitions, partition)
}

// isGone reports whether the job has ended and holds nothing any more.
func (j *job) isGone() bool { return j.state == slurm.Finished && !j.completing }

// observeJob is the job as slurmctld reports it at now. The result is a new one each time, because observations that
// were returned must never change. If it shows a begin time, it limits the validity of the cached list of jobs to that
// time, since slurmctld no longer shows a begin time that has passed.
func (s *Slurm) observeJob(j *job, now time.Time) *slurm.Job {
	seen := &slurm.Job{}
	seen.ID, seen.Name, seen.User, seen.Partition = j.id, j.spec.Name, j.spec.User, j.partition()
	seen.Admin = j.spec.Admin
	seen.Comment, seen.Extra, seen.Shape, seen.Odd = j.spec.Comment, j.extra, j.spec.Shape, j.spec.Odd
	seen.Whole = j.spec.Exclusive && !j.spec.Untold
	seen.State, seen.Completing, seen.Held, seen.Dependency = j.state, j.completing, j.held, j.isDependent
	seen.Either, seen.Lease = j.isDependent && j.spec.Either, j.lease
	seen.Interactive = j.spec.Interactive
	seen.Submitted, seen.TimeLimit, seen.Restarts, seen.Requeue = j.submitted, j.spec.TimeLimit, j.restarts, j.requeue
	seen.Request, seen.Features, seen.Except = j.request, j.spec.Features, j.spec.Except
	seen.Request.Partition = slurm.Several(seen.Partition)
	seen.Deadline, seen.Priority, seen.QOS, seen.Account = j.spec.Deadline, j.priority, j.spec.QOS, j.spec.Account
	seen.Container = j.spec.Container
	seen.Reservation = j.spec.Reservation
	seen.Array, seen.Task, seen.Tasks, seen.AtOnce = j.array, j.task, j.tasks, j.atOnce
	switch j.state {
	case slurm.Pending:
		seen.Reason = s.reason(j, now)
		if j.begin.After(now) {
			seen.Begin = j.begin
			s.cached.lastsUntil(j.begin)
		}
	case slurm.Running:
		seen.Started, seen.Runs, seen.Configuring = j.run.started, j.run.asObserved, j.configuring
		if j.spec.TimeLimit > 0 {
			seen.Ends = j.run.started.Add(j.spec.TimeLimit)
		}
	case slurm.Finished:
		seen.End = slurm.End{State: string(j.end), Code: j.exit.code, Signal: j.exit.signal}
	}
	if j.completing {
		showTeardown(j, seen)
	}
	return seen
}

// showTeardown adds to the observation of a completing job what it still holds of its last run, as slurmctld shows it:
// the CPUs are those of the run, even if an update has changed the request, and the GPUs are no longer named.
func showTeardown(j *job, seen *slurm.Job) {
	seen.Runs = j.run.asObserved
	seen.Runs.Devices = nil
	seen.Request.CPUs = j.run.perNode.CPUs * len(j.run.nodes)
}

// reason is Slurm's reason why a job waits. It is empty from an update of the job to the next scheduler pass, since
// slurmctld clears it at each update and only a pass sets it.
func (s *Slurm) reason(j *job, now time.Time) string {
	switch {
	case j.updatePass == s.passes:
		return ""
	case j.held:
		return "JobHeldUser"
	case j.isDependent, j.lease != 0:
		return "Dependency"
	case j.begin.After(now):
		return "BeginTime"
	}
	return j.blocked
}

// fillRequest is the request with the fields that sbatch and slurmctld derive when the user left them out, such as the
// number of tasks or the GRES for a number of GPUs. The error is that of a GRES that cannot be parsed.
func (s *Slurm) fillRequest(r slurm.Request) (slurm.Request, error) {
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
		setShardFields(&r)
		r.GPUs = 1
	}
	r.CPUs = cmp.Or(r.CPUs, max(r.Tasks*r.CPUsPerTask, r.GPUs*r.CPUsPerGPU))
	return r, nil
}

// perNode is what a job with this request is allocated on each of its nodes. Of several ways to ask for CPUs the one
// that gives most counts. If the request names no memory, it is the site's memory per CPU.
func (s *Slurm) perNode(r slurm.Request) gres.Vector {
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

// share divides total by n, rounded up.
func share(total, n int) int { return (total + n - 1) / n }
