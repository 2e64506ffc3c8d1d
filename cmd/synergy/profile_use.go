package main

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// gpuLooks returns a function that samples the GPU use of a trainer's processes through NVIDIA's library. It is nil
// without the library, or if this build has no access to it; the profile then says nothing about the GPU. end closes
// the library, and is never nil.
func gpuLooks() (look func(processes []int) (profiler.Use, bool), end func()) {
	driver, err := nvml.Open(nvmlHost())
	if err != nil {
		return nil, func() {}
	}
	end = func() { _ = driver.Close() }
	sampler, err := driver.Sampler(time.Now)
	if err != nil {
		return nil, end
	}
	return func(processes []int) (profiler.Use, bool) { return useIn(sampler.OfProcesses(processes...)) }, end
}

// useIn returns the trainer's use of its GPUs in one sample; false means that nothing is known. The driver tells how
// busy a GPU is for all processes together, and in some containers also only the memory of all. Both are taken for the
// trainer's, since it has the GPUs to itself while it is measured.
func useIn(s nvml.Sample) (profiler.Use, bool) {
	var use profiler.Use
	busy, seen := 0, 0
	for _, r := range s.GPUs {
		if r.Err != nil {
			continue
		}
		memory := r.Mine
		if memory <= 0 {
			memory = r.Memory
		}
		use.Memory = max(use.Memory, memory, gres.Memory(0))
		if r.Busy != nvml.Unknown {
			busy, seen = busy+r.Busy, seen+1
		}
	}
	if seen > 0 {
		use.Busy, use.Looks = min(1, max(0, float64(busy)/float64(100*seen))), 1
	}
	return use, use != (profiler.Use{})
}
