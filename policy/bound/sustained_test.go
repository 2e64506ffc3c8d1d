package bound_test

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
)

// lasting are full clusters in use: jobs end and come, and 40 of them wait.
type lasting struct {
	name    string
	servers []server
	mix     mixed
	gpus    []int
	floor   float64 // of what is trained, in parts of the bound by configurations
	models  families
}

func allLasting(t testing.TB) []lasting {
	paper, measured := ofThePaper(t), ofAnH100(t)
	return []lasting{
		{"8-24-500/one/33-33-33", []server{of(16, 8, 24, 500)}, mixed{33, 33}, oneGPU, 0.98, paper},
		{"8-24-500/1-8/33-33-33", []server{of(16, 8, 24, 500)}, mixed{33, 33}, manyGPUs, 0.98, paper},
		{"8-24-500/one/60-30-10", []server{of(16, 8, 24, 500)}, mixed{60, 30}, oneGPU, 0.98, paper},
		{"8-24-500/1-8/60-30-10", []server{of(16, 8, 24, 500)}, mixed{60, 30}, manyGPUs, 0.98, paper},
		{"8-40-500/1-8/60-30-10", []server{of(16, 8, 40, 500)}, mixed{60, 30}, manyGPUs, 0.98, paper},
		{"8-24-300/one/20-70-10", []server{of(16, 8, 24, 300)}, mixed{20, 70}, oneGPU, 0.96, paper},
		{"8-24-300/1-8/33-33-33", []server{of(16, 8, 24, 300)}, mixed{33, 33}, manyGPUs, 0.96, paper},
		{"8-48-300/1-8/60-30-10", []server{of(16, 8, 48, 300)}, mixed{60, 30}, manyGPUs, 0.96, paper},
		{"4-12-250/1-4/33-33-33", []server{of(32, 4, 12, 250)}, mixed{33, 33}, fewGPUs, 0.98, paper},
		{"24-and-64-cores/one/33-33-33", []server{of(8, 8, 24, 500), of(8, 8, 64, 500)}, mixed{33, 33}, oneGPU, 0.98,
			paper},
		{"24-and-64-cores/1-8/33-33-33", []server{of(8, 8, 24, 500), of(8, 8, 64, 500)}, mixed{33, 33}, manyGPUs, 0.98,
			paper},
		{"8-and-4-GPUs/1-8/60-30-10", []server{of(8, 8, 24, 500), of(16, 4, 20, 400)}, mixed{60, 30}, manyGPUs, 0.98,
			paper},
		{"h100-8-64-1000/one/33-33-33", []server{of(16, 8, 64, 1000)}, mixed{33, 33}, oneGPU, 0.98, measured},
		{"h100-8-64-1000/1-8/33-33-33", []server{of(16, 8, 64, 1000)}, mixed{33, 33}, manyGPUs, 0.98, measured},
		{"h100-8-24-1000/1-8/60-30-10", []server{of(16, 8, 24, 1000)}, mixed{60, 30}, manyGPUs, 0.98, measured},
	}
}

// BenchmarkSustained plays a day of rounds under FIFO, and reports in % how much of the bound by configurations of each
// round is trained, and of that by prices, restarts of a minute taken off; and how often a job is restarted. Run it
// with -benchtime 1x.
func BenchmarkSustained(b *testing.B) {
	for _, l := range allLasting(b) {
		for _, a := range allocators() {
			b.Run(l.name+"/"+a.Name, func(b *testing.B) {
				for b.Loop() {
					p := l.play(b, a, 288)
					b.ReportMetric(100*p.trained/p.bound, "%configurations")
					b.ReportMetric(100*p.trained/p.pooled, "%prices")
					b.ReportMetric(float64(p.restarts)/float64(p.ended), "restarts/job")
				}
			})
		}
	}
}

func allocators() []policy.Allocator { return []policy.Allocator{policy.Tune(), policy.Opt()} }

