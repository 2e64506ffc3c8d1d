package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sim/cluster"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// lived is a job of the past with 2 GPUs and 6 cores.
func lived(id int, arrival, started, ended, ran float64, runs int) trace.Job {
	return trace.Job{ID: id, Model: "res18", GPUs: 2, Arrival: arrival, Iterations: 100, Told: trace.Told{
		Past: trace.Past{Started: started, Ended: ended, Ran: ran, Runs: runs, CPUs: 6, Memory: 10}}}
}

// month is an experiment that only looks back.
func month(jobs ...trace.Job) (Experiment, cell) {
	w := Workload{Name: "month.txt", Jobs: jobs}
	e := Experiment{Engine: Production, Cluster: cluster.Paper(), Workloads: []Workload{w},
		Schedules: []Schedule{AsItWas}, Round: 5 * time.Minute, Detail: true}
	return e, cell{workload: w, schedule: AsItWas}
}

func TestTheRowAsItWasHasTheLogsOwnTimes(t *testing.T) {
	e, c := month(lived(0, 0, 60, 660, 600, 1), lived(1, 30, 700, 2000, 900, 2))
	run := e.recordedOutcome(c)
	s, err := outcome.Summarise(run)
	if err != nil {
		t.Fatal(err)
	}
	if s.Queueing.Mean != (60+670)/2 || s.Completion.Mean != (660+1970)/2 || s.Makespan != 2000 || s.Preemptions != 1 {
		t.Errorf("%+v", s)
	}
	if run.BusyGPUs != 2*1500 || run.BusyCPUs != 6*1500 || run.BusyMemory != 10*1500 {
		t.Errorf("held %v GPU-s, %v core-s, %v GB-s", run.BusyGPUs, run.BusyCPUs, run.BusyMemory)
	}
}

func TestTheRoundsOfThePastShowWhoRanAndWhoWaited(t *testing.T) {
	e, c := month(lived(0, 0, 60, 660, 600, 1), lived(1, 30, 700, 2000, 1300, 1))
	want := []outcome.Round{
		{At: 0, Waiting: 1, Demand: 2},
		{At: 300, Running: 1, Waiting: 1, GPUs: 2, CPUs: 6, Memory: 10, Demand: 4, Started: 1},
		{At: 900, Running: 1, GPUs: 2, CPUs: 6, Memory: 10, Demand: 2, Started: 1},
	}
	got := e.recordedOutcome(c).Rounds
	if len(got) != len(want) {
		t.Fatalf("rounds %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("round %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestThePastEndsWhereASimulationWould(t *testing.T) {
	e, c := month(lived(0, 0, 60, 660, 600, 1), lived(1, 30, 700, 2000, 1300, 1), lived(2, 1000, 1000, 3000, 2000, 1))
	e.Until = 900 * time.Second
	run := e.recordedOutcome(c)
	if len(run.Jobs) != 2 || run.Jobs[1].Finish >= 0 || run.BusyGPUs != 2*(600+200) {
		t.Errorf("%+v", run)
	}
	e.Until, e.Window = 0, outcome.Window{First: 0, End: 1}
	if run := e.recordedOutcome(c); run.Ended != 660 {
		t.Errorf("ended at %v s, want 660: the end of the jobs that count", run.Ended)
	}
}

func TestWhatNobodyTellsOfThePastIsRefused(t *testing.T) {
	job := lived(1, 30, 700, 2000, 1300, 1)
	job.Told.Past = trace.Past{}
	e, _ := month(lived(0, 0, 60, 660, 600, 1), job)
	err := e.checkBaselines()
	if err == nil || !strings.Contains(err.Error(), "nobody tells when 1 of its 2 jobs ran") {
		t.Errorf("error %v", err)
	}
}
