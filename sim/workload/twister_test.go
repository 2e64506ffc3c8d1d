package workload

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// The numbers are those of CPython's module random.
func TestTheGeneratorIsCPythons(t *testing.T) {
	for _, c := range []struct {
		seed  int64
		count int
		draw  func(*twister) string
		want  string
	}{
		{42, 6, word, "2746317213 478163327 107420369 3184935163 1181241943 1051802512"},
		{42, 3, unit, "0.6394267984578837 0.025010755222666936 0.27502931836911926"},
		{0, 3, unit, "0.8444218515250481 0.7579544029403025 0.420571580830845"},
		{1, 3, unit, "0.13436424411240122 0.8474337369372327 0.763774618976614"},
		{4294967301, 3, unit, "0.15727238718789782 0.2824866316461999 0.6044540318498407"},
		{1 << 40, 3, unit, "0.1036394562812375 0.6705558677439764 0.4266543913526999"},
		{-1 << 40, 3, unit, "0.1036394562812375 0.6705558677439764 0.4266543913526999"},
		{math.MinInt64, 3, unit, "0.5534639983914199 0.9406144709090462 0.24199432111690833"},
		{42, 3, between, "2.4591401976868257 1.5375161328340003 1.9125439775536788"},
		{42, 8, digit, "1 0 4 3 3 2 1 8"},
		{42, 8, threeToSeven, "3 3 5 4 4 4 3 7"},
		{42, 12, fourBits, "10 1 0 11 4 3 3 2 11 1 10 11"},
		{42, 2, allBits, "2746317213 478163327"},
	} {
		if got := draws(seeded(c.seed), c.count, c.draw); got != c.want {
			t.Errorf("seed %d: %s, want %s", c.seed, got, c.want)
		}
	}
}

func word(t *twister) string         { return fmt.Sprint(t.next32()) }
func unit(t *twister) string         { return fmt.Sprint(t.random()) }
func between(t *twister) string      { return fmt.Sprint(t.uniform(1.5, 3)) }
func digit(t *twister) string        { return fmt.Sprint(t.randint(0, 9)) }
func threeToSeven(t *twister) string { return fmt.Sprint(t.randint(3, 7)) }
func fourBits(t *twister) string     { return fmt.Sprint(t.getrandbits(4)) }
func allBits(t *twister) string      { return fmt.Sprint(t.getrandbits(32)) }

func draws(t *twister, count int, draw func(*twister) string) string {
	text := draw(t)
	for range count - 1 {
		text += " " + draw(t)
	}
	return text
}

func TestTheGeneratorIsCPythonsBeyondItsFirstState(t *testing.T) {
	g := seeded(7)
	for range 2000 {
		g.random()
	}
	if got, want := draws(g, 2, unit), "0.6415743501553379 0.2657719993437031"; got != want {
		t.Errorf("numbers 2000 and 2001: %s, want %s", got, want)
	}
}

// The second seed has more words than the state.
func TestASeedMayHaveManyWords(t *testing.T) {
	for _, c := range []struct {
		base, power, more int64
		want              string
	}{
		{2, 96, 12345, "0.026075589700941593 0.40952324215624414 0.11618126623251224"},
		{3, 25000, 0, "0.9350715000567896 0.36677448808697266 0.8627140873699226"},
	} {
		n := new(big.Int).Exp(big.NewInt(c.base), big.NewInt(c.power), nil)
		n.Add(n, big.NewInt(c.more))
		var key []uint32
		for mask := big.NewInt(1<<32 - 1); n.Sign() > 0; n.Rsh(n, 32) {
			key = append(key, uint32(new(big.Int).And(n, mask).Uint64()))
		}
		if got := draws(keyed(key), 3, unit); got != c.want {
			t.Errorf("seed %d^%d+%d: %s, want %s", c.base, c.power, c.more, got, c.want)
		}
	}
}

func TestEveryNumberBelowTheBoundIsDrawnAndNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		g, seen := seeded(rapid.Int64().Draw(t, "seed")), map[int]bool{}
		for range 50 * n {
			seen[g.below(n)] = true
		}
		for i := range n {
			if !seen[i] {
				t.Fatalf("%d of %d was never drawn", i, n)
			}
		}
		if len(seen) != n {
			t.Fatalf("%d different numbers below %d", len(seen), n)
		}
	})
}
