package slurm

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// State is the base state of a job.
type State string

// The states that a round distinguishes. Every other state of Slurm counts as Finished.
const (
	Pending  State = "PENDING"
	Running  State = "RUNNING" // includes CONFIGURING
	Finished State = "FINISHED"
)

// Job is a job as Slurm reports it.
type Job struct {
	ID        int
	Name      string
	User      string
	Partition string // several, joined by commas, while the job may start in any of them
	Comment   string
	Extra     string // our annotation, or whatever a user wrote there
	Admin     string // AdminComment, written by administrators; users cannot write it

	State      State
	Completing bool // its last run is still being cleaned up, after its end or before the next run
	// Configuring says that Slurm is still resuming or preparing the job's nodes, and nothing of the job runs yet. If
	// nodes had to be resumed, Slurm counts the run from the end of that.
	Configuring bool
	Held        bool   // priority 0, set by the user or an administrator
	Reason      string // why Slurm says that it waits; empty just after an update
	// Shape says why a round must not touch the job (het job, exclusive by user, …); empty for a plain batch job and an
	// interactive one.
	Shape      string
	Whole      bool // it gets whole nodes, with all their cores and GPUs, whatever it asks for (--exclusive)
	Dependency bool // it waits for another job than the lease job
	// Either says that the job waits for any one of several jobs (afterok:5?afterok:6). The lease job cannot be added
	// to such a dependency.
	Either bool
	Lease  int // the lease job on which it depends; 0: none. See Leases

	Array int // ID of its array: the job is one task, or stands for all tasks not yet split off; 0: no array
	Task  int // its index in the array, if it is one task
	// Tasks are the indices of the tasks for which the job is Slurm's common record, or the first of them, ascending.
	// They have no jobs of their own yet. Empty: the job is one task.
	Tasks  []int
	AtOnce int // how many tasks of its array may run at once; 0: all

	// Interactive says that a user waits at a terminal (srun, salloc). The job has no script to signal and cannot be
	// requeued: it is sized at its start, never moved, and ends if its node fails.
	Interactive bool

	Submitted time.Time // of the current run: every requeue sets it anew
	Begin     time.Time // earliest start while pending; zero: at once
	Started   time.Time // of the current run, while running
	TimeLimit time.Duration
	// Ends is when the time limit ends the run, while running; time in which the job was suspended does not count.
	// Zero: not reported, or no limit.
	Ends     time.Time
	Deadline time.Time // by which it must have ended; zero: none
	Restarts int
	Requeue  bool // Slurm requeues it when it exits with the requeue code

	Priority    int64  // Slurm's priority; the larger one goes first
	QOS         string // empty if the site has no accounting
	Account     string
	Reservation string // to which it was submitted; empty: none
	Container   string // path of its OCI bundle (--container); empty: none that Slurm knows of
	End         End    // of a Finished job

	Request  Request   // what it asks for
	Runs     Allocated // what it holds, while running
	Features []string  // node features that it asks for, all of them; "a|b" is met by either
	Except   []string  // nodes that it excludes
	Odd      string    // what in its request a round cannot honour (GPUs by socket, …); empty: nothing
}

// WaitsAt says that a pending job may not start at now because of its begin time or its lease. Dependencies of its user
// are not considered.
func (j *Job) WaitsAt(now time.Time) bool { return j.Lease != 0 || j.Begin.After(now) }

// StandsForTasks says that the job is Slurm's common record of several tasks of an array.
func (j *Job) StandsForTasks() bool { return len(j.Tasks) > 1 }

// End is how a job, or its last run, ended.
type End struct {
	State  string // Slurm's name for it: COMPLETED, FAILED, CANCELLED, TIMEOUT, …
	Code   int    // exit code of the batch script
	Signal int    // that killed it; 0: none
}

// Allocated is what a running job holds. A job that a round started has the same amounts on every node; if Slurm gave
// different amounts, PerNode has the largest of each.
type Allocated struct {
	Nodes   []string // ascending
	PerNode gres.Vector
	Devices []string // its GPUs, one entry per node as Slurm prints it: gpu:2(IDX:0-1)
	// Shard is the type of the GPU of which the job holds a shard; PerNode.GPUs is 1 in that case. Empty: it holds
	// whole GPUs.
	Shard string
}
