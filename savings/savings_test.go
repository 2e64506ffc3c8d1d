package savings_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const hour = 3600.0

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// booked books rounds, an hour apart, one after the other.
func booked(rounds ...savings.Round) (sums savings.Sums) {
	var state savings.State
	for i, r := range rounds {
		var more savings.Sums
		r.At = noon.Add(time.Duration(i) * time.Hour)
		more, state = savings.Book(state, r, time.Hour)
		sums = sums.Plus(more)
	}
	return sums
}

func TestAJobTwiceAsFastSavesHalfOfItsGPUHours(t *testing.T) {
	job := savings.Job{ID: 1, GPUs: 4, Started: noon, Known: true, Asked: 0.8, With: 1.6}
	r := savings.Round{GPUs: 8, Jobs: []savings.Job{job}}
	s := booked(r, r, r)
	near(t, "there", s.There, 16*hour)
	near(t, "known", s.Known, 8*hour)
	near(t, "trained as asked", s.Asked, 6.4*hour)
	near(t, "trained", s.With, 12.8*hour)
	near(t, "saved", s.Saved, 4*hour)
	near(t, "gain", s.Gain(), 2)
}

func TestARunThatEndsIsSoonerByWhatItSavedInAllItsRounds(t *testing.T) {
	fast := savings.Job{ID: 1, GPUs: 1, Started: noon, Known: true, Asked: 1, With: 2}
	slow := savings.Job{ID: 2, GPUs: 1, Started: noon, Known: true, Asked: 1.25, With: 1}
	both := savings.Round{GPUs: 8, Jobs: []savings.Job{fast, slow}}
	s := booked(both, both, both, savings.Round{GPUs: 8})
	if s.Ended != 2 || s.Sooner != 1 || s.Later != 1 {
		t.Errorf("%d ended, %d sooner, %d later, want 2, 1, 1", s.Ended, s.Sooner, s.Later)
	}
	near(t, "earlier", s.Earlier, hour)
	near(t, "belated", s.Belated, hour/2)
}

func TestARestartedJobIsAnotherRun(t *testing.T) {
	before := savings.Job{ID: 1, GPUs: 1, Started: noon, Known: true, Asked: 1, With: 2}
	after := before
	after.Started = noon.Add(2 * time.Hour)
	s := booked(savings.Round{Jobs: []savings.Job{before}}, savings.Round{Jobs: []savings.Job{before}},
		savings.Round{Jobs: []savings.Job{after}})
	if s.Ended != 1 || s.Held != hour {
		t.Errorf("%d ended and %v held, want the first run and its hour", s.Ended, s.Held)
	}
}

// TestAClockThatIsSetBackForgetsNoRun: how long it was since the last round nobody knows, and nothing is booked for it.
func TestAClockThatIsSetBackForgetsNoRun(t *testing.T) {
	jobs := []savings.Job{{ID: 1, GPUs: 1, Started: noon, Known: true, Asked: 1, With: 2, Of: "x"},
		{ID: 2, GPUs: 1, Started: noon, Known: true, Asked: 1, With: 2, Of: "x"}}
	first := savings.Round{At: noon, GPUs: 2, Shadow: true, Jobs: jobs}
	_, state := savings.Book(savings.State{}, first, time.Hour)
	_, state = savings.Book(state, savings.Round{At: noon.Add(time.Hour), GPUs: 2, Shadow: true, Jobs: jobs}, time.Hour)
	back := savings.Round{At: noon.Add(10 * time.Minute), GPUs: 2, Jobs: jobs[:1]}
	none, state := savings.Book(state, back, time.Hour)
	if none != (savings.Sums{}) || len(state.Ended) != 1 || state.Ended[0].Job != 2 {
		t.Errorf("%+v and %+v, want nothing, and the run that ended", none, state.Ended)
	}
	if len(state.Open) != 1 || state.Open[0].Saved != 1800 || !state.Open[0].Shadow {
		t.Errorf("%+v, want the other one with half an hour, begun in the shadow", state.Open)
	}
}

