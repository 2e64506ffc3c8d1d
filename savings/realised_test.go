package savings_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// runs are n runs of a name that each do so many seconds' work at the proportional share, at a speed that is claimed
// and at one that is true.
func runs(who string, before bool, n int, work, claimed, real float64) (list []savings.Run) {
	for k := range n {
		list = append(list, savings.Run{Who: savings.Who{User: "ann", Name: who, GPUs: 1}, Before: before,
			At: noon.Add(time.Duration(k) * time.Hour), Speed: claimed, Took: work / real})
	}
	return list
}

// each are five runs before and ten after of names that all are as the first.
func each(names string, claimed, real float64) (list []savings.Run) {
	for _, name := range names {
		list = slices.Concat(list, runs(string(name), true, 5, 600, 1, 1),
			runs(string(name), false, 10, 600, claimed, real))
	}
	return list
}

func TestAPromiseThatIsKeptIsOffByNothing(t *testing.T) {
	r := savings.Realise(each("abc", 1.5, 1.5), 0)
	near(t, "said", r.Said, 1.5)
	near(t, "ran", r.Ran, 1.5)
	near(t, "within", r.Within, 1)
	if !r.Checked() || r.Names != 3 || r.Before != 15 || r.After != 30 || len(r.Apart) != 0 {
		t.Errorf("%+v", r)
	}
	low, high := r.Range(savings.Sums{Known: 90, Changed: 90, Saved: 30})
	near(t, "low", low, 30)
	near(t, "high", high, 30)
}

func TestAProfileThatPromisesTooMuchIsFoundOutByHowLongRunsTook(t *testing.T) {
	r := savings.Realise(each("abc", 2, 1.2), 0)
	near(t, "said", r.Said, 2)
	near(t, "ran", r.Ran, 1.2)
	near(t, "error", r.Error(), -0.4)
	sums := savings.Sums{Known: 100, Changed: 100, Saved: 50}
	low, _ := r.Range(sums)
	near(t, "saved at the real speed", low, 100-50/0.6)
	if w := r.Words(sums); !strings.Contains(w, "40.0 % below") {
		t.Errorf("%s, want 40 %% below", w)
	}
}

// TestOfWhatKeptItsSpeedNothingIsAtStake: where jobs were given what they asked for a profile may lie as it likes.
func TestOfWhatKeptItsSpeedNothingIsAtStake(t *testing.T) {
	r := savings.Realise(each("abc", 2, 1.6), 0)
	low, high := r.Range(savings.Sums{Known: 1000, Changed: 100, Saved: 50})
	near(t, "low", low, 100-50/0.8)
	near(t, "high", high, low)
	s := booked(savings.Round{}, savings.Round{Jobs: []savings.Job{
		{ID: 1, GPUs: 4, Known: true, Asked: 1, With: 1.01}, {ID: 2, GPUs: 2, Known: true, Asked: 1, With: 1.5},
		{ID: 3, GPUs: 1, Known: true, Asked: 1, With: 0.5}, {ID: 4, GPUs: 8, Asked: 1, With: 1}}})
	near(t, "changed", s.Changed, 3*hour)
}

// TestANameThatIsNotAsWasSaidIsNamed, and the range has room for it either way: that its profile lies, and that its
// user trains for longer now.
func TestANameThatIsNotAsWasSaidIsNamed(t *testing.T) {
	list := append(each("abcdef", 2, 2), each("x", 2, 1)...)
	r := savings.Realise(list, 0)
	if len(r.Apart) != 1 || r.Apart[0].Name != "x" || r.Apart[0].After != 10 {
		t.Fatalf("%+v, want the one name", r.Apart)
	}
	near(t, "said", r.Apart[0].Said, 2)
	near(t, "ran", r.Apart[0].Ran, 1)
	sums := savings.Sums{Known: 1000, Changed: 1000, Saved: 500}
	if low, high := r.Range(sums); low > 300 || high < 500 || r.Ran*r.Within < 2 {
		t.Errorf("%v to %v of %+v, want 500 in it", low, high, r)
	}
	if w := r.Words(sums); !strings.Contains(w, "x of ann, 1 GPU: said 2.00, ran 1.00 (1.00 to 1.00).") {
		t.Errorf("%s, want the name", w)
	}
	if r := savings.Realise(each("tuvwx", 2, 1), 0); !strings.Contains(r.Words(sums), "; 2 others.") {
		t.Errorf("%s, want two names counted", r.Words(sums))
	}
}

func TestTwoNamesDoNotTellALieFromALongerTraining(t *testing.T) {
	r := savings.Realise(each("ab", 2, 1), 0)
	w := r.Words(savings.Sums{Known: 100, Changed: 100, Saved: 50})
	if r.Checked() || !strings.Contains(w, "not checked: of 20 runs of 2 names") || !strings.Contains(w, "b of ann") {
		t.Errorf("%s, want that it is not checked, and both names", w)
	}
}

func TestANameWeighsAsMuchAsWhatItsRunsTook(t *testing.T) {
	large := append(runs("c", true, 5, 60_000, 1, 1), runs("c", false, 10, 60_000, 4, 4)...)
	for k := range large {
		large[k].Who.GPUs = 8
	}
	if r := savings.Realise(append(each("ab", 2, 2), large...), 0); r.Said < 3.9 || r.Said > 4 {
		t.Errorf("said %v, want about the 4 of those that take two hundred times as much", r.Said)
	}
}

