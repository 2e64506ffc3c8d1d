package outcome_test

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// run has a job for each completion time, one after the other from ID 0, all of them there at the beginning.
func run(completions ...float64) outcome.Run {
	r := outcome.Run{GPUs: 2, CPUs: 6, Memory: 125, Ended: 1, Held: 3}
	for id, c := range completions {
		r.Jobs = append(r.Jobs, outcome.Job{ID: id, Model: "res50", GPUs: 1, Length: 50, Finish: c, Starts: 1})
		r.Ended = max(r.Ended, c)
	}
	return r
}

func summarise(t *testing.T, r outcome.Run) outcome.Summary {
	t.Helper()
	s, err := outcome.Summarise(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestThePublishedFiguresComeOutToTheLastDigit holds the rule against what the artifact's readme prints for its check
// run. Of the 1000 completion times, only these places and the sum matter.
func TestThePublishedFiguresComeOutToTheLastDigit(t *testing.T) {
	times := make([]float64, 1000)
	const sum, top = 78755762,
		564918 + 569026 + 575150 + 581820 + 591293 + 598467 + 598645 + 609186 + 610032 + 614194 + 623385
	for i := range times[:989] {
		times[i] = float64((sum - top) / 989)
	}
	times[0] += (sum - top) % 989
	copy(times[989:], []float64{564918, 569026, 575150, 581820, 591293, 598467, 598645, 609186, 610032, 614194, 623385})
	s := summarise(t, run(times...))
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"mean", s.CompletionHours.Mean, 21.876600555555555},
		{"p99", s.CompletionHours.P99, 156.93307777777775},
		{"p99.9", s.CompletionHours.P999, 170.61199750000023},
		{"p99.9 in seconds", s.Completion.P999 / 3600, 170.61199750000023},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v h, want %v h", c.what, c.got, c.want)
		}
	}
}

func TestMeansAddInTheOrderOfTheIDs(t *testing.T) {
	a, b, c, n := 0.1, 0.2, 0.3, 3.0
	if got, want := summarise(t, run(a, b, c)).Completion.Mean, (a+b+c)/n; got != want {
		t.Errorf("0.1, 0.2, 0.3: mean %v, want %v", got, want)
	}
	if got, want := summarise(t, run(c, b, a)).Completion.Mean, (c+b+a)/n; got != want || got == (a+b+c)/n {
		t.Errorf("0.3, 0.2, 0.1: mean %v, want %v", got, want)
	}
}

// TestEveryFigureOfTheReferenceRunsComesOut needs the reference runs beside the repository; the two tests above hold
// the same rules without them.
func TestEveryFigureOfTheReferenceRunsComesOut(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "parity")
	summaries, err := os.Open(filepath.Join(folder, "summary.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no reference runs here")
	}
	lines, err := csv.NewReader(summaries).ReadAll()
	if err != nil || len(lines) < 2 {
		t.Fatal(err, len(lines))
	}
	for _, line := range lines[1:] {
		r := reference(t, filepath.Join(folder, "jobs", line[0]))
		if line[6] == "1000" {
			r.Setting.Window = outcome.Window{First: 4000, End: 5000}
		}
		hours := summarise(t, r).CompletionHours
		for i, got := range []float64{hours.Mean, hours.Median, hours.P99, hours.P999} {
			if want := line[7+i]; strconv.FormatFloat(got, 'f', -1, 64) != want {
				t.Errorf("%s: %s is %v, want %s", line[0], lines[0][7+i], got, want)
			}
		}
	}
}

// reference is a run whose jobs stand in a file with arrival, first run and finish in the columns 3, 5 and 6.
func reference(t *testing.T, path string) outcome.Run {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if text, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := csv.NewReader(text).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	r := run()
	for _, line := range lines[1:] {
		job := outcome.Job{ID: int(number(t, line[0])), Length: 1}
		job.Arrival, job.FirstRun, job.Finish = number(t, line[3]), number(t, line[5]), number(t, line[6])
		r.Jobs = append(r.Jobs, job)
		r.Ended = max(r.Ended, job.Finish)
	}
	return r
}

func number(t interface{ Fatal(...any) }, text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestEveryStatisticIsWithinWhatItIsOfAndQuantilesAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Float64Range(1e-3, 1e7), 1, 300).Draw(t, "completions")
		s, err := outcome.Summarise(run(times...))
		if err != nil {
			t.Fatal(err)
		}
		c := s.Completion
		least := times[0]
		for _, x := range times {
			least = min(least, x)
		}
		if !(least <= c.Median && c.Median <= c.P90 && c.P90 <= c.P99 && c.P99 <= c.P999 && c.P999 <= c.Max) {
			t.Fatalf("%v of %v", c, times)
		}
		if slack := 1e-9 * c.Max; c.Mean < least-slack || c.Mean > c.Max+slack {
			t.Fatalf("mean %v of %v", c.Mean, times)
		}
	})
}

