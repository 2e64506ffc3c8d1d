package profiler_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

var about = profiler.About{Model: "m", Task: "image", GPUType: "H100", Source: "a test", CheckpointSeconds: 1,
	StartSeconds: 2}

func TestTheProfileOfACurveIsValidAndSaysWhatTheCurveSays(t *testing.T) {
	q := profiler.Question{Cores: upTo(16), GPUs: 2, Batch: 32, Memory: []gres.Memory{125_000}}
	runs := []profiler.Run{steady(2, 10), steady(16, 60), steady(12, 55)}
	for i := range runs {
		runs[i].Memory = 125_000
	}
	d := profiler.Next(q, runs)
	p, err := q.Profile(d, about)
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.Print()
	if err != nil {
		t.Fatal(err)
	}
	again, err := sensitivity.Parse(text)
	if err != nil || !reflect.DeepEqual(again, p) {
		t.Fatalf("%s\n%v", text, err)
	}
	for cores := 1.0; cores <= 20; cores++ {
		got, want := p.Rate(sensitivity.Share{Cores: cores / 2, Memory: 62_500}), d.Curve.At(cores).Rate
		if math.Abs(got/want-1) > .002 {
			t.Errorf("%g cores: %g, the curve has %g", cores, got, want)
		}
	}
}

func TestAProfileWithAReckonedCacheNeverPromisesMuchMoreThanTheCacheGives(t *testing.T) {
	cache := profiler.Cache{Dataset: 100_000, Base: 2_000, Storage: 200, Sample: 1}
	q := profiler.Question{Cores: []int{1, 8}, Batch: 1, Memory: []gres.Memory{125_000}, Cache: cache}
	runs := []profiler.Run{steady(1, 100), steady(8, 800)}
	for i := range runs {
		runs[i].Memory = 125_000
	}
	p, err := q.Profile(profiler.Next(q,
		append(runs, profiler.Run{Cores: 8, Memory: 52_000, Windows: steady(8, 400).Windows})), about)
	if err != nil {
		t.Fatal(err)
	}
	for cores := 1.0; cores <= 8; cores += .25 { // with half of the data cached storage ends the curve at 400
		if got := p.Rate(sensitivity.Share{Cores: cores, Memory: 52_000}); math.Abs(got-min(100*cores, 400)) > 2 {
			t.Errorf("%g cores with half of the data cached: %g samples/s", cores, got)
		}
	}
	for memory := 2_000.0; memory <= 125_000; memory += 1_000 {
		got := p.Rate(sensitivity.Share{Cores: 8, Memory: memory})
		want := min(800, 200/max(1e-9, 1-(memory-2_000)/100_000))
		if got > want*1.10 || got < want*.90 {
			t.Errorf("%g MiB: %g samples/s, the cache gives %g", memory, got, want)
		}
	}
}

func TestWhatAProfileIsWorthIsSaidInOneSentence(t *testing.T) {
	node := gres.Vector{GPUs: 8, CPUs: 24, Memory: 500_000}
	for model, want := range map[string]string{
		"res18": "9 cores instead of 3 train it 2.4 times as fast; beyond 9 nothing",
		"res50": "4 cores instead of 3 train it 1.15 times as fast; beyond 4 nothing",
		"alexnet": "12 cores instead of 3 and 125 GB instead of 62.5 GB train it 2.9 times as fast; beyond 12 " +
			"nothing",
		"lstm":       "1 core is as good as the 3 of its share: the other 2 do nothing for it",
		"deepspeech": "its share, 3 cores, is what it can use; beyond that nothing",
	} {
		text, err := profiles.FS.ReadFile(model + ".json")
		if err != nil {
			t.Fatal(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := profiler.On(p, node, 1).String(); got != want {
			t.Errorf("%s: %s\nwant %s", model, got, want)
		}
	}
}

func TestNothingMeasuredIsNoProfile(t *testing.T) {
	if _, err := (profiler.Question{}).Profile(profiler.Decision{}, about); err == nil ||
		!strings.Contains(err.Error(), "nothing was measured") {
		t.Error(err)
	}
}
