package experiment_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/experiment"
	"github.com/synergy-slurmd/synergy-slurmd/contrib/deft/testbed"
)

// read is one of the shipped files, and what its models do.
func read(t *testing.T, name string) (experiment.File, []experiment.Work) {
	t.Helper()
	f, _, err := experiment.Parse([]byte(shapes[name]))
	if err != nil {
		t.Fatal(err)
	}
	var work []experiment.Work
	for _, m := range f.Models {
		w, err := experiment.WorkOf(m)
		if err != nil {
			t.Fatal(err)
		}
		work = append(work, w)
	}
	return f, work
}

func TestAFileSaysHowItsGPUIsShared(t *testing.T) {
	for name, want := range map[string]struct {
		mode  testbed.Mode
		every int
	}{
		"input.json":              {testbed.Queue, 0},
		"input_controlsync.json":  {testbed.Kernels, 10},
		"input_controlevent.json": {testbed.Kernels, 4},
		"1model.json":             {testbed.Queue, 0},
		"3models.json":            {testbed.Queue, 0}, // control alone preloads nothing
		"input_control.json":      {testbed.Kernels, 1},
	} {
		f, work := read(t, name)
		c := f.Emulated(experiment.AsSaid, work)
		if err := c.Check(); err != nil || c.Mode != want.mode || c.Clients[0].Every != want.every {
			t.Errorf("%s: %s, every %d, %v; want %+v", name, c.Mode, c.Clients[0].Every, err, want)
		}
	}
	f, work := read(t, "input.json")
	f.Models[0].Level = "layer"
	if c := f.Emulated(experiment.AsSaid, work); c.Mode != testbed.Queue || c.Clients[1].Every != 3 {
		t.Errorf("by layers: %+v", c)
	}
}

func TestAPresetBoundsTheQueuesThatItNames(t *testing.T) {
	f, work := read(t, "input.json")
	for preset, want := range map[experiment.Preset][2]int{
		experiment.None: {0, 0}, experiment.Deft: {10, 0}, experiment.Reef: {4, 4}, experiment.Shepherd: {20, 21},
		experiment.Layer: {3, 3}, experiment.StepTurns: {0, 0}, experiment.LookAhead: {0, 0},
		experiment.FillPreset: {0, 0},
	} {
		c := f.Emulated(preset, work)
		if got := [2]int{c.Clients[0].Every, c.Clients[1].Every}; got != want {
			t.Errorf("%s: %v, want %v", preset, got, want)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", preset, err)
		}
	}
	if got, err := experiment.ParsePreset("\x1b[2J"); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%q, %v", got, err)
	}
}

// inflated is by how much longer than alone the jobs of each model are.
func inflated(t *testing.T, p experiment.Preset) (background, important float64) {
	t.Helper()
	f, work := read(t, "input_controlsync.json")
	c := f.Emulated(p, work)
	c.Jitter, c.Seed = .05, 1
	result, err := testbed.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	of := func(i int) float64 {
		return experiment.Summarise(work[i].Jobs(time.Time{}, result.Clients[i].Steps),
			result.Clients[i].Alone+work[i].Host()).Inflation
	}
	return of(0), of(1)
}

// Deft's log of this pair: without preemption the important one takes 2.2 to 2.5 times as long, with it at most 1.2.
func TestDeftsOwnPairBehavesAsItsLogSays(t *testing.T) {
	if _, alone := inflated(t, experiment.None); alone < 2.2 || alone > 2.7 {
		t.Errorf("nobody held back: %.2f", alone)
	}
	background, important := inflated(t, experiment.Deft)
	if important > 1.1 || background > 1.1 {
		t.Errorf("with the best bound: %.2f, and the other %.2f", important, background)
	}
	if atOnce, _ := inflated(t, experiment.Reef); atOnce <= background {
		t.Errorf("a bound of 4 costs the other no more (%.3f) than the best (%.3f)", atOnce, background)
	}
}

func TestAJobEndsWithItsPartOnTheHost(t *testing.T) {
	w := experiment.Work{Alone: 30 * time.Millisecond}
	w.Count, w.Each = 20, time.Millisecond
	base := time.Unix(100, 0)
	got := w.Jobs(base, []testbed.Step{{Start: time.Second, Run: 2 * time.Second, End: 3 * time.Second}})
	want := []experiment.Job{{Start: base.Add(time.Second), End: base.Add(3*time.Second + 10*time.Millisecond)}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestASweepBoundsOnlyThoseThatArePreempted(t *testing.T) {
	f, work := read(t, "input.json")
	before := f.Emulated(experiment.None, work)
	c := experiment.Bounded(before, 7)
	if c.Mode != testbed.Kernels || c.Clients[0].Every != 7 || c.Clients[1].Every != 0 || before.Clients[0].Every != 0 {
		t.Errorf("%+v, from %+v", c, before)
	}
}
