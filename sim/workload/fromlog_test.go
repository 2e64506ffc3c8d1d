package workload_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

const hour = 3600.0

// log is a log of jobs that are submitted an hour apart and run for two.
func log(gpus ...int) []trace.Entry {
	entries := make([]trace.Entry, len(gpus))
	for i, n := range gpus {
		entries[i] = trace.Entry{ID: fmt.Sprint("job_", i), Submitted: float64(i) * hour, Duration: 2 * hour, GPUs: n}
	}
	return entries
}

// kept makes jobs of a log, each iteration of which is a second, and says what was dropped.
func kept(t testing.TB, entries []trace.Entry, options workload.FromLog) ([]trace.Job, string) {
	t.Helper()
	if options.Classes == nil {
		options.Classes = metronome
	}
	jobs, dropped, err := workload.FromEntries(entries, options)
	if err != nil {
		t.Fatal(err)
	}
	reasons := make([]string, len(dropped))
	for i, d := range dropped {
		reasons[i] = fmt.Sprintf("%d jobs: %s", d.Count, d.Why)
	}
	return jobs, strings.Join(reasons, "; ")
}

func gpus(jobs []trace.Job) (list []int) {
	for _, j := range jobs {
		list = append(list, j.GPUs)
	}
	return list
}

func arrivals(jobs []trace.Job) (list []float64) {
	for _, j := range jobs {
		list = append(list, j.Arrival)
	}
	return list
}

func iterations(jobs []trace.Job) (list []int64) {
	for _, j := range jobs {
		list = append(list, j.Iterations)
	}
	return list
}

func TestWithoutOptionsALogsJobsStayAsTheyAre(t *testing.T) {
	entries := []trace.Entry{
		{ID: "b", User: "ben", Submitted: 500, Duration: 59.9, GPUs: 3},
		{ID: "a", User: "ann", Submitted: 100.5, Duration: 7200, GPUs: 32},
	}
	jobs, dropped := kept(t, entries, workload.FromLog{})
	want := []trace.Job{
		{ID: 0, Model: "metronome", User: "ann", GPUs: 32, Arrival: 0, Iterations: 7200},
		{ID: 1, Model: "metronome", User: "ben", GPUs: 3, Arrival: 399.5, Iterations: 59},
	}
	if !slices.Equal(jobs, want) || dropped != "" {
		t.Errorf("%+v\nwant %+v; dropped %s", jobs, want, dropped)
	}
}

func TestALogsGPUsBecomeWhatTheRuleSays(t *testing.T) {
	entries := log(1, 2, 3, 4, 5, 8, 9, 16, 17, 32)
	for _, c := range []struct {
		rule    workload.LogMix
		limit   int
		want    []int
		dropped string
	}{
		{"", 0, []int{1, 2, 3, 4, 5, 8, 9, 16, 17, 32}, ""},
		{"log", 8, []int{1, 2, 3, 4, 5, 8}, "4 jobs: more than 8 GPUs"},
		{"one", 0, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, ""},
		{"powers", 0, []int{1, 2, 4, 8, 16}, "3 jobs: neither 1, 2, 4, 8 nor 16 GPUs; 2 jobs: more than 16 GPUs"},
		{"powers", 4, []int{1, 2, 4},
			"3 jobs: neither 1, 2, 4, 8 nor 16 GPUs; 2 jobs: more than 4 GPUs; 2 jobs: more than 16 GPUs"},
		{"powers-or-one", 0, []int{1, 2, 1, 4, 1, 8, 1, 16}, "2 jobs: more than 16 GPUs"},
		{"up", 0, []int{1, 2, 4, 4, 8, 8, 16, 16, 32, 32}, ""},
		{"up", 16, []int{1, 2, 4, 4, 8, 8, 16, 16}, "2 jobs: more than 16 GPUs"},
		{"down", 0, []int{1, 2, 2, 4, 4, 8, 8, 16, 16, 32}, ""},
		{"down", 16, []int{1, 2, 2, 4, 4, 8, 8, 16, 16}, "1 jobs: more than 16 GPUs"},
	} {
		jobs, dropped := kept(t, entries, workload.FromLog{GPUs: c.rule, Limit: c.limit})
		if got := gpus(jobs); !slices.Equal(got, c.want) || dropped != c.dropped {
			t.Errorf("%s up to %d: %v, dropped %s\nwant %v, dropped %s", c.rule, c.limit, got, dropped, c.want,
				c.dropped)
		}
	}
}

