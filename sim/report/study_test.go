package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
	"pgregory.net/rapid"
)

// finished is a run of jobs with these completion times in seconds.
func finished(setting outcome.Setting, completions ...float64) outcome.Run {
	run := outcome.Run{Setting: setting, GPUs: 8, CPUs: 24, Memory: 500, Ended: 1}
	for i, c := range completions {
		run.Jobs = append(run.Jobs, outcome.Job{ID: i, Model: "gnmt", GPUs: 1, Length: 1, Finish: c})
		run.Ended = max(run.Ended, c)
	}
	return run
}

func TestRunsThatDifferInTheirSeedAreAveragedWithTheStandardErrorOfTheirMean(t *testing.T) {
	var runs []outcome.Run
	for seed, mean := range []float64{3600, 7200, 10800} {
		runs = append(runs, finished(outcome.Setting{Policy: "fifo", Allocator: "tune", Load: 9, Seed: int64(seed)},
			mean))
	}
	dots := (figures{newStudy(runs)}).means(0, 0)
	if len(dots.Points) != 1 || dots.Points[0] != (figure.Point{X: 9, Y: 2}) {
		t.Errorf("points %v, want one at 9 jobs/h and 2 h", dots.Points)
	}
	if want := 1 / math.Sqrt(3); math.Abs(dots.Errors[0]-want) > 1e-12 {
		t.Errorf("standard error %v, want %v", dots.Errors[0], want)
	}
}

func TestARunIsComparedWithTheOneThatDiffersInItsAllocatorAlone(t *testing.T) {
	setting := func(policy, allocator string, load float64, seed int64) outcome.Run {
		return finished(outcome.Setting{Policy: policy, Allocator: allocator, Load: load, Seed: seed}, 10)
	}
	s := newStudy([]outcome.Run{
		setting("fifo", "tune", 9, 1), setting("fifo", "proportional", 9, 1), setting("fifo", "proportional", 9, 2),
		setting("srtf", "proportional", 9, 1), setting("fifo", "proportional", 3, 1), setting("srtf", "tune", 9, 2),
	})
	if s.runs[0].base != s.runs[1] || s.runs[1].base != s.runs[1] || s.runs[5].base != nil {
		t.Error("a run has a base that differs in more than the allocator")
	}
}

func TestNamesSayWhatDiffersAndNothingElse(t *testing.T) {
	runs := func(settings ...outcome.Setting) (runs []outcome.Run) {
		for _, s := range settings {
			runs = append(runs, finished(s, 10))
		}
		return runs
	}
	artifact := outcome.Setting{Engine: "artifact", Policy: "fifo", Allocator: "tune", Placement: "random",
		RoundSeconds: 300, Cluster: "a"}
	production := outcome.Setting{Engine: "production", Policy: "fifo", Allocator: "tune", RoundSeconds: 60,
		RestartSeconds: 60, Cluster: "a"}
	costless := production
	costless.RestartSeconds = 0
	moved, srtf, later := artifact, artifact, artifact
	moved.Placement, srtf.Policy, later.Cluster = "consolidate", "srtf", "b"
	for want, of := range map[string][]outcome.Run{
		"FIFO · Tune": runs(artifact),
		"FIFO · Tune (artifact) | FIFO · Tune (production)": runs(
			artifact, production),
		"FIFO · Tune (restarts cost 60 s) | FIFO · Tune (restarts cost nothing)": runs(
			production, costless),
		"FIFO · Tune (random) | FIFO · Tune (consolidate)": runs(
			artifact, moved),
		"Tune · FIFO | Tune · SRTF": runs(
			artifact, srtf),
		"Tune · FIFO, a | Tune · FIFO, b": runs(
			artifact, later),
		"FIFO · Tune (artifact, random) | FIFO · Tune (artifact, consolidate) | FIFO · Tune (production)": runs(
			artifact, moved, production),
	} {
		var labels []string
		for _, r := range newStudy(of).runs {
			labels = append(labels, r.label)
		}
		if got := strings.Join(labels, " | "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestAnAllocatorLooksTheSameInEveryReportAndNoTwoSeriesLookAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SampledFrom([]string{"proportional", "greedy", "tune", "opt", "mine", "other", "third"})
		names := rapid.SliceOfN(known, 1, 12).Draw(t, "allocators")
		taken := make([]bool, max(figure.Styles(), len(names)))
		seen := map[int]bool{}
		first := map[string]bool{}
		for _, name := range names {
			style := styleFor(name, taken)
			if usual, known := usualStyles[name]; known && !first[name] && !seen[usual] && style != usual {
				t.Errorf("%s has style %d, and %d is free", name, style, usual)
			}
			if seen[style] {
				t.Errorf("two series have style %d", style)
			}
			seen[style], first[name] = true, true
		}
	})
}

