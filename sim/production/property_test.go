package production

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"pgregory.net/rapid"
)

// anyConfig draws a small simulation with all detail.
func anyConfig(t *rapid.T, profiles *testing.T) (Config, []trace.Job) {
	models := []string{"alexnet", "res18", "res50", "mobilenet", "shufflenet", "gnmt", "transformer", "lstm", "m5",
		"deepspeech"}
	jobs := make([]trace.Job, rapid.IntRange(1, 40).Draw(t, "jobs"))
	at := 0.0
	for i := range jobs {
		at += float64(rapid.IntRange(0, 900_000).Draw(t, "gap, ms")) / 1000
		jobs[i] = trace.Job{
			ID: i, Arrival: at, Model: rapid.SampledFrom(models).Draw(t, "model"),
			GPUs:       rapid.SampledFrom([]int{1, 1, 1, 2, 4, 8, 16}).Draw(t, "gpus"),
			Iterations: rapid.Int64Range(1, 20000).Draw(t, "iterations"),
		}
	}
	return Config{
		Cluster:   servers(rapid.IntRange(2, 3).Draw(t, "servers"), 8, 24, 500),
		Policy:    rapid.SampledFrom(policy.Policies()).Draw(t, "policy"),
		Allocator: rapid.SampledFrom(policy.Allocators()).Draw(t, "allocator"),
		Profiles: costing(profiles, rapid.Float64Range(0, 30).Draw(t, "save"),
			rapid.Float64Range(0, 60).Draw(t, "start")),
		Jobs: trace.Of(jobs), Detail: true,
	}, jobs
}

func TestEveryJobFinishesAndNoServerEverHoldsMoreThanItHas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config, jobs := anyConfig(rt, t)
		run := simulate(t, config)
		if len(run.Jobs) != len(jobs) {
			rt.Fatalf("%d of %d jobs arrived", len(run.Jobs), len(jobs))
		}
		for _, j := range run.Jobs {
			if !j.Done() || j.FirstRun < j.Arrival || j.Finish <= j.FirstRun || j.Starts < 1 {
				rt.Fatalf("job %+v", j)
			}
		}
		for server := range config.Cluster.Groups[0].Servers {
			fits(rt, server, run.Spans)
		}
	})
}

// fits checks at each start who else is on the server.
func fits(t *rapid.T, server int, spans []outcome.Span) {
	here := slices.DeleteFunc(slices.Clone(spans), func(s outcome.Span) bool { return s.Server != server })
	for _, start := range here {
		cpus, holder := 0, map[int]int{}
		for _, s := range here {
			if s.From > start.From || s.To <= start.From {
				continue
			}
			cpus += s.CPUs
			for _, d := range s.Devices {
				if other, taken := holder[d]; taken {
					t.Fatalf("at %v jobs %d and %d hold GPU %d of server %d", start.From, other, s.Job, d, server)
				}
				holder[d] = s.Job
			}
		}
		if cpus > 24 || len(holder) > 8 {
			t.Fatalf("at %v server %d lends %d cores and %d GPUs", start.From, server, cpus, len(holder))
		}
	}
}

func TestNobodyHoldsItsGPUsLongerThanWithTheShareBeyondItsRestarts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config, _ := anyConfig(rt, t)
		p := config.Profiles["lstm"]
		run := simulate(t, config)
		for _, j := range run.Jobs {
			again := float64(j.Starts - 1)
			most := j.Length + again*(p.CheckpointSeconds+p.StartSeconds+config.Poll.Seconds()+1)
			if held := j.AttainedGPU / float64(j.GPUs); held > most*(1+1e-9)+0.001 {
				rt.Fatalf("job %d of %.1f s held its GPUs for %.1f s in %d runs", j.ID, j.Length, held, j.Starts)
			}
		}
	})
}

