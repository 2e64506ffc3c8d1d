package backfill

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// res18 is a job of so many minutes at the proportional share, in which an iteration takes 0.64 s.
func res18(id, gpus int, arrival, minutes, limit float64) trace.Job {
	return trace.Job{
		ID: id, Model: "res18", GPUs: gpus, Arrival: arrival, Iterations: int64(minutes * 60 / 0.64),
		Told: trace.Told{Asked: trace.Asked{Limit: limit * 60}},
	}
}

// servers is so many of the paper's, with a scheduler that plans twice a minute.
func servers(t testing.TB, count int, jobs ...trace.Job) Config {
	t.Helper()
	text, err := profiles.FS.ReadFile("res18.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	group := cluster.Group{Servers: count, GPUs: 8, CPUs: 24, Memory: 500, Storage: cluster.DefaultStorage,
		Network: cluster.DefaultNetwork}
	return Config{
		Cluster:  cluster.Cluster{Groups: []cluster.Group{group}},
		Profiles: map[string]*sensitivity.Profile{p.Model: p}, Jobs: trace.Of(jobs),
		Slurm: Slurm{Backfill: Defaults()}, Sample: time.Minute,
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

// starts are the moments at which jobs started, in whole minutes.
func starts(run outcome.Run) []int {
	var list []int
	for _, j := range run.Jobs {
		list = append(list, int(math.Round(j.FirstRun/60)))
	}
	return list
}

// One server is full for an hour, the other half full for two; job 2 wants both.
func crowded(more ...trace.Job) []trace.Job {
	return append([]trace.Job{res18(0, 8, 0, 60, 60), res18(1, 4, 0, 120, 120), res18(2, 16, 1, 30, 30)}, more...)
}

func TestAJobThatEndsBeforeTheOneAheadCanStartIsBackfilled(t *testing.T) {
	run := simulate(t, servers(t, 2, crowded(res18(3, 4, 2, 20, 30), res18(4, 4, 3, 150, 150))...))
	if got, want := starts(run), []int{0, 0, 120, 1, 150}; !slices.Equal(got, want) {
		t.Errorf("jobs started after %v min, want %v: job 3 in the gap, job 4 behind the one that waits", got, want)
	}
}

func TestBackfillGoesByLimitsAndNotByHowLongJobsTake(t *testing.T) {
	run := simulate(t, servers(t, 2, crowded(res18(3, 4, 2, 20, 600))...))
	if got, want := starts(run), []int{0, 0, 120, 150}; !slices.Equal(got, want) {
		t.Errorf("jobs started after %v min, want %v: job 3 could have run for 600 min", got, want)
	}
	run = simulate(t, servers(t, 1, res18(0, 8, 0, 10, 600), res18(1, 8, 1, 10, 10)))
	if got, want := starts(run), []int{0, 10}; !slices.Equal(got, want) {
		t.Errorf("jobs started after %v min, want %v: the second when the first ended, long before its limit", got,
			want)
	}
}

func TestAServerOfWhichAPartIsKeptIsKeptWhole(t *testing.T) {
	// Job 2 wants 6 GPUs after an hour. Job 3 would find 2 beside it, and Slurm does not see that.
	run := simulate(t, servers(t, 1, res18(0, 4, 0, 60, 60), res18(1, 6, 1, 30, 30), res18(2, 2, 2, 90, 90)))
	if got, want := starts(run), []int{0, 60, 60}; !slices.Equal(got, want) {
		t.Errorf("jobs started after %v min, want %v", got, want)
	}
}

func TestThePriorityOfTheLogGoesBeforeTheOrderOfArrival(t *testing.T) {
	late := res18(2, 8, 2, 10, 10)
	late.Told.Asked.Priority = 1000
	run := simulate(t, servers(t, 1, res18(0, 8, 0, 10, 10), res18(1, 8, 1, 10, 10), late))
	if got, want := starts(run), []int{0, 20, 10}; !slices.Equal(got, want) {
		t.Errorf("jobs started after %v min, want %v", got, want)
	}
}

func TestAJobWithoutALimitHasTheShortestThatIsLongEnough(t *testing.T) {
	for told, want := range map[float64]time.Duration{0: 2 * time.Minute, 60: 2 * time.Minute, 600: 10 * time.Minute,
		601: 11 * time.Minute} {
		if got := timeLimit(told, 90*time.Second); got != want {
			t.Errorf("%v s for a job of 90 s: limit %s, want %s", told, got, want)
		}
	}
}

func TestAJobGoesToThoseServersNextToEachOtherThatHaveTheFewestFreeCores(t *testing.T) {
	one := gres.Vector{GPUs: 1, CPUs: 3, Memory: 1}
	j := &job{Request: users.Request{Nodes: 1, PerNode: one}}
	free := []gres.Vector{one.Times(8), one.Times(8), {}, one.Times(2), {}}
	if got := chooseNodes(j, free, allNodes(5)); !slices.Equal(got, []int{3}) {
		t.Errorf("one server: %v, want 3, which stands alone", got)
	}
	j.Nodes = 2
	if got := chooseNodes(j, free, allNodes(5)); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("two servers: %v, want 0 and 1", got)
	}
	j.Nodes = 3
	if got := chooseNodes(j, free, allNodes(5)); !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("three servers: %v, want all that have room", got)
	}
}

