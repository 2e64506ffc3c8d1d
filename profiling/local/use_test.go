package local

import (
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

func TestWhatATrainerHasOfItsGPUsIsLookedAtWhileItIsMeasured(t *testing.T) {
	l, _ := shell(t, "sleep 100 & "+steps("0.01"))
	looks, seen := 0, 0
	l.Look = func(processes []int) (profiler.Use, bool) {
		looks++
		seen = len(processes)
		if !slices.Contains(processes, l.running.command.Process.Pid) {
			t.Errorf("processes %v: want %d among them", processes, l.running.command.Process.Pid)
		}
		return profiler.Use{Busy: .25 * float64(looks), Looks: 1, Memory: 100}, true
	}
	m, err := l.Run(t.Context(), trial(1, 1200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if looks != 2 || m.Use == nil || *m.Use != (profiler.Use{Busy: .375, Looks: 2, Memory: 100}) {
		t.Errorf("%d looks in 1.2 s: %+v", looks, m.Use)
	}
	if seen < 2 { // the shell and what it started
		t.Errorf("%d processes were looked for", seen)
	}
}

func TestWhereNothingCanBeSeenOfTheGPUsNothingIsSaid(t *testing.T) {
	l, _ := shell(t, steps("0.01"))
	l.Look = func([]int) (profiler.Use, bool) { return profiler.Use{Busy: 1, Looks: 1}, false }
	if m, err := l.Run(t.Context(), trial(1, 50*time.Millisecond)); err != nil || m.Use != nil {
		t.Errorf("%+v, %v", m.Use, err)
	}
}

func TestATrainerThatSaysWhatItHasOfTheGPUIsBelieved(t *testing.T) {
	l, _ := shell(t, `i=0; while :; do i=$((i+1)); `+
		`echo "{\"iterations\": $i, \"gpu_busy\": 0.5, \"gpu_memory_mib\": 3468}" > $SYNERGY_PROGRESS; `+
		`sleep 0.02; done`)
	l.Look = func([]int) (profiler.Use, bool) { return profiler.Use{Busy: 1, Looks: 1, Memory: 9}, true }
	m, err := l.Run(t.Context(), trial(1, 300*time.Millisecond))
	if err != nil || m.Use == nil || m.Use.Busy != .5 || m.Use.Memory != 3468 || m.Use.Looks < profiler.Believed {
		t.Errorf("%+v, %v", m.Use, err)
	}
}

func TestWordsOfATrainerThatCannotBeAreNotBelieved(t *testing.T) {
	before := profiler.Use{Busy: .3, Looks: 5, Memory: 7}
	for _, line := range []string{"17", "", "{", `{"gpu_busy": "1"}`, `{"gpu_busy": 1.5}`, `{"gpu_busy": -1}`,
		`{"gpu_memory_mib": -5}`, `{"gpu_memory_mib": 99999999}`, `{"gpu_busy": 0, "gpu_memory_mib": 0}`} {
		if got := reportedUse(line, before); got != before {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// The file of a trainer that writes in place may be empty when the trial ends.
func TestWhatATrainerReportedStaysWhileItsFileIsEmpty(t *testing.T) {
	l, _ := shell(t, `i=0; while [ $i -lt 20 ]; do i=$((i+1)); `+
		`echo "{\"iterations\": $i, \"gpu_busy\": 0.5, \"gpu_memory_mib\": 3468}" > p; mv p $SYNERGY_PROGRESS; `+
		`sleep 0.02; done; : > $SYNERGY_PROGRESS; sleep 100`)
	l.Look = func([]int) (profiler.Use, bool) { return profiler.Use{Busy: 1, Looks: 1, Memory: 9}, true }
	m, err := l.Run(t.Context(), trial(1, 600*time.Millisecond))
	if err != nil || m.Use == nil || m.Use.Busy != .5 || m.Use.Memory != 3468 {
		t.Errorf("%+v, %v", m.Use, err)
	}
}