func TestJobsThatNeverRanAreDroppedAndCountedByReason(t *testing.T) {
	entries := log(1, 0, 1, -1, 1, 1, 1, 1)
	entries[2].Duration = 0
	entries[4].Duration = math.NaN()
	entries[5].Duration = 1e9
	entries[6].Submitted = math.Inf(1)
	jobs, dropped := kept(t, entries, workload.FromLog{})
	want := "2 jobs: fewer than one GPU; 2 jobs: ran for no time; 1 jobs: ran for more than ten years; " +
		"1 jobs: submitted at no moment that a calendar has"
	if len(jobs) != 2 || dropped != want {
		t.Errorf("%d jobs; dropped %s\nwant %s", len(jobs), dropped, want)
	}
}

// The artifact keeps 31.6 minutes < duration < 166.7 hours.
func TestDurationsOutsideTheRangeAreDropped(t *testing.T) {
	entries := log(1, 1, 1, 1)
	for i, seconds := range []float64{1897, 1898, 599999, 600000} {
		entries[i].Duration = seconds
	}
	jobs, dropped := kept(t, entries, workload.FromLog{Keep: workload.PaperKeep()})
	if got := iterations(jobs); !slices.Equal(got, []int64{1898, 599999}) {
		t.Errorf("kept %v", got)
	}
	if want := "1 jobs: ran for 0.527 h or less; 1 jobs: ran for 166.667 h or more"; dropped != want {
		t.Errorf("dropped %s, want %s", dropped, want)
	}
}

func TestNeitherBoundOfTheDurationsIsKept(t *testing.T) {
	entries := log(1, 1, 1)
	for i, seconds := range []float64{100, 150, 200} {
		entries[i].Duration = seconds
	}
	jobs, _ := kept(t, entries, workload.FromLog{Keep: workload.Range{Above: 100, Below: 200}})
	if got := iterations(jobs); !slices.Equal(got, []int64{150}) {
		t.Errorf("kept %v", got)
	}
}

func TestTheWindowOfArrivalsHasItsBeginningButNotItsEnd(t *testing.T) {
	jobs, dropped := kept(t, log(1, 2, 3, 4, 5), workload.FromLog{From: 1 * hour, To: 3 * hour})
	if got := gpus(jobs); !slices.Equal(got, []int{2, 3}) || !slices.Equal(arrivals(jobs), []float64{0, hour}) {
		t.Errorf("kept %v at %v", got, arrivals(jobs))
	}
	if want := "1 jobs: submitted before 1 h; 2 jobs: submitted at 3 h or later"; dropped != want {
		t.Errorf("dropped %s, want %s", dropped, want)
	}
}

func TestTheFirstJobsOfTheLogAreKeptWhereOnlySoManyAre(t *testing.T) {
	entries := log(1, 0, 2, 3, 4)
	slices.Reverse(entries)
	jobs, dropped := kept(t, entries, workload.FromLog{Jobs: 3})
	if got := gpus(jobs); !slices.Equal(got, []int{2, 3, 4}) ||
		!slices.Equal(arrivals(jobs), []float64{0, hour, 2 * hour}) {
		t.Errorf("kept %v at %v", got, arrivals(jobs))
	}
	if want := "1 jobs: fewer than one GPU; 1 jobs: behind the first 3 that would be kept"; dropped != want {
		t.Errorf("dropped %s, want %s", dropped, want)
	}
}

func TestCompressedArrivalsRaiseTheLoad(t *testing.T) {
	jobs, _ := kept(t, log(1, 1, 1), workload.FromLog{Compress: 7})
	if got := arrivals(jobs); !slices.Equal(got, []float64{0, 514.286, 1028.571}) {
		t.Errorf("arrivals at %v", got)
	}
}

// Durations and arrivals are drawn with the same seed as those of a generated workload, so all but the GPUs is the
// same. What is dropped draws nothing.
func TestAPhillyLogWithDrawnDurationsIsThePublishedWorkloadWithItsGPUs(t *testing.T) {
	var entries []trace.Entry
	var want []int
	for i := range 3000 {
		gpus := 1 << (i % 5)
		entries = append(entries, log(gpus)[0], log(17)[0])
		entries[2*i+1].Duration = 1
		want = append(want, gpus)
	}
	slices.Reverse(want)
	slices.Reverse(entries)
	published := single(t)
	jobs, _ := kept(t, entries, workload.FromLog{Classes: published.Classes, Split: published.Split, Seed: 42, Load: 9,
		GPUs: workload.PowersOrOne, Durations: "paper", Keep: workload.PaperKeep(), Arrivals: "poisson"})
	if got := gpus(jobs); !slices.Equal(got, want) {
		t.Errorf("GPUs %v…, want %v…", got[:10], want[:10])
	}
	for i := range jobs {
		jobs[i].GPUs = 1
	}
	if !slices.Equal(jobs, draw(t, published, 3000)) {
		t.Errorf("other jobs than the published ones:\n%s", lines(jobs[:5]))
	}
}

