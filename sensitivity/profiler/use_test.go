package profiler_test

import (
	"math"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

func TestUsesAddUpToTheirMeanAndTheirMost(t *testing.T) {
	a, b := profiler.Use{Busy: .2, Looks: 1, Memory: 9}, profiler.Use{Busy: .8, Looks: 3, Memory: 5}
	if got := a.And(b); math.Abs(got.Busy-.65) > 1e-9 || got.Looks != 4 || got.Memory != 9 {
		t.Errorf("%+v", got)
	}
	if got := (profiler.Use{}).And(profiler.Use{Memory: 5}); got != (profiler.Use{Memory: 5}) {
		t.Errorf("%+v", got)
	}
}

func TestHowBusyAModelKeepsTheGPUIsSaidOfItsShare(t *testing.T) {
	curve := profiler.Curve{Points: []profiler.Point{{Cores: 1, Rate: 100}, {Cores: 4, Rate: 400},
		{Cores: 8, Rate: 400}}}
	failed := profiler.Run{Cores: 4, Fault: "crashed", Use: &profiler.Use{Busy: 1, Looks: 9}}
	run := func(cores, looks int, busy float64, memory gres.Memory) profiler.Run {
		return profiler.Run{Cores: cores, Use: &profiler.Use{Busy: busy, Looks: looks, Memory: memory}}
	}
	for name, c := range map[string]struct {
		share  int
		runs   []profiler.Run
		busy   float64
		memory gres.Memory
	}{
		"nothing was seen":            {3, []profiler.Run{{Cores: 4}}, 0, 0},
		"too few looks":               {3, []profiler.Run{run(4, 2, .8, 5)}, 0, 5},
		"with all its cores":          {3, []profiler.Run{run(4, 9, .8, 5)}, .6, 5},
		"with one core":               {4, []profiler.Run{run(1, 9, .2, 5)}, .8, 5},
		"the run with most looks":     {4, []profiler.Run{run(4, 3, .9, 7), run(4, 30, .5, 6)}, .5, 7},
		"no more than all of it":      {4, []profiler.Run{run(1, 9, .9, 5)}, 1, 5},
		"no share is known":           {0, []profiler.Run{run(4, 9, .8, 5)}, .8, 5},
		"a run that failed":           {4, []profiler.Run{failed}, 0, 0},
		"a GPU that nobody ever used": {4, []profiler.Run{run(4, 9, 0, 5)}, 0, 5},
	} {
		busy, memory := profiler.Question{Share: c.share}.UseOf(c.runs, curve)
		if math.Abs(busy-c.busy) > 1e-9 || memory != c.memory {
			t.Errorf("%s: %v and %d MiB, want %v and %d", name, busy, memory, c.busy, c.memory)
		}
	}
}
