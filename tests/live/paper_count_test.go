//go:build live && bench

package live

import (
	"math"
	"testing"
	"time"
)

// Two models on the 32 GPUs of the paper: one trains twice as fast with nine cores, the other with any.
var twoModels = map[string]menu{
	"hungry": {{1, 62500, 4}, {3, 62500, 2}, {9, 62500, 1}},
	"light":  {{1, 62500, 1}, {3, 62500, 1}, {9, 62500, 1}},
}

func clock(s int) time.Time { return time.Unix(int64(1000+s), 0) }

// One job is restarted, for three seconds with the save and two on its way; one waits for five seconds beside 30 idle
// GPUs, of which the round excuses three; and all of the GPUs' time and all of the jobs' is somewhere.
func TestTheTimeOfAnExperimentIsAccountedForToTheLastSecond(t *testing.T) {
	twice := []spell{{clock(0), clock(6), "n1"}, {clock(8), clock(20), "n1"}}
	once := func(start, end int) []spell { return []spell{{clock(start), clock(end), "n2"}} }
	s := side{span: clock(0), jobs: []history{
		{demand: demand{clock(0), 1, twice}, model: "hungry", iterations: 10, trained: 15},
		{demand: demand{clock(0), 1, once(0, 10)}, model: "light", iterations: 10, trained: 10},
		{demand: demand{clock(5), 2, once(10, 20)}, model: "light", iterations: 10, trained: 10},
	}}
	gpus, jobs := s.account(twoModels, 2*time.Second)
	// In the seconds 6 and 7 the job between two runs has the first place; the other has waited for one second by then.
	if want := (ledger{best: 30, slower: 5, restarts: 5, rounds: 3, stranded: 2}); jobs != want {
		t.Errorf("jobs: %+v, want %+v", jobs, want)
	}
	if jobs.total() != 20+10+15 {
		t.Errorf("the jobs' seconds add up to %g, want 45", jobs.total())
	}
	if want := (ledger{best: 40, slower: 5, restarts: 5, rounds: 6, stranded: 4, nobody: 32*20 - 60}); gpus != want {
		t.Errorf("GPUs: %+v, want %+v", gpus, want)
	}
	if gpus.total() != 32*20 {
		t.Errorf("the GPUs' seconds add up to %g, want 640", gpus.total())
	}
}

func TestAJobThatWaitsWhileAllGPUsAreInUseWaitsInTheQueue(t *testing.T) {
	s := side{span: clock(0), jobs: []history{
		{demand: demand{clock(0), 32, []spell{{clock(0), clock(7), "n1"}}}, model: "light", iterations: 7, trained: 7},
		{demand: demand{clock(0), 32, []spell{{clock(8), clock(10), "n1"}}}, model: "light", iterations: 2, trained: 2},
	}}
	// In the second 7 all GPUs are idle, and the job that wants all of them waits for whoever decides.
	if _, jobs := s.account(twoModels, time.Second); jobs.queue != 7 || jobs.rounds != 1 || jobs.total() != 17 {
		t.Errorf("%+v, want 7 s in the queue and 1 s more of 17 s", jobs)
	}
}

// An iteration of a hungry job is two seconds of a GPU and six of a core, or one and nine; one of a light job is one
// and one. The whole cluster gives 32 and 96 a second.
func TestTheLeastMakespanIsThatOfTheLongestJobOfTheGPUsOrOfTheCores(t *testing.T) {
	batch := func(model string, n, iterations int) (all []planned) {
		for range n {
			all = append(all, planned{model: model, gpus: 1, iterations: iterations})
		}
		return all
	}
	for _, c := range []struct {
		name string
		jobs []planned
		want float64
	}{
		{"the longest", batch("light", 3, 500), 500},
		{"the GPUs", batch("light", 64, 100), 200},
		{"the cores", batch("hungry", 32, 96), 32 * 96 * 6 / 96},
		{"both", append(batch("hungry", 16, 100), batch("light", 16, 100)...), 400.0 / 3}, // a third at nine cores
	} {
		if got := leastMakespan(c.jobs, twoModels); math.Abs(got/c.want-1) > .01 {
			t.Errorf("%s: %.1f s, want %.1f s", c.name, got, c.want)
		}
	}
}