func TestAQuantileIsComputedFromTheNearerNeighbour(t *testing.T) {
	if got := summarise(t, run(10, 31)).Completion.P90; got != 28.9 {
		t.Errorf("the 90th percentile of 10 and 31 is %v, want 28.9, which is 2.1 below 31, and not 28.900000000000002",
			got)
	}
}

func TestTheMedianOfAnEvenNumberIsBetweenTheTwoInTheMiddle(t *testing.T) {
	s := summarise(t, run(40, 10, 30, 20)).Completion
	if s.Median != 25 || s.Mean != 25 || s.Max != 40 || math.Abs(s.P90-37) > 1e-12 {
		t.Errorf("of 10, 20, 30, 40: %+v", s)
	}
}

func TestFiguresAreOfFinishedJobsInTheWindow(t *testing.T) {
	r := run(100, 200, 300, -1, -1, 500)
	for i := range r.Jobs {
		r.Jobs[i].Arrival, r.Jobs[i].FirstRun, r.Jobs[i].Starts = 10*float64(i), 15*float64(i), i+1
	}
	r.Jobs[4].FirstRun, r.Jobs[4].Starts = -1, 0
	r.Setting.Window = outcome.Window{First: 1, End: 5}
	s := summarise(t, r)
	if s.Jobs != 4 || s.Finished != 2 || s.Unfinished != 2 {
		t.Errorf("%d jobs, %d finished, %d unfinished", s.Jobs, s.Finished, s.Unfinished)
	}
	if want := (190.0 + 280) / 2; s.Completion.Mean != want || s.Completion.Max != 280 {
		t.Errorf("completion %+v, want a mean of %v", s.Completion, want)
	}
	if s.Queueing.Mean != 7.5 || s.Queueing.Max != 10 || s.Slowdown.Max != 5.6 {
		t.Errorf("queueing %+v, slowdown %+v", s.Queueing, s.Slowdown)
	}
	if s.Preemptions != 1+2+3 || s.Rounds != 3 {
		t.Errorf("%d preemptions, %d rounds", s.Preemptions, s.Rounds)
	}
	if s.Makespan != 500 {
		t.Errorf("makespan %v: want that of all finished jobs, in the window or not", s.Makespan)
	}
}

