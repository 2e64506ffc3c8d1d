package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
	"github.com/synergy-slurmd/synergy-slurmd/sim/users"
)

// draw is a trace that is drawn.
type draw struct {
	shape shape
	load  float64 // of the GPUs, if all jobs train as fast as at their shares
	mix   string
	seed  uint64
	count int
}

func (d draw) String() string {
	return fmt.Sprintf("%s, load %g, %s, seed %d", d.shape.name, d.load, d.mix, d.seed)
}

// shape is how long jobs run, on how many GPUs, and when they come, but for the load.
type shape struct {
	name string
	jobs func(r *rand.Rand, count int) []ask
}

// ask is a job as it is drawn.
type ask struct {
	arrival, length float64 // seconds
	gpus            int
	like            int // jobs of one array have the same model: its number; 0: by itself
}

// The traces, in the order of the table.
var draws = []draw{
	{pareto, 0.5, "third", 1, 3000},
	{pareto, 0.95, "paper", 1, 3000}, {pareto, 0.95, "paper", 2, 3000},
	{pareto, 0.9, "no gain", 1, 3000}, {pareto, 0.9, "no gain", 2, 3000}, {pareto, 0.9, "no gain", 3, 3000},
	{pareto, 0.9, "hungry", 1, 3000}, {pareto, 0.9, "hungry", 2, 3000},
	{pareto, 1.2, "third", 1, 1500}, {pareto, 1.2, "no gain", 1, 1500},
	{bursts, 0.9, "third", 1, 1500}, {bursts, 1.2, "paper", 1, 1500}, {bursts, 0.9, "no gain", 1, 1500},
}

// The mixes of models: the parts of image, language and speech.
var mixes = map[string]map[string]float64{
	"paper": {"image": 20, "language": 70, "speech": 10}, "third": {"image": 1, "language": 1, "speech": 1},
	"no gain": {"language": 1}, "hungry": {"image": 1, "speech": 1},
}

// pareto has many short jobs and few long ones: a Pareto distribution with α = 1.1 from five minutes to four days.
var pareto = shape{"Pareto", func(r *rand.Rand, count int) []ask {
	var asks []ask
	at := 0.0
	for range count {
		at += r.ExpFloat64()
		length := min(300*math.Pow(1-r.Float64(), -1/1.1), 4*86400)
		asks = append(asks, ask{at, length, pick(r, []int{1, 2, 4, 8, 16, 32}, []float64{62, 10, 12, 12, 3, 1}), 0})
	}
	return asks
}}

// bursts are arrays of 50, 200 or 1,000 equal tasks, about one in four hours, and thirty other jobs after each.
var bursts = shape{"bursts of arrays", func(r *rand.Rand, count int) []ask {
	var asks []ask
	at := 0.0
	for array := 1; len(asks) < count; array++ {
		at += 14400 * r.ExpFloat64()
		length := 1500 * math.Exp(0.7*r.NormFloat64())
		for i := range pick(r, []int{50, 200, 1000}, []float64{1, 1, 1}) {
			asks = append(asks, ask{at + float64(i)*0.01, length * math.Exp(0.05*r.NormFloat64()), 1, array})
		}
		for range 30 {
			gpus := pick(r, []int{1, 2, 4, 8}, []float64{2, 1, 1, 1})
			asks = append(asks, ask{at + 14400*r.Float64(), 5400 * math.Exp(1.2*r.NormFloat64()), gpus, 0})
		}
	}
	slices.SortStableFunc(asks, func(a, b ask) int {
		switch {
		case a.arrival < b.arrival:
			return -1
		case a.arrival > b.arrival:
			return 1
		}
		return 0
	})
	return asks[:count]
}}

// pick draws one of some numbers, each as often as its weight says. The last one is left where rounding leaves a rest.
func pick(r *rand.Rand, from []int, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	x := sum * r.Float64()
	for i, w := range weights {
		if x -= w; x < 0 {
			return from[i]
		}
	}
	return from[len(from)-1]
}

// jobs draws the trace, and stretches its arrivals to the load. Its jobs are asked for once with one iteration: that
// says how long an iteration takes, and so how many make the drawn length. Jobs of one array have one model, which the
// first of them draws.
func (d draw) jobs(s *site) (sim.Workload, error) {
	r := rand.New(rand.NewPCG(d.seed, 24))
	asks := d.shape.jobs(r, d.count)
	work := 0.0
	for _, a := range asks {
		work += a.length * float64(a.gpus)
	}
	first, last := asks[0].arrival, asks[len(asks)-1].arrival
	stretch := work / float64(s.experiment.Cluster.GPUs()) / d.load / (last - first)
	models, families := map[int]string{}, s.families()
	var jobs []trace.Job
	for i, a := range asks {
		model, known := models[a.like]
		if !known || a.like == 0 {
			model = drawModel(r, families, mixes[d.mix])
			models[a.like] = model
		}
		j := trace.Job{ID: i, Model: model, GPUs: a.gpus, Arrival: (a.arrival - first) * stretch, Iterations: 1}
		one, err := users.Ask(s.experiment.Cluster, s.experiment.Site.Profiles, j)
		if err != nil {
			return sim.Workload{}, err
		}
		j.Iterations = max(1, int64(math.Round(a.length/one.Length)))
		jobs = append(jobs, j)
	}
	return sim.Workload{Jobs: jobs}, nil
}

// families are the models by what they learn, each list ascending.
func (s *site) families() map[string][]string {
	families := map[string][]string{}
	for name, p := range s.experiment.Site.Profiles {
		families[family(p)] = append(families[family(p)], name)
	}
	for _, names := range families {
		slices.Sort(names)
	}
	return families
}

func family(p *sensitivity.Profile) string { return strings.ToLower(p.Task) }

// drawModel draws a model: a family has the mix's part, and its models have equal parts of that. The families have a
// fixed order, since that of a map would draw other models for the same seed each time.
func drawModel(r *rand.Rand, families map[string][]string, mix map[string]float64) string {
	var names []string
	var weights []float64
	for _, f := range []string{"image", "language", "speech"} {
		for _, name := range families[f] {
			names, weights = append(names, name), append(weights, mix[f]/float64(len(families[f])))
		}
	}
	numbers := make([]int, len(names))
	for i := range numbers {
		numbers[i] = i
	}
	return names[pick(r, numbers, weights)]
}

// recorded reads a trace in the recorded format: job_id,model,arrival,iterations,gpus.
func recorded(path string) (sim.Workload, error) {
	t, err := trace.Open(path, trace.Recorded)
	if err != nil {
		return sim.Workload{}, err
	}
	return sim.Workload{Jobs: t.Jobs}, nil
}