// A user whose trainer takes two minutes to save asks for as much grace. With less each preemption would cost the
// progress of the whole run.
func TestAJobThatTakesLongToSaveLosesNoProgress(t *testing.T) {
	preempted := 0
	rapid.Check(t, func(rt *rapid.T) {
		config, _ := anyConfig(rt, t)
		for _, p := range config.Profiles {
			p.CheckpointSeconds = 120
		}
		p := config.Profiles["lstm"]
		for _, j := range simulate(t, config).Jobs {
			preempted += j.Starts - 1
			most := j.Length + float64(j.Starts-1)*(p.CheckpointSeconds+p.StartSeconds+config.Poll.Seconds()+1)
			if held := j.AttainedGPU / float64(j.GPUs); held > most*(1+1e-9)+0.001 {
				rt.Fatalf("job %d of %.1f s held its GPUs for %.1f s in %d runs", j.ID, j.Length, held, j.Starts)
			}
		}
	})
	if preempted == 0 {
		t.Error("no job was preempted")
	}
}

func TestTheSameInputGivesTheSameOutcome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config, jobs := anyConfig(rt, t)
		first := simulate(t, config)
		config.Jobs = trace.Of(jobs)
		if second := simulate(t, config); !reflect.DeepEqual(first, second) {
			rt.Fatal("two outcomes")
		}
	})
}

func TestWhatIsBusyIsTheSumOfTheSpans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config, _ := anyConfig(rt, t)
		run := simulate(t, config)
		gpus, cpus := 0.0, 0.0
		for _, s := range run.Spans {
			gpus += (s.To - s.From) * float64(s.GPUs)
			cpus += (s.To - s.From) * float64(s.CPUs)
		}
		if math.Abs(gpus-run.BusyGPUs) > 0.01 || math.Abs(cpus-run.BusyCPUs) > 0.01 {
			rt.Fatalf("busy for %v GPU-seconds and %v core-seconds, spans say %v and %v", run.BusyGPUs, run.BusyCPUs,
				gpus, cpus)
		}
	})
}

// gaveBack says that a run is the one before on the same server with less.
func gaveBack(was, is outcome.Span) bool { return is.Server == was.Server && is.CPUs < was.CPUs }

// TestNoJobIsAskedToLeaveBeforeItHasMadeItsLastRestartGood: in a week of the daemon's own rounds under every policy, in
// which a job takes 50 s to save and 500 s to start, a job that has come back trains for at least as long as a restart
// costs before it is asked to leave again. What it was lent it gives back at any time, where it is.
func TestNoJobIsAskedToLeaveBeforeItHasMadeItsLastRestartGood(t *testing.T) {
	const save, start = 50, 500
	for _, p := range policy.Policies() {
		var jobs []trace.Job
		for i := range 250 {
			model := []string{"res18", "gnmt", "alexnet", "transformer", "m5"}[i%5]
			jobs = append(jobs, trace.Job{ID: i, Arrival: float64(i * 2400), Model: model, GPUs: []int{1, 4, 8, 2}[i%4],
				Iterations: int64(8000 + i%7*12000)})
		}
		config := Config{
			Cluster: servers(2, 8, 24, 500), Policy: p, Allocator: policy.Tune(), Profiles: costing(t, save, start),
			Jobs: trace.Of(jobs), Detail: true,
			Until: 7 * 24 * time.Hour,
		}
		runs := map[int][]outcome.Span{}
		for _, s := range simulate(t, config).Spans {
			if of := runs[s.Job]; len(of) == 0 || of[len(of)-1].From != s.From { // a gang has one on each server
				runs[s.Job] = append(of, s)
			}
		}
		again := 0
		for job, of := range runs {
			for k := 1; k < len(of)-1; k++ { // the first is no restart, and nobody asked the last one to leave
				again++
				if lasted := of[k].To - of[k].From; lasted < 2*(save+start)+save-1 && !gaveBack(of[k], of[k+1]) {
					t.Errorf("%s: job %d, run %d: was asked after %.0f s, a restart costs %d s", p.Name, job, k,
						lasted-save, save+start)
				}
			}
		}
		t.Logf("%s: %d runs between two restarts", p.Name, again)
		if again == 0 && p.Name != policy.Slurm().Name && p.Name != policy.FIFO().Name {
			t.Errorf("%s: nobody was restarted twice", p.Name)
		}
	}
}