func TestShownLoadsAreFewAndAmongThemTheHighest(t *testing.T) {
	for n := 1; n < 30; n++ {
		s := &study{loads: make([]float64, n)}
		loads := s.shownLoads()
		if len(loads) != min(n, mostLoads) || loads[len(loads)-1] != n-1 {
			t.Errorf("%v of %d loads", loads, n)
		}
	}
}

func TestACurveNeverFallsAndEndsAtTheShareOfFinishedJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		completions := rapid.SliceOfN(rapid.Float64Range(1, 1e6), 1, 3000).Draw(t, "completions")
		left := rapid.IntRange(0, 10).Draw(t, "unfinished")
		run := finished(outcome.Setting{}, completions...)
		s := newStudy([]outcome.Run{run})
		axis := (figures{s}).completionAxis(0)
		line := curve(s.runs[0].completions, len(completions)+left, axis)
		for i, p := range line[1:] {
			if p.Y < line[i].Y || p.X < line[i].X {
				t.Fatalf("%v follows %v", p, line[i])
			}
		}
		if last := line[len(line)-1]; last.Y != share(len(completions), len(completions)+left) || last.X != axis.Max {
			t.Errorf("it ends at %v", last)
		}
		if len(line) > 4*fineness {
			t.Errorf("%d points", len(line))
		}
	})
}

// TestNobodySeesThatACurveWasThinned asks the thinned line and the whole one for the share of jobs at each completion
// time.
func TestNobodySeesThatACurveWasThinned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := finished(outcome.Setting{}, rapid.SliceOfN(rapid.Float64Range(1, 1e6), 1, 3000).Draw(t,
			"completions")...)
		s := newStudy([]outcome.Run{run})
		axis := (figures{s}).completionAxis(0)
		completions := s.runs[0].completions
		line := curve(completions, len(completions), axis)
		for i, c := range completions {
			exact, nearest := share(i+1, len(completions)), math.Inf(1)
			for _, p := range line {
				sideways := math.Abs(axis.Part(p.X) - max(0, axis.Part(c/hour)))
				nearest = min(nearest, max(sideways, math.Abs(p.Y-exact)/100))
			}
			if nearest > 1.01/fineness {
				t.Fatalf("the line is %v of the panel away from job %d at %v h and %v %%", nearest, i, c/hour, exact)
			}
		}
	})
}

func TestIntervalsKeepTheMeanAndTheExtremesOfTheRounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := &outcome.Run{GPUs: 100, Setting: outcome.Setting{RoundSeconds: 300}}
		at, integral, highest, lowest := 0.0, 0.0, 0.0, math.Inf(1)
		for _, gap := range rapid.SliceOfN(rapid.Float64Range(1, 5000), 1, 600).Draw(t, "gaps") {
			held := rapid.Float64Range(0, 100).Draw(t, "held")
			run.Rounds = append(run.Rounds, outcome.Round{At: at, GPUs: held})
			at += gap
			integral += held * gap
			highest, lowest = max(highest, held), min(lowest, held)
		}
		run.Ended = at
		ended := end(run)
		integral += run.Rounds[len(run.Rounds)-1].GPUs * (ended - at)
		mean, low, high := spread(run, resources[1].share, ended)
		sum, most, least := 0.0, 0.0, math.Inf(1)
		for i := range mean {
			if mean[i].Y < low[i].Y-1e-9 || mean[i].Y > high[i].Y+1e-9 {
				t.Fatalf("interval %d: mean %v, from %v to %v", i, mean[i].Y, low[i].Y, high[i].Y)
			}
			sum += mean[i].Y * ended / intervals
			most, least = max(most, high[i].Y), min(least, low[i].Y)
		}
		if math.Abs(sum-integral) > 1e-6*max(1, integral) || math.Abs(most-highest) > 1e-9 ||
			math.Abs(least-lowest) > 1e-9 {
			t.Errorf("%v from %v to %v, want %v from %v to %v", sum, least, most, integral, lowest, highest)
		}
	})
}