// played is what the jobs of a cluster in use have trained, and what they could have at most, in GPU-seconds in the
// unit of policy.Unit.
type played struct {
	t               testing.TB
	cluster         policy.Cluster
	planner         policy.Planner
	come            []policy.Job
	draw            *rand.Rand
	trained         float64
	bound, pooled   float64
	restarts, ended int
}

const (
	lastingRound = 5 * time.Minute
	lastingQueue = 40 // jobs
)

// play holds so many rounds; the first third of them, in which the cluster fills, does not count.
func (l lasting) play(t testing.TB, a policy.Allocator, rounds int) *played {
	return l.playAs(t, a, rounds, variant{})
}

// variant is another draw of the jobs, what else happens before each round, and whether certificates are left out.
type variant struct {
	seed        int64
	each        func(p *played, round int)
	uncertified bool
}

func (l lasting) playAs(t testing.TB, a policy.Allocator, rounds int, as variant) *played {
	many := clusterOf(of(2000, 8, 24, 500)) // for so many GPUs jobs are drawn
	p := &played{t: t, cluster: clusterOf(l.servers...), draw: rand.New(rand.NewSource(11 + as.seed))}
	p.come = batchOf(l.models, many, l.mix, l.gpus, 42+as.seed).Jobs
	p.cluster.Rules = policy.Rules{Patience: 1000 * time.Hour}
	for round := range rounds {
		p.arrive()
		if as.each != nil {
			as.each(p, round)
		}
		plan := p.planner.Decide(p.cluster, policy.FIFO(), a)
		if err := policy.Check(p.cluster, plan); err != nil {
			t.Fatal(err)
		}
		counts := round >= rounds/3
		if counts && !as.uncertified {
			cert := bound.Certify(&p.cluster, plan)
			p.bound += cert.Same * lastingRound.Seconds()
			p.pooled += cert.Pooled * lastingRound.Seconds()
		}
		p.train(plan, counts)
	}
	return p
}

// arrive keeps 40 jobs waiting.
func (p *played) arrive() {
	waiting, free := 0, 0
	for _, n := range p.cluster.Nodes {
		free += n.Total.GPUs
	}
	for i := range p.cluster.Jobs {
		if j := &p.cluster.Jobs[i]; j.Running == nil {
			waiting++
		} else {
			free -= j.GPUs
		}
	}
	for ; waiting < lastingQueue || free > 0; waiting++ {
		j := p.come[0]
		p.come, free = p.come[1:], free-j.GPUs
		j.Arrival, j.Restart = p.cluster.Now, time.Minute
		j.Length = time.Duration(min(p.draw.ExpFloat64(), 5) * float64(4*time.Hour))
		p.cluster.Jobs = append(p.cluster.Jobs, j)
	}
}

// train carries a plan out for a round, in which who is restarted loses a minute.
func (p *played) train(plan policy.Plan, counts bool) {
	unit, before := policy.Reference(p.cluster.Nodes), slices.Clone(p.cluster.Jobs)
	for i, d := range plan.Decisions {
		j, was := &p.cluster.Jobs[i], before[i].Running
		if j.Running = d.Grant; d.Grant == nil {
			continue
		}
		trains := lastingRound
		switch {
		case was == nil:
			j.Started = p.cluster.Now
		case !was.Equal(*d.Grant):
			j.Started, trains = p.cluster.Now, trains-time.Minute
			j.Restarts++
			if counts {
				p.restarts++
			}
		}
		j.Done += time.Duration(float64(trains) * d.Gain)
		if counts {
			p.trained += trains.Seconds() * d.Gain * policy.Unit(j.Profile, d.Fair, unit) * float64(j.GPUs)
		}
	}
	p.cluster.Now = p.cluster.Now.Add(lastingRound)
	p.cluster.Jobs = slices.DeleteFunc(p.cluster.Jobs, func(j policy.Job) bool {
		over := j.Running != nil && j.Done >= j.Length
		if over && counts {
			p.ended++
		}
		return over
	})
}
