package savings_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
)

// runs are n runs of a name that each do so many seconds' work at the proportional share, at a speed that is claimed
// and at one that is true.
func runs(who string, before bool, n int, work, claimed, real float64) (list []savings.Run) {
	for range n {
		list = append(list, savings.Run{Who: who, Before: before, Speed: claimed, Took: work / real})
	}
	return list
}

func TestAPromiseThatIsKeptIsOffByNothing(t *testing.T) {
	list := append(runs("a", true, 5, 600, 1, 1), runs("a", false, 10, 600, 1.5, 1.5)...)
	r := savings.Realise(list)
	near(t, "said", r.Said, 1.5)
	near(t, "ran", r.Ran, 1.5)
	near(t, "within", r.Within, 1)
	if !r.Checked() || r.Names != 1 || r.Before != 5 || r.After != 10 {
		t.Errorf("%+v", r)
	}
	low, high := r.Range(savings.Sums{Known: 90, Changed: 90, Saved: 30})
	near(t, "low", low, 30)
	near(t, "high", high, 30)
}

func TestAProfileThatPromisesTooMuchIsFoundOutByHowLongRunsTook(t *testing.T) {
	list := append(runs("a", true, 5, 600, 1, 1), runs("a", false, 10, 600, 2, 1.2)...)
	r := savings.Realise(list)
	near(t, "said", r.Said, 2)
	near(t, "ran", r.Ran, 1.2)
	near(t, "error", r.Error(), -0.4)
	low, _ := r.Range(savings.Sums{Known: 100, Changed: 100, Saved: 50})
	near(t, "saved at the real speed", low, 100-50/0.6)
	if w := r.Words(savings.Sums{Known: 100, Changed: 100, Saved: 50}); !strings.Contains(w, "40.0 % below") {
		t.Errorf("%s, want 40 %% below", w)
	}
}

func TestWhatTellsNothingIsLeftOutAndCounted(t *testing.T) {
	uneven := runs("a", true, 2, 600, 1, 1)
	uneven = append(append(uneven, runs("a", true, 2, 60_000, 1, 1)...), runs("a", false, 20, 600, 1.5, 1.5)...)
	unchanged := append(runs("b", true, 3, 600, 1, 1), runs("b", false, 20, 900, 1, 1)...)
	young := append(runs("c", true, 2, 600, 1, 1), runs("c", false, 7, 600, 2, 2)...)
	broken := append(runs("d", true, 3, 600, 1, 1), savings.Run{Who: "d", Speed: math.NaN(), Took: 1},
		savings.Run{Who: "d", Speed: 2, Took: math.Inf(1)}, savings.Run{Who: "d", Speed: 2})
	var all []savings.Run
	for _, list := range [][]savings.Run{uneven, unchanged, young, broken} {
		all = append(all, list...)
	}
	if r := savings.Realise(all); r.After != 0 || r.Uneven != 1 || r.New != 7 || r.Checked() {
		t.Errorf("%+v, want none compared, one name uneven and 7 runs new", r)
	}
}

func TestRunsThatDifferByThemselvesMakeItLessSure(t *testing.T) {
	even := append(runs("a", true, 8, 600, 1, 1), runs("a", false, 16, 600, 2, 2)...)
	odd := append(append(runs("a", true, 4, 540, 1, 1), runs("a", true, 4, 660, 1, 1)...),
		runs("a", false, 16, 600, 2, 2)...)
	sure, unsure := savings.Realise(even), savings.Realise(odd)
	// the deviation of the logarithm is 0.107; of 16 runs after and 8 before
	want := math.Exp(2 * 0.5 * math.Log(660./540) * math.Sqrt(8./7) * math.Sqrt(1./16+1./8))
	near(t, "even", sure.Within, 1)
	near(t, "uneven", unsure.Within, want)
}

func TestWhatIsSaidOfRealSpeedsDoesNotDependOnTheOrderOfRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		figure := rapid.Float64Range(0.1, 10)
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) savings.Run {
			return savings.Run{Who: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "who"),
				Before: rapid.Bool().Draw(t, "before"), Speed: figure.Draw(t, "speed"), Took: figure.Draw(t, "took")}
		}), 0, 30).Draw(t, "runs")
		one, two := savings.Realise(list), savings.Realise(rapid.Permutation(list).Draw(t, "shuffled"))
		if one.After != two.After || math.Abs(one.Ran-two.Ran) > 1e-9*one.Ran || one.New != two.New {
			t.Fatalf("%+v and %+v of the same runs", one, two)
		}
		known := 1000.0
		if _, high := one.Range(savings.Sums{Known: known, Changed: known, Saved: 100}); one.After > 0 && high > known {
			t.Fatalf("%v saved of %v: %+v", high, known, one)
		}
	})
}
