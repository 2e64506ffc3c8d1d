package testbed

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/share"
	"github.com/synergy-slurmd/synergy-slurmd/share/turns"
)

// took are the durations of an outcome's steps, the first left out, in ascending order.
func took(o Outcome) []time.Duration {
	var all []time.Duration
	for _, step := range o.Steps[min(1, len(o.Steps)):] {
		all = append(all, step.Took())
	}
	slices.Sort(all)
	return all
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}

func part(all []time.Duration, q float64) time.Duration {
	return all[int(math.Round(q*float64(len(all)-1)))]
}

// deft is Deft's own experiment: a long job back to back, and a short one twice a second.
func deft(mode Mode, every int) Config {
	return Config{Mode: mode, Duration: time.Minute, Seed: 3, Jitter: 0.05, Clients: []Client{
		{Name: "A", Class: share.Low, Kernels: 950, Kernel: 110 * time.Microsecond, Every: every},
		{Name: "B", Class: share.High, Kernels: 950, Kernel: 43 * time.Microsecond, Gap: 459 * ms},
	}}
}

// TestABoundOnTheQueueMakesDeftsTurnsWork: with the bound that costs least, √(aK/k), the important job is nearly as
// fast as alone and the other pays nearly nothing; without turns or without a bound it is not.
func TestABoundOnTheQueueMakesDeftsTurnsWork(t *testing.T) {
	k := 110 * time.Microsecond
	best := int(math.Round(math.Sqrt(float64(DefaultSync) * 950 / float64(k))))
	inflation := func(c Config) (important, overhead float64) {
		r := must(t, c)
		b := r.Clients[1]
		// What the other pays besides the time in which the important one has the GPU.
		busy := time.Duration(len(b.Steps)) * b.Alone
		left := float64(c.Duration-busy) / float64(c.Duration)
		return float64(mean(took(b))) / float64(b.Alone), 1 - r.Clients[0].Speed/left
	}
	none, _ := inflation(deft(Queue, 0))
	unbound, _ := inflation(deft(Kernels, 1_000_000))
	hundred, _ := inflation(deft(Kernels, 100))
	twenty, _ := inflation(deft(Kernels, 20))
	optimal, cost := inflation(deft(Kernels, best))
	_, costOfOne := inflation(deft(Kernels, 1))
	t.Logf("N*=%d: none %.2f, 10⁶ %.2f, 100 %.2f, 20 %.2f, N* %.2f; the other pays %.3f at N*, %.3f at 1",
		best, none, unbound, hundred, twenty, optimal, cost, costOfOne)
	if none < 2 || optimal > 1.25 || !(unbound > hundred && hundred > twenty) {
		t.Errorf("the important job takes %.2f without turns, %.2f, %.2f, %.2f with 10⁶, 100 and 20, %.2f with %d",
			none, unbound, hundred, twenty, optimal, best)
	}
	if cost > 0.03 || costOfOne <= cost {
		t.Errorf("the other pays %.3f with a bound of %d, and %.3f with 1", cost, best, costOfOne)
	}
}

// TestLookAheadHalvesWhatTheImportantLoses, over steps and gaps. Turns by class alone are compared as they were
// measured: whoever releases is forgotten.
func TestLookAheadHalvesWhatTheImportantLoses(t *testing.T) {
	for _, high := range []time.Duration{5 * ms, 25 * ms, 80 * ms} {
		for _, low := range []time.Duration{10 * ms, 35 * ms, 120 * ms} {
			for _, gap := range []time.Duration{0, 5 * ms, 20 * ms, 60 * ms, 200 * ms} {
				c := Config{Duration: 30 * time.Second, Seed: 7, Jitter: 0.1, Clients: []Client{
					{Name: "important", Class: share.High, Kernels: 100, Kernel: high / 100, Gap: gap},
					{Name: "other", Class: share.Low, Kernels: 100, Kernel: low / 100},
				}}
				c.Mode = Turns
				without := must(t, c)
				c.Mode = LookAhead
				with := must(t, c)
				row := fmt.Sprintf("steps of %v and %v, gap %v: %.2f %.2f without, %.2f %.2f with it", high, low, gap,
					without.Clients[0].Speed, without.Clients[1].Speed, with.Clients[0].Speed, with.Clients[1].Speed)
				t.Log(row)
				if 1-with.Clients[0].Speed > (1-without.Clients[0].Speed)/2 {
					t.Error(row)
				}
			}
		}
	}
}