// spans draws stays on two servers of four GPUs, without saying which GPUs, that never hold more than there are.
func spans(t *rapid.T) (spans []outcome.Span) {
	until := [2][4]float64{}
	at := 0.0
	for job := range rapid.IntRange(1, 60).Draw(t, "jobs") {
		at += rapid.Float64Range(0, 100).Draw(t, "gap")
		server := rapid.IntRange(0, 1).Draw(t, "server")
		var free []int
		for device, busy := range until[server] {
			if busy <= at {
				free = append(free, device)
			}
		}
		if len(free) == 0 {
			continue
		}
		gpus := rapid.IntRange(1, len(free)).Draw(t, "gpus")
		span := outcome.Span{Job: job, Model: "gnmt", Server: server, GPUs: gpus, From: at,
			To: at + rapid.Float64Range(1, 500).Draw(t, "length")}
		for _, device := range free[:gpus] {
			until[server][device] = span.To
		}
		spans = append(spans, span)
	}
	return spans
}

func TestNoTwoJobsStayOnOneGPUAndNoTimeIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := spans(t)
		stays := staysOf(spans)
		held := 0.0
		for i, a := range stays {
			held += a.to - a.from
			if a.device >= 4 {
				t.Errorf("job %d is on GPU %d of four", a.job, a.device)
			}
			for _, b := range stays[:i] {
				if a.server == b.server && a.device == b.device && a.from < b.to && b.from < a.to {
					t.Errorf("jobs %d and %d are on GPU %d of server %d at once", a.job, b.job, a.device, a.server)
				}
			}
		}
		want := 0.0
		for _, s := range spans {
			want += float64(s.GPUs) * (s.To - s.From)
		}
		if math.Abs(held-want) > 1e-6 {
			t.Errorf("%v GPU-seconds are shown, want %v", held, want)
		}
	})
}

func TestAStayThatGoesOnIsOne(t *testing.T) {
	stays := staysOf([]outcome.Span{
		{Job: 1, Devices: []int{0}, GPUs: 1, From: 0, To: 10}, {Job: 1, Devices: []int{0}, GPUs: 1, From: 10, To: 20},
		{Job: 2, Devices: []int{0}, GPUs: 1, From: 20, To: 30}, {Job: 1, Devices: []int{0}, GPUs: 1, From: 30, To: 40},
	})
	if got := fmt.Sprint(stays); got != "[{0 0 1  0 20} {0 0 2  20 30} {0 0 1  30 40}]" {
		t.Errorf("%s", got)
	}
}

func TestAPictureOfTheClusterShowsNoMoreThanCanBeSeen(t *testing.T) {
	of := huge(20_000)
	r := newRun(&of, 0, 0, 0)
	stays := staysOf(of.Spans)
	rows := layOut(stays, of.GPUs)
	from, to := windowOf(r, stays, rows, mostStays)
	if n := staysWithin(stays, rows, from, to); n > mostStays*5/4 || n < mostStays/2 {
		t.Errorf("%d stays, want about %d", n, mostStays)
	}
	if rows.lanes > mostLanes || rows.servers == rows.all {
		t.Errorf("%d rows of %d servers of %d", rows.lanes, rows.servers, rows.all)
	}
	if got, want := rows.note(from, to, of.Ended), fmt.Sprintf("The first %d of 64 servers.",
		rows.servers); !strings.Contains(got, want) {
		t.Errorf("%q does not say %q", got, want)
	}
}

