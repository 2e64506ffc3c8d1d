package artifact

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// drawGroups draws groups of jobs whose first choices all fit, and the capacities.
func drawGroups(t *rapid.T) (groups []group, cpus, memory int64) {
	scale := rapid.SampledFrom([]int64{1, 50}).Draw(t, "scale")
	for range rapid.IntRange(1, 4).Draw(t, "groups") {
		g := group{count: rapid.IntRange(1, 5).Draw(t, "jobs")}
		for range rapid.IntRange(1, 5).Draw(t, "choices") {
			g.choices = append(g.choices, choice{
				worth:  scale * rapid.Int64Range(0, 30).Draw(t, "worth"),
				cpus:   rapid.Int64Range(0, 24).Draw(t, "cpus"),
				memory: rapid.Int64Range(0, 9).Draw(t, "memory"),
			})
		}
		groups = append(groups, g)
		cpus += int64(g.count) * g.choices[0].cpus
		memory += int64(g.count) * g.choices[0].memory
	}
	return groups, cpus + rapid.Int64Range(0, 60).Draw(t, "more cpus"),
		memory + rapid.Int64Range(0, 30).Draw(t, "more memory")
}

// bestWorth tries everything, job by job.
func bestWorth(groups []group, cpus, memory int64) int64 {
	reached := map[[2]int64]int64{{0, 0}: 0}
	for _, g := range groups {
		for range g.count {
			next := map[[2]int64]int64{}
			for used, worth := range reached {
				for _, c := range g.choices {
					key := [2]int64{used[0] + c.cpus, used[1] + c.memory}
					if before, known := next[key]; key[0] <= cpus && key[1] <= memory &&
						(!known || before < worth+c.worth) {
						next[key] = worth + c.worth
					}
				}
			}
			reached = next
		}
	}
	best := int64(math.MinInt64)
	for _, worth := range reached {
		best = max(best, worth)
	}
	return best
}

// total adds up what jobs chose, and makes sure that each chose once.
func total(t *rapid.T, groups []group, takers []int32) (sum choice) {
	for _, g := range groups {
		jobs := 0
		for i, c := range g.choices {
			n := int64(takers[i])
			jobs += int(n)
			sum = sum.plus(choice{n * c.worth, n * c.cpus, n * c.memory})
			if n < 0 {
				t.Fatalf("%d jobs make choice %d", n, i)
			}
		}
		if takers = takers[len(g.choices):]; jobs != g.count {
			t.Fatalf("%d jobs choose, want %d", jobs, g.count)
		}
	}
	if len(takers) > 0 {
		t.Fatalf("%v is left over", takers)
	}
	return sum
}

func TestNoOtherChoiceIsWorthMore(t *testing.T) {
	var k knapsack
	rapid.Check(t, func(t *rapid.T) {
		groups, cpus, memory := drawGroups(t)
		sum := total(t, groups, k.solve(groups, cpus, memory))
		if sum.cpus > cpus || sum.memory > memory {
			t.Fatalf("%+v is more than %d and %d", sum, cpus, memory)
		}
		if want := bestWorth(groups, cpus, memory); sum.worth != want {
			t.Fatalf("%d, the best is %d", sum.worth, want)
		}
	})
}

func TestNoPricesBoundTheWorthTooLow(t *testing.T) {
	var k knapsack
	rapid.Check(t, func(t *rapid.T) {
		k.groups, k.cpus, k.memory = drawGroups(t)
		best := float64(bestWorth(k.groups, k.cpus, k.memory))
		price := point{rapid.Float64Range(0, 200).Draw(t, "of a core"), rapid.Float64Range(0, 200).Draw(t, "of memory")}
		any, _ := k.boundAt(price)
		k.findPrices()
		least, _ := k.boundAt(k.prices)
		if any < best-1e-6 || least < best-1e-6 || least > any+1e-6*max(1, any) {
			t.Fatalf("bound %g at %v, %g at the best prices %v; the best is %g", any, price, least, k.prices, best)
		}
	})
}
