package forecast

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
)

func TestWhatAJobUsesIsMoreThanItHasUsedAndGrowsWithItsChance(t *testing.T) {
	for _, h := range []Habits{DefaultHabits(), {0, 1}, {0.5, 0.5}, {0.1, 0.1, 0.9, 0.9}} {
		for _, used := range []float64{0, 0.05, 0.1, 0.5, 0.95, 1} {
			last := used
			for k := range 100 {
				part := h.drawBeyond(used, float64(k)/100)
				if part < last || part > 1 {
					t.Fatalf("%v: of %v used, chance %d %%: %v after %v", h, used, k, part, last)
				}
				last = part
			}
		}
	}
}

// ran is a job that has used so much of a limit of a hundred hours.
func ran(id int, part float64) policy.Job {
	return policy.Job{ID: id, TimeLimit: 100 * time.Hour, Done: scaled(100*time.Hour, part),
		Running: &policy.Placement{}}
}

func TestHabitsAreLearnedAlsoFromJobsThatAreNotOverYet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var seen []float64
	var c policy.Cluster
	for id := range 4000 { // half of them are looked at too early
		uses, looked := 0.2+0.6*random.Float64(), random.Float64()
		if uses < looked {
			seen = append(seen, uses)
		} else {
			c.Jobs = append(c.Jobs, ran(id, looked))
		}
	}
	h := Learn(seen, &c)
	for _, share := range []float64{0.1, 0.25, 0.5, 0.75} {
		if got, want := h.quantile(share), 0.2+0.6*share; got < want-0.05 || got > want+0.05 {
			t.Errorf("%.0f %% of the jobs use less than %.2f, want %.2f", 100*share, got, want)
		}
	}
	for k := 1; k < len(h); k++ {
		if h[k] < h[k-1] || len(h) != habitIntervals+1 {
			t.Fatalf("%d edges: %v", len(h), h)
		}
	}
}

// TestOfJobsThatStillRunAtTheLastPartThatWasSeenNothingButTheirLimitIsKnown: 30 jobs ended after a tenth of their
// limits, and 300 run on after a fifth. They may end at any time until their limits.
func TestOfJobsThatStillRunAtTheLastPartThatWasSeenNothingButTheirLimitIsKnown(t *testing.T) {
	seen := slices.Repeat([]float64{0.1}, EnoughHabits)
	var c policy.Cluster
	for range 300 {
		c.Jobs = append(c.Jobs, policy.Job{Running: &policy.Placement{}, Done: 12 * time.Minute, TimeLimit: time.Hour})
	}
	h := Learn(seen, &c)
	if middle, late := h[len(h)/2], h[len(h)*3/4]; middle < 0.45 || middle > 0.55 || late < 0.7 || h[len(h)-1] != 1 {
		t.Errorf("half of the jobs use %.2f of their limits, three quarters %.2f, all %.2f", middle, late, h[len(h)-1])
	}
}

func TestAFewJobsTeachNothing(t *testing.T) {
	if h := Learn(make([]float64, EnoughHabits-1), &policy.Cluster{}); len(h) != len(DefaultHabits()) {
		t.Errorf("learned %v", h)
	}
}

func TestOnlyWhoRanUnderALimitAndIsGoneTeaches(t *testing.T) {
	before := policy.Cluster{Jobs: []policy.Job{ran(1, 0.5), ran(2, 0.25), {ID: 3, TimeLimit: time.Hour}, ran(4, 1)}}
	before.Jobs[3].TimeLimit = 0
	after := policy.Cluster{Jobs: []policy.Job{{ID: 1}}}
	if parts := Seen(&before, &after); len(parts) != 1 || parts[0] != 0.25 {
		t.Errorf("seen %v, want a quarter", parts)
	}
}

func TestEachDrawHasAPartOfTheChancesOfItsOwn(t *testing.T) {
	for _, draws := range []int{1, 2, 7, 11, 12} {
		o := &Options{Draws: draws, Seed: 3}
		for job := range 50 {
			taken := make([]bool, draws)
			for draw := range draws {
				c := stratified(uint64(draw), o, job)
				if c < 0 || c >= 1 || taken[int(c*float64(draws))] {
					t.Fatalf("job %d of %d draws: %v is taken", job, draws, c)
				}
				taken[int(c*float64(draws))] = true
			}
		}
	}
}

func TestNobodyIsStoppedBetweenTwoRounds(t *testing.T) {
	o := Options{Policy: policy.SRTF(), Allocator: policy.Tune(), Draws: 1, Horizon: time.Hour, Habits: DefaultHabits()}
	stopped := map[bool]int{}
	for n := range 60 {
		c := exam.Snapshot(7, n)
		for _, whole := range []bool{false, true} {
			p := newFuture(&c, &o, 0, nil)
			p.decide(new(policy.Planner), whole)
			for i := range c.Jobs {
				is, was := p.c.Jobs[i].Running, c.Jobs[i].Running
				if was != nil && (is == nil || !is.Equal(*was)) {
					stopped[whole]++
				}
			}
		}
	}
	if stopped[false] != 0 || stopped[true] == 0 {
		t.Errorf("%d are stopped between rounds, %d in rounds: want none, and some", stopped[false], stopped[true])
	}
}
