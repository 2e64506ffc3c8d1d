package artifact_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/artifact"
	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/models"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

func TestTheOracleAgreesWithThePublishedProgram(t *testing.T) {
	for _, r := range recordedRuns(t) {
		if r.trace == "single_gpu_load9_12000job" {
			continue // it agrees there too, but takes its time
		}
		t.Run(r.name, func(t *testing.T) {
			r.Jobs = trace.Of(jobs(t, r.trace))
			o := newOracle(r.Config)
			o.run()
			lines := records(t, filepath.Join("jobs", r.name+".csv"))[1:]
			finished := map[int]*oracleJob{}
			for _, j := range o.jobs {
				if j.finish >= 0 {
					finished[j.ID] = j
				}
			}
			for _, line := range lines {
				id := int(number(t, line[0]))
				j := finished[id]
				if j == nil || j.firstRun != number(t, line[5]) || j.finish != number(t, line[6]) {
					t.Fatalf("job %d: %v, want %v", id, j, line)
				}
			}
			if len(finished) != len(lines) || o.held != r.rounds {
				t.Errorf("%d jobs have finished in %d rounds, want %d in %d", len(finished), o.held, len(lines),
					r.rounds)
			}
		})
	}
}

// plain are the clusters and jobs whose amounts are short in binary, as all published ones; the others have shares that
// are rounded.
func plainCluster(t *rapid.T) cluster.Cluster {
	gpus := rapid.SampledFrom([]int{1, 2, 4, 8, 8, 8}).Draw(t, "gpus")
	return drawCluster(t, gpus, []float64{62.5, 62.5, 62.5, 50, 125, 20.5}, []float64{62.5, 62.5, 37.5, 100})
}

func roundedCluster(t *rapid.T) cluster.Cluster {
	gpus := rapid.SampledFrom([]int{3, 4, 5, 6, 6, 8, 12}).Draw(t, "gpus")
	return drawCluster(t, gpus, []float64{62.5, 500. / 6, 33.3, 70.1}, []float64{62.5, 83.4, 33.3})
}

func drawCluster(t *rapid.T, gpus int, memory, storage []float64) cluster.Cluster {
	n := float64(gpus)
	return cluster.Cluster{Groups: []cluster.Group{{
		Servers: rapid.IntRange(1, 5).Draw(t, "servers"),
		GPUs:    gpus,
		CPUs:    gpus * rapid.SampledFrom([]int{3, 3, 3, 4, 5, 6}).Draw(t, "ratio"),
		Memory:  math.Round(n*rapid.SampledFrom(memory).Draw(t, "memory")*8) / 8,
		Storage: math.Round(n * rapid.SampledFrom(storage).Draw(t, "storage")),
		Network: 40,
	}}}
}

// drawJobs draws jobs that last for up to 30 rounds each, not all with moments of their own. In some workloads all are
// alike, so that many end together, and exactly with a round.
func drawJobs(t *rapid.T, c artifact.Config, sizes []int) (all []trace.Job) {
	set, err := models.Set(cmp.Or(c.Ratio, c.Cluster.CPUs()/c.Cluster.GPUs()))
	if err != nil {
		t.Fatal(err)
	}
	n := rapid.IntRange(1, 40).Draw(t, "jobs")
	ids := rapid.Permutation(numbers(rapid.IntRange(0, 9).Draw(t, "first"), n)).Draw(t, "ids")
	if c.Mode == artifact.Generated {
		slices.Sort(ids)
	}
	arrival := 0.0
	pace := rapid.SampledFrom([]float64{0, 0.1, 0.5, 2}).Draw(t, "pace")
	alike := rapid.IntRange(0, 3).Draw(t, "alike") == 0
	for i := range n {
		m := rapid.SampledFrom(set).Draw(t, "model")
		iterations := 1 + int64(rapid.Float64Range(0, 30).Draw(t, "rounds")*c.Round/m.Iteration)
		if alike {
			m = set[len(set)-1]
			iterations = int64(c.Round/m.Iteration) * rapid.Int64Range(1, 3).Draw(t, "whole rounds")
		}
		arrival += math.Round(rapid.SampledFrom([]float64{0, 0, 0.3, 1, 1.7, 9}).Draw(t, "gap") * pace * c.Round)
		all = append(all, trace.Job{
			ID: ids[i], Model: m.Name, Arrival: arrival,
			GPUs:       min(rapid.SampledFrom(sizes).Draw(t, "gpus"), c.Cluster.GPUs()),
			Iterations: iterations,
		})
	}
	return all
}