// TestTheOrderOfTheWaysToShareIsThatOfTheH100, by what the important job keeps.
func TestTheOrderOfTheWaysToShareIsThatOfTheH100(t *testing.T) {
	for _, gap := range []time.Duration{0, 20 * ms} {
		important := map[Mode]float64{}
		for _, mode := range []Mode{Slicing, Turns, LookAhead, Fill} {
			important[mode] = must(t, pair(mode, gap)).Clients[0].Speed
		}
		if important[LookAhead] <= important[Fill] || important[Fill] <= important[Slicing] {
			t.Errorf("gap %v: %v", gap, important)
		}
		if gap == 0 && important[Turns] >= important[Slicing] {
			t.Errorf("turns by class alone were worse than slices: %v", important)
		}
	}
}

// TestAShortJobWaitsForOneStepOfTheLongOne is the prediction of what a turn of one step costs.
func TestAShortJobWaitsForOneStepOfTheLongOne(t *testing.T) {
	r := must(t, Config{Mode: LookAhead, Duration: 2 * time.Minute, Seed: 5, Jitter: 0.02, Clients: []Client{
		{Name: "A", Class: share.Low, Kernels: 20, Kernel: ms},
		{Name: "B", Class: share.High, Kernels: 40, Kernel: ms, Gap: 960 * ms},
	}})
	if p95 := part(took(r.Clients[1]), 0.95); p95 > 65*ms {
		t.Errorf("the short job's 95th percentile is %v: want at most 40 + 20 + 5 ms", p95)
	}
	share := float64(mean(took(r.Clients[1]))) / float64(time.Second)
	if r.Clients[0].Speed < 0.95*(1-share) {
		t.Errorf("the long job has %.3f beside %.3f of the time: want 0.95 of the rest", r.Clients[0].Speed, share)
	}
}

// TestNobodyWaitsForAJobThatDoesNotUseTheGPU: where Deft waits for the other's next launch.
func TestNobodyWaitsForAJobThatDoesNotUseTheGPU(t *testing.T) {
	r := must(t, Config{Mode: LookAhead, Duration: time.Minute, Seed: 5, Jitter: 0.3, Clients: []Client{
		{Name: "A", Class: share.Low, Kernels: 10, Kernel: ms, Gap: 50 * ms},
		{Name: "B", Class: share.High, Kernels: 60, Kernel: ms, Gap: 100 * ms},
	}})
	idle := 0
	for _, b := range r.Clients[1].Steps {
		uses := slices.ContainsFunc(r.Clients[0].Steps, func(a Step) bool {
			return a.Run-ms < b.Start && b.Start < a.End+DefaultIdle+ms
		})
		if uses {
			continue
		}
		idle++
		if wait := b.Run - b.Start; wait > ms {
			t.Errorf("B waited for %v from %v on, while A did not use the GPU", wait, b.Start)
		}
	}
	if idle < 100 {
		t.Errorf("only %d times did B begin in a CPU phase of A", idle)
	}
}

// TestWhileOneOfSeveralImportantWantsTheGPUNoOtherHasIt, with two and three of them that end at random.
func TestWhileOneOfSeveralImportantWantsTheGPUNoOtherHasIt(t *testing.T) {
	for _, highs := range []int{2, 3} {
		c := Config{Mode: LookAhead, Duration: time.Minute, Seed: 11, Jitter: 0.5, Rules: &turns.Rules{LookAhead: true}}
		c.Clients = []Client{{Name: "low", Class: share.Low, Kernels: 10, Kernel: ms}}
		for i := range highs {
			c.Clients = append(c.Clients, Client{Name: "high", Class: share.High, Kernels: 15 + 5*i, Kernel: ms,
				Gap: time.Duration(100+70*i) * ms, Start: time.Duration(i) * time.Second})
		}
		r := must(t, c)
		for _, low := range r.Clients[0].Steps {
			for _, high := range r.Clients[1:] {
				for _, step := range high.Steps {
					if step.Start+DefaultRoundTrip < low.Run && low.Run < step.End-DefaultRoundTrip {
						t.Fatalf("%d important: low began at %v, while one wanted the GPU from %v to %v",
							highs, low.Run, step.Start, step.End)
					}
				}
			}
		}
		if len(r.Clients[0].Steps) < 100 {
			t.Errorf("%d important: low did %d steps", highs, len(r.Clients[0].Steps))
		}
	}
}