// TestARunIsKnownByItsStartInTheAccountingAndCountedByTheClockOfNow: it began at one by a clock that was set back.
func TestARunIsKnownByItsStartInTheAccountingAndCountedByTheClockOfNow(t *testing.T) {
	job := savings.Job{ID: 1, GPUs: 1, Started: noon.Add(time.Hour), Since: noon, Known: true, Asked: 1, With: 2}
	s := booked(savings.Round{Jobs: []savings.Job{job}}, savings.Round{Jobs: []savings.Job{job}})
	near(t, "held", s.Held, hour)
	_, state := savings.Book(savings.State{}, savings.Round{At: noon, Jobs: []savings.Job{job}}, time.Hour)
	if at := state.Open[0].Started; !at.Equal(job.Started) {
		t.Errorf("it is known by %s, want %s", at, job.Started)
	}
}

func TestTimeThatNobodyLookedAtIsNotClaimed(t *testing.T) {
	r := savings.Round{At: noon, GPUs: 1, Jobs: []savings.Job{{ID: 1, GPUs: 1, Known: true, Asked: 1, With: 2}}}
	_, state := savings.Book(savings.State{}, r, time.Hour)
	r.At = noon.Add(100 * time.Hour)
	s, _ := savings.Book(state, r, time.Hour)
	near(t, "seconds", s.Seconds, hour)
	near(t, "saved", s.Saved, hour/2)
}

func TestJobsThatAreNotKnownClaimNothing(t *testing.T) {
	r := savings.Round{GPUs: 8, Unmatched: 4, UnmatchedJobs: 2,
		Jobs: []savings.Job{{ID: 1, GPUs: 2, Started: noon, Asked: 1, With: 1}}}
	s := booked(r, r)
	near(t, "unmatched", s.Unmatched, 4*hour)
	if s.Saved != 0 || s.With != 0 || s.Known != 0 || s.Certainty().Matched != 0 {
		t.Errorf("%+v claims something", s)
	}
}

func TestTheErrorAgainstRealSpeedsWidensTheClaim(t *testing.T) {
	s := savings.Sums{Known: 150, Changed: 100, Saved: 20, Held: 150, Unmatched: 150}
	for range 10 {
		checked := savings.Round{Checks: []savings.Check{{Ran: 9, Said: 10}, {Ran: 11, Said: 10}}}
		s = s.Plus(booked(savings.Round{}, checked))
	}
	c := s.Certainty()
	near(t, "error", c.Error, 0)
	near(t, "spread", c.Spread, 0.1)
	near(t, "low", c.Low, 100-80/0.9)
	near(t, "high", c.High, 100-80/1.1)
	near(t, "matched", c.Matched, 0.5)
}

func TestTooFewChecksSayNothingOfTheClaim(t *testing.T) {
	c := savings.Sums{Known: 100, Changed: 100, Saved: 20, Checks: 9, Ran: 9, Distance: 4}.Certainty()
	if c.Checked || c.Low != 20 || c.High != 20 {
		t.Errorf("%+v, want 20 and not checked", c)
	}
}

func on(places ...int) func(int) bool {
	return func(p int) bool {
		for _, q := range places {
			if p == q {
				return true
			}
		}
		return len(places) == 0
	}
}

func want(nodes, gpus, cpus, memory int) savings.Want {
	size := gres.Vector{GPUs: gpus, CPUs: cpus, Memory: gres.Memory(memory)}
	return savings.Want{Count: 1, Nodes: nodes, PerNode: size, On: on()}
}

