package slurmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// node is a server and what is held of it.
type node struct {
	fixed      slurm.Node // configuration; the parts that change are below
	allocated  gres.Vector
	gpus       []int     // by GPU: the job that holds it whole; 0: none
	sharers    [][]*job  // by GPU: the jobs that have a shard, if the node has devices
	holders    []*job    // ascending in ID
	completing int       // number of holders that are completing
	state      []string  // Slurm's state words except IDLE, MIXED, ALLOCATED; a list is never modified
	booted     time.Time // when it will be up, while it boots
}

// newNode is a node without jobs, in the state that the configuration's Closed names.
func newNode(fixed slurm.Node) *node {
	return &node{fixed: fixed, gpus: make([]int, fixed.Total.GPUs), sharers: make([][]*job, len(fixed.Devices)),
		state: stateOf(&fixed)}
}

// observeNode is the node as it is observed: its configuration and what is allocated now. closed is why it is closed,
// empty for an open node.
func (n *node) observeNode(closed string) slurm.Node {
	seen := n.fixed
	seen.Allocated, seen.Completing, seen.Closed = n.allocated, n.completing > 0, closed
	seen.Types = n.types()
	return seen
}

// types is how many GPUs of each type the node has and how many of them are held; nil for a node whose GPUs are of one
// type.
func (n *node) types() []slurm.TypedGPUs {
	if len(n.fixed.Types) == 0 {
		return nil
	}
	types := slices.Clone(n.fixed.Types)
	for d, holder := range n.gpus {
		if i := n.typeOf(d); i >= 0 && holder != 0 {
			types[i].Allocated++
		}
	}
	return types
}

// typeOf is the index in fixed.Types of the type of GPU d; -1 if the node lists no types, because its GPUs are all of
// one type. GPUs of a type are consecutive, as in gres.conf.
func (n *node) typeOf(d int) int {
	upTo := 0
	for i, t := range n.fixed.Types {
		if upTo += t.Total; d < upTo {
			return i
		}
	}
	return -1
}

// isOfType reports whether GPU d may be given to a job that asks for this type; an empty type matches any, and on a
// node with one type of GPUs all match, since hasType has compared the type of the node.
func (n *node) isOfType(d int, gpuType string) bool {
	i := n.typeOf(d)
	return gpuType == "" || i < 0 || n.fixed.Types[i].Type == gpuType
}

// countGPUs is the number of GPUs of a type that no job holds, whole or in part; an empty type counts all.
func (n *node) countGPUs(gpuType string) (count int) {
	for d, holder := range n.gpus {
		if n.isOfType(d, gpuType) && holder == 0 && n.isIdle(d) {
			count++
		}
	}
	return count
}

// hasType reports whether the node, if empty, could give the request GPUs of its type. A device type such as g1 names a
// single GPU, so only requests for one GPU per node can have it.
func (n *node) hasType(r *slurm.Request) bool {
	switch t := r.GPUType; {
	case t == "" || t == n.fixed.GPUType:
		return true
	case len(n.fixed.Types) > 0:
		return slices.ContainsFunc(n.fixed.Types, func(has slurm.TypedGPUs) bool {
			return has.Type == t && share(r.GPUs, r.Nodes) <= has.Total
		})
	default:
		return n.deviceIndex(t) >= 0 && r.GPUs <= r.Nodes
	}
}

// looksLike reports whether the node would be observed exactly as in seen, so that the last list of nodes can be
// returned again.
func (n *node) looksLike(seen *slurm.Node, closed string) bool {
	return seen.Allocated == n.allocated && seen.Completing == (n.completing > 0) && seen.Closed == closed &&
		slices.Equal(seen.Types, n.types()) &&
		slices.Equal(seen.Features, n.fixed.Features)
}

// freeAmount is what no job holds of the node.
func (n *node) freeAmount() gres.Vector { return n.fixed.Total.Minus(n.allocated) }

// isOpen reports whether the scheduler may start jobs here now. Like Slurm's main scheduler it starts none while a job
// is completing on the node.
func (n *node) isOpen() bool { return n.completing == 0 && n.closingWords() == "" }

// isEligible reports whether the node is one on which the job may run: of its partition, not excluded, with its
// features and its type of GPU. Amounts are not compared.
func (n *node) isEligible(j *job) bool {
	if !slices.ContainsFunc(n.fixed.Partitions, j.isTriedIn) || slices.Contains(j.spec.Except, n.fixed.Name) {
		return false
	}
	if !n.hasType(&j.request) {
		return false
	}
	if j.request.Shard != "" && n.deviceIndex(j.request.Shard) < 0 {
		return false
	}
	return !slices.ContainsFunc(j.spec.Features, func(wanted string) bool { return !n.hasOneOf(wanted) })
}

// hasOneOf reports whether the node has one of the features joined by |.
func (n *node) hasOneOf(wanted string) bool {
	return slices.ContainsFunc(strings.Split(wanted, "|"),
		func(feature string) bool { return slices.Contains(n.fixed.Features, feature) })
}

// allocate allocates the amount to the job, which hasRoom has found to fit, and returns the indices of its GPUs,
// ascending. With a shard it is the GPU that the job shares.
func (n *node) allocate(j *job, amount gres.Vector) []int {
	at, _ := slices.BinarySearchFunc(n.holders, j, byID)
	n.holders = slices.Insert(n.holders, at, j)
	if j.run.asObserved.Shard != "" {
		n.allocated = n.allocated.Plus(gres.Vector{CPUs: amount.CPUs, Memory: amount.Memory})
		return n.allocateShard(j)
	}
	n.allocated = n.allocated.Plus(amount)
	if d := n.deviceIndex(j.request.GPUType); d >= 0 && amount.GPUs == 1 {
		n.gpus[d] = j.id
		return []int{d}
	}
	devices := make([]int, 0, amount.GPUs)
	for i, holder := range n.gpus {
		if holder == 0 && n.isIdle(i) && n.isOfType(i, j.request.GPUType) && len(devices) < amount.GPUs {
			n.gpus[i] = j.id
			devices = append(devices, i)
		}
	}
	return devices
}

// deallocate frees what allocate has allocated to the job: amount, its GPUs or its shard.
func (n *node) deallocate(j *job, amount gres.Vector) {
	if j.run.asObserved.Shard != "" {
		n.freeShard(j)
		amount.GPUs = 0
	}
	n.allocated = n.allocated.Minus(amount)
	n.holders = slices.DeleteFunc(n.holders, func(holder *job) bool { return holder == j })
	for i, holder := range n.gpus {
		if holder == j.id {
			n.gpus[i] = 0
		}
	}
}

// gpuNotation is a job's GPUs on a node in Slurm's notation: gpu:a100:3(IDX:0-1,3).
func gpuNotation(gpuType string, devices []int) string {
	count := gres.Count{Name: "gpu", Type: gpuType, Count: len(devices)}
	return fmt.Sprintf("%s(IDX:%s)", strings.TrimPrefix(count.String(), "gres/"), gres.FormatRanges(devices))
}
