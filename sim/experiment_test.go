package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/etc/profiles"
	"github.com/synergy-slurmd/synergy-slurmd/sim/backfill"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// trial is an experiment of one-hour jobs under so many schedules.
func trial(schedules int) Experiment {
	e := Experiment{
		Engine: Artifact, Cluster: cluster.Paper(), Ratio: 3, Round: 5 * time.Minute,
		Workloads: []Workload{{Name: "two.csv", Jobs: []trace.Job{{ID: 0, Model: "gnmt", GPUs: 1, Iterations: 30000}}}},
	}
	policies, allocators := Artifact.Policies(), Artifact.Allocators()
	for i := range schedules {
		e.Schedules = append(e.Schedules, Schedule{policies[i%len(policies)], allocators[i/len(policies)], "random"})
	}
	return e
}

func TestOutcomesStandInTheOrderOfTheInputWhateverEndsFirst(t *testing.T) {
	for _, parallel := range []int{1, 2, 8} {
		e := trial(8)
		e.Parallel = parallel
		runs, err := e.runCells(
			t.Context(),
			func(ctx context.Context, c cell, _ func(int, float64)) (outcome.Run, error) {
				time.Sleep(time.Duration(8-c.number) * time.Millisecond) // the first ends last
				return outcome.Run{Held: c.number}, nil
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		for i, run := range runs {
			if run.Held != i || run.Setting.Policy != e.Schedules[i].Policy ||
				run.Setting.Allocator != e.Schedules[i].Allocator {
				t.Errorf("%d at a time: outcome %d is that of simulation %d, %s × %s", parallel, i, run.Held,
					run.Setting.Policy, run.Setting.Allocator)
			}
		}
	}
}

func TestNoMoreSimulationsRunThanWereAskedFor(t *testing.T) {
	e := trial(12)
	e.Parallel = 3
	var running, most atomic.Int32
	if _, err := e.runCells(t.Context(), func(context.Context, cell, func(int, float64)) (outcome.Run, error) {
		most.Store(max(most.Load(), running.Add(1)))
		time.Sleep(time.Millisecond)
		running.Add(-1)
		return outcome.Run{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if most.Load() > 3 {
		t.Errorf("%d ran at a time", most.Load())
	}
}

// The second fails at once, the first later: the error is the first's, in time or not, and those behind are given up.
func TestTheErrorIsTheFirstOnesInOrderAndThoseBehindAreGivenUp(t *testing.T) {
	e := trial(6)
	e.Parallel = 3
	running, third := make(chan bool), make(chan error, 1)
	_, err := e.runCells(t.Context(), func(ctx context.Context, c cell, _ func(int, float64)) (outcome.Run, error) {
		switch c.number {
		case 0:
			time.Sleep(20 * time.Millisecond)
			return outcome.Run{}, errors.New("no GPU is left")
		case 1:
			<-running
			return outcome.Run{}, errors.New("another")
		}
		close(running)
		<-ctx.Done()
		third <- context.Cause(ctx)
		return outcome.Run{}, ctx.Err()
	})
	if want := "fifo × proportional × random on two.csv: no GPU is left"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if cause := <-third; cause != errEarlierFailed {
		t.Errorf("the third ended for %v", cause)
	}
}

func TestAFailureStartsNothingMore(t *testing.T) {
	e := trial(20)
	e.Parallel = 1
	started := 0
	_, err := e.runCells(t.Context(), func(context.Context, cell, func(int, float64)) (outcome.Run, error) {
		started++
		return outcome.Run{}, errors.New("no")
	})
	if err == nil || started != 1 {
		t.Errorf("%d simulations started, error %v", started, err)
	}
}

func TestWhoeverAsksGetsNoOutcomeAfterGivingUp(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	e := trial(4)
	e.Parallel = 1
	runs, err := e.runCells(ctx, func(ctx context.Context, c cell, _ func(int, float64)) (outcome.Run, error) {
		stop(enough)
		return outcome.Run{}, nil
	})
	if runs != nil || !errors.Is(err, enough) {
		t.Errorf("%d outcomes, error %v", len(runs), err)
	}
}

func TestErrorsTellSimulationsApart(t *testing.T) {
	e := trial(1)
	e.Workloads[0].Load = 9
	if name := e.name(e.cells()[0]); name != "fifo × proportional × random at 9 jobs/h" {
		t.Error(name)
	}
	e.Workloads = append(e.Workloads, Workload{Name: "b.csv", Seed: 7})
	e.Schedules[0].Placement = ""
	if name := e.name(e.cells()[1]); name != "fifo × proportional on b.csv, seed 7" {
		t.Error(name)
	}
}

// Two of the four quarters are done, one by its jobs, one by its end.
func TestProgressAddsUpOverAllSimulations(t *testing.T) {
	e := trial(4)
	e.Parallel = 1
	e.Workloads[0].Jobs = make([]trace.Job, 10)
	var seen []Progress
	e.Progress = func(p Progress) { seen = append(seen, p) }
	if _, err := e.runCells(t.Context(), func(_ context.Context, c cell, tell func(int, float64)) (outcome.Run, error) {
		tell(5, 100)
		return outcome.Run{Jobs: []outcome.Job{{Finish: 60}, {Finish: -1}}, Ended: 200}, nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []Progress{
		{4, 0, 5, 100, 0.125}, {4, 1, 1, 200, 0.25}, {4, 1, 6, 300, 0.375}, {4, 2, 2, 400, 0.5},
		{4, 2, 7, 500, 0.625}, {4, 3, 3, 600, 0.75}, {4, 3, 8, 700, 0.875}, {4, 4, 4, 800, 1},
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("told\n%v, want\n%v", seen, want)
	}
}

func TestProgressIsKnownByTimeWhereJobsAreNotCounted(t *testing.T) {
	r := reading{until: 1000}
	for at, want := range map[float64]float64{0: 0, 250: 0.25, 1000: 0.99, 2000: 0.99} {
		if got := r.partDone(77, at); got != want {
			t.Errorf("at %g of 1000 s: %g, want %g", at, got, want)
		}
	}
}

func TestAnImpossibleExperimentIsRefusedWithARemedy(t *testing.T) {
	for want, spoil := range map[string]func(e *Experiment){
		`engine "simulator": want production or artifact`:                              func(e *Experiment) { e.Engine = "simulator" },
		`the cluster has no GPUs`:                                                      func(e *Experiment) { e.Cluster = cluster.Cluster{} },
		`rounds of 0s: want more than 0`:                                               func(e *Experiment) { e.Round = 0 },
		`no schedule: want at least one`:                                               func(e *Experiment) { e.Schedules = nil },
		`fifo × tune × random is there twice`:                                          func(e *Experiment) { e.Schedules = []Schedule{{"fifo", "tune", "random"}, {"fifo", "tune", "random"}} },
		`policy "lifo": the artifact engine has no such: want one of fifo, srtf`:       func(e *Experiment) { e.Schedules[0].Policy = "lifo" },
		`policy "srsf": .*, or the production engine, which has it`:                    func(e *Experiment) { e.Schedules[0].Policy = "srsf" },
		`allocator "fair": .*want one of proportional, greedy, tune, opt`:              func(e *Experiment) { e.Engine, e.Schedules[0] = Production, Schedule{"fifo", "fair", ""} },
		`placement "random": the production engine places jobs as the daemon`:          func(e *Experiment) { e.Engine = Production },
		`placement "best": .*want one of random, consolidate`:                          func(e *Experiment) { e.Schedules[0].Placement = "best" },
		`no workload: want jobs`:                                                       func(e *Experiment) { e.Workloads = nil },
		`workload endless: it has no end: say how many jobs`:                           func(e *Experiment) { e.Workloads = []Workload{{Name: "endless"}} },
		`workload two.csv: job 0: model "bert": there is no such: want one of alexnet`: func(e *Experiment) { e.Workloads[0].Jobs[0].Model = "bert" },
		`workload two.csv: job 0: gpus = 129: the cluster has 128`:                     func(e *Experiment) { e.Workloads[0].Jobs[0].GPUs = 129 },
		`cluster 1x8:24:500+1x4:24:500: the artifact engine knows equal servers only`: func(e *Experiment) {
			e.Cluster, _ = cluster.Parse("1x8:24:500+1x4:24:500")
		},
		`window 5-5 is empty`: func(e *Experiment) { e.Window = outcome.Window{First: 5, End: 5} },
		`window 0-2 is not within workload two.csv, whose jobs are 0 to 0: want 0-1`: func(e *Experiment) { e.Window = outcome.Window{First: 0, End: 2} },
		`to be strict .* artifact engine`: func(e *Experiment) {
			e.Engine, e.Schedules, e.Reference.Strict = Production, []Schedule{{"fifo", "tune", ""}}, true
		},
	} {
		e := trial(1)
		spoil(&e)
		if _, err := e.Run(t.Context()); err == nil || !matches(want, err.Error()) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func matches(pattern, text string) bool {
	rest := text
	for _, part := range strings.Split(pattern, ".*") {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return true
}

// TestASimulationEndsWithTheJobsOfItsWindowAlsoWhereTheLogHasGaps in its job numbers.
func TestASimulationEndsWithTheJobsOfItsWindowAlsoWhereTheLogHasGaps(t *testing.T) {
	own, err := Profiles(profiles.FS)
	if err != nil {
		t.Fatal(err)
	}
	e := trial(0)
	e.Engine, e.Window, e.Site.Profiles = Production, outcome.Window{First: 0, End: 5}, own
	e.Site.Backfill = backfill.Defaults()
	e.Schedules = []Schedule{{Policy: "fifo", Allocator: "tune"}, Backfill}
	e.Workloads[0].Jobs = nil
	for k, id := range []int{0, 1, 6, 7} {
		e.Workloads[0].Jobs = append(e.Workloads[0].Jobs,
			trace.Job{ID: id, Arrival: float64(k) * 86400, Model: "gnmt", GPUs: 1, Iterations: 30000})
	}
	runs, err := e.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if run.Ended > 36*3600 {
			t.Errorf("%s × %s ended after %.0f h, want it to end with job 1 in the second day", run.Setting.Policy,
				run.Setting.Allocator, run.Ended/3600)
		}
	}
}