// TestPicturesOfManyRunsShareOutWhatAPageHasRoomFor counts what is shown of twelve runs on servers that are never
// empty.
func TestPicturesOfManyRunsShareOutWhatAPageHasRoomFor(t *testing.T) {
	run := outcome.Run{GPUs: 64, CPUs: 192, Memory: 4000, Ended: 1000 * 3600}
	run.Jobs = []outcome.Job{{ID: 0, GPUs: 1, Length: 1, Finish: run.Ended}}
	for i := range 64_000 {
		from := float64(i/64) * 3600
		run.Spans = append(run.Spans, outcome.Span{Job: i, Server: i % 64 / 8, Devices: []int{i % 8}, GPUs: 1,
			From: from, To: from + 3600})
	}
	runs := make([]outcome.Run, 12)
	for i := range runs {
		runs[i] = run
		runs[i].Setting.Policy = fmt.Sprint(i)
	}
	s := newStudy(runs)
	stays := 0
	for _, drawn := range (figures{s}).gantts(s.detailedRuns(), nil) {
		for _, mark := range drawn.figure.Rows[0][0].Marks {
			if boxes, ok := mark.(figure.Boxes); ok {
				stays += len(boxes.Boxes)
			}
		}
	}
	if stays > mostStaysAll*5/4 || stays < mostStaysAll/2 {
		t.Errorf("%d stays in all, want about %d", stays, mostStaysAll)
	}
}

func TestTheLegendOfTheClusterIsInTheOrderOfTheNames(t *testing.T) {
	of := outcome.Run{Spans: []outcome.Span{
		{Model: "a", GPUs: 1, To: 1}, {Model: "b", GPUs: 1, To: 9}, {Model: "c", GPUs: 3, To: 2}, {Model: "d", To: 1},
	}}
	for i := range figure.Tints() {
		of.Spans = append(of.Spans, outcome.Span{Model: fmt.Sprintf("m%d", i), GPUs: 1, To: float64(i) + 1.5})
	}
	var labels []string
	for _, key := range newPalette([]*run{{Run: &of}}, nil).keys() {
		labels = append(labels, key.Label)
	}
	if got := strings.Join(labels, " "); got != "b c m3 m4 m5 m6 others" {
		t.Errorf("%s, want those that held GPUs longest by their names, and the others", got)
	}
}

func TestAServerHasARowForEachOfItsGPUsIfTheyAreSharedOutEqually(t *testing.T) {
	stays := []stay{{server: 0, device: 1}, {server: 2, device: 0}}
	if got := layOut(stays, 12); got.lanes != 12 || fmt.Sprint(got.first) != "[0 4 8]" {
		t.Errorf("%+v, want three servers with four rows each", got)
	}
	if got := layOut(stays, 13); got.lanes != 4 || fmt.Sprint(got.first) != "[0 2 3]" {
		t.Errorf("%+v, want as many rows as were held", got)
	}
}

func TestNamesFromOutsideAreOneLineThatCanBeSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := plain(rapid.OneOf(rapid.String(), rapid.SampledFrom(hostile)).Draw(t, "name"))
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > longestName {
			t.Errorf("%q", got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q cannot be seen at byte %d", got, i)
		}
	})
}

func TestNumbersForPeopleHaveFourDigitsThatCount(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.000", 0.12345: "0.123", 1.23456: "1.235", 21.8766: "21.88", 156.933: "156.9", 1234.5: "1,234",
		9876543.2: "9,876,543", -1234.6: "-1,235",
	} {
		if got := digits(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}

func TestASpeedupIsTheProportionalMeanOverTheRunsOwn(t *testing.T) {
	runs := small()
	all := figures{newStudy(runs)}.speedups(0)
	if len(all) != 4 {
		t.Fatalf("%d series with bars, want Greedy and Tune for each of two policies", len(all))
	}
	for _, b := range all {
		mine, theirs := outcome.ByModel(runs[3*b.panel+b.series]), outcome.ByModel(runs[3*b.panel])
		for i, row := range mine {
			if want := theirs[i].Completion.Mean / row.Completion.Mean; math.Abs(b.values[row.Model]-want) > 1e-12 {
				t.Errorf("panel %d, series %d: %s has %v, want %v", b.panel, b.series, row.Model, b.values[row.Model],
					want)
			}
		}
	}
}

func TestABarIsAsLongAsItsRunsFigureInHours(t *testing.T) {
	runs := small()
	panels := figures{newStudy(runs)}.bars(0).figure.Rows[0]
	for i, run := range runs {
		summary, _ := outcome.Summarise(run)
		for k, want := range []float64{summary.CompletionHours.Mean, summary.Makespan / 3600} {
			if bar := panels[k].Marks[i].(figure.Bar); math.Abs(bar.To-want) > 1e-9 || bar.From != 0 ||
				bar.To > panels[k].X.Max {
				t.Errorf("run %d: bar %d from %v to %v on an axis to %v, want %v", i, k, bar.From, bar.To,
					panels[k].X.Max, want)
			}
		}
	}
}

func TestEveryResourceIsMeasuredByItsOwnCapacity(t *testing.T) {
	run := &outcome.Run{GPUs: 10, CPUs: 100, Memory: 1000}
	round := outcome.Round{Demand: 25, GPUs: 9, CPUs: 40, Memory: 70}
	for i, want := range []float64{250, 90, 40, 7} {
		if got := resources[i].share(run, round); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", resources[i].label, got, want)
		}
	}
}

