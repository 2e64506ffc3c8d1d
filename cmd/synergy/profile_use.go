package main

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// gpuLooks sees what a trainer has of this machine's GPUs, through NVIDIA's library. Where there is none, or this build
// has no way to it, it is nil: the profile says nothing of that then. The function ends it.
func gpuLooks() (look func(processes []int) (profiler.Use, bool), end func()) {
	driver, err := nvml.Open(host())
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

// useIn is what a look at the GPUs of a trainer says; false: nothing. How busy a GPU is, is told of all who use it; and
// where the driver does not tell whose memory is whose, as in some containers, all that is in use counts as its own: it
// has the GPU to itself while it is measured.
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
