package production

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// costing reads the paper's ten profiles and has a checkpoint and a start cost so many seconds.
func costing(t testing.TB, checkpoint, start float64) map[string]*sensitivity.Profile {
	t.Helper()
	entries, err := profiles.FS.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]*sensitivity.Profile{}
	for _, entry := range entries {
		text, err := profiles.FS.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		p, err := sensitivity.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p.CheckpointSeconds, p.StartSeconds = checkpoint, start
		read[p.Model] = p
	}
	return read
}

// servers is a cluster of so many equal servers.
func servers(n, gpus, cpus int, memory float64) cluster.Cluster {
	return cluster.Cluster{Groups: []cluster.Group{{
		Servers: n, GPUs: gpus, CPUs: cpus, Memory: memory, Storage: cluster.DefaultStorage,
		Network: cluster.DefaultNetwork,
	}}}
}

// small is two of the paper's servers under FIFO and Tune, without any cost.
func small(t testing.TB, jobs ...trace.Job) Config {
	return Config{
		Cluster: servers(2, 8, 24, 500),
		Policy:  policy.FIFO(), Allocator: policy.Tune(), Profiles: costing(t, 0, 0), Jobs: trace.Of(jobs),
	}
}

func simulate(t testing.TB, config Config) outcome.Run {
	t.Helper()
	run, err := Run(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// res18 takes 0.64 s for an iteration with 3 cores, and 2.4 times as many a second with 9.
func res18(id int, arrival float64, iterations int64) trace.Job {
	return trace.Job{ID: id, Model: "res18", GPUs: 1, Arrival: arrival, Iterations: iterations}
}

func TestAJobWaitsForTheNextRoundAndRunsAtItsDemand(t *testing.T) {
	run := simulate(t, small(t, res18(7, 100, 7500))) // 4800 s with its share, 2000 s with its demand
	j := run.Jobs[0]
	if j.ID != 7 || j.Length != 4800 || j.FirstRun != 300 || j.Finish != 2300 || j.Starts != 1 ||
		j.AttainedGPU != 2000 {
		t.Errorf("%+v, want a start at 300 and the end at 2300", j)
	}
	if run.BusyCPUs != 9*2000 || run.BusyGPUs != 2000 {
		t.Errorf("busy: %v core-seconds, %v GPU-seconds", run.BusyCPUs, run.BusyGPUs)
	}
}

func TestWithTheProportionalShareAJobTakesItsLength(t *testing.T) {
	c := small(t, res18(0, 0, 7500))
	c.Allocator = policy.Proportional()
	if j := simulate(t, c).Jobs[0]; j.Finish != 4800 {
		t.Errorf("finished at %v, want 4800", j.Finish)
	}
}

func TestEndsCountAtRoundsWhereThatIsAsked(t *testing.T) {
	c := small(t, res18(0, 0, 7500), res18(1, 0, 3375)) // 2000 s and exactly three rounds
	c.AtRounds = true
	run := simulate(t, c)
	if a, b := run.Jobs[0].Finish, run.Jobs[1].Finish; a != 2100 || b != 900 {
		t.Errorf("finished at %v and %v, want 2100 and 900", a, b)
	}
}

func TestTheFirstRoundIsWhenItIsAsked(t *testing.T) {
	c := small(t, res18(0, 0, 7500), res18(1, 0.099, 3375), res18(2, 250, 750))
	c.First, c.AtRounds = time.Second, true
	run := simulate(t, c)
	for i, want := range [][2]float64{{1, 2101}, {1, 901}, {301, 601}} {
		if j := run.Jobs[i]; j.FirstRun != want[0] || j.Finish != want[1] {
			t.Errorf("job %d ran from %v to %v, want %v", i, j.FirstRun, j.Finish, want)
		}
	}
	if run.Held != 7 {
		t.Errorf("%d rounds were held, want 7", run.Held)
	}
}

func TestSlurmsDelaysAreAddedToARun(t *testing.T) {
	c := small(t, res18(0, 0, 7500))
	c.Slurm = Delays{Scheduler: 2 * time.Second, Launch: 10 * time.Second, Teardown: 5 * time.Second}
	run := simulate(t, c)
	if j := run.Jobs[0]; j.FirstRun != 2 || j.Finish != 2012 || j.AttainedGPU != 2015 {
		t.Errorf("ran from %v to %v for %v GPU-seconds, want 2, 2012 and 2015", j.FirstRun, j.Finish, j.AttainedGPU)
	}
}

func TestARestartCostsWhatTheProfileSays(t *testing.T) {
	// Job 0 holds all GPUs of the only server; job 1 is much shorter, and SRTF lets it go first.
	jobs := []trace.Job{
		{ID: 0, Model: "lstm", GPUs: 8, Arrival: 0, Iterations: 1_000_000},
		{ID: 1, Model: "lstm", GPUs: 8, Arrival: 1000, Iterations: 30_000},
	}
	took := map[float64]float64{}
	for _, cost := range []float64{0, 50} {
		c := small(t, jobs...)
		c.Cluster.Groups[0].Servers, c.Policy, c.Profiles = 1, policy.SRTF(), costing(t, 20, cost)
		run := simulate(t, c)
		if run.Jobs[0].Starts != 2 {
			t.Fatalf("job 0 was started %d times, want a preemption", run.Jobs[0].Starts)
		}
		took[cost] = run.Jobs[0].AttainedGPU / 8
	}
	if more := took[50] - took[0]; math.Abs(more-50) > 1e-6 {
		t.Errorf("a warm-up of 50 s costs %v s", more)
	}
	if lost := took[0] - 11000; lost < 20 || lost > 25 {
		t.Errorf("a checkpoint of 20 s costs %v s", lost)
	}
}

func TestRoundsWithoutAJobAreCountedAndCostNothing(t *testing.T) {
	year := 365 * 24 * 3600.0
	began := time.Now()
	run := simulate(t, small(t, res18(0, 100*year, 7500)))
	if want := int(100*year)/300 + 7; run.Held < want || run.Held > want+2 {
		t.Errorf("%d rounds were held, want about %d", run.Held, want)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("ten million idle rounds took %s", took)
	}
	if got := run.Jobs[0].Finish - run.Jobs[0].FirstRun; got != 2000 {
		t.Errorf("the job took %v s, want 2000", got)
	}
}

func TestQuietRoundsAreCountedAndNotHeld(t *testing.T) {
	// a million seconds at the demand; a guest at a round
	c := small(t, res18(0, 0, 3_750_000), res18(1, 599_700, 1000))
	c.Detail, c.Round, c.Poll = true, DefaultRound, DefaultPoll
	s := newSite(c)
	if err := s.holdRounds(context.Background()); err != nil {
		t.Fatal(err)
	}
	run := s.outcome()
	if run.Held != 1_000_000/300+1 || s.runner.Last > 10 {
		t.Errorf("%d rounds are counted and %d were held, want 3334 and a few", run.Held, s.runner.Last)
	}
	if a, b := run.Jobs[0], run.Jobs[1]; a.Finish != 1_000_000 || b.FirstRun != 599_700 {
		t.Errorf("the job ended at %v, its guest began at %v", a.Finish, b.FirstRun)
	}
	for i, r := range run.Rounds {
		if math.Mod(r.At, 300) != 0 || i > 0 && r.At <= run.Rounds[i-1].At {
			t.Errorf("round %d is at %v", i, r.At)
		}
	}
}

func TestTheSimulationEndsWithItsWindow(t *testing.T) {
	c := small(t, res18(0, 0, 7500), res18(1, 0, 75000), res18(2, 0, 750))
	c.Window = outcome.Window{First: 2, End: 3}
	run := simulate(t, c)
	if run.Ended != 300 || run.Jobs[2].Finish != 200 || run.Jobs[0].Done() || run.Jobs[1].Done() {
		t.Errorf("ended at %v with %+v", run.Ended, run.Jobs)
	}
	if run.Jobs[0].AttainedGPU != 300 {
		t.Errorf("the job that was cut short attained %v GPU-seconds, want 300", run.Jobs[0].AttainedGPU)
	}
}

func TestAWindowThatNoTraceFillsEndsWithTheTrace(t *testing.T) {
	c := small(t, res18(0, 0, 7500))
	c.Window = outcome.Window{First: 0, End: 5}
	if run := simulate(t, c); run.Jobs[0].Finish != 2000 {
		t.Errorf("%+v", run.Jobs)
	}
}

func TestTheSimulationEndsAtUntilWhateverIsLeft(t *testing.T) {
	c := small(t, res18(0, 0, 7500), res18(1, 5000, 7500))
	c.Until = 1000 * time.Second
	run := simulate(t, c)
	if run.Ended != 1000 || len(run.Jobs) != 1 || run.Jobs[0].Done() || run.Jobs[0].AttainedGPU != 1000 {
		t.Errorf("ended at %v with %+v", run.Ended, run.Jobs)
	}
}

func TestWhatCannotBeSimulatedIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"unknown model", with(trace.Job{ID: 3, Model: "bert", GPUs: 1, Iterations: 1}),
			`job 3: model "bert" has no profile: want one of alexnet, `},
		{"no GPUs", with(trace.Job{ID: 3, Model: "lstm", GPUs: 0, Iterations: 1}), "job 3: gpus = 0: want at least 1"},
		{"too many GPUs", with(trace.Job{ID: 3, Model: "lstm", GPUs: 32, Iterations: 1}), "job 3: gpus = 32: want "},
		{"uneven GPUs", with(trace.Job{ID: 3, Model: "lstm", GPUs: 9, Iterations: 1}), "job 3: gpus = 9: want "},
		{"no work", with(trace.Job{ID: 3, Model: "lstm", GPUs: 1}),
			"job 3: 0 iterations of lstm take 0 s: want at least one"},
		{"endless work", with(trace.Job{ID: 3, Model: "lstm", GPUs: 1, Iterations: math.MaxInt64}),
			"job 3: 9223372036854775807 iterations"},
		{"arrivals that go back", with(res18(0, 500, 1), res18(1, 400, 1)), "job 1 arrives at 400 s, before"},
		{"no cluster", func(c *Config) { c.Cluster = cluster.Cluster{} },
			"cluster: no group of servers: want one at least"},
		{"no profiles", func(c *Config) { c.Profiles = nil }, "profiles: none given"},
		{"a round of no time", func(c *Config) { c.Round = time.Millisecond }, "round = 1ms: want at least 1s"},
		{"a poll longer than the round", func(c *Config) { c.Poll = time.Hour },
			"poll = 1h0m0s: want a time up to the round of 5m0s"},
		{"a first round before the beginning", func(c *Config) { c.First = -1 }, "first round at -1ns"},
		{"an end before the beginning", func(c *Config) { c.Until = -1 }, "until = -1ns"},
	} {
		config := small(t)
		c.change(&config)
		_, err := Run(context.Background(), config)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func with(jobs ...trace.Job) func(*Config) { return func(c *Config) { c.Jobs = trace.Of(jobs) } }

func TestASimulationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var many []trace.Job
	for id := range 20 { // more than there are GPUs: the rounds are not quiet
		many = append(many, res18(id, 0, 1e8))
	}
	c := small(t, many...)
	c.Progress = func(int, float64) { cancel() }
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestAGangOfTwoServersRunsOnBoth(t *testing.T) {
	c := small(t, trace.Job{ID: 0, Model: "res50", GPUs: 16, Iterations: 1000})
	c.Detail = true
	run := simulate(t, c)
	if len(run.Spans) != 2 || run.Spans[0].Server != 0 || run.Spans[1].Server != 1 || len(run.Spans[0].Devices) != 8 {
		t.Errorf("%+v, want eight GPUs on each of two servers", run.Spans)
	}
}

func TestServersOfAllGroupsAreUsed(t *testing.T) {
	c := small(t, trace.Job{ID: 0, Model: "res50", GPUs: 8, Iterations: 1000},
		trace.Job{ID: 1, Model: "lstm", GPUs: 4, Iterations: 1e6})
	c.Cluster.Groups = append(servers(1, 8, 24, 500).Groups, servers(1, 4, 16, 256).Groups...)
	c.Detail = true
	run := simulate(t, c)
	if len(run.Spans) != 2 || run.Spans[1].Server != 1 || run.GPUs != 12 || run.CPUs != 40 || run.Memory != 756 {
		t.Errorf("%+v on %d GPUs, %d cores, %v GB", run.Spans, run.GPUs, run.CPUs, run.Memory)
	}
}

func TestDetailChangesNothingElse(t *testing.T) {
	c := small(t, mix(60)...)
	plain := simulate(t, c)
	c.Jobs, c.Detail = trace.Of(mix(60)), true
	full := simulate(t, c)
	if len(full.Rounds) == 0 || len(full.Spans) == 0 {
		t.Fatal("no rounds or spans were recorded")
	}
	full.Rounds, full.Spans = nil, nil
	if !reflect.DeepEqual(plain, full) {
		t.Error("the outcome with detail differs")
	}
}

// mix is a workload of all models that keeps two servers busy.
func mix(n int) []trace.Job {
	models := []string{"alexnet", "gnmt", "res18", "lstm", "m5", "transformer", "res50", "mobilenet", "deepspeech",
		"shufflenet"}
	gpus := []int{1, 1, 2, 1, 4, 1, 8, 1, 1, 2, 1, 16}
	jobs := make([]trace.Job, n)
	for i := range jobs {
		jobs[i] = trace.Job{ID: i, Model: models[i%len(models)], GPUs: gpus[i%len(gpus)], Arrival: float64(i * 240),
			Iterations: int64(2000 + 977*(i%13))}
	}
	return jobs
}