// drawn are jobs whose limits are up to four times too long.
func drawn(seed uint64, count int) []trace.Job {
	draw := rand.New(rand.NewPCG(seed, 0))
	var jobs []trace.Job
	at := 0.0
	for id := range count {
		minutes := 1 + 60*draw.Float64()
		gpus := []int{1, 1, 2, 4, 8, 16}[draw.IntN(6)]
		jobs = append(jobs, res18(id, gpus, at, minutes, minutes*(1+3*draw.Float64())))
		at += 400 * draw.ExpFloat64()
	}
	return jobs
}

func TestNoServerHoldsMoreThanItHasAndEveryJobRunsOnceAndWhole(t *testing.T) {
	for seed := range uint64(40) {
		config := servers(t, 3, drawn(seed, 60)...)
		config.Slurm.Teardown, config.Slurm.Scheduler = 3*time.Second, time.Second
		run := simulate(t, config)
		for _, j := range run.Jobs {
			const rounded = 1e-6
			if j.FirstRun < j.Arrival-rounded || j.Starts != 1 || math.Abs(j.Finish-j.FirstRun-j.Length) > rounded {
				t.Fatalf("seed %d: %+v", seed, j)
			}
		}
		for _, s := range run.Spans {
			held := 0
			for _, other := range run.Spans {
				if other.Server == s.Server && other.From <= s.From && s.From < other.To {
					held += other.GPUs
				}
			}
			if held > 8 {
				t.Fatalf("seed %d: server %d holds %d GPUs at %v s", seed, s.Server, held, s.From)
			}
		}
	}
}

// TestNobodyIsDelayedByWhoComesBehindHim holds what backfill promises where limits are right: who is backfilled does
// not delay the first of the queue, so that this one starts no later than if nobody came behind it.
func TestNobodyIsDelayedByWhoComesBehindHim(t *testing.T) {
	for seed := range uint64(20) {
		jobs := drawn(seed, 40)
		for i := range jobs {
			jobs[i].Told.Asked.Limit = 0
		}
		for last := 10; last < len(jobs); last += 10 {
			alone := simulate(t, servers(t, 3, jobs[:last]...)).Jobs[last-1]
			followed := simulate(t, servers(t, 3, jobs...)).Jobs[last-1]
			if slack := 2 * time.Minute.Seconds(); followed.FirstRun > alone.FirstRun+slack {
				t.Errorf("seed %d: job %d starts at %.0f s, and at %.0f s with nobody behind it", seed, last-1,
					followed.FirstRun, alone.FirstRun)
			}
		}
	}
}

func TestTheSameJobsGiveTheSameOutcome(t *testing.T) {
	one, two := simulate(t, servers(t, 3, drawn(1, 80)...)), simulate(t, servers(t, 3, drawn(1, 80)...))
	if !reflect.DeepEqual(one, two) {
		t.Error("two runs of the same jobs differ")
	}
}

func TestTheWindowAndTheTimeEndASimulation(t *testing.T) {
	config := servers(t, 2, drawn(2, 20)...)
	config.Window = outcome.Window{First: 0, End: 3}
	if run := simulate(t, config); run.Jobs[2].Finish < 0 || run.Ended > run.Jobs[2].Finish+4000 {
		t.Errorf("ended at %v s, job 2 at %v s", run.Ended, run.Jobs[2].Finish)
	}
	config = servers(t, 2, drawn(2, 20)...)
	config.Until = time.Hour
	if run := simulate(t, config); run.Ended != 3600 {
		t.Errorf("ended at %v s, want 3600", run.Ended)
	}
}

func TestWhatCannotBeSimulatedIsRefusedByName(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"job 7: model \"nobody\" has no profile": func(c *Config) {
			c.Jobs = trace.Of([]trace.Job{{ID: 7, Model: "nobody", GPUs: 1, Iterations: 1}})
		},
		"job 7: gpus = 11": func(c *Config) { c.Jobs = trace.Of([]trace.Job{res18(7, 11, 0, 1, 1)}) },
		"job 2 arrives at 1 s, before the one that it follows": func(c *Config) {
			c.Jobs = trace.Of([]trace.Job{res18(1, 1, 5, 1, 1), res18(2, 1, 1, 1, 1)})
		},
		"bf_interval = 0s: want at least 1s":     func(c *Config) { c.Slurm.Interval = 0 },
		"bf_resolution = 0s: want at least 1s":   func(c *Config) { c.Slurm.Resolution = 0 },
		"bf_window = 1s: want at least 1m":       func(c *Config) { c.Slurm.Window = time.Second },
		"bf_max_job_test = 0: want at least 1":   func(c *Config) { c.Slurm.Tested = 0 },
		"until = -1s: want a time that is not n": func(c *Config) { c.Until = -time.Second },
	} {
		config := servers(t, 1)
		spoil(&config)
		if _, err := Run(context.Background(), config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
