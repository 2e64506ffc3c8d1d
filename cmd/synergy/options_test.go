package main

import (
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

// typed are the options of a command line.
func typed(t *testing.T, line string) *options {
	t.Helper()
	o, command := newOptions(), &cobra.Command{Use: "sim"}
	o.define(command)
	if err := command.ParseFlags(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return o
}

func described(t *testing.T, line string) sim.Experiment {
	t.Helper()
	e, err := typed(t, line).experiment(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEveryOptionOfTheProductionEngineReachesIt(t *testing.T) {
	e := described(t, `--jobs 7 --load 3 --policy srtf,las --allocator tune --round 10m --until 900h --window 2-5 --parallel 3 --rounds-out r.csv
		--restart 90s --checkpoint 20s --ends rounds --min-run 1m --max-preemptions 4 --horizon 2h --payback 20m --patience 3h --stranded 0.25
		--scheduler-delay 1s --teardown 2s --launch 3s --bf-interval 10s --bf-resolution 20s --bf-window 48h --opt-in 0.75
		--checkpoints 0.5 --share 0.3 --share-mode fill`)
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
	e := described(t,
		"--engine artifact --window 1-3 --jobs 9 --scheduler FIFO+fair --scheduler LAS+place --ratio 4 --prioritize")
	want := []sim.Schedule{{Policy: "fifo", Allocator: "proportional", Placement: "random"},
		{Policy: "las", Allocator: "greedy", Placement: "consolidate"}}
	if !slices.Equal(e.Schedules, want) || e.Reference != (sim.Reference{Prioritize: true}) || e.Ratio != 4 ||
		e.Cluster.String() != "16x8:32:500" || e.Detail {
		t.Errorf("the experiment is %+v", e)
	}
}

func TestEveryOptionOfADrawnWorkloadReachesIt(t *testing.T) {
	e := described(t,
		"--load 2,5 --seed 7,8 --jobs 9 --split gnmt=100 --gpus 2=1 --durations small --arrivals daily --assign "+
			"random --ratio 5")
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
	line := "--load 2,5 --jobs 9 --multigpu --seed 1:3 --scheduler FIFO+fair --scheduler SRTF+tune --round 90 " +
		"--ends rounds"
	o := typed(t, line+" --report out --parallel 4 -q --record r.csv --jobs-out j.csv")
	again, is := strings.CutPrefix(o.command(), "synergy sim ")
	if !is || strings.ContainsAny(again, "'\n") {
		t.Fatalf("it is %q", again)
	}
	for _, word := range []string{"--report", "--parallel", "--quiet", "--record", "--jobs-out"} {
		if strings.Contains(again, word) {
			t.Errorf("%s makes no difference to the figures, and stands in %s", word, again)
		}
	}
	if first, second := described(t, line), described(t, again); !reflect.DeepEqual(first, second) {
		t.Errorf("%s describes\n%+v, and\n%s\n%+v", line, first, again, second)
	}
}

func TestTheManualExplainsEveryOption(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "simulator.md"))
	if err != nil {
		t.Fatal(err)
	}
	manual := string(text)
	typed(t, "").flags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(manual, "`--"+f.Name) {
			t.Errorf("docs/simulator.md does not explain --%s", f.Name)
		}
	})
}

// The example is what the manual shows, and it is all that is taken where nothing is named.
func TestTheExampleIsTakenOnlyWhereNoWorkloadIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "--cluster 4x8:24:500 --load 12 --jobs 300 --split 60,30,10 --durations small",
		"--policy las":            "--cluster 4x8:24:500 --load 12 --jobs 300 --split 60,30,10 --durations small",
		"--split 33,33,33":        "--cluster 4x8:24:500 --load 12 --jobs 300 --durations small",
		"--load 9":                "",
		"--jobs 9":                "",
		"--trace x":               "",
		"--window 1-2":            "",
		"--until 1h --ratio 4":    "",
		"--cluster 1x8:24:500 -q": "--load 12 --jobs 300 --split 60,30,10 --durations small",
	} {
		if taken, err := typed(t, line).fill(); err != nil || taken != want {
			t.Errorf("%q is filled with %q, %v, want %q", line, taken, err, want)
		}
	}
}

func TestAShareModeIsOneOfANodeAndForJobsThatShare(t *testing.T) {
	for line, want := range map[string]string{
		"--share 0.3 --share-mode mps": `--share-mode "mps": want turns or fill`,
		"--share-mode fill":            "--share-mode: is about jobs that share GPUs: say how many do with --share",
		"--engine artifact --share-mode fill": "--share-mode: the artifact engine has no such thing: leave it out, " +
			"or take --engine production",
	} {
		o := typed(t, line+" --jobs 3")
		err := o.misfits()
		if err == nil {
			_, err = o.experiment(io.Discard)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if e := described(t, "--jobs 3 --share 0.3"); e.Site.Mode != "" {
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
