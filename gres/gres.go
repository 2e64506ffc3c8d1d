// Package gres has the types of countable resources: GPUs, cores, memory, a node's capacity, and the notation in which
// Slurm writes them. It counts and compares. It knows no jobs, prices or policies, and asks Slurm nothing.
package gres

import (
	"fmt"
	"strconv"
)

// Memory is an amount of memory in MiB, the unit that Slurm writes as M.
type Memory int64

// Gigabyte is the unit that the paper and most users use. Slurm sites configure a 500 GB server as RealMemory=500000,
// so a gigabyte here is 1000 of Slurm's megabytes: eight shares of 62.5 GB fill such a server exactly.
const Gigabyte Memory = 1000

// String formats m in gigabytes, without trailing zeros.
func (m Memory) String() string {
	return strconv.FormatFloat(float64(m)/float64(Gigabyte), 'f', -1, 64) + "G"
}

// Vector is an amount of each resource: of a node, of a job, or left over. Components of a difference may be negative.
type Vector struct {
	GPUs   int    `json:"gpus"`
	CPUs   int    `json:"cpus"`       // cores as Slurm counts them
	Memory Memory `json:"memory_mib"` // MiB
}

// Plus returns the sum of v and w.
func (v Vector) Plus(w Vector) Vector {
	return Vector{v.GPUs + w.GPUs, v.CPUs + w.CPUs, v.Memory + w.Memory}
}

// Minus returns v − w; a component is negative where w has more.
func (v Vector) Minus(w Vector) Vector {
	return Vector{v.GPUs - w.GPUs, v.CPUs - w.CPUs, v.Memory - w.Memory}
}

// Times returns n copies of v.
func (v Vector) Times(n int) Vector {
	return Vector{v.GPUs * n, v.CPUs * n, v.Memory * Memory(n)}
}

// Fits reports whether v can be taken out of free: no component of v exceeds free's.
func (v Vector) Fits(free Vector) bool {
	return v.GPUs <= free.GPUs && v.CPUs <= free.CPUs && v.Memory <= free.Memory
}

// Max returns the larger of each component.
func (v Vector) Max(w Vector) Vector {
	return Vector{max(v.GPUs, w.GPUs), max(v.CPUs, w.CPUs), max(v.Memory, w.Memory)}
}

// String formats v as the planner's drawings do: gpu=1 cpu=3 mem=62.5G.
func (v Vector) String() string {
	return fmt.Sprintf("gpu=%d cpu=%d mem=%s", v.GPUs, v.CPUs, v.Memory)
}

// Proportional returns the GPU-proportional share of gpus GPUs on a server with the given total: cores and memory in
// the ratio of the GPUs. It is rounded down so that the shares of all GPUs fit together (Synergy, OSDI'22, §2), but is
// at least one core, since no job runs on none. On a server without GPUs the share is empty.
func Proportional(total Vector, gpus int) Vector {
	if total.GPUs == 0 {
		return Vector{}
	}
	return Vector{
		GPUs:   gpus,
		CPUs:   max(1, total.CPUs*gpus/total.GPUs),
		Memory: total.Memory * Memory(gpus) / Memory(total.GPUs),
	}
}
