// Package wire is what a client and slurmrestd say to each other, in words that are no API version's. The package of a
// version makes its requests and answers of these, and owns all of their paths, parameters and JSON; the client knows
// no version. Nothing here is understood: texts and numbers are Slurm's own.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// API is one version of slurmrestd's, spoken at one address. A function that a version lacks is nil, which only Requeue
// may be.
type API struct {
	Name string   // v0.0.42
	By   []string // all versions that a slurmrestd has to serve for it

	Ping         func() Call[[]Controller]
	Time         func() Call[int64] // seconds since the epoch; 0: it was not said
	States       func() Call[[]State]
	Jobs         func() Call[[]Job]
	Job          func(id int) Call[[]Job] // of an array its tasks as well
	Nodes        func() Call[[]Node]
	Reservations func() Call[[]Reservation]

	Partitions   func() Call[Partitions]
	Associations func(cluster string) Call[[]limits.Association]
	QOS          func() Call[[]limits.QOS]
	// administrator level in slurmdbd: None, Operator, Administrator; empty: no such user
	Level   func(user string) Call[string]
	Threads func() Call[int] // the most that a core of any node has

	Update func(id int, change Change) Call[Done]
	Submit func(job Submission) Call[int] // the job's number; 0: it was not said
	// Signal and Requeue take a job by its name (Job.Address).
	Signal  func(job, signal string, to Target) Call[[]Error]
	Requeue func(job string) Call[[]Error] // of a job that waits or is over nothing becomes

	// Complaint reads what an answer that is no success has to say.
	Complaint func(body []byte) (Complaint, error)
}

// Call is a request, and how its answer is read.
type Call[T any] struct {
	Path    string // as the document writes it, with {job_id} in place of a number
	Request *http.Request
	Err     error // why there is no request
	Read    func(body []byte) (T, Complaint, error)
}

// Done is an answer that says nothing else.
type Done struct{}

// Complaint is what every answer may carry.
type Complaint struct {
	Errors   []Error
	Warnings []string
}

// Error is one of Slurm's.
type Error struct {
	Number      int    // 0: none was told
	Text        string // of the number
	Description string
}

// Number is a number that may not be set, or be without bound.
type Number struct {
	Infinite bool
	Number   int64
	Set      bool
}

// Count is 0 where the number is not set or without bound.
func (n Number) Count() int {
	if !n.Set || n.Infinite {
		return 0
	}
	return int(n.Number)
}

// Controller is a slurmctld that was pinged.
type Controller struct{ Answers bool }

// State is the state of a job by its name: 17, 9_1, 19+1.
type State struct {
	Job   string
	Words []string
}

// Job is a job. Times are seconds since the epoch, the time limit is in minutes, amounts of memory are in MiB.
type Job struct {
	ID, ArrayJob, HetJob int
	ArrayTask, ArrayMost Number // its index, where it is one task; how many may run at once
	// the indices that a record stands for: 4-100%5, cut off by ... where they are many
	ArrayTasks                             string
	Name, User, Partition, Comment, Extra  string
	AdminComment                           string
	QOS, Account, Reservation              string
	Container                              string // path of an OCI bundle
	State                                  []string
	Reason, Dependency                     string
	Batch, Requeue, Contiguous             bool
	Cron                                   string
	ThreadSpec, Restarts                   int
	Exclusive                              []string // whom it keeps off its nodes: node, user, mcs, topo
	Priority                               Number
	Submitted, Eligible, Started, Ended    Number
	Deadline, TimeLimit                    Number
	Nodes, MaxNodes                        Number
	Tasks, CPUsPerTask, CPUs, CPUsPerNode  Number
	TasksPerNode, TasksPerGPU              Number // 0: no number
	Requested                              string // in TRES: cpu=2,node=1,…; the nodes are the fewest that will do
	MemoryPerNode, MemoryPerCPU            Number
	PerJob, PerNode, PerTask, PerSocket    string // GRES
	CPUsPerGRES, MemoryPerGRES             string
	RequiredNodes, ExcludedNodes, Features string
	ExitCode, ExitSignal                   Number
	Holds                                  []Held
	Devices                                []string // of each node that it holds
}

// Held is what a job has on a node.
type Held struct {
	Node   string
	CPUs   int
	Memory int64 // MiB
}

// Node is a node. Amounts of memory are in MiB.
type Node struct {
	Name, Comment                    string
	Features, Partitions, State      []string
	CPUs, AllocatedCPUs              int
	Memory, Specialized, AllocatedMB int64
	GRES, GRESUsed                   string
}

// Reservation is a reservation. Times are seconds since the epoch.
type Reservation struct {
	Name     string
	From, To Number
	Nodes    string
}

// AllAssociations is the path of the listing of associations.
const AllAssociations = "/slurmdb/associations/"

// Partitions are what partitions allow, and what every answer says of the cluster.
type Partitions struct {
	Cluster string // its name in accounting
	Storage string // the plugin for accounting
	Release string // of Slurm
	Limits  []limits.Partition
	GPUs    []int    // of the nodes of each together; 0 where GPUs are not accounted for
	Weights []string // TRESBillingWeights of each; empty: it has none
}

// Change is what an update makes different: what is nil stays as it is.
type Change struct {
	Begin                                 *int64 // seconds since the epoch
	Tasks, CPUsPerTask, CPUs, CPUsPerNode *int
	MemoryPerNode, MemoryPerCPU           *int64 // MiB
	RequiredNodes                         *[]string
	GRES, Extra, Partition                *string
	PerJob, PerTask                       *string // GRES
	Requeue                               *bool
}

// Submission is a batch job of one task.
type Submission struct {
	Name, Partition, Extra string // partition: empty for Slurm's default
	Comment, GRES          string // GRES: on each node
	Script, Folder, Output string
	Environment            []string
	Held, Requeue          bool
}

// Target is whom a signal reaches.
type Target string

// The targets.
const (
	Script Target = "the batch script alone"
	Steps  Target = "all steps but the batch script"
	All    Target = "the batch script and all steps"
)

// JSON is a body.
func JSON(message any) (io.Reader, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("write body: %w", err)
	}
	return bytes.NewReader(text), nil
}