func TestAnIdleGPUIsStrandedForWhatWhoWaitsLacks(t *testing.T) {
	free := func(gpus, cpus, memory int) savings.Place {
		return savings.Place{Free: gres.Vector{GPUs: gpus, CPUs: cpus, Memory: gres.Memory(memory)}}
	}
	elsewhere := want(1, 1, 1, 1)
	elsewhere.On = on(7)
	many := want(1, 1, 4, 10)
	many.Count = 3
	for _, c := range []struct {
		name   string
		places []savings.Place
		wants  []savings.Want
		idle   savings.Idle
	}{
		{"nobody waits", []savings.Place{free(4, 9, 9)}, nil, savings.Idle{}},
		{"no cores", []savings.Place{free(2, 3, 99)}, []savings.Want{want(1, 2, 4, 10)}, savings.Idle{Cores: 2}},
		{"no memory", []savings.Place{free(2, 8, 9)}, []savings.Want{want(1, 2, 4, 10)}, savings.Idle{Memory: 2}},
		{"not its turn", []savings.Place{free(2, 8, 99)}, []savings.Want{want(1, 2, 4, 10)}, savings.Idle{Order: 2}},
		{"one fits", []savings.Place{free(2, 3, 99)}, []savings.Want{want(1, 2, 4, 10), want(1, 1, 1, 1)},
			savings.Idle{Order: 2}},
		{"not together", []savings.Place{free(2, 8, 99), free(2, 8, 99)}, []savings.Want{want(1, 4, 4, 10)},
			savings.Idle{Split: 4}},
		{"not enough", []savings.Place{free(1, 8, 99), free(2, 8, 99)}, []savings.Want{want(1, 4, 4, 10)},
			savings.Idle{}},
		{"a gang that lacks a node", []savings.Place{free(2, 8, 99), free(1, 8, 99), free(1, 8, 99)},
			[]savings.Want{want(2, 2, 4, 10)}, savings.Idle{Split: 4}},
		{"no more than asked for", []savings.Place{free(8, 3, 99)}, []savings.Want{want(1, 1, 4, 10)},
			savings.Idle{Cores: 1}},
		{"one job, two places", []savings.Place{free(1, 3, 99), free(1, 3, 99)}, []savings.Want{want(1, 1, 4, 10)},
			savings.Idle{Cores: 1}},
		{"equal ones", []savings.Place{free(8, 3, 99)}, []savings.Want{many}, savings.Idle{Cores: 3}},
		{"not for him", []savings.Place{free(8, 8, 99)}, []savings.Want{elsewhere}, savings.Idle{}},
	} {
		if got := savings.Stranded(c.places, c.wants); got != c.idle {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.idle)
		}
	}
}

// TestNoMoreGPUHoursAreClaimedThanWereThere draws sites in which jobs hold what there is, no more.
func TestNoMoreGPUHoursAreClaimedThanWereThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var state savings.State
		var sums savings.Sums
		for k := range rapid.IntRange(1, 5).Draw(t, "rounds") {
			r := drawnRound(t, fmt.Sprint(k))
			r.At = noon.Add(time.Duration(k) * time.Hour)
			var more savings.Sums
			more, state = savings.Book(state, r, 2*time.Hour)
			sums = sums.Plus(more)
		}
		if claimed := sums.Saved + sums.Filled; claimed > sums.There+1e-6 ||
			sums.Held+sums.Unmatched+sums.Idle() > sums.There+1e-6 {
			t.Fatalf("%v claimed of %v: %+v", claimed, sums.There, sums)
		}
		most := sums.Supposed + 1e-6
		if sums.SavedWithout > most || sums.SavedWith > most || sums.Supposed > sums.Known {
			t.Fatalf("with checkpoints or without more is claimed than jobs held: %+v", sums)
		}
		if c := sums.Certainty(); c.High > sums.There+1e-6 {
			t.Fatalf("at most %v claimed of %v", c.High, sums.There)
		}
	})
}

// amounts are those of the sums that do not say how runs ended.
func amounts(s savings.Sums) []float64 {
	return []float64{s.Seconds, s.There, s.Held, s.Known, s.Unmatched, s.Asked, s.With, s.Saved, s.Supposed,
		s.SavedWithout, s.SavedWith, s.Cores, s.Memory, s.Order, s.Split, s.Filled, float64(s.Checks), s.Ran,
		s.Distance, s.Changed}
}

