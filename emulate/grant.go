package emulate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Grant is what a job was given: the same on each of its nodes.
type Grant struct {
	Nodes   int         `json:"nodes"`
	PerNode gres.Vector `json:"per_node"` // Memory 0: no known limit
}

// FromSlurm reads the grant from Slurm's environment, as the batch script and its steps see it. A missing amount is 0,
// except that there is at least one node; the caller knows better or refuses it.
func FromSlurm(getenv func(string) string) (Grant, error) {
	env := environment{get: getenv}
	g := Grant{
		Nodes: max(1, env.number("SLURM_JOB_NUM_NODES")),
		PerNode: gres.Vector{
			GPUs:   env.number("SLURM_GPUS_ON_NODE"),
			CPUs:   env.number("SLURM_CPUS_ON_NODE"),
			Memory: gres.Memory(env.number("SLURM_MEM_PER_NODE")),
		},
	}
	if g.PerNode.GPUs == 0 {
		g.PerNode.GPUs = visibleDevices(getenv("CUDA_VISIBLE_DEVICES"))
	}
	if g.PerNode.Memory == 0 {
		g.PerNode.Memory = gres.Memory(env.number("SLURM_MEM_PER_CPU") * g.PerNode.CPUs)
	}
	if g.PerNode.Memory == 0 {
		g.PerNode.Memory = gres.Memory(env.number("SLURM_MEM_PER_GPU") * g.PerNode.GPUs)
	}
	return g, env.err
}

// environment reads numbers and keeps the last error.
type environment struct {
	get func(string) string
	err error
}

// maxNumber bounds the numbers, so that the product of two cannot overflow.
const maxNumber = 1 << 30

// number reads a whole number; 0 if the variable is missing or, with an error, if it has no such number.
func (e *environment) number(name string) int {
	text := e.get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxNumber {
		e.err = fmt.Errorf("%s=%q: want a whole number", name, text)
		return 0
	}
	return n
}

// visibleDevices counts the entries of a list such as 0,2 or GPU-3d2a,GPU-77b0. In CUDA, -1 and NoDevFiles mean none.
func visibleDevices(list string) int {
	if list == "" || strings.HasPrefix(list, "-") || list == "NoDevFiles" {
		return 0
	}
	return strings.Count(list, ",") + 1
}

// GPUs returns the number on all nodes.
func (g Grant) GPUs() int { return g.Nodes * g.PerNode.GPUs }

// share returns what each GPU has. If no memory limit is known it is the most that was measured, so that memory does
// not slow the job down.
func (g Grant) share(p *sensitivity.Profile) sensitivity.Share {
	share := sensitivity.ShareOf(g.PerNode)
	if g.PerNode.Memory == 0 {
		share.Memory = float64(p.MemoryPerGPU[len(p.MemoryPerGPU)-1])
	}
	return share
}

// Rate returns the job's iterations per second with the grant. An iteration is one batch on each GPU, and all GPUs run
// at the same pace (data parallel, no loss from scaling).
func (g Grant) Rate(p *sensitivity.Profile) float64 {
	return p.Rate(g.share(p)) / float64(p.Batch)
}

// CPUSeconds returns the CPU time of one iteration on each node. It is computed at the profile's size where each core
// gives most, since there the model is limited by cores alone and keeps them busy.
func (g Grant) CPUSeconds(p *sensitivity.Profile) float64 {
	share, best := g.share(p), 0.0
	for _, cores := range p.CoresPerGPU {
		best = max(best, p.Rate(sensitivity.Share{Cores: cores, Memory: share.Memory})/cores)
	}
	return float64(p.Batch*g.PerNode.GPUs) / best
}
