// Package sensitivity says how fast a model trains with a share of CPU and memory: the measured Profile, and what
// follows from it, the demand, the proportional share and the gain of anything between (Synergy, OSDI'22, §3). It
// computes from its arguments; it does not measure, reads no files, and knows no nodes, jobs or policies. The scatter
// of a curve is handled here (Noise) and in the profiler, so that the planner's promise is exact on the curve. A
// product is written float64(x*y), so that no processor rounds it in one step with a sum: figures are the same on every
// machine (tests/rounding_test.go).
package sensitivity

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// The versions of the profile format that this package reads. Print writes the first version that has all of a
// profile's fields, so that a daemon older than version 2 can read as many profiles as possible.
const (
	Version    = 1
	VersionGPU = 2 // with the fields about the GPU
)

// Profile is one measured model: its throughput over cores per GPU × memory per GPU, and the cost of a start and a
// checkpoint. A Profile from Parse is valid: axes ascend, throughput is positive and never falls along either axis.
type Profile struct {
	Version int    `json:"version"` // 1 or 2
	Model   string `json:"model"`
	Task    string `json:"task"`     // image, language, speech, …
	GPUType string `json:"gpu_type"` // the GPU type that was measured
	Batch   int    `json:"batch"`    // samples per iteration and GPU
	Source  string `json:"source,omitempty"`

	CoresPerGPU  []float64     `json:"cores_per_gpu"`      // ascending
	MemoryPerGPU []gres.Memory `json:"memory_per_gpu_mib"` // ascending, MiB
	// Throughput[i][j] is samples per second and GPU with CoresPerGPU[i] and MemoryPerGPU[j].
	Throughput [][]float64 `json:"throughput_samples_per_s"`

	// CheckpointSeconds is the time from the signal until the job has saved and ended; 0: unknown, or no time.
	CheckpointSeconds float64 `json:"checkpoint_s"`
	// StartSeconds is the time from the start until training is back at full speed; 0: unknown, or no time.
	StartSeconds float64 `json:"start_s"`

	// GPUBusy is the part of the time, above 0 to 1, in which the model keeps a GPU busy if it is alone and has its
	// proportional share of cores and memory; 0: unknown.
	GPUBusy float64 `json:"gpu_busy,omitempty"`
	// GPUMemory is the most that the model holds of one GPU's memory, MiB; 0: unknown.
	GPUMemory gres.Memory `json:"gpu_memory_mib,omitempty"`
}

// Share is what one GPU of a job gets. Cores may be a fraction: four GPUs with ten cores have 2.5 each.
type Share struct {
	Cores  float64
	Memory float64 // MiB
}

// ShareOf returns the part of v for each of its GPUs; empty if v has no GPUs.
func ShareOf(v gres.Vector) Share {
	if v.GPUs == 0 {
		return Share{}
	}
	return Share{Cores: float64(v.CPUs) / float64(v.GPUs), Memory: float64(v.Memory) / float64(v.GPUs)}
}

// RestartCost returns what a preemption costs the job besides the time in which it does not run: saving and warming up;
// 0 if the profile does not say.
func (p *Profile) RestartCost() time.Duration {
	return time.Duration((p.CheckpointSeconds + p.StartSeconds) * float64(time.Second))
}