// TestTheLeastShareIsHadAndNotMuchMore over any minute, beside a job that always wants the GPU.
func TestTheLeastShareIsHadAndNotMuchMore(t *testing.T) {
	for _, row := range []struct {
		policy turns.Policy
		step   time.Duration
		least  float64
	}{
		{turns.Strict, 35 * ms, 0.05}, {turns.Strict, 200 * ms, 0.05}, {turns.Strict, 35 * ms, 0},
		{turns.SLO, 35 * ms, 0.05},
	} {
		r := must(t, Config{Mode: LookAhead, Duration: 5 * time.Minute, Seed: 2, Jitter: 0.1,
			Rules: &turns.Rules{Policy: row.policy, LookAhead: true, MinShare: row.least}, Clients: []Client{
				{Name: "high", Class: share.High, Kernels: 25, Kernel: ms},
				{Name: "low", Class: share.Low, Kernels: 10, Kernel: row.step / 10},
			}})
		for from := time.Duration(0); from+time.Minute <= 5*time.Minute; from += time.Second {
			var used time.Duration
			for _, step := range r.Clients[1].Steps {
				used += max(0, min(step.End, from+time.Minute)-max(step.Run, from))
			}
			if had := float64(used) / float64(time.Minute); had < row.least*0.8 || had > row.least*1.4 {
				t.Errorf("%+v: low has %.3f of the minute from %v", row, had, from)
				break
			}
		}
		if r.State.MinShare != row.least {
			t.Errorf("%+v: the state reports %v", row, r.State.MinShare)
		}
	}
}

// ahead is a pair under look-ahead with rules of its own.
func ahead(rules turns.Rules, gap time.Duration) Config {
	rules.LookAhead = true
	return Config{Mode: LookAhead, Duration: time.Minute, Seed: 7, Jitter: 0.1, Rules: &rules, Clients: []Client{
		{Name: "important", Class: share.High, Kernels: 25, Kernel: ms, Gap: gap},
		{Name: "other", Class: share.Low, Kernels: 35, Kernel: ms},
	}}
}

// TestTheImportantLosesWhatItConcedes and no more, where the other could use more than that; and where there are gaps,
// the other gains about twice as much.
func TestTheImportantLosesWhatItConcedes(t *testing.T) {
	for gap, worth := range map[time.Duration]float64{0: 0.95, 20 * ms: 1.9, 60 * ms: 1.9} {
		before := must(t, ahead(turns.Rules{}, gap)).Clients[1].Speed
		for _, concede := range []float64{0.02, 0.05, 0.1} {
			r := must(t, ahead(turns.Rules{Concede: concede}, gap))
			if lost := 1 - r.Clients[0].Speed; lost < concede-0.01 || lost > concede+0.01 {
				t.Errorf("gap %v: of %v conceded, %.3f was lost", gap, concede, lost)
			}
			if r.Clients[1].Speed < before+float64(worth*concede) {
				t.Errorf("gap %v: for %v the other has %.3f instead of %.3f", gap, concede, r.Clients[1].Speed, before)
			}
		}
	}
}

// TestALeastShareIsTakenWhereItCostsLeast: a step of 35 ms begun at the start of a gap of 18 ms costs 17 ms, so that a
// share of 0.05 costs half of that.
func TestALeastShareIsTakenWhereItCostsLeast(t *testing.T) {
	r := must(t, ahead(turns.Rules{MinShare: 0.05}, 20*ms))
	if lost := 1 - r.Clients[0].Speed; lost > 0.028 || r.Clients[1].Speed < 0.045 {
		t.Errorf("for a share of %.3f the important one loses %.3f", r.Clients[1].Speed, lost)
	}
}

// TestAJobThatSaysNothingOfItsStepsIsLearned: it makes no difference after a while.
func TestAJobThatSaysNothingOfItsStepsIsLearned(t *testing.T) {
	for _, gap := range []time.Duration{20 * ms, 60 * ms} {
		c := ahead(turns.Rules{MinShare: 0.05}, gap)
		said := must(t, c)
		c.Clients[1].Undeclared = true
		silent := must(t, c)
		for i := range c.Clients {
			if difference := said.Clients[i].Speed - silent.Clients[i].Speed; math.Abs(difference) > 0.03 {
				t.Errorf("gap %v: client %d has %.3f if the other says how long its steps are, %.3f if not", gap, i,
					said.Clients[i].Speed, silent.Clients[i].Speed)
			}
		}
	}
}

