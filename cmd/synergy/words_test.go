package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
)

func TestLoadsAreANumberSeveralOrARange(t *testing.T) {
	for text, want := range map[string]string{
		"9": "[9]", "3, 6,9": "[3 6 9]", "1:2:0.5": "[1 1.5 2]", "0.1:0.5:0.1": "[0.1 0.2 0.3 0.4 0.5]",
		"1:1.9:1": "[1]", "4:4:1": "[4]",
	} {
		if got, err := parseLoads(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "0", "inf", "nan", "1e9", "1:2", "1:2:0", "2:1:1", "1:2:3:4", "1,,2",
		"1,1", "1:1e6:0.001"} {
		if got, err := parseLoads(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestSeedsAreANumberSeveralOrARange(t *testing.T) {
	const last = "9223372036854775807"
	const most = last + ":" + last
	for text, want := range map[string]string{"42": "[42]", "1,3": "[1 3]", "1:3": "[1 2 3]", "0": "[0]",
		most: "[" + last + "]"} {
		if got, err := parseSeeds(text); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q is %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5", "3:1", "1:", "1:2:3", "0:1000", "2,2"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestASchedulerIsReadAsTheArtifactSpellsIt(t *testing.T) {
	for text, want := range map[string]sim.Schedule{
		"FIFO+fair":          {Policy: "fifo", Allocator: "proportional"},
		"SRTF+tune":          {Policy: "srtf", Allocator: "tune"},
		"LAS":                {Policy: "las", Allocator: "greedy"},
		"ftf+place":          {Policy: "ftf", Allocator: "greedy", Placement: "consolidate"},
		"Tetris+place+opt":   {Policy: "tetris", Allocator: "opt", Placement: "consolidate"},
		"DRF+tune+place":     {Policy: "drf", Allocator: "tune", Placement: "consolidate"},
		"whatever it may be": {Policy: "whatever it may be", Allocator: "greedy"},
	} {
		if got, err := parseScheduler(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"FIFO+", "FIFO+fair+fair", "FIFO+tune+fair", "FIFO+place+place", "FIFO+best", "+"} {
		if got, err := parseScheduler(text); err == nil {
			t.Errorf("%q is taken for %+v", text, got)
		}
	}
}

func TestTimesOfALogAreTwoOrOne(t *testing.T) {
	for text, want := range map[string][2]float64{"30m-2h": {1800, 7200}, "30m-": {1800, 0}, "-2h": {0, 7200},
		"90-1h30m": {90, 5400}} {
		if low, high, err := parseSpans(text); err != nil || [2]float64{low, high} != want {
			t.Errorf("%q is %g to %g, %v, want %v", text, low, high, err, want)
		}
	}
	for _, text := range []string{"", "2h-1h", "1h-1h", "soon-later", "1h-2h-3h", "1h-0"} {
		if low, high, err := parseSpans(text); err == nil {
			t.Errorf("%q is taken for %g to %g", text, low, high)
		}
	}
}

func TestJSONWithoutAFileIsForTheStandardOutput(t *testing.T) {
	for typed, want := range map[string]string{
		"sim --json":               "sim --json=-",
		"sim --json --quiet":       "sim --json=- --quiet",
		"sim --json -q":            "sim --json=- -q",
		"sim --json -":             "sim --json -",
		"sim --json out.json":      "sim --json out.json",
		"sim --json=out.json":      "sim --json=out.json",
		"sim --trace x -- --json":  "sim --trace x -- --json",
		"sim --jobs-out a --json":  "sim --jobs-out a --json=-",
		"trace inspect a --json -": "trace inspect a --json -",
	} {
		given := strings.Fields(typed)
		before := slices.Clone(given)
		if got := strings.Join(withJSONFile(given), " "); got != want {
			t.Errorf("%s is read as %s, want %s", typed, got, want)
		}
		if !slices.Equal(given, before) {
			t.Errorf("%s is changed to %s", typed, given)
		}
	}
}

// The words go through a shell as they are.
func TestAQuotedWordIsOneWordOfAShell(t *testing.T) {
	for word, want := range map[string]string{
		"9": "9", "20,70,10": "20,70,10", "a b.csv": "'a b.csv'", "": "''", "it's": `'it'\''s'`, "$HOME": "'$HOME'",
		"1x8:24:500+2x4:12:9": "1x8:24:500+2x4:12:9",
	} {
		if got := shellQuoted(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}

func TestTheBarSaysWhatIsDoneAndWhatIsLeft(t *testing.T) {
	p := sim.Progress{Runs: 12, Ended: 3, Finished: 45210, Simulated: 13.2 * 86400, Done: 0.25}
	if got, want := progressText(p, 4*time.Second),
		"3/12 runs, 45210 jobs, 13.2 days simulated, 12s left"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, done := range []float64{0, 0.001, 1} {
		if left, known := timeLeft(done, time.Minute); known {
			t.Errorf("at %g it has %s left", done, left)
		}
	}
}

func TestNobodySeesABarWhereThereIsNoTerminal(t *testing.T) {
	var out strings.Builder
	if newBar(&out, time.Now) != nil {
		t.Error("there is a bar in a file")
	}
}

// Whatever is typed, it is taken within bounds or refused with a word about it; nothing panics.
func FuzzWords(f *testing.F) {
	for _, text := range []string{"9", "1:8:0.5", "1,2", "4000-5000", "30m-2h", "FIFO+tune+place"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		loads, err := parseLoads(text)
		if err == nil && (len(loads) == 0 || slices.ContainsFunc(loads,
			func(x float64) bool { return !(x > 0 && x <= 2e6) })) {
			t.Errorf("%q are loads of %v", text, loads)
		}
		if seeds, err := parseSeeds(text); err == nil && (len(seeds) == 0 || slices.Min(seeds) < 0) {
			t.Errorf("%q are seeds %v", text, seeds)
		}
		if w, err := parseWindow(text); err == nil && (w.First < 0 || w.End <= w.First) {
			t.Errorf("%q is the window %+v", text, w)
		}
		if low, high, err := parseSpans(text); err == nil && (low < 0 || high < 0 || high > 0 && low >= high) {
			t.Errorf("%q are %g to %g s", text, low, high)
		}
		if s, err := parseScheduler(text); err == nil && s.Allocator == "" {
			t.Errorf("%q is %+v", text, s)
		}
		if words, err := parseList(text); err == nil && len(words) == 0 {
			t.Errorf("%q is an empty list", text)
		}
	})
}
