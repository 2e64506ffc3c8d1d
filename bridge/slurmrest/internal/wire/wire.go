// Package wire has the requests and answers of slurmrestd in a form that belongs to no API version. The package of each
// version converts them, and owns all paths, parameters and JSON; the client knows no version. Nothing is interpreted
// here: texts and numbers are Slurm's own.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/synergy-slurmd/synergy-slurmd/limits"
)

// API is one version of slurmrestd's API at one address. Only Requeue may be nil: the version lacks it, and the client
// then uses scontrol.
type API struct {
	Name string   // v0.0.42
	By   []string // all versions that slurmrestd must serve for it

	Ping         func() Call[[]Controller]
	Time         func() Call[int64] // seconds since the epoch; 0: not told
	States       func() Call[[]State]
	Jobs         func() Call[[]Job]
	Job          func(id int) Call[[]Job] // for an array, its tasks as well
	Nodes        func() Call[[]Node]
	Reservations func() Call[[]Reservation]

	Partitions   func() Call[Partitions]
	Associations func(cluster string) Call[[]limits.Association]
	QOS          func() Call[[]limits.QOS]
	// administrator level in slurmdbd: None, Operator, Administrator; empty: no such user
	Level   func(user string) Call[string]
	Threads func() Call[int] // threads per core, the largest of all nodes

	Update func(id int, change Change) Call[Done]
	Submit func(job Submission) Call[int] // the job ID; 0: not told
	// Signal and Requeue take a job's address: its ID, or ARRAY_TASK.
	Signal  func(job, signal string, to Target) Call[[]Error]
	Requeue func(job string) Call[[]Error] // has no effect on a job that waits or is over

	// Complaint reads the errors and warnings of an unsuccessful answer.
	Complaint func(body []byte) (Complaint, error)
}

// Call is a request and how to read its answer.
type Call[T any] struct {
	Path    string // as the API document writes it, with {job_id} in place of an ID
	Request *http.Request
	Err     error // why there is no request
	Read    func(body []byte) (T, Complaint, error)
	// Stream reads the answer as it arrives, in place of Read, so that the answer is never in memory as a whole. It is
	// nil for small answers.
	Stream func(body io.Reader) (T, Complaint, error)
}

// Done is an answer without content.
type Done struct{}

// Complaint is the errors and warnings that any answer may contain.
type Complaint struct {
	Errors   []Error
	Warnings []string
}

// Error is an error of Slurm.
type Error struct {
	Number      int    // 0: none
	Text        string // Slurm's text for the number
	Description string
}

// Number is a number that may be unset or infinite.
type Number struct {
	Infinite bool
	Number   int64
	Set      bool
}

// Count is the number, or 0 if it is unset or infinite.
func (n Number) Count() int {
	if !n.Set || n.Infinite {
		return 0
	}
	return int(n.Number)
}

// Controller is a slurmctld that was pinged.
type Controller struct{ Answers bool }

// State is the state of a job, by name: 17, 9_1, 19+1.
type State struct {
	Job   string
	Words []string
}

// Job is a job. Times are seconds since the epoch, the time limit is in minutes, amounts of memory are in MiB. Job,
// Node, Reservation and Partitions have the names of this program for Slurm's fields; package slurmctld maps them.
type Job struct {
	ID, ArrayJob, HetJob int
	ArrayTask, ArrayMost Number // index of the task; tasks that may run at once
	// indices for which a record stands: 4-100%5, cut off by ... if there are many
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
	Exclusive                              []string // kinds of exclusiveness: node, user, mcs, topo
	Priority                               Number
	Submitted, Eligible, Started, Ended    Number
	Deadline, TimeLimit                    Number
	Nodes, MaxNodes                        Number
	Tasks, CPUsPerTask, CPUs, CPUsPerNode  Number
	TasksPerNode, TasksPerGPU              Number // 0: not set
	Requested                              string // in TRES: cpu=2,node=1,…; node is the minimum
	MemoryPerNode, MemoryPerCPU            Number
	PerJob, PerNode, PerTask, PerSocket    string // GRES
	CPUsPerGRES, MemoryPerGRES             string
	RequiredNodes, ExcludedNodes, Features string
	ExitCode, ExitSignal                   Number
	Holds                                  []Held
	Devices                                []string // its GPUs, one text per node: gpu:2(IDX:0-1)
}

// Held is what a job holds on a node.
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

// AllAssociations is the path of the listing of associations, for counters.
const AllAssociations = "/slurmdb/associations/"

// Partitions are the limits of partitions, and what the answer says about the cluster.
type Partitions struct {
	Cluster string // its name in accounting
	Storage string // the plugin for accounting
	Release string // of Slurm
	Limits  []limits.Partition
	GPUs    []int    // by partition: GPUs of its nodes; 0 where GPUs are not accounted for
	Weights []string // by partition: TRESBillingWeights; empty: none
}

// Change is the content of an update; nil fields stay as they are.
type Change struct {
	Begin, Deadline                       *int64 // seconds since the epoch
	Tasks, CPUsPerTask, CPUs, CPUsPerNode *int
	MemoryPerNode, MemoryPerCPU           *int64 // MiB
	RequiredNodes                         *[]string
	GRES, Extra, Partition, Dependency    *string
	PerJob, PerTask                       *string // GRES
	Requeue                               *bool
}

// Submission is a batch job of one task.
type Submission struct {
	Name, Partition, Extra string // empty partition: Slurm's default
	Comment, GRES          string // GRES per node
	Script, Folder, Output string
	Environment            []string
	Held, Requeue          bool
	Deadline               int64 // seconds since the epoch; 0: none
	Limit                  int   // time limit in minutes; 0: that of the partition
}

// Target is which processes a signal reaches.
type Target string

// The targets.
const (
	Script Target = "the batch script alone"
	Steps  Target = "all steps but the batch script"
	All    Target = "the batch script and all steps"
)

// List decodes an object as it arrives. It returns the items of the list under key, each converted by read, and decodes
// all other keys into rest. The listing of all jobs may have hundreds of megabytes and is never in memory as a whole.
// An answer that is cut off is an error.
func List[A, T any](body io.Reader, key string, read func(*A) T, rest any) (all []T, err error) {
	d := json.NewDecoder(body)
	others := map[string]json.RawMessage{}
	if err := readDelim(d, '{'); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		if name != key {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return nil, err
			}
			others[fmt.Sprint(name)] = other
			continue
		}
		if all, err = decodeList(d, read); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil { // without its end the answer is incomplete
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something follows it")
	}
	text, err := json.Marshal(others)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, rest)
}

// decodeList decodes a list; null is an empty one.
func decodeList[A, T any](d *json.Decoder, read func(*A) T) (all []T, err error) {
	switch first, err := d.Token(); {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, nil
	case first != json.Delim('['):
		return nil, fmt.Errorf("%v where a list should be", first)
	}
	for d.More() {
		var item A
		if err := d.Decode(&item); err != nil {
			return nil, err
		}
		all = append(all, read(&item))
	}
	_, err = d.Token()
	return all, err
}

// readDelim reads the opening delimiter of an object or list.
func readDelim(d *json.Decoder, delim json.Delim) error {
	token, err := d.Token()
	if err == nil && token != delim {
		err = fmt.Errorf("%v where %v should be", token, delim)
	}
	return err
}

// JSON is the body of a request that sends this message.
func JSON(message any) (io.Reader, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("write body: %w", err)
	}
	return bytes.NewReader(text), nil
}
