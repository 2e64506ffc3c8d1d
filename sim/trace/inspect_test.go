package trace_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestASummaryIsWhatCanBeCountedByHand(t *testing.T) {
	got := trace.Inspect(&trace.Trace{
		Begin: time.Date(2026, 3, 1, 22, 30, 0, 0, time.UTC),
		Entries: []trace.Entry{
			{User: "ann", Queue: "gpu", State: "FAILED", Submitted: 0, Duration: 3600, GPUs: 2},
			{User: "bob", Queue: "gpu", State: "COMPLETED", Submitted: 5400, Duration: 1800, GPUs: 1},
			{User: "ann", State: "COMPLETED", Submitted: 7200, Duration: 60, GPUs: 1},
			{User: "", Submitted: 36000, Duration: 7200, GPUs: 8},
		},
		Dropped: []trace.Dropped{{Why: "no GPU", Count: 3}},
	})
	same(t, "counts", []int{got.Jobs, got.Users, got.Queues}, []int{4, 2, 1})
	same(t, "span", got.Span, 36000.0)
	same(t, "GPUs", got.GPUs, []trace.GPUCount{{GPUs: 1, Jobs: 2}, {GPUs: 2, Jobs: 1}, {GPUs: 8, Jobs: 1}})
	same(t, "states", got.States, []trace.Part{{Name: "COMPLETED", Jobs: 2}, {Name: "FAILED", Jobs: 1}})
	same(t, "days", got.Days, []int{1, 3})
	if got.Hours[22] != 1 || got.Hours[0] != 2 || got.Hours[8] != 1 {
		t.Errorf("by hour: %v", got.Hours)
	}
	if want := 18.5 + 1.0/60; math.Abs(got.GPUHours-want) > 1e-9 || math.Abs(got.Load-want/10) > 1e-9 ||
		math.Abs(got.Rate-0.3) > 1e-9 {
		t.Errorf("%v GPU-hours, load %v, %v an hour; want %v in 10 h, 3 more jobs in 10 h", got.GPUHours, got.Load,
			got.Rate, want)
	}
	same(t, "dropped", got.Dropped, []trace.Dropped{{Why: "no GPU", Count: 3}})
}

func TestOfAHundredJobsThe99thIsThe99thPercentile(t *testing.T) {
	var tr trace.Trace
	for i := 100; i > 0; i-- {
		tr.Jobs = append(tr.Jobs, trace.Job{Iterations: int64(i), GPUs: 1})
	}
	got := trace.Inspect(&tr).Lengths
	same(t, "lengths", got, trace.Distribution{
		Unit: "iterations", Least: 1, P50: 50, P90: 90, P99: 99, Most: 100, Mean: 50.5,
		Histogram: []trace.Bucket{{From: 1, To: 3, Jobs: 2}, {From: 3, To: 10, Jobs: 7}, {From: 10, To: 30, Jobs: 20},
			{From: 30, To: 100, Jobs: 70}, {From: 100, To: 300, Jobs: 1}},
	})
}

func TestAJobAloneHasNoLoadAndNoRate(t *testing.T) {
	got := trace.Inspect(read(t, "JobID|Submit|ElapsedRaw|AllocTRES\n1|2026-03-01T08:00:00|60|gres/gpu=1\n"))
	if got.Load != 0 || got.Rate != 0 || got.Span != 0 {
		t.Errorf("%+v", got)
	}
	var b strings.Builder
	if err := got.WriteText(&b); err != nil || !strings.Contains(b.String(), "all at once") ||
		strings.Contains(b.String(), "NaN") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNothingIsSummarisedAsNothing(t *testing.T) {
	got := trace.Inspect(&trace.Trace{})
	var b strings.Builder
	if err := got.WriteText(&b); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if err := got.WriteJSON(&b); err != nil {
		t.Error(err)
	}
}

func TestEveryJobIsInEveryHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := trace.Inspect(&trace.Trace{Entries: entries().Draw(t, "entries"),
			Begin: time.Unix(rapid.Int64Range(0, 1e9).Draw(t, "begin"), 0).UTC()})
		var gpus, lengths, hours, days int
		for _, c := range s.GPUs {
			gpus += c.Jobs
		}
		for _, b := range s.Lengths.Histogram {
			lengths += b.Jobs
		}
		for _, n := range s.Hours {
			hours += n
		}
		for _, n := range s.Days {
			days += n
		}
		if gpus != s.Jobs || lengths != s.Jobs || hours != s.Jobs || days != s.Jobs {
			t.Fatalf("%d jobs, %d by GPUs, %d by length, %d by hour, %d by day", s.Jobs, gpus, lengths, hours, days)
		}
		if d := s.Lengths; !(d.Least <= d.P50 && d.P50 <= d.P90 && d.P90 <= d.P99 && d.P99 <= d.Most &&
			d.Least <= d.Mean && d.Mean <= d.Most*(1+1e-9)) {
			t.Fatalf("%+v", d)
		}
	})
}

// The pictures that a person sees. Run with -update, and look at them.
func TestSummariesLookAsTheyDid(t *testing.T) {
	for name := range samples {
		var b strings.Builder
		if err := trace.Inspect(open(t, name)).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".summary")
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, strings.Split(b.String(), "\n"), strings.Split(string(want), "\n"))
	}
}

func TestASummaryIsASCIIAndNoWiderThanItsLongestName(t *testing.T) {
	var b strings.Builder
	if err := trace.Inspect(open(t, "philly.json")).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 101 || strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestManyKindsOfJobsAreDrawnInFewBars(t *testing.T) {
	var tr trace.Trace
	for i := range 1000 {
		tr.Entries = append(tr.Entries, trace.Entry{Submitted: float64(i) * 86400, Duration: 1, GPUs: 1 + i%100,
			State: string(rune('A' + i%50))})
	}
	var b strings.Builder
	if err := trace.Inspect(&tr).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"64-127         370", "34 others         680",
		"arrivals in 36 days each, from that day on", "day 972"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestASummaryInJSONHasUnitsInItsNamesAndNothingUnknown(t *testing.T) {
	var b strings.Builder
	if err := trace.Inspect(open(t, "recorded.csv")).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(b.String()), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"jobs": "5", "span_s": "4107", "users": "3", "cpus_per_gpu": "4",
		"format": `"recorded"`, "begin": "", "gpu_hours": "", "offered_load": ""} {
		if got := string(fields[name]); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
}
