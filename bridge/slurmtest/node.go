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
	return seen
}

// looksLike says whether the node would be seen as it was.
func (n *node) looksLike(seen *bridge.Node, closed string) bool {
	return seen.Allocated == n.allocated && seen.Completing == (n.completing > 0) && seen.Closed == closed &&
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
	if t := j.request.GPUType; t != "" && t != n.fixed.GPUType && (n.device(t) < 0 ||
		j.request.GPUs > j.request.Nodes) {
		return false
	}
	if j.request.Shard != "" && n.device(j.request.Shard) < 0 {
		return false
	}
	for _, feature := range j.spec.Features {
		if !slices.Contains(n.fixed.Features, feature) {
			return false
		}
	}
	return true
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
		if holder == 0 && n.idle(i) && len(devices) < amount.GPUs {
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
