package workload_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

// anyConfig draws a workload of the paper's classes.
func anyConfig(t *rapid.T, classes []workload.Class) workload.Config {
	return workload.Config{
		Classes: classes,
		Split:   anySplit(t),
		Load:    math.Pow(10, rapid.Float64Range(-3, 5).Draw(t, "log load")),
		Jobs:    rapid.IntRange(1, 300).Draw(t, "jobs"),
		Seed:    rapid.Int64().Draw(t, "seed"),
		GPUs:    rapid.SampledFrom([]workload.Mix{"", "one", "paper", "1=1,3=2,16=0.5", "4=1"}).Draw(t, "gpus"),
		Durations: rapid.SampledFrom([]workload.Durations{"", "paper", "small", "fixed:1ms", "fixed:2h",
			"exponential:90m",
			"lognormal:30m,2.5", "lognormal:40000h,10", "uniform:10m-2h"}).Draw(t, "durations"),
		Arrivals: rapid.SampledFrom([]workload.Arrivals{"", "poisson", "static", "uniform", "daily"}).Draw(t,
			"arrivals"),
		Assign: rapid.SampledFrom([]workload.Assign{"", "split", "random", "roundrobin"}).Draw(t, "assign"),
	}
}

// anySplit draws whole percentages of the three families and one model that is in one of them.
func anySplit(t *rapid.T) workload.Split {
	cuts := rapid.SliceOfN(rapid.IntRange(0, 100), 3, 3).Draw(t, "cuts")
	slices.Sort(cuts)
	parts := workload.Split{{"image", 0}, {"language", 0}, {"speech", 0}, {"res18", 0}}
	from := 0
	for i, to := range append(cuts, 100) {
		parts[i].Percent = float64(to - from)
		from = to
	}
	return parts
}

func TestAnyWorkloadHasJobsThatCanBeSimulatedInTheOrderOfTheirArrival(t *testing.T) {
	classes := paper(t, 4)
	rapid.Check(t, func(rt *rapid.T) {
		config, last := anyConfig(rt, classes), 0.0
		jobs := draw(t, config, config.Jobs+1)
		if len(jobs) != config.Jobs {
			rt.Fatalf("%d jobs, want %d", len(jobs), config.Jobs)
		}
		for i, j := range jobs {
			switch {
			case j.ID != i:
				rt.Fatalf("job %d has the ID %d", i, j.ID)
			case !(j.Arrival >= last) || math.IsInf(j.Arrival, 0):
				rt.Fatalf("job %d arrives at %g, the one before at %g", i, j.Arrival, last)
			case j.Iterations < 1 || j.GPUs < 1:
				rt.Fatalf("job %d: %d iterations, %d GPUs", i, j.Iterations, j.GPUs)
			case !slices.ContainsFunc(classes, func(c workload.Class) bool { return c.Name == j.Model }):
				rt.Fatalf("job %d has the model %q", i, j.Model)
			case config.Arrivals != workload.Static && j.Arrival != math.Trunc(j.Arrival):
				rt.Fatalf("job %d arrives at %g, want whole seconds", i, j.Arrival)
			}
			last = j.Arrival
		}
	})
}

func TestTheSameSeedDrawsTheSameJobs(t *testing.T) {
	classes := paper(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		config := anyConfig(rt, classes)
		if !slices.Equal(draw(t, config, config.Jobs), draw(t, config, config.Jobs)) {
			rt.Fatalf("two sources of %+v differ", config)
		}
	})
}

func TestAWorkloadIsTheBeginningOfALongerOne(t *testing.T) {
	classes := paper(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		config := anyConfig(rt, classes)
		short := draw(t, config, config.Jobs)
		config.Jobs *= 2
		if !slices.Equal(short, draw(t, config, config.Jobs)[:len(short)]) {
			rt.Fatalf("more jobs of %+v change the first ones", config)
		}
	})
}

// A number and its negative are the same seed, as in CPython.
func TestOtherSeedsDrawOtherJobs(t *testing.T) {
	classes := paper(t, 3)
	rapid.Check(t, func(rt *rapid.T) {
		config := workload.Config{Classes: classes, Load: 9, Jobs: 5, Seed: rapid.Int64().Draw(rt, "seed")}
		first, other := draw(t, config, 5), rapid.Int64().Draw(rt, "other seed")
		if other == config.Seed || other == -config.Seed {
			return
		}
		config.Seed = other
		if slices.Equal(first, draw(t, config, 5)) {
			rt.Fatalf("seed %d draws the same", config.Seed)
		}
	})
}

func TestTheJobsOfEachPartStayNearItsPercentage(t *testing.T) {
	family := map[string]string{}
	classes := paper(t, 3)
	for _, c := range classes {
		family[c.Name] = c.Family
	}
	rapid.Check(t, func(rt *rapid.T) {
		parts := anySplit(rt)
		parts[0].Percent += parts[3].Percent
		parts = parts[:3]
		config := workload.Config{Classes: classes, Split: parts, Load: 9, Seed: rapid.Int64().Draw(rt, "seed")}
		count := map[string]float64{}
		for i, j := range draw(t, config, 500) {
			count[family[j.Model]]++
			for _, p := range parts {
				if off := count[p.Family] - p.Percent/100*float64(i+1); math.Abs(off) > 2 {
					rt.Fatalf("after %d jobs of %s, %s is off by %.2f", i+1, parts, p.Family, off)
				}
			}
		}
	})
}

func TestTheModelsOfAFamilyComeInTurn(t *testing.T) {
	var images []string
	for _, j := range draw(t, single(t), 300) {
		if slices.Contains([]string{"alexnet", "res18", "res50", "mobilenet", "shufflenet"}, j.Model) {
			images = append(images, j.Model)
		}
	}
	for i, name := range images {
		if want := images[i%5]; name != want {
			t.Fatalf("image %d is %s, want %s", i, name, want)
		}
	}
}

func TestASourceWithoutANumberOfJobsGoesOn(t *testing.T) {
	if got := len(draw(t, single(t), 50000)); got != 50000 {
		t.Errorf("it ended after %d jobs", got)
	}
}

func TestDrawingAJobAllocatesNothing(t *testing.T) {
	for _, config := range []workload.Config{single(t), several(t)} {
		source, err := workload.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(2000, func() { source.Next() }); got != 0 {
			t.Errorf("%g allocations a job", got)
		}
	}
}