func numbers(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	return all
}

func drawConfig(t *rapid.T, c cluster.Cluster, rounds []float64, sizes []int) artifact.Config {
	config := artifact.Config{
		Cluster: c,
		Placement: rapid.SampledFrom([]artifact.Placement{artifact.FirstFit, artifact.Consolidate}).Draw(t,
			"placement"),
		Mode: rapid.SampledFrom([]artifact.Mode{artifact.Generated, artifact.Replay, artifact.Static}).Draw(t,
			"mode"),
		// In the long rounds, jobs starve.
		Round:      rapid.SampledFrom(rounds).Draw(t, "round"),
		Strict:     rapid.Bool().Draw(t, "strict"),
		Prioritize: rapid.Bool().Draw(t, "prioritize"),
	}
	if rapid.IntRange(0, 3).Draw(t, "other servers") == 0 {
		config.Ratio = 3
		config.Cluster.Groups[0].CPUs = rapid.IntRange(1, 10*config.Cluster.Groups[0].GPUs).Draw(t, "cores")
	}
	all := drawJobs(t, config, sizes)
	if rapid.Bool().Draw(t, "with a window") {
		config.Window = drawWindow(t, all)
	}
	if rapid.IntRange(0, 4).Draw(t, "with an end") == 0 {
		config.Until = rapid.Float64Range(1, 20).Draw(t, "until") * config.Round
	}
	config.Jobs = trace.Of(all)
	return config
}

func drawWindow(t *rapid.T, all []trace.Job) outcome.Window {
	first, end := all[0].ID, all[0].ID
	for _, j := range all {
		first, end = min(first, j.ID), max(end, j.ID+1)
	}
	from := rapid.IntRange(first, end-1).Draw(t, "window from")
	return outcome.Window{First: from, End: rapid.IntRange(from+1, end).Draw(t, "window end")}
}

// failing is a test, drawn at random or not.
type failing interface {
	Fatalf(format string, args ...any)
	Context() context.Context
}

// agree runs both programs and compares what became of every job.
func agree(t failing, c artifact.Config, detail bool) {
	all := rest(c.Jobs)
	c.Jobs = trace.Of(all)
	o := newOracle(c)
	o.run()
	c.Jobs, c.Detail = trace.Of(all), detail
	run, err := artifact.Run(t.Context(), c)
	if (err != nil) != (o.err != nil) {
		t.Fatalf("%+v\n%+v\nerror %v, the oracle's is %v", c, all, err, o.err)
	}
	if err != nil {
		return
	}
	want := o.outcome()
	for i, j := range run.Jobs {
		if i >= len(want) || j != want[i] {
			t.Fatalf("%+v\n%+v\n%s\n%s", c, all, describe(run.Jobs), describe(want))
		}
	}
	if len(want) != len(run.Jobs) || run.Held != o.held || run.Ended != o.ended {
		t.Fatalf("%+v\n%+v\n%d jobs, %d rounds up to %g; the oracle has %d, %d, %g",
			c, all, len(run.Jobs), run.Held, run.Ended, len(want), o.held, o.ended)
	}
	for r, busy := range []float64{run.BusyGPUs, run.BusyCPUs, run.BusyMemory} {
		if math.Abs(busy-o.busy[r]) > 1e-9*max(1, busy) {
			t.Fatalf("%+v\n%+v\nbusy %g, the oracle has %g", c, all, busy, o.busy[r])
		}
	}
	if detail {
		agreeOnDetails(t, o, run)
	}
}