func TestABoxLiesInTheRowOfItsGPUAndWithinTheWindow(t *testing.T) {
	stays := []stay{
		{server: 1, device: 1, job: 7, model: "gnmt", from: 3600, to: 5 * 3600},
		{server: 0, device: 0, job: 8, model: "gnmt", to: 3600},
	}
	rows := layOut(stays, 4)
	kinds := palette{family: func(model string) string { return model }, names: []string{"gnmt"}}
	boxes := kinds.boxes(stays, rows, 2*3600, 4*3600)[0].(figure.Boxes).Boxes
	if len(boxes) != 1 || boxes[0].Label != "7" {
		t.Fatalf("%v, want job 7 alone", boxes)
	}
	if b := boxes[0]; b.From.X != 2 || b.To.X != 4 || b.From.Y < -4 || b.To.Y > -3 {
		t.Errorf("%v, want hours 2 to 4 in the fourth row", b)
	}
}

func TestRatiosHaveAnAxisThatHoldsThemAndOneThatIsLogarithmicWhereTheyDifferWidely(t *testing.T) {
	for _, c := range []struct {
		lowest, highest float64
		log             bool
	}{{0.9, 1.3, false}, {1.1, 4, false}, {0.8, 175, true}, {0.01, 1, true}} {
		models := []string{"a", "b"}
		axis := benefitAxis([]benefit{{values: map[string]float64{"a": c.lowest, "b": c.highest}}}, models)
		if axis.Log != c.log || axis.Min >= min(1, c.lowest) || axis.Max <= c.highest ||
			axis.Part(max(1, c.highest)) > 0.8 {
			t.Errorf("%v to %v: %+v", c.lowest, c.highest, axis)
		}
	}
}

// TestBaselinesStandBesideEveryPolicy: in its panel and its tables, and once among the runs.
func TestBaselinesStandBesideEveryPolicy(t *testing.T) {
	of := func(policy, allocator, cluster string, hours float64) outcome.Run {
		return finished(outcome.Setting{Policy: policy, Allocator: allocator, Cluster: cluster}, hours*3600)
	}
	s := newStudy([]outcome.Run{of("as-it-was", "log", "a", 4), of("backfill", "proportional", "a", 3),
		of("fifo", "proportional", "a", 2), of("fifo", "tune", "a", 1), of("srtf", "tune", "a", 1),
		of("backfill", "proportional", "b", 5)})
	if got := strings.Join(s.panels, "|"); got != "FIFO, a|SRTF, a|Slurm's backfill, b" {
		t.Errorf("panels %s", got)
	}
	for panel, want := range []int{4, 3, 1} {
		n := 0
		for series := range s.series {
			n += len(s.runsAt(panel, series, 0))
		}
		if n != want {
			t.Errorf("panel %s has %d runs, want %d", s.panels[panel], n, want)
		}
	}
	models, _ := s.kindTables(s.detailedRuns())
	if len(models) != 3 || strings.Join(models[1].Series, "|") != "As it was|Slurm's backfill|Tune" {
		t.Errorf("tables by model: %+v", models)
	}
	rows := s.results().Rows
	if len(rows) != 6 || rows[0].Panel != "–" || rows[0].Series != "As it was" || rows[2].Panel != "FIFO, a" {
		t.Errorf("rows: %+v", rows)
	}
	for _, r := range s.runs[:2] {
		if r.base != nil && r.base != r {
			t.Errorf("%s is compared with %s", r.label, r.base.label)
		}
	}
	if len(s.detailedRuns()) != 6 {
		t.Errorf("%d runs are shown one by one, want each once", len(s.detailedRuns()))
	}
}