// TestAJobWhoseStepsAreTooLongForAnyGraceIsFrozen and goes on when nobody waits.
func TestAJobWhoseStepsAreTooLongForAnyGraceIsFrozen(t *testing.T) {
	r := must(t, Config{Mode: LookAhead, Duration: time.Minute, Seed: 7, Jitter: 0.1, Clients: []Client{
		{Name: "important", Class: share.High, Kernels: 25, Kernel: ms, Gap: 2 * time.Second},
		{Name: "endless", Class: share.Low, Kernels: 10_000, Kernel: ms, Every: 1, Undeclared: true},
	}})
	// its grace, and what was seen of its step
	if worst := part(took(r.Clients[0]), 1); worst > (2+2)*time.Second+100*ms {
		t.Errorf("the important one's worst step took %v", worst)
	}
	if r.State.Clients[1].Freezes == 0 || r.Clients[1].Speed < 0.5 {
		t.Errorf("frozen %d times, and left with %.2f of its speed", r.State.Clients[1].Freezes, r.Clients[1].Speed)
	}
}

// TestThreeJobsByWeight have GPU time as their classes weigh.
func TestThreeJobsByWeight(t *testing.T) {
	rules := turns.Rules{Policy: turns.Weighted, HighWeight: 3}
	r := must(t, Config{Mode: LookAhead, Duration: time.Minute, Seed: 7, Jitter: 0.1, Rules: &rules, Clients: []Client{
		{Name: "high", Class: share.High, Kernels: 20, Kernel: ms},
		{Name: "low", Class: share.Low, Kernels: 30, Kernel: ms},
		{Name: "low too", Class: share.Low, Kernels: 7, Kernel: ms},
	}})
	for i, want := range []float64{0.6, 0.2, 0.2} {
		if got := r.Clients[i].Speed; math.Abs(got-want) > 0.03 {
			t.Errorf("%s has %.3f of its speed alone: want %.2f", r.Clients[i].Name, got, want)
		}
	}
}

// TestDeadlinesAreMetThatClassesAloneWouldMiss: two jobs of one class, of which one has a deadline.
func TestDeadlinesAreMetThatClassesAloneWouldMiss(t *testing.T) {
	missed := func(policy turns.Policy) int {
		rules := turns.Rules{Policy: policy}
		clients := []Client{
			{Name: "training", Class: share.High, Kernels: 20, Kernel: ms},
			{Name: "service", Class: share.High, Kernels: 10, Kernel: ms, Gap: 90 * ms, SLO: 50 * ms},
		}
		r := must(t, Config{Mode: LookAhead, Duration: time.Minute, Seed: 7, Jitter: 0.1, Rules: &rules,
			Clients: clients})
		late := 0
		for _, step := range r.Clients[1].Steps {
			if step.Took() > 50*ms {
				late++
			}
		}
		return late
	}
	if slo, strict := missed(turns.SLO), missed(turns.Strict); slo != 0 || strict == 0 {
		t.Errorf("%d steps were late by slack, %d by class", slo, strict)
	}
}

// TestALongTimeAloneIsNoDebt: who had the GPU for itself has its least share soon after the important one came.
func TestALongTimeAloneIsNoDebt(t *testing.T) {
	c := ahead(turns.Rules{MinShare: 0.05}, 0)
	c.Duration, c.Clients[0].Start = 2*time.Minute, time.Minute
	var used time.Duration
	for _, step := range must(t, c).Clients[1].Steps {
		if step.Run > 75*time.Second && step.End < 95*time.Second {
			used += step.End - step.Run
		}
	}
	if used < 700*ms {
		t.Errorf("%v of 20 s, from 15 s after the important one came", used)
	}
}

// TestWhoComesLateIsNotOwedWhatItMissed, by weight.
func TestWhoComesLateIsNotOwedWhatItMissed(t *testing.T) {
	rules := turns.Rules{Policy: turns.Weighted}
	r := must(t, Config{Mode: LookAhead, Duration: time.Minute, Seed: 7, Rules: &rules, Clients: []Client{
		{Name: "early", Class: share.Low, Kernels: 10, Kernel: ms},
		{Name: "late", Class: share.Low, Kernels: 10, Kernel: ms, Start: 30 * time.Second},
	}})
	if half := len(r.Clients[0].Steps); half < 4400 || half > 4600 {
		t.Errorf("%d steps of 10 ms in half a minute alone and half a minute with another", half)
	}
}