func TestWhatALogCannotBecomeIsAnErrorThatSaysWhy(t *testing.T) {
	for _, c := range []struct {
		entries []trace.Entry
		options workload.FromLog
		want    string
	}{
		{nil, workload.FromLog{}, "log without jobs: want one at least"},
		{log(0, 0, 9), workload.FromLog{Limit: 8},
			"none of the log's 3 jobs is left: 2 jobs: fewer than one GPU; 1 jobs: more than 8 GPUs"},
		{log(1), workload.FromLog{From: 3 * hour, To: 2 * hour},
			"window of arrivals = 10800 to 7200 s: want the earlier one first"},
		{log(1), workload.FromLog{To: math.NaN()}, "window of arrivals = 0 to NaN s: want the earlier one first"},
		{log(1), workload.FromLog{Keep: workload.Range{Above: 20, Below: 10}},
			"durations kept = 20 to 10 s: want the shorter one first, within ten years"},
		{log(1), workload.FromLog{Limit: -1}, "gpu limit = -1: want a number of GPUs, or 0 for none"},
		{log(1), workload.FromLog{Jobs: -1}, "jobs = -1: want a number, or 0 for all"},
		{log(1), workload.FromLog{Compress: -2},
			"compress = -2: want a factor from 0.000001 to 1000000, or 0 for arrivals as they are"},
		{log(1), workload.FromLog{Compress: 2, Load: 9, Arrivals: "poisson"},
			"compress = 2: want arrivals of the log's own; poisson arrivals follow the load"},
		{log(1), workload.FromLog{Load: 9},
			"load = 9: want arrivals that are drawn; compress the log's own to raise their load"},
		{log(1), workload.FromLog{Arrivals: "poisson"}, "load = 0: want jobs an hour, from 0.000001"},
		{log(1), workload.FromLog{Arrivals: "now", Load: 9}, "arrivals = now: want poisson, static, uniform or daily"},
		{log(1), workload.FromLog{Durations: "2h"},
			"durations = 2h: want paper, small, fixed:2h, exponential:90m, lognormal:30m,2.0 or uniform:10m-2h"},
		{log(1), workload.FromLog{GPUs: "two"}, "gpus = two: want log, one, powers, powers-or-one, up or down"},
		{log(1), workload.FromLog{Assign: "fair"}, "assign = fair: want split, random or roundrobin"},
		{log(1), workload.FromLog{Split: workload.Split{{"image", 100}}},
			"split = image=100: want families and models of metronome; image is none"},
	} {
		c.options.Classes = metronome
		if _, _, err := workload.FromEntries(c.entries, c.options); err == nil || err.Error() != c.want {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

func TestEveryEntryBecomesAJobOrIsCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(anyEntry), 1, 60).Draw(rt, "entries")
		before := slices.Clone(entries)
		options := workload.FromLog{
			Classes: metronome,
			GPUs: rapid.SampledFrom([]workload.LogMix{"", "log", "one", "powers", "powers-or-one", "up",
				"down"}).Draw(rt, "gpus"),
			Limit:     rapid.IntRange(0, 20).Draw(rt, "limit"),
			Durations: rapid.SampledFrom([]workload.LogDurations{"", "log", "paper"}).Draw(rt, "durations"),
			Keep:      workload.Range{Above: rapid.Float64Range(0, 4000).Draw(rt, "above")},
			From:      rapid.Float64Range(0, 4000).Draw(rt, "from"),
			Jobs:      rapid.IntRange(0, 20).Draw(rt, "jobs"),
			Compress:  rapid.SampledFrom([]float64{0, 1, 2.5, 0.1}).Draw(rt, "compress"),
		}
		jobs, dropped, err := workload.FromEntries(entries, options)
		if (err == nil) != (len(jobs) > 0) {
			rt.Fatalf("%d jobs and the error %v", len(jobs), err)
		}
		total, last := len(jobs), 0.0
		for _, d := range dropped {
			total += d.Count
		}
		if total != len(entries) || !slices.Equal(entries, before) {
			rt.Fatalf("%d jobs and %v make %d of %d entries, which were changed: %t",
				len(jobs), dropped, total, len(entries), !slices.Equal(entries, before))
		}
		for i, j := range jobs {
			if j.ID != i || !(j.Arrival >= last) || j.Iterations < 1 || j.GPUs < 1 || i == 0 && j.Arrival != 0 {
				rt.Fatalf("job %d is %+v, the one before arrived at %g", i, j, last)
			}
			last = j.Arrival
		}
	})
}

func anyEntry(t *rapid.T) trace.Entry {
	return trace.Entry{
		User:      rapid.SampledFrom([]string{"", "ann", "ben"}).Draw(t, "user"),
		Submitted: rapid.Float64Range(0, 9000).Draw(t, "submitted"),
		Duration:  rapid.Float64Range(-100, 9000).Draw(t, "duration"),
		GPUs:      rapid.IntRange(-1, 40).Draw(t, "gpus"),
	}
}
