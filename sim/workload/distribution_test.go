package workload_test

import (
	"math"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/workload"
)

const many = 40000

// about says that a mean of many draws is what it should be.
func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.05*want {
		t.Errorf("%s: %g, want about %g", what, got, want)
	}
}

// metronome is a model whose iterations are its seconds.
var metronome = []workload.Class{{Name: "metronome", Iteration: 1}}

// seconds draws durations, and sorts them.
func seconds(t *testing.T, durations workload.Durations) []float64 {
	t.Helper()
	var list []float64
	for _, j := range draw(t, workload.Config{Classes: metronome, Load: 1, Durations: durations, Seed: 1}, many) {
		list = append(list, float64(j.Iterations))
	}
	slices.Sort(list)
	return list
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

func TestDurationsAreDistributedAsTheirNameSays(t *testing.T) {
	for _, c := range []struct {
		durations                          workload.Durations
		least, fifth, median, fourth, most float64 // quantiles 0, 0.2, 0.5, 0.8, 1; 0: not said
		mean                               float64
	}{
		{"paper", 1897, 4498, 16403, 60000, 600000, 16.77 * 3600},
		{"small", 1897, 3374, 8001, 18974, 30071, 10753},
		{"fixed:90m", 5400, 5400, 5400, 5400, 5400, 5400},
		{"exponential:90m", 0, 1205, 3743, 8691, 0, 5400},
		{"lognormal:30m,1.0", 0, 776, 1800, 4176, 0, 1800 * math.Exp(0.5)},
		{"uniform:10m-110m", 600, 1800, 3600, 5400, 6600, 3600},
	} {
		list, name := seconds(t, c.durations), string(c.durations)
		for _, q := range []struct{ at, want float64 }{{0, c.least}, {0.2, c.fifth}, {0.5, c.median}, {0.8, c.fourth},
			{1, c.most}} {
			if q.want > 0 {
				about(t, name, list[int(q.at*(many-1))], q.want)
			}
		}
		about(t, name+", mean", mean(list), c.mean)
	}
}

func TestAJobShorterThanAnIterationTrainsOne(t *testing.T) {
	for _, j := range draw(t, workload.Config{Classes: paper(t, 3), Load: 1, Durations: "fixed:1ms"}, 10) {
		if j.Iterations != 1 {
			t.Errorf("%s: %d iterations", j.Model, j.Iterations)
		}
	}
}

func TestNoJobRunsForMoreThanTenYears(t *testing.T) {
	list := seconds(t, "lognormal:80000h,10")
	if most := list[len(list)-1]; most > 10*365*24*3600 || most < 9*365*24*3600 {
		t.Errorf("the longest of %d takes %g s", many, most)
	}
}

func TestArrivalsComeAtTheLoad(t *testing.T) {
	for _, arrivals := range []workload.Arrivals{workload.Poisson, workload.Uniform, workload.Daily} {
		jobs := draw(t, workload.Config{Classes: metronome, Load: 12, Arrivals: arrivals, Seed: 3}, many)
		about(t, string(arrivals), many/(jobs[many-1].Arrival/3600), 12)
	}
}

func TestUniformArrivalsAreEquallyFarApart(t *testing.T) {
	jobs := draw(t, workload.Config{Classes: metronome, Load: 7, Arrivals: workload.Uniform}, many)
	for i, j := range jobs {
		if want := math.Ceil(3600 * float64(i+1) / 7); j.Arrival != want {
			t.Fatalf("job %d arrives at %g, want %g", i, j.Arrival, want)
		}
	}
}

func TestStaticArrivalsAreAMillisecondApart(t *testing.T) {
	jobs := draw(t, workload.Config{Classes: metronome, Jobs: 4, Arrivals: workload.Static}, 5)
	for i, want := range []float64{0, 0.001, 0.002, 0.003} {
		if jobs[i].Arrival != want {
			t.Errorf("job %d arrives at %v, want %v", i, jobs[i].Arrival, want)
		}
	}
}

func TestADaysArrivalsFollowItsHours(t *testing.T) {
	jobs := draw(t, workload.Config{Classes: metronome, Load: 100, Arrivals: workload.Daily, Seed: 5}, many)
	inHour, days := [24]float64{}, jobs[many-1].Arrival/86400
	for _, j := range jobs {
		inHour[int64(j.Arrival)/3600%24]++
	}
	for hour, want := range map[int]float64{3: 40, 10: 180, 12: 150, 20: 80} {
		if got := inHour[hour] / days; math.Abs(got-want) > 0.1*want {
			t.Errorf("%g jobs from %d o'clock on, want about %g", got, hour, want)
		}
	}
}

// At one job in four days nearly every gap is longer than a day.
func TestRareJobsFollowTheHoursToo(t *testing.T) {
	jobs := draw(t, workload.Config{Classes: metronome, Load: 0.01, Arrivals: workload.Daily, Seed: 5}, many)
	about(t, "load", many/(jobs[many-1].Arrival/3600), 0.01)
	inHour := [24]float64{}
	for _, j := range jobs {
		inHour[int64(j.Arrival)/3600%24]++
	}
	if ratio := inHour[10] / inHour[3]; math.Abs(ratio-4.5) > 0.5 {
		t.Errorf("%g times as many at ten as at three, want 4.5", ratio)
	}
}

func TestGPUsAreMixedAsTheWeightsSay(t *testing.T) {
	for _, c := range []struct {
		mix  workload.Mix
		want map[int]float64
	}{
		{"one", map[int]float64{1: 1}},
		{"paper", map[int]float64{1: .7, 2: .1, 4: .15, 8: .05}},
		{"3=1,12=3", map[int]float64{3: .25, 12: .75}},
	} {
		count := map[int]float64{}
		for _, j := range draw(t, workload.Config{Classes: metronome, Load: 1, GPUs: c.mix, Seed: 9}, many) {
			count[j.GPUs]++
		}
		for gpus, want := range c.want {
			about(t, string(c.mix), count[gpus]/many, want)
			delete(count, gpus)
		}
		if len(count) > 0 {
			t.Errorf("%s: there are also %v", c.mix, count)
		}
	}
}

func TestThePapersMixIsItsWeights(t *testing.T) {
	weights := several(t)
	weights.GPUs = "8=0.05,4=0.15,2=0.1,1=0.7"
	if !slices.Equal(draw(t, several(t), 1000), draw(t, weights, 1000)) {
		t.Error("other jobs")
	}
}

// models counts how often each model is drawn.
func models(jobs []trace.Job) map[string]float64 {
	count := map[string]float64{}
	for _, j := range jobs {
		count[j.Model]++
	}
	return count
}

func TestModelsAreDrawnAtRandomAsTheSplitSays(t *testing.T) {
	config := workload.Config{Classes: paper(t, 3), Split: split(t, "image=50,gnmt=30,speech=20"), Load: 9,
		Assign: workload.Random, Seed: 4}
	count := models(draw(t, config, many))
	for name, want := range map[string]float64{"alexnet": .1, "shufflenet": .1, "gnmt": .3, "m5": .1,
		"deepspeech": .1} {
		about(t, name, count[name]/many, want)
	}
	if len(count) != 8 {
		t.Errorf("models drawn: %v", count)
	}
}

func TestRoundRobinServesTheSplitsModelsEquallyOften(t *testing.T) {
	config := workload.Config{Classes: paper(t, 3), Split: split(t, "speech=90,image=0,lstm=10"), Load: 9,
		Assign: workload.RoundRobin}
	var got []string
	for _, j := range draw(t, config, 6) {
		got = append(got, j.Model)
	}
	if want := []string{"lstm", "m5", "deepspeech", "lstm", "m5", "deepspeech"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWithoutASplitAllModelsComeInTurn(t *testing.T) {
	for _, assign := range []workload.Assign{workload.BySplit, workload.RoundRobin} {
		for i, j := range draw(t, workload.Config{Classes: paper(t, 3), Load: 9, Assign: assign}, 25) {
			if want := paper(t, 3)[i%10].Name; j.Model != want {
				t.Errorf("%s: job %d is %s, want %s", assign, i, j.Model, want)
			}
		}
	}
}

func TestASplitMayNameModels(t *testing.T) {
	config := workload.Config{Classes: paper(t, 3), Split: split(t, "res18=50,gnmt=50"), Load: 9, Seed: 1}
	if count := models(draw(t, config, 100)); count["res18"] != 50 || count["gnmt"] != 50 {
		t.Errorf("models drawn: %v", count)
	}
}

// A site's own profiles may have any families, or none.
func TestClassesMayBeASitesOwn(t *testing.T) {
	config := workload.Config{
		Classes: []workload.Class{{"llama", "llm", 2}, {"unet", "", 0.5}, {"mistral", "llm", 4}},
		Split:   split(t, "llm=80,unet=20"), Load: 1, Durations: "fixed:1h",
	}
	jobs := draw(t, config, 50)
	if count := models(jobs); count["llama"] != 20 || count["mistral"] != 20 || count["unet"] != 10 {
		t.Errorf("models drawn: %v", count)
	}
	for _, j := range jobs {
		if want := map[string]int64{"llama": 1800, "mistral": 900, "unet": 7200}[j.Model]; j.Iterations != want {
			t.Errorf("%s: %d iterations, want %d", j.Model, j.Iterations, want)
		}
	}
}
