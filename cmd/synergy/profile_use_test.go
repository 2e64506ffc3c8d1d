package main

import (
	"errors"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres/nvml"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

func TestWhatALookSaysOfATrainersGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gpus []nvml.Reading
		want profiler.Use
	}{
		"none": {nil, profiler.Use{}},
		"two": {[]nvml.Reading{{Busy: 40, Mine: 5}, {Busy: 80, Mine: 7}},
			profiler.Use{Busy: .6, Looks: 1, Memory: 7}},
		"one cannot be read": {[]nvml.Reading{{Busy: 40, Mine: 5}, {Err: errors.New("lost")}},
			profiler.Use{Busy: .4, Looks: 1, Memory: 5}},
		"nobody says whose": {[]nvml.Reading{{Busy: 40, Mine: nvml.Unknown, Memory: 9}},
			profiler.Use{Busy: .4, Looks: 1, Memory: 9}},
		"nobody says of it": {[]nvml.Reading{{Busy: nvml.Unknown, Mine: 5}}, profiler.Use{Memory: 5}},
	} {
		got, seen := useIn(nvml.Sample{GPUs: c.gpus})
		if got != c.want || seen != (c.want != profiler.Use{}) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, seen, c.want)
		}
	}
}
