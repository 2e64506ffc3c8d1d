// Package sensitivity says how fast a model trains with a share of CPU and memory: the measured Profile, and what
// follows from it, the demand, the proportional share and the gain of anything between (Synergy, OSDI'22, §3). It
// computes from its arguments; it does not measure, read files by itself, or know nodes, jobs and policies.
package sensitivity

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// The versions of the profile format that this package reads. Print writes the first that has all that a profile says,
// so that a daemon of before the second reads whatever it can use.
const (
	Version    = 1
	VersionGPU = 2 // with what the model needs of the GPU itself
)

// Profile is one measured model: its throughput over cores per GPU × memory per GPU, and what a start and a checkpoint
// cost. A Profile from Parse is valid: axes rise, throughput is positive and never falls along either axis.
type Profile struct {
	Version int    `json:"version"` // 1 or 2
	Model   string `json:"model"`
	Task    string `json:"task"`     // image, language, speech, …
	GPUType string `json:"gpu_type"` // the GPU that the figures were measured on
	Batch   int    `json:"batch"`    // samples per iteration and GPU
	Source  string `json:"source,omitempty"`

	CoresPerGPU  []float64     `json:"cores_per_gpu"`      // ascending
	MemoryPerGPU []gres.Memory `json:"memory_per_gpu_mib"` // ascending, MiB
	// Throughput[i][j] is samples per second and GPU with CoresPerGPU[i] and MemoryPerGPU[j].
	Throughput [][]float64 `json:"throughput_samples_per_s"`

	// from the signal until the job has saved and ended; 0: not known, or no time
	CheckpointSeconds float64 `json:"checkpoint_s"`
	// from the start until training is back at full speed; 0: not known, or no time
	StartSeconds float64 `json:"start_s"`

	// GPUBusy is the part of the time in which the model keeps a GPU busy where it runs alone with its proportional
	// share of cores and memory, more than 0 to 1; 0: not known
	GPUBusy float64 `json:"gpu_busy,omitempty"`
	// GPUMemory is the most that the model holds of one GPU's memory, MiB; 0: not known
	GPUMemory gres.Memory `json:"gpu_memory_mib,omitempty"`
}

// Share is what one GPU of a job is given. Cores may be a fraction: four GPUs with ten cores have 2.5 each.
type Share struct {
	Cores  float64
	Memory float64 // MiB
}

// ShareOf is the part of v that each of its GPUs has; v without GPUs has no share.
func ShareOf(v gres.Vector) Share {
	if v.GPUs == 0 {
		return Share{}
	}
	return Share{Cores: float64(v.CPUs) / float64(v.GPUs), Memory: float64(v.Memory) / float64(v.GPUs)}
}

// RestartCost is what a preemption costs the job beyond the time that it does not run: the save and the warm-up; 0
// where the profile does not say.
func (p *Profile) RestartCost() time.Duration {
	return time.Duration((p.CheckpointSeconds + p.StartSeconds) * float64(time.Second))
}
