package slurmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// node is a server and who holds what of it.
type node struct {
	fixed      bridge.Node // as configured; the parts that change are below
	allocated  gres.Vector
	gpus       []int     // the job that holds each GPU whole; 0: none
	seats      [][]*job  // who has a shard of each GPU, where they are told apart
	holders    []*job    // ascending in ID
	completing int       // how many of the holders are being torn down
	state      []string  // in Slurm's words, beside those that say how much of it is held; a list is never changed
	booted     time.Time // while it boots
}

func newNode(fixed bridge.Node) *node {
	return &node{fixed: fixed, gpus: make([]int, fixed.Total.GPUs), seats: make([][]*job, len(fixed.Devices)),
		state: stateOf(&fixed)}
}

func (n *node) seen(closed string) bridge.Node {
	seen := n.fixed
	seen.Allocated, seen.Completing, seen.Closed = n.allocated, n.completing > 0, closed
	seen.Types = n.types()
	return seen
}

// types counts the GPUs of each type that are held.
func (n *node) types() []bridge.TypedGPUs {
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

// typeOf is the number of the type of a GPU on a node that has several; -1: it has not. Those of a type stand together,
// as in gres.conf.
func (n *node) typeOf(d int) int {
	upTo := 0
	for i, t := range n.fixed.Types {
		if upTo += t.Total; d < upTo {
			return i
		}
	}
	return -1
}

// isOfType says whether a GPU is one that a request which names this type may have; any where it names none.
func (n *node) isOfType(d int, gpuType string) bool {
	i := n.typeOf(d)
	return gpuType == "" || i < 0 || n.fixed.Types[i].Type == gpuType
}

// countGPUs counts those of a type that nobody uses; empty: of any.
func (n *node) countGPUs(gpuType string) (count int) {
	for d, holder := range n.gpus {
		if n.isOfType(d, gpuType) && holder == 0 && n.idle(d) {
			count++
		}
	}
	return count
}

// hasType says whether the node could give a request the GPUs of the type that it names.
func (n *node) hasType(r *bridge.Request) bool {
	switch t := r.GPUType; {
	case t == "" || t == n.fixed.GPUType:
		return true
	case len(n.fixed.Types) > 0:
		return slices.ContainsFunc(n.fixed.Types, func(has bridge.TypedGPUs) bool {
			return has.Type == t && share(r.GPUs, r.Nodes) <= has.Total
		})
	default:
		return n.device(t) >= 0 && r.GPUs <= r.Nodes
	}
}

// looksLike says whether the node would be seen as it was.
func (n *node) looksLike(seen *bridge.Node, closed string) bool {
	return seen.Allocated == n.allocated && seen.Completing == (n.completing > 0) && seen.Closed == closed &&
		slices.Equal(seen.Types, n.types()) &&
		slices.Equal(seen.Features, n.fixed.Features)
}

func (n *node) free() gres.Vector { return n.fixed.Total.Minus(n.allocated) }

// open says whether the scheduler may start something here now.
func (n *node) open() bool { return n.completing == 0 && n.closed() == "" }

// serves says whether the job could run here when the node is empty, as far as anything but amounts goes.
func (n *node) serves(j *job) bool {
	if !slices.ContainsFunc(n.fixed.Partitions, j.isTriedIn) || slices.Contains(j.spec.Except, n.fixed.Name) {
		return false
	}
	if !n.hasType(&j.request) {
		return false
	}
	if j.request.Shard != "" && n.device(j.request.Shard) < 0 {
		return false
	}
	return !slices.ContainsFunc(j.spec.Features, func(wanted string) bool { return !n.hasOneOf(wanted) })
}

// hasOneOf says whether the node has one of the features that are joined by |.
func (n *node) hasOneOf(wanted string) bool {
	return slices.ContainsFunc(strings.Split(wanted, "|"),
		func(feature string) bool { return slices.Contains(n.fixed.Features, feature) })
}

// give books the amount for the job and returns the GPUs it gets, lowest first.
func (n *node) give(j *job, amount gres.Vector) []int {
	at, _ := slices.BinarySearchFunc(n.holders, j, byID)
	n.holders = slices.Insert(n.holders, at, j)
	if j.run.seen.Shard != "" {
		n.allocated = n.allocated.Plus(gres.Vector{CPUs: amount.CPUs, Memory: amount.Memory})
		return n.seat(j)
	}
	n.allocated = n.allocated.Plus(amount)
	if d := n.device(j.request.GPUType); d >= 0 && amount.GPUs == 1 {
		n.gpus[d] = j.id
		return []int{d}
	}
	devices := make([]int, 0, amount.GPUs)
	for i, holder := range n.gpus {
		if holder == 0 && n.idle(i) && n.isOfType(i, j.request.GPUType) && len(devices) < amount.GPUs {
			n.gpus[i] = j.id
			devices = append(devices, i)
		}
	}
	return devices
}

// take is the reverse of give.
func (n *node) take(j *job, amount gres.Vector) {
	if j.run.seen.Shard != "" {
		n.unseat(j)
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

// notation is how Slurm prints the GPUs of a job on a node: gpu:a100:3(IDX:0-1,3).
func notation(gpuType string, devices []int) string {
	count := gres.Count{Name: "gpu", Type: gpuType, Count: len(devices)}
	return fmt.Sprintf("%s(IDX:%s)", strings.TrimPrefix(count.String(), "gres/"), gres.FormatRanges(devices))
}
