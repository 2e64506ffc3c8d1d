package sim

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// small is an experiment of a few dozen jobs on eight GPUs, drawn from two seeds, under the named schedules.
func small(t testing.TB, engine Engine, schedules ...Schedule) Experiment {
	t.Helper()
	classes, err := workload.Paper(3)
	if err != nil {
		t.Fatal(err)
	}
	own, err := Profiles(profiles.FS)
	if err != nil {
		t.Fatal(err)
	}
	on, err := cluster.Parse("2x4:12:250")
	if err != nil {
		t.Fatal(err)
	}
	config := workload.Config{Classes: classes, Jobs: 40, GPUs: "1=70,2=20,4=10", Durations: workload.SmallDurations}
	return Experiment{
		Engine: engine, Cluster: on, Ratio: 3, Round: 5 * time.Minute, Schedules: schedules, Detail: true,
		Workloads: Drawn("drawn", config, []float64{2, 4}, []int64{1, 2}),
		Site: Site{Profiles: WithRestart(own, 20*time.Second, 40*time.Second),
			Rules: policy.Rules{MinRun: 10 * time.Minute}},
	}
}

// written is all that an experiment gives, but for the time that it took.
func written(t testing.TB, e Experiment) []byte {
	t.Helper()
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return printed(t, runs)
}

func printed(t testing.TB, runs []outcome.Run) []byte {
	t.Helper()
	var out bytes.Buffer
	for i := range runs {
		if runs[i].Wall <= 0 {
			t.Errorf("simulation %d took no time", i)
		}
		runs[i].Wall = 0
	}
	for _, err := range []error{outcome.WriteJSON(&out, runs), outcome.WriteJobs(&out, runs),
		outcome.WriteRounds(&out, runs)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestHoweverManyRunAtATimeTheOutcomeIsTheSameToTheByte(t *testing.T) {
	for engine, schedules := range map[Engine][]Schedule{
		Production: {{"fifo", "tune", ""}, {"las", "proportional", ""}, {"srtf", "greedy", ""}},
		Artifact:   {{"fifo", "tune", "random"}, {"las", "greedy", "consolidate"}, {"ftf", "proportional", "random"}},
	} {
		e := small(t, engine, schedules...)
		e.Parallel = 1
		want := written(t, e)
		for _, parallel := range []int{1, 2, 8} {
			e.Parallel = parallel
			if !bytes.Equal(written(t, e), want) {
				t.Errorf("%s: with %d at a time it is another outcome", engine, parallel)
			}
		}
	}
}

func TestASimulationIsTheSameAloneAndAmongOthersInAnyOrder(t *testing.T) {
	all := cross(Artifact)
	one := func(schedules ...Schedule) Experiment {
		e := small(t, Artifact, schedules...)
		e.Workloads, e.Detail = e.Workloads[:1], false
		return e
	}
	alone := make(map[Schedule][]byte)
	for _, s := range all {
		alone[s] = figures(t, one(s))[s]
	}
	rapid.Check(t, func(rt *rapid.T) {
		some := rapid.Permutation(all).Draw(rt, "order")[:rapid.IntRange(1, len(all)).Draw(rt, "how many")]
		for s, got := range figures(t, one(some...)) {
			if !bytes.Equal(got, alone[s]) {
				rt.Errorf("%s is another among %v", s, some)
			}
		}
	})
}

func cross(e Engine) []Schedule {
	var all []Schedule
	for _, p := range e.Policies() {
		for _, a := range e.Allocators() {
			all = append(all, Schedule{p, a, e.Placements()[0]})
		}
	}
	return slices.DeleteFunc(all, func(s Schedule) bool { return s.Allocator == "opt" }) // takes its time
}

// figures are the outcomes of each schedule, as files have them.
func figures(t testing.TB, e Experiment) map[Schedule][]byte {
	t.Helper()
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[Schedule][]outcome.Run)
	for _, run := range runs {
		s := Schedule{run.Setting.Policy, run.Setting.Allocator, run.Setting.Placement}
		of[s] = append(of[s], run)
	}
	all := make(map[Schedule][]byte)
	for s, runs := range of {
		all[s] = printed(t, runs)
	}
	return all
}

func TestTheSettingSaysWhatWasSimulated(t *testing.T) {
	e := small(t, Production, Schedule{"srtf", "tune", ""})
	e.Until, e.Window = 900*time.Hour, outcome.Window{First: 3, End: 30}
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := outcome.Setting{
		Engine: "production", Policy: "srtf", Allocator: "tune", Load: 4, Workload: "drawn", Cluster: "2x4:12:250",
		Ratio: 3, Seed: 2,
		Window: e.Window, RoundSeconds: 300, RestartSeconds: 60, Until: 900 * 3600,
	}
	if got := runs[3].Setting; got != want {
		t.Errorf("it says\n%+v, want\n%+v", got, want)
	}
}

func TestARestartCostsTheMeanOfWhatProfilesSay(t *testing.T) {
	e := small(t, Production, Schedule{"fifo", "tune", ""})
	if got := e.restart(); got != 60 {
		t.Errorf("%g s where all say 60", got)
	}
	e.Site.Profiles["gnmt"].StartSeconds += 10
	if got := e.restart(); got != 61 {
		t.Errorf("%g s where one of ten says 70", got)
	}
	e.Engine = Artifact
	if got := e.restart(); got != 0 {
		t.Errorf("%g s in the artifact, which has none", got)
	}
}
