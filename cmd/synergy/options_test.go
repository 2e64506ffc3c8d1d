package main

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/production"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// typed are the options of a command line and of the lines of a file.
func typed(t *testing.T, line string, file ...string) *options {
	t.Helper()
	o, command := newOptions(), &cobra.Command{Use: "sim"}
	o.defineFlags(command, o.groups...)
	if err := command.ParseFlags(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	if len(file) > 0 {
		if err := o.readExperiment(strings.NewReader(strings.Join(file, "\n")), stdioName); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func described(t *testing.T, line string, file ...string) sim.Experiment {
	t.Helper()
	e, err := typed(t, line, file...).experiment(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEveryOptionOfTheProductionEngineReachesIt(t *testing.T) {
	e := described(t, `--jobs 7 --load 3 --policy srtf,las --allocator tune --window 2-5 --rounds-out r.csv
		--restart 90s --ends rounds --min-run 1m --max-preemptions 4 --checkpoints 0.5`,
		"round: 10m", "until: 900h", "parallel: 3", "checkpoint: 20s", "horizon: 2h", "payback: 20m", "patience: 3h",
		"stranded: 0.25", "scheduler-delay: 1s", "teardown: 2s", "launch: 3s", "bf-interval: 10s",
		"bf-resolution: 20s", "bf-window: 48h", "opt-in: 0.75", "share: 0.3", "share-mode: fill")
	if p := e.Site.Profiles["gnmt"]; p.CheckpointSeconds != 20 || p.StartSeconds != 70 {
		t.Errorf("a restart costs %g + %g s, want 20 + 70", p.CheckpointSeconds, p.StartSeconds)
	}
	e.Site.Profiles = nil
	want := sim.Site{
		Rules: policy.Rules{MinRun: time.Minute, MaxPreemptions: 4, Horizon: 2 * time.Hour,
			Payback: 20 * time.Minute, Patience: 3 * time.Hour, Stranded: 0.25},
		Slurm:    production.Delays{Scheduler: time.Second, Teardown: 2 * time.Second, Launch: 3 * time.Second},
		AtRounds: true,
		Users:    users.Habits{Outside: 0.25, Unsaved: 0.5, Sharing: 0.3},
		Mode:     share.Fill,
		Backfill: backfill.Backfill{Interval: 10 * time.Second, Resolution: 20 * time.Second, Window: 48 * time.Hour,
			Tested: 500},
	}
	if !reflect.DeepEqual(e.Site, want) {
		t.Errorf("the site is\n%+v, want\n%+v", e.Site, want)
	}
	schedules := []sim.Schedule{{Policy: "srtf", Allocator: "tune"}, {Policy: "las", Allocator: "tune"}}
	switch {
	case e.Engine != sim.Production, e.Round != 10*time.Minute, e.Until != 900*time.Hour,
		e.Window != outcome.Window{First: 2, End: 5}:
	case e.Parallel != 3, !e.Detail, !slices.Equal(e.Schedules, schedules), e.Reference != sim.Reference{}:
	default:
		return
	}
	t.Errorf("the experiment is %+v", e)
}

func TestEveryOptionOfTheArtifactEngineReachesIt(t *testing.T) {
	e := described(t, "--engine artifact --window 1-3 --jobs 9", "scheduler: [FIFO+fair, LAS+place]", "ratio: 4",
		"prioritize: true")
	want := []sim.Schedule{{Policy: "fifo", Allocator: "proportional", Placement: "random"},
		{Policy: "las", Allocator: "greedy", Placement: "consolidate"}}
	if !slices.Equal(e.Schedules, want) || e.Reference != (sim.Reference{Prioritize: true}) || e.Ratio != 4 ||
		e.Cluster.String() != "16x8:32:500" || e.Detail {
		t.Errorf("the experiment is %+v", e)
	}
}

func TestEveryOptionOfADrawnWorkloadReachesIt(t *testing.T) {
	e := described(t, "--load 2,5 --seed 7,8 --jobs 9 --split gnmt=100", "gpus: 2=1", "durations: small",
		"arrivals: daily", "assign: random", "ratio: 5")
	classes, err := workload.Paper(5)
	if err != nil {
		t.Fatal(err)
	}
	config := workload.Config{
		Classes: classes, Split: workload.Split{{Family: "gnmt", Percent: 100}}, Jobs: 9, GPUs: "2=1",
		Durations: "small", Arrivals: "daily", Assign: "random",
	}
	want := sim.Drawn("generated, GPUs 2=1, durations small, arrivals daily, assigned by random", config,
		[]float64{2, 5}, []int64{7, 8})
	if !reflect.DeepEqual(e.Workloads, want) {
		t.Errorf("the workloads are\n%+v, want\n%+v", e.Workloads, want)
	}
}

func TestTheDefaultsAreThePapersAndTheDaemons(t *testing.T) {
	e := described(t, "--jobs 3")
	rules := policy.Rules{
		MinRun: 10 * time.Minute, MaxPreemptions: 20,
		Horizon: policy.DefaultHorizon, Payback: policy.DefaultPayback, Patience: policy.DefaultPatience,
		Stranded: policy.DefaultStranded,
	}
	if e.Site.Rules != rules || e.Site.AtRounds || e.Site.Slurm != (production.Delays{}) || e.Round != 5*time.Minute ||
		e.Cluster.String() != "16x8:24:500" {
		t.Errorf("the experiment is %+v", e)
	}
	if w := e.Workloads[0]; w.Load != 9 || w.Seed != 42 || w.Split != "20,70,10" || len(e.Workloads) != 1 {
		t.Errorf("the workload is %+v", w)
	}
	if p := e.Site.Profiles["m5"]; p.RestartCost() != time.Minute || p.CheckpointSeconds != 20 {
		t.Errorf("a restart costs %s, of which %g s are the save", p.RestartCost(), p.CheckpointSeconds)
	}
}

// The line is for a report, where a reader takes it to get the same figures.
func TestTheCommandLineOfAReportGivesTheSameExperiment(t *testing.T) {
	line := "--load 2,5 --jobs 9 --multigpu --seed 1:3 --ends rounds --min-run 0"
	file := []string{"scheduler: [FIFO+fair, SRTF+tune]", "round: 90", "durations: lognormal:30m,1.0", "teardown: 0"}
	o := typed(t, line+" --report out -q --record r.csv --jobs-out j.csv", append(file, "parallel: 4")...)
	again := o.commandLine()
	for _, word := range []string{"report", "parallel", "quiet", "record", "jobs-out"} {
		if strings.Contains(again, word) {
			t.Errorf("%s makes no difference to the figures, and stands in %s", word, again)
		}
	}
	flags, behind, _ := strings.Cut(again, " - <<'END'\n")
	flags, isOurs := strings.CutPrefix(flags, "synergy sim ")
	keys, ends := strings.CutSuffix(behind, "\nEND")
	if !isOurs || !ends || strings.ContainsAny(flags, "'\n") {
		t.Fatalf("it is %q", again)
	}
	if first, second := described(t, line, file...), described(t, flags, keys); !reflect.DeepEqual(first, second) {
		t.Errorf("%s and %q describe\n%+v, and\n%s\n%+v", line, file, first, again, second)
	}
}

// The flags are what a script varies; a file has all.
func TestEachOptionIsAKeyAndThoseOfScriptsAreFlags(t *testing.T) {
	o := typed(t, "")
	var flags []string
	o.typed.VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	slices.Sort(flags)
	want := strings.Fields("allocator baseline checkpoints cluster ends engine format jobs jobs-out json load " +
		"max-preemptions min-run multigpu placement policy profiles quiet record report restart rounds-out seed " +
		"split static trace window")
	if !slices.Equal(flags, want) {
		t.Errorf("flags are %q, want %q", flags, want)
	}
	values := map[string]string{"int": "3", "float64": "0.5", "bool": "true", "time": "90s"}
	keys := 0
	o.all.VisitAll(func(f *pflag.Flag) {
		keys++
		value := cmp.Or(values[f.Value.Type()], "word")
		if filled := typed(t, "", f.Name+": "+value); !filled.changed(f.Name) {
			t.Errorf("%s: %s in a file changes nothing", f.Name, value)
		}
	})
	if keys != 58 {
		t.Errorf("a file has %d keys, want the 58 options that there were as flags", keys)
	}
}

func TestTheExperimentAmongTheExamplesIsOne(t *testing.T) {
	o := newOptions()
	o.defineFlags(&cobra.Command{Use: "sim"}, o.groups...)
	if err := o.readExperiment(nil, filepath.Join("..", "..", "etc", "examples", "experiment.yaml")); err != nil {
		t.Fatal(err)
	}
	if e, err := o.experiment(io.Discard); err != nil || len(e.Workloads) != 2 || len(e.Schedules) != 4 {
		t.Errorf("it has %d workloads and %d schedules, %v; want 2 and 4", len(e.Workloads), len(e.Schedules), err)
	}
}

func TestTheManualExplainsEveryOption(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	o := typed(t, "")
	o.all.VisitAll(func(f *pflag.Flag) {
		name := f.Name
		if o.typed.Lookup(name) != nil {
			name = "--" + name
		}
		if !strings.Contains(manual, "`"+name+"`") && !strings.Contains(manual, "`"+name+" ") &&
			!strings.Contains(manual, "`"+name+":") {
			t.Errorf("docs/simulator.md does not explain %s", name)
		}
	})
}

// The example is what the manual shows, and it is all that is taken where nothing is named.
func TestTheExampleIsTakenOnlyWhereNoWorkloadIsNamed(t *testing.T) {
	for _, c := range []struct{ line, file, want string }{
		{"", "", "cluster 4x8:24:500, load 12, jobs 300, split 60,30,10, durations small"},
		{"--policy las", "", "cluster 4x8:24:500, load 12, jobs 300, split 60,30,10, durations small"},
		{"", "policy: las", "cluster 4x8:24:500, load 12, jobs 300, split 60,30,10, durations small"},
		{"--split 33,33,33", "", "cluster 4x8:24:500, load 12, jobs 300, durations small"},
		{"--load 9", "", ""},
		{"--jobs 9", "", ""},
		{"--trace x", "", ""},
		{"--window 1-2", "", ""},
		{"", "window: 1-2", ""},
		{"", "{until: 1h, ratio: 4}", ""},
		{"--cluster 1x8:24:500 -q", "", "load 12, jobs 300, split 60,30,10, durations small"},
	} {
		var file []string
		if c.file != "" {
			file = []string{c.file}
		}
		if taken, err := typed(t, c.line, file...).applyExample(); err != nil || taken != c.want {
			t.Errorf("%q and %q are filled with %q, %v, want %q", c.line, c.file, taken, err, c.want)
		}
	}
}

func TestAShareModeIsOneOfANodeAndForJobsThatShare(t *testing.T) {
	for _, c := range []struct{ line, file, want string }{
		{"", "share: 0.3\nshare-mode: mps", `line 2: share-mode "mps": want turns or fill`},
		{"", "share-mode: fill", "line 1: share-mode: is about jobs that share GPUs: say how many do with share"},
		{"--engine artifact", "share-mode: fill",
			"line 1: share-mode: the artifact engine has no such thing: leave it out, or take --engine production"},
	} {
		_, err := typed(t, c.line+" --jobs 3", c.file).experiment(io.Discard)
		if want := "standard input: " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s with %q: %v, want %s", c.line, c.file, err, want)
		}
	}
	if e := described(t, "--jobs 3", "share: 0.3"); e.Site.Mode != "" {
		t.Errorf("by default GPUs are shared by %s, want by turns", e.Site.Mode)
	}
}

func TestAPredictionSaysInWhichModeJobsWouldBePutOnOneGPU(t *testing.T) {
	for jobs, want := range map[string]string{
		"busy=0.15,mem=8 busy=0.9,mem=8": "the planner would put them on one GPU",
		"busy=0.2,mem=8 busy=0.8,mem=8": "the planner would put them on one GPU of a node that fills its GPUs, if " +
			"they are of one user would not be put on one GPU: by turns with look-ahead A would keep 0.89 of its " +
			"speed, and class high is to keep 0.9 of it",
		"busy=0.25,mem=8 busy=0.9,mem=8 busy=0.9,mem=8": "would not be put on one GPU: by turns with look-ahead A " +
			"would keep 0.85 of its speed, and class high is to keep 0.9 of it would not be put on one GPU: by MPS A " +
			"would keep 0.89 of its speed, and class high is to keep 0.9 of it",
		"busy=0.2,mem=80 busy=0.9,mem=8": "would not be put on one GPU: together they need 88.0 GiB of the GPU's " +
			"memory, and 76.0 GiB may be used",
	} {
		printed := said(t, append([]string{"share", "predict"}, strings.Fields(jobs)...)...)
		if !strings.HasSuffix(printed, want) {
			t.Errorf("%s: it says %s, want at its end %s", jobs, printed, want)
		}
	}
}