// TestTheOrderInWhichRoundsAreBookedMakesNoDifferenceToTheSums: each stands for the hour before it, whatever stood
// there before. The first round alone books nothing.
func TestTheOrderInWhichRoundsAreBookedMakesNoDifferenceToTheSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rounds []savings.Round
		for k := range rapid.IntRange(1, 6).Draw(t, "rounds") {
			rounds = append(rounds, drawnRound(t, fmt.Sprint(k)))
			for i := range rounds[k].Jobs {
				rounds[k].Jobs[i].Started = noon.Add(-time.Hour)
			}
		}
		first := savings.Round{GPUs: 1}
		one := amounts(booked(append([]savings.Round{first}, rounds...)...))
		two := amounts(booked(append([]savings.Round{first}, rapid.Permutation(rounds).Draw(t, "order")...)...))
		for i := range one {
			if math.Abs(one[i]-two[i]) > 1e-6*max(1, math.Abs(one[i])) {
				t.Fatalf("amount %d is %v, and %v in another order", i, one[i], two[i])
			}
		}
	})
}

// TestRoundsThatWereMissedClaimNothing: of the same site, looked at less often, no sum is larger.
func TestRoundsThatWereMissedClaimNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawnRound(t, "site")
		r.Checks = nil
		for i := range r.Jobs {
			r.Jobs[i].Started, r.Jobs[i].With = noon.Add(-time.Hour), r.Jobs[i].Asked*2
			r.Jobs[i].Unsaved, r.Jobs[i].Saved = r.Jobs[i].With, r.Jobs[i].With
		}
		var all, some savings.Sums
		var allState, someState savings.State
		at := noon
		for range rapid.IntRange(2, 10).Draw(t, "rounds") {
			at = at.Add(time.Duration(rapid.IntRange(1, 180).Draw(t, "minutes")) * time.Minute)
			r.At = at
			var more savings.Sums
			more, allState = savings.Book(allState, r, time.Hour)
			all = all.Plus(more)
			if rapid.Bool().Draw(t, "held") {
				more, someState = savings.Book(someState, r, time.Hour)
				some = some.Plus(more)
			}
		}
		if some.Seconds > all.Seconds || all.Seconds > at.Sub(noon).Seconds() {
			t.Fatalf("%v s, and %v s with rounds missed, of %v", all.Seconds, some.Seconds, at.Sub(noon))
		}
		a, b := amounts(all), amounts(some)
		for i := range a {
			if b[i] > a[i]+1e-6 {
				t.Fatalf("amount %d is %v, and %v with rounds missed", i, a[i], b[i])
			}
		}
	})
}

func drawnRound(t *rapid.T, label string) savings.Round {
	gpus := rapid.IntRange(0, 64).Draw(t, "gpus"+label)
	r, left := savings.Round{GPUs: gpus}, gpus
	speed := rapid.Float64Range(0.01, 20)
	for id := 1; left > 0 && rapid.Bool().Draw(t, "job"+label); id++ {
		n := rapid.IntRange(1, left).Draw(t, "held"+label)
		left -= n
		r.Jobs = append(r.Jobs, savings.Job{ID: id, GPUs: n, Started: noon, Known: rapid.Bool().Draw(t, "known"),
			Asked: speed.Draw(t, "asked"), With: speed.Draw(t, "with"), Unsaved: speed.Draw(t, "unsaved"),
			Saved: speed.Draw(t, "saved")})
	}
	r.Unmatched = rapid.IntRange(0, left).Draw(t, "unmatched"+label)
	place := savings.Place{Free: gres.Vector{GPUs: left - r.Unmatched, CPUs: rapid.IntRange(0, 9).Draw(t, "cpus")}}
	wanted := want(1, rapid.IntRange(1, 70).Draw(t, "wanted"), 4, 0)
	r.Idle = savings.Stranded([]savings.Place{place}, []savings.Want{wanted})
	r.Filled = rapid.IntRange(0, 100).Draw(t, "filled")
	r.Checks = []savings.Check{{Ran: speed.Draw(t, "ran"), Said: speed.Draw(t, "said")}}
	return r
}