func TestUtilisationIsOfTheCapacitySinceTheFirstArrival(t *testing.T) {
	r := run(300)
	r.Jobs[0].Arrival, r.Jobs[0].FirstRun = 100, 100
	r.BusyGPUs, r.BusyCPUs, r.BusyMemory = 200, 300, 5000
	if got, want := summarise(t, r).Utilisation,
		(outcome.Utilisation{GPUs: 0.5, CPUs: 0.25, Memory: 0.2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAnEmptyWindowIsAnErrorThatNamesItAndTheIDsThatThereAre(t *testing.T) {
	r := run(100, -1, 300, -1)
	r.Setting.Policy, r.Setting.Allocator, r.Setting.Load = "fifo", "tune", 3.5
	for window, want := range map[outcome.Window]string{
		{First: 40, End: 50}: "window of jobs 40 to 49: none arrived: 4 jobs arrived, with IDs from 0 to 3",
		{First: 3,
			End: 9}: "window of jobs 3 to 8: 1 arrived and none finished: 2 jobs finished, with IDs from 0 to 2: " +
			"simulate longer, or count others",
	} {
		r.Setting.Window = window
		if s, err := outcome.Summarise(r); err == nil || err.Error() != "fifo × tune at 3.5 jobs/h: "+want {
			t.Errorf("%+v, %v\nwant %s", s, err, want)
		}
	}
}

func TestWhatHasNoFiguresIsAnErrorAndNeverNotANumber(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		want  string
		wrong func(r *outcome.Run)
	}{
		{"no job arrived", func(r *outcome.Run) { r.Jobs = nil }},
		{"2 jobs arrived, with IDs from 0 to 1, and none finished: simulate longer", func(r *outcome.Run) {
			r.Jobs[0].Finish, r.Jobs[1].Finish = -1, -1
		}},
		{"job 0 stands behind job 1", func(r *outcome.Run) { r.Jobs[0], r.Jobs[1] = r.Jobs[1], r.Jobs[0] }},
		{"job 0 stands behind job 0", func(r *outcome.Run) { r.Jobs[1].ID = 0 }},
		{"job 1: arrival = -1", func(r *outcome.Run) { r.Jobs[1].Arrival = -1 }},
		{"job 1: arrival = NaN", func(r *outcome.Run) { r.Jobs[1].Arrival = nan }},
		{"job 1: finish = 200: want a moment after its arrival at 200",
			func(r *outcome.Run) { r.Jobs[1].Arrival = 200 }},
		{"job 1: finish = NaN", func(r *outcome.Run) { r.Jobs[1].Finish = nan }},
		{"job 1: finish = +Inf", func(r *outcome.Run) { r.Jobs[1].Finish = inf }},
		{"job 1: first run = -1", func(r *outcome.Run) { r.Jobs[1].FirstRun = -1 }},
		{"job 1: first run = 201", func(r *outcome.Run) { r.Jobs[1].FirstRun = 201 }},
		{"job 1: first run = NaN", func(r *outcome.Run) { r.Jobs[1].FirstRun = nan }},
		{"job 1: length = 0", func(r *outcome.Run) { r.Jobs[1].Length = 0 }},
		{"job 1: length = NaN", func(r *outcome.Run) { r.Jobs[1].Length = nan }},
		{"a cluster of 0 GPUs", func(r *outcome.Run) { r.GPUs = 0 }},
		{"a cluster of 2 GPUs, 0 cores", func(r *outcome.Run) { r.CPUs = 0 }},
		{"a cluster of 2 GPUs, 6 cores and NaN GB", func(r *outcome.Run) { r.Memory = nan }},
		{"ended = 0", func(r *outcome.Run) { r.Ended = 0 }},
		{"ended = +Inf", func(r *outcome.Run) { r.Ended = inf }},
		{"busy = NaN", func(r *outcome.Run) { r.BusyCPUs = nan }},
	} {
		r := run(100, 200)
		c.wrong(&r)
		if s, err := outcome.Summarise(r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, %v\nwant %s", s, err, c.want)
		}
	}
}

func TestTheTablesAreOfWhatJobsHaveInCommon(t *testing.T) {
	r := run(100, 200, 300, -1, 700)
	for i, model := range []string{"res50", "gnmt", "gnmt", "alexnet", "res50"} {
		r.Jobs[i].Model, r.Jobs[i].GPUs = model, 1+i%2
	}
	r.Setting.Window = outcome.Window{First: 0, End: 4}
	models, gpus := outcome.ByModel(r), outcome.ByGPUs(r)
	if len(models) != 3 || models[0].Model != "alexnet" || models[1].Model != "gnmt" || models[2].Model != "res50" {
		t.Fatalf("by model: %+v", models)
	}
	if models[0].Figures != nil || models[0].Jobs != 1 || models[0].Finished != 0 {
		t.Errorf("none of alexnet's jobs finished: %+v", models[0])
	}
	if models[1].Completion.Mean != 250 || models[2].Completion.Mean != 100 || models[2].Jobs != 1 {
		t.Errorf("by model: %+v %+v", models[1].Completion, models[2].Completion)
	}
	if len(gpus) != 2 || gpus[0].GPUs != 1 || gpus[0].Completion.Mean != 200 || gpus[1].Jobs != 2 ||
		gpus[1].Finished != 1 {
		t.Errorf("by GPUs: %+v", gpus)
	}
}

func TestTheRatioIsAgainstTheSameSettingWithProportionalShares(t *testing.T) {
	with := func(allocator, policy string, completions ...float64) outcome.Run {
		r := run(completions...)
		r.Setting.Allocator, r.Setting.Policy = allocator, policy
		return r
	}
	results, err := outcome.Results([]outcome.Run{
		with("tune", "fifo", 100, 200), with("proportional", "las", 900, 900), with("proportional", "fifo", 300, 600),
		with("greedy", "fifo", 100, -1), with("tune", "srtf", 100, 200), with("greedy", "las", 100),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := outcome.Ratio{Mean: 3, Median: 3, P90: 3, P99: 3, P999: 3, Makespan: 3}
	if got := results[0].Ratio; got == nil || math.Abs(got.P999-3) > 1e-12 || got.Mean != want.Mean ||
		got.Makespan != want.Makespan {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := results[2].Ratio; got == nil ||
		*got != (outcome.Ratio{Mean: 1, Median: 1, P90: 1, P99: 1, P999: 1, Makespan: 1}) {
		t.Errorf("proportional shares against themselves: %+v", got)
	}
	for _, i := range []int{3, 4, 5} {
		if results[i].Ratio != nil {
			t.Errorf("run %d is compared, where a job is unfinished, there is no base, or other jobs are counted: %+v",
				i, results[i].Ratio)
		}
	}
	_, err = results[3].Summary.Ratio(*results[2].Summary)
	if err == nil ||
		err.Error() != "1 of 2 jobs finished, and 2 of 2 with proportional shares: want the same jobs, and all "+
			"of them" {
		t.Error(err)
	}
}
