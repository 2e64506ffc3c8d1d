package slurm

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Request is what a job asks Slurm for, in the fields in which Slurm reads and writes it.
type Request struct {
	Nodes       int `json:"nodes"`         // number of nodes
	Tasks       int `json:"tasks"`         // on all nodes together
	CPUsPerTask int `json:"cpus_per_task"` // per task
	CPUs        int `json:"cpus"`          // minimum in total
	CPUsPerNode int `json:"cpus_per_node"` // minimum on each node
	// Memory is MiB on each node; 0 with MemoryPerCPU, or for the partition's default.
	Memory       gres.Memory `json:"memory,omitempty"`
	MemoryPerCPU gres.Memory `json:"mem_per_cpu,omitempty"` // MiB
	// CPUsPerGPU and MemoryPerGPU (MiB) are amounts per GPU; a round gives exactly these.
	CPUsPerGPU   int         `json:"cpus_per_gpu,omitempty"`
	MemoryPerGPU gres.Memory `json:"mem_per_gpu,omitempty"`
	GRES         string      `json:"gres,omitempty"` // on each node, as Slurm prints it: gres/gpu:2
	GPUs         int         `json:"gpus"`           // on all nodes together
	GPUType      string      `json:"gpu_type,omitempty"`
	Pin          []string    `json:"pin,omitempty"` // required nodes, ascending; empty: any
	// Partition are the partitions in which the job may start, joined by commas, if there are several. In an update it
	// may also be one of them; empty: the job stays where it is.
	Partition string `json:"partition,omitempty"`
	// Shard is the type of the one GPU of which the job asks for a shard, in place of the GPU of its own that GPUs and
	// GRES say; empty: it asks for none.
	Shard string `json:"shard,omitempty"`
}

// Update is the whole request of a pending job and when it may begin.
type Update struct {
	Job     int
	Begin   time.Time // with a time not after now, and no lease, it may start at once
	Lease   int       // the lease job on which it is to depend, besides its user's dependencies; 0: none
	Request Request
	Extra   string // our annotation
}

// Equal says that two requests ask for the same. Only fields that a round may change are compared: the number of GPUs,
// tasks and the amounts per GPU are always the user's own, and GRES changes only with GPUType or Shard. If other names
// no partition, any will do.
func (q *Request) Equal(other *Request) bool {
	return q.SameMemory(other) && q.CPUsPerTask == other.CPUsPerTask && q.CPUs == other.CPUs &&
		q.CPUsPerNode == other.CPUsPerNode && q.Nodes == other.Nodes && slices.Equal(q.Pin, other.Pin) &&
		q.Shard == other.Shard && q.GPUType == other.GPUType && other.Allows(q)
}

// Allows says that a job with the partitions of other meets q: q names no partitions, or the same ones.
func (q *Request) Allows(other *Request) bool {
	return q.Partition == "" || SamePartitions(q.Partition, other.Partition)
}

// SameMemory says that two requests ask for the same memory, by node or by core.
func (q *Request) SameMemory(other *Request) bool {
	m, perCore := q.amount()
	same, likewise := other.amount()
	return m == same && perCore == likewise
}

// MemoryText is the requested memory in words.
func (q *Request) MemoryText() string {
	switch m, perCore := q.amount(); {
	case perCore:
		return fmt.Sprintf("%dM a core", m)
	case m > 0:
		return fmt.Sprintf("%dM", m)
	}
	return "the partition's default"
}

// amount is the requested memory in MiB, on a node or per core; 0 is the partition's default. An amount per GPU is left
// out, since no round changes it.
func (q *Request) amount() (m gres.Memory, perCore bool) {
	if q.MemoryPerCPU > 0 {
		return q.MemoryPerCPU, true
	}
	return q.Memory, false
}

// PerNode is what the request amounts to on each node: of several ways to ask for cores the one that gives most. An
// amount that is left to the partition is 0.
func (q *Request) PerNode() gres.Vector {
	nodes := max(1, q.Nodes)
	v := gres.Vector{GPUs: (q.GPUs + nodes - 1) / nodes, Memory: q.Memory}
	v.CPUs = max((q.CPUs+nodes-1)/nodes, q.CPUsPerNode, q.CPUsPerGPU*v.GPUs, q.TasksPerNode()*q.CPUsPerTask)
	switch {
	case q.MemoryPerGPU > 0:
		v.Memory = q.MemoryPerGPU * gres.Memory(v.GPUs)
	case q.MemoryPerCPU > 0:
		v.Memory = q.MemoryPerCPU * gres.Memory(v.CPUs)
	}
	return v
}

// TasksPerNode is the largest number of tasks on a node, at least 1.
func (q *Request) TasksPerNode() int {
	if q.Nodes < 1 {
		return max(1, q.Tasks)
	}
	return max(1, (q.Tasks+q.Nodes-1)/q.Nodes)
}

// GiveCores sets the cores on each node, in equal parts for the tasks. If the user gave a minimum for each node
// (--mincpus) and nothing for each task, which Slurm shows as 1, the minimum is set instead.
func (q *Request) GiveCores(perNode int) {
	q.CPUs = perNode * q.Nodes
	if q.CPUsPerTask == 1 && q.CPUsPerNode > q.TasksPerNode() {
		q.CPUsPerNode = perNode
		return
	}
	q.CPUsPerTask = perNode / q.TasksPerNode()
	q.CPUsPerNode = q.CPUsPerTask
}

// PerNodeGRES is the requested GRES on each node, as Slurm writes it: a shard if a round has replaced the GPU by one.
func (q *Request) PerNodeGRES() string {
	if q.Shard != "" {
		return gres.Count{Name: "shard", Type: q.Shard, Count: 1}.String()
	}
	return q.GRES
}

// Partitions splits a list of partitions as Slurm writes one.
func Partitions(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// Several is the list if it names more than one partition, and empty otherwise. It is the value of Request.Partition
// for a job in these partitions.
func Several(list string) string {
	if strings.Contains(list, ",") {
		return list
	}
	return ""
}

// SamePartitions says that two lists have the same names. Slurm reorders such lists.
func SamePartitions(a, b string) bool {
	return a == b || slices.Equal(sortedPartitions(a), sortedPartitions(b))
}

func sortedPartitions(list string) []string {
	names := Partitions(list)
	slices.Sort(names)
	return slices.Compact(names)
}
