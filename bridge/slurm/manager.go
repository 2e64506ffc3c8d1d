// Package slurm is the port through which rounds see a workload manager: its jobs, nodes and reservations, the calls
// that change jobs, and the errors on which a round branches. It knows no API version and does nothing by itself.
// Slurmrest, slurmtest and plugins implement it.
package slurm

import (
	"context"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Manager is all that a round needs of a workload manager. Slurmrest drives a real Slurm, slurmtest is one in memory;
// both pass the suite in bridge/conformance. Methods may be called from several goroutines, but never for the same job
// at once.
type Manager interface {
	// Observe returns all nodes, and all jobs that wait or run. It is cheap enough to be called every second.
	Observe(ctx context.Context) (Observed, error)
	// Update sets the request of a pending job to exactly this one. On an error the job must be observed again, since
	// Slurm may have applied a part. ErrNotPending: the job has started or ended meanwhile. ErrHeld: the job is held
	// and was left as it is. An update that moves only the begin time and the annotation of a job that goes on waiting
	// may have been written before the hold is noticed; it does not lift the hold.
	Update(ctx context.Context, update Update) error
	// Signal sends a signal to a running job, after making sure that the job is requeued when it exits with the requeue
	// code or requeues itself. It returns ErrNotRunning for a job that does not run. A signal to the steps of a job
	// without steps has no effect.
	Signal(ctx context.Context, job int, signal Signal) error
	// Requeue stops a running job and puts it back into the queue. A pending job is left alone.
	Requeue(ctx context.Context, job int) error
}

// Signal is a signal and the processes of a job that receive it.
type Signal struct {
	Name string // USR1, …
	To   Target
}

// String is the signal's name, followed by "/steps" if it goes to the steps.
func (s Signal) String() string {
	if s.To == Script {
		return s.Name
	}
	return s.Name + "/" + string(s.To)
}

// Target is the part of a job that receives a signal.
type Target string

// The targets. A batch script without a trap dies of the signal, so it can be spared.
const (
	Script Target = ""      // the batch script alone
	Steps  Target = "steps" // the tasks of all steps, and not the batch script
)

// Watcher finds out with one small request whether an observation is worth its cost. A workload manager need not have
// one.
type Watcher interface {
	// Quiet says that no change to any job is known since the last observation. Changes of nodes may go unnoticed.
	Quiet(ctx context.Context) (bool, error)
}

// Splitter gives pending tasks of an array jobs of their own, which keep all that the array's job has. Only then can
// each task be sized and placed by itself. Tasks that have a job already or no longer exist are left alone. A workload
// manager need not support it.
type Splitter interface {
	Split(ctx context.Context, array int, tasks []int) error
}

// LeaseName is the name of the lease job. Users may use the name, too: only a job of the daemons' own user counts.
const LeaseName = "synergy-slurmd-lease"

// Leases manages the lease job: a held job of the daemons' user, with a deadline, on whose end all waiting jobs depend.
// The leader moves the deadline with one request for all of them. If no daemon does, Slurm ends the lease job, and all
// jobs are free to start as their users asked. A workload manager need not support it: each waiting job then has a
// begin time, which is renewed job by job.
type Leases interface {
	// Renew moves the deadline of the lease job to length from now, creating the job if there is none, and returns its
	// ID. ErrRefused: there is no lease job and there will not be one.
	Renew(ctx context.Context, length time.Duration) (int, error)
	// End ends the lease at once. It is no error if there was none.
	End(ctx context.Context) error
}

// Observed is the state of the cluster at one moment.
type Observed struct {
	At    time.Time // by Slurm's clock, as all times of jobs are
	Nodes []Node    // ascending in name; never changed after they have been returned
	// Jobs are the pending, running and completing jobs of every partition, ascending in ID. A job is never changed
	// after it has been returned: the same pointer as in an earlier observation means that nothing about the job
	// differs.
	//
	// Jobs with our directive (Managed) are listed for some time after their end, too, as Finished and with their End,
	// so that a round learns how a job ended that it had asked to leave.
	Jobs []*Job
	// Reservations are the active and future ones, ascending in name.
	Reservations []Reservation
}

// Reservation keeps nodes for some time from jobs that were not submitted to it.
type Reservation struct {
	Name  string
	From  time.Time
	To    time.Time // zero: no end
	Nodes []string  // ascending
}

// Node is a node as Slurm reports it.
type Node struct {
	Name    string
	GPUType string // the common type of its GPUs; empty for none or several
	// Types are its GPUs by type if there are several types and the GPUs are not Devices; empty: GPUType says it.
	Types      []TypedGPUs
	Features   []string
	Partitions []string
	Total      gres.Vector // what jobs can be given: effective CPUs, memory without the system's part, GPUs
	Allocated  gres.Vector // what jobs hold, including those that are still being cleaned up
	Completing bool        // a job is being cleaned up here; nothing starts until that is over
	Closed     string      // why nothing can be started here (DRAIN, DOWN, …); empty: open
	// Devices are its GPUs one by one, by index, if each has a type of its own and shards; empty: GPUs are only
	// counted.
	Devices []Device
}

// TypedGPUs are a node's GPUs of one type.
type TypedGPUs struct {
	Type      string // empty: GPUs without a type
	Total     int
	Allocated int
}

// Device is one GPU of a node to which jobs can be sent by its type.
type Device struct {
	Type   string // of this GPU alone, such as g1
	Shards int    // into which Slurm divides it
}