// agreeOnDetails compares every round, and where everybody was in it.
func agreeOnDetails(t failing, o *oracle, run outcome.Run) {
	if len(run.Rounds) != len(o.rounds) {
		t.Fatalf("%d rounds are recorded, want %d", len(run.Rounds), len(o.rounds))
	}
	for k, r := range run.Rounds {
		want := o.rounds[k]
		if math.Abs(r.GPUs-want.GPUs) < 1e-6 {
			want.GPUs = r.GPUs // which are counted here, and summed there
		}
		if r != want {
			t.Fatalf("round %+v, the oracle has %+v", r, want)
		}
	}
	places, ends := map[place]string{}, map[string]bool{}
	for k, s := range run.Spans {
		what := fmt.Sprint(s.Job, s.Server, s.Devices, s.CPUs)
		if len(s.Devices) != s.GPUs || k > 0 && run.Spans[k-1].From > s.From || ends[fmt.Sprint(what, s.From)] {
			t.Fatalf("span %+v: it goes on from another one, or is out of order", s)
		}
		ends[fmt.Sprint(what, s.To)] = true
		for at := s.From; at < s.To; at += o.Round {
			places[place{s.Job, s.Server, at}] = fmt.Sprint(s.Devices, s.CPUs)
		}
	}
	if !maps.Equal(places, o.places) {
		t.Fatalf("jobs are at %v, the oracle has them at %v", places, o.places)
	}
}

func rest(s trace.Source) (all []trace.Job) {
	for {
		j, more := s.Next()
		if !more {
			return all
		}
		all = append(all, j)
	}
}

func describe(jobs []outcome.Job) (text string) {
	for _, j := range jobs {
		text += fmt.Sprintf("%d: %g to %g in %d, attained %g\n", j.ID, j.FirstRun, j.Finish, j.Starts, j.AttainedGPU)
	}
	return text
}

// outcome is what the oracle says of the jobs that have arrived.
func (o *oracle) outcome() (all []outcome.Job) {
	for _, j := range o.jobs {
		if !j.arrived {
			continue
		}
		starts := 0
		for k, at := range j.rounds {
			if k == 0 || at != j.rounds[k-1]+o.Round {
				starts++
			}
		}
		all = append(all, outcome.Job{
			ID: j.ID, Model: j.Model, GPUs: j.GPUs, Arrival: j.Arrival,
			Length:   float64(j.Iterations) * j.model.Iteration,
			FirstRun: j.firstRun, Finish: j.finish, Starts: starts, AttainedGPU: j.attained * j.g,
		})
	}
	slices.SortFunc(all, func(a, b outcome.Job) int { return a.ID - b.ID })
	return all
}

// underAll checks something under every policy and allocator that the oracle knows.
func underAll(t *testing.T, check func(t *rapid.T, policy artifact.Policy, allocator artifact.Allocator)) {
	for _, policy := range []artifact.Policy{artifact.FIFO, artifact.SRTF, artifact.LAS, artifact.FTF, artifact.DRF,
		artifact.Tetris} {
		for _, allocator := range []artifact.Allocator{artifact.Proportional, artifact.Greedy, artifact.Tune} {
			t.Run(string(policy)+"-"+string(allocator), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { check(t, policy, allocator) })
			})
		}
	}
}

func TestTheEngineAgreesWithTheOracleOnEveryJob(t *testing.T) {
	underAll(t, func(t *rapid.T, policy artifact.Policy, allocator artifact.Allocator) {
		sizes := rapid.SampledFrom([][]int{{1}, {1, 1, 2, 4, 8}, {1, 4, 8, 16}}).Draw(t, "sizes")
		c := drawConfig(t, plainCluster(t), []float64{300, 300, 60, 1.5, 250_000, 400_000}, sizes)
		c.Policy, c.Allocator = policy, allocator
		agree(t, c, rapid.Bool().Draw(t, "detail"))
	})
}

func TestTheEngineAgreesWithTheOracleWhereSharesAreRounded(t *testing.T) {
	underAll(t, func(t *rapid.T, policy artifact.Policy, allocator artifact.Allocator) {
		sizes := rapid.SampledFrom([][]int{{1}, {1, 2, 3, 4, 5, 6, 8}, {3, 6, 7, 12, 16}}).Draw(t, "sizes")
		c := drawConfig(t, roundedCluster(t), []float64{300, 60.1, 250_000.7}, sizes)
		c.Policy, c.Allocator = policy, allocator
		agree(t, c, rapid.Bool().Draw(t, "detail"))
	})
}