func TestWhatTellsNothingIsLeftOutAndCounted(t *testing.T) {
	uneven := runs("a", true, 2, 600, 1, 1)
	uneven = append(append(uneven, runs("a", true, 2, 60_000, 1, 1)...), runs("a", false, 20, 600, 1.5, 1.5)...)
	unchanged := append(runs("b", true, 3, 600, 1, 1), runs("b", false, 20, 900, 1, 1)...)
	young := append(runs("c", true, 2, 600, 1, 1), runs("c", false, 7, 600, 2, 2)...)
	broken := append(runs("d", true, 3, 600, 1, 1), runs("d", false, 3, 600, 1, 1)...)
	broken[3].Speed, broken[4].Took, broken[5].Took = math.NaN(), math.Inf(1), 0
	short := append(runs("e", true, 3, 600, 1, 1), runs("e", false, 7, 600, 2, 2)...)
	var all []savings.Run
	for _, list := range [][]savings.Run{uneven, unchanged, young, broken, short} {
		all = append(all, list...)
	}
	if r := savings.Realise(all, 10*time.Minute); r.After != 0 || r.Uneven != 1 || r.New != 7 || r.Short != 1 ||
		r.Checked() {
		t.Errorf("%+v, want none compared, one name uneven, one short and 7 runs new", r)
	}
}

// TestANameWhoseWorkChangedWhileNothingElseDidIsLeftOut: half-way, before or after, in whatever order runs are told.
func TestANameWhoseWorkChangedWhileNothingElseDidIsLeftOut(t *testing.T) {
	for _, changed := range []bool{true, false} {
		list := append(runs("a", true, 10, 600, 1, 1), runs("a", false, 10, 600, 2, 2)...)
		for k := range list {
			list[k].Took *= 1 + 0.05*float64(k%3)
			if list[k].Before == changed && list[k].At.After(noon.Add(4*time.Hour)) {
				list[k].Took *= 2
			}
		}
		slices.Reverse(list)
		if r := savings.Realise(list, 0); r.Drifting != 1 || r.After != 0 {
			t.Errorf("%+v, want the name left out", r)
		}
	}
	if r := savings.Realise(each("a", 2, 1), 0); r.Drifting != 0 {
		t.Errorf("%+v, want it compared: it changed with what it was given", r)
	}
}

func TestRunsThatDifferByThemselvesMakeItLessSure(t *testing.T) {
	var even, odd []savings.Run
	for _, who := range []string{"a", "b", "c"} {
		after := runs(who, false, 16, 600, 2, 2)
		even = slices.Concat(even, runs(who, true, 8, 600, 1, 1), after)
		odd = slices.Concat(odd, runs(who, true, 4, 540, 1, 1), runs(who, true, 4, 660, 1, 1), after)
	}
	sure, unsure := savings.Realise(even, 0), savings.Realise(odd, 0)
	// the squares of the logarithm's deviations before are 8 · 0.1²; of 16 runs after and 8 before, in three names
	want := math.Exp(2 * 0.5 * math.Log(660./540) * math.Sqrt(8./22*(1./16+1./8)/3))
	near(t, "even", sure.Within, 1)
	near(t, "uneven", unsure.Within, want)
}

// TestNineteenTimesOfTwentyTheTruthIsWithin draws sites in which profiles are right in the mean, and each is off by
// something of its own.
func TestNineteenTimesOfTwentyTheTruthIsWithin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, off := range []float64{0, 0.1} {
		const sites = 1000
		found, apart, names := 0, 0, 0
		for range sites {
			var list []savings.Run
			for n := range 3 + random.IntN(10) {
				real, noise, who := 2*math.Exp(off*random.NormFloat64()), 0.3*random.Float64(), fmt.Sprint(n)
				site := append(runs(who, true, 3+random.IntN(10), 600, 1, 1),
					runs(who, false, 4+random.IntN(20), 600, 2, real)...)
				for k := range site {
					site[k].Took *= math.Exp(noise * random.NormFloat64())
				}
				list = append(list, site...)
			}
			r := savings.Realise(list, 0)
			apart, names = apart+len(r.Apart), names+r.Names
			if math.Abs(math.Log(r.Ran/r.Said)) <= math.Log(r.Within) {
				found++
			}
		}
		if found < sites*93/100 {
			t.Errorf("off by %v: the truth is within %d times of %d, want 930 at least", off, found, sites)
		}
		if off == 0 && apart > names/200 {
			t.Errorf("%d of %d names are found apart though none is", apart, names)
		}
	}
}

func TestWhatIsSaidOfRealSpeedsDoesNotDependOnTheOrderOfRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.Float64Range(0.1, 10)
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) savings.Run {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "who")
			return savings.Run{Who: savings.Who{Name: name}, Before: rapid.Bool().Draw(t, "before"),
				At: noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "at"))), Speed: figure.Draw(t, "speed"),
				Took: figure.Draw(t, "took")}
		}), 0, 30).Draw(t, "runs")
		one, two := savings.Realise(list, 0), savings.Realise(rapid.Permutation(list).Draw(t, "shuffled"), 0)
		if one.After != two.After || math.Abs(one.Ran-two.Ran) > 1e-9*one.Ran || one.New != two.New ||
			one.Drifting != two.Drifting || len(one.Apart) != len(two.Apart) {
			t.Fatalf("%+v and %+v of the same runs", one, two)
		}
		if _, high := one.Range(savings.Sums{Known: 2000, Changed: 1000, Saved: 100}); one.After > 0 && high > 1000 {
			t.Fatalf("%v saved of 1000: %+v", high, one)
		}
	})
}