// Many jobs end at the same moments here, and many are still to arrive. Which of them have ended when the window is
// complete, and in which order amounts that are rounded are taken away, depends on all events that there ever were.
func TestTheOrderOfEqualEventsIsTheArtifacts(t *testing.T) {
	for _, mode := range []artifact.Mode{artifact.Generated, artifact.Replay, artifact.Static} {
		for _, memory := range []float64{500, 437.5, 433.3} {
			for _, policy := range []artifact.Policy{artifact.FIFO, artifact.SRTF} {
				t.Run(fmt.Sprint(mode, "-", memory, "-", policy), func(t *testing.T) {
					rapid.Check(t, func(t *rapid.T) {
						c := crowd(t)
						c.Mode, c.Policy, c.Cluster.Groups[0].Memory = mode, policy, memory
						agree(t, c, rapid.Bool().Draw(t, "detail"))
					})
				})
			}
		}
	}
}

// Eight jobs begin together and end together, exactly with a round. The window is one of them.
func TestWhatArrivesMeanwhileDecidesWhoElseHasEndedWithTheWindow(t *testing.T) {
	for _, mode := range []artifact.Mode{artifact.Generated, artifact.Replay} {
		for first := range 8 {
			var all []trace.Job
			for id := range 60 {
				all = append(all, trace.Job{ID: id, Model: "deepspeech", GPUs: 1, Iterations: 3 * 396,
					Arrival: float64(10 + 35*id)})
			}
			agree(t, artifact.Config{
				Cluster: servers(1, 8, 24), Policy: artifact.FIFO, Allocator: artifact.Tune,
				Placement: artifact.FirstFit,
				Mode:      mode, Jobs: trace.Of(all), Window: outcome.Window{First: first, End: first + 1},
			}, false)
		}
	}
}

// Here jobs wait for more than a thousand hours, sometimes for exactly as long.
func TestWhoStarvesComesFirstForGood(t *testing.T) {
	for _, policy := range []artifact.Policy{artifact.FIFO, artifact.SRTF, artifact.LAS, artifact.FTF, artifact.DRF,
		artifact.Tetris} {
		t.Run(string(policy), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := artifact.Config{
					Cluster: servers(1, rapid.SampledFrom([]int{1, 2, 2, 4}).Draw(t, "gpus"), 12),
					Ratio:   3,
					Policy:  policy,
					Allocator: rapid.SampledFrom([]artifact.Allocator{artifact.Proportional, artifact.Tune}).Draw(t,
						"allocator"),
					Placement: artifact.FirstFit,
					Mode:      rapid.SampledFrom([]artifact.Mode{artifact.Generated, artifact.Replay}).Draw(t, "mode"),
					Round:     rapid.SampledFrom([]float64{250_000, 400_000}).Draw(t, "round"),
				}
				c.Jobs = trace.Of(drawJobs(t, c, []int{1, 2, 2}))
				agree(t, c, rapid.IntRange(0, 3).Draw(t, "detail") == 0)
			})
		})
	}
}

func crowd(t *rapid.T) artifact.Config {
	sizes := rapid.SampledFrom([][]int{{1}, {1, 2, 4}, {1, 3, 6}}).Draw(t, "sizes")
	lengths := rapid.SampledFrom([][]int64{{1, 2, 3}, {5}, {6, 12}}).Draw(t, "lengths")
	var all []trace.Job
	arrival, pace := 0.0, rapid.IntRange(1, 200).Draw(t, "pace")
	for id := range rapid.IntRange(20, 80).Draw(t, "jobs") {
		arrival += float64(rapid.IntRange(1, pace).Draw(t, "gap"))
		j := trace.Job{ID: id, Model: "deepspeech", GPUs: 1, Arrival: arrival}
		j.Iterations = 396 * rapid.SampledFrom(lengths).Draw(t, "rounds")
		if rapid.IntRange(0, 3).Draw(t, "hungry") == 0 {
			j.Model, j.GPUs = "m5", rapid.SampledFrom(sizes).Draw(t, "gpus")
		}
		all = append(all, j)
	}
	c := artifact.Config{
		Cluster:   servers(rapid.IntRange(1, 4).Draw(t, "servers"), 8, 24),
		Allocator: rapid.SampledFrom([]artifact.Allocator{artifact.Greedy, artifact.Tune}).Draw(t, "allocator"),
		Placement: artifact.FirstFit,
		Round:     300,
		Jobs:      trace.Of(all),
	}
	if rapid.IntRange(0, 3).Draw(t, "with a window") > 0 {
		first := rapid.IntRange(0, 15).Draw(t, "window from")
		c.Window = outcome.Window{First: first, End: first + rapid.IntRange(1, 3).Draw(t, "window width")}
	}
	return c
}
