package policy

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// BenchmarkSustained plays a day of rounds on 16 full servers with 40 jobs waiting, and reports in % how much of the pooled bound of each round is
// trained, restarts taken off, and how often a job is restarted. Run it with -benchtime 1x.
func BenchmarkSustained(b *testing.B) {
	for _, mixed := range []struct {
		image, language int
		gpus            []int
		memory          gres.Memory // GB on a server
	}{
		{33, 34, oneGPU, 500}, {33, 34, manyGPUs, 500}, {60, 30, oneGPU, 500}, {60, 30, manyGPUs, 500}, {20, 70, oneGPU, 300}, {33, 34, manyGPUs, 300},
	} {
		speech := 100 - mixed.image - mixed.language
		name := fmt.Sprintf("%d-%d-%d/%d-gpus/%d-GB", mixed.image, mixed.language, speech, slices.Max(mixed.gpus), mixed.memory)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l := newLong(b, mixed.image, mixed.language, mixed.gpus, mixed.memory*gres.Gigabyte)
				l.play(288)
				b.ReportMetric(100*l.trained/l.bound, "%configurations")
				b.ReportMetric(100*l.trained/l.pooled, "%pooled")
				b.ReportMetric(float64(l.restarts)/float64(l.ended), "restarts/job")
			}
		})
	}
}

// long is a cluster in the long run: what its jobs have trained, and what they could have at most.
type long struct {
	t               testing.TB
	cluster         Cluster
	planner         Planner
	come            []Job
	draw            *rand.Rand
	trained         float64 // GPU-seconds at the proportional speed
	bound, pooled   float64 // of that
	restarts, ended int
}

func newLong(t testing.TB, image, language int, gpus []int, memory gres.Memory) *long {
	l := &long{t: t, cluster: paperCluster(16), come: mix(t, 6000, image, language, gpus), draw: rand.New(rand.NewSource(11))}
	for i := range l.cluster.Nodes {
		l.cluster.Nodes[i].Total.Memory = memory
	}
	l.cluster.Rules = Rules{Patience: 1000 * time.Hour}
	return l
}

// play holds so many rounds of five minutes; the first third of them, in which the cluster fills, does not count.
func (l *long) play(rounds int) {
	for round := range rounds {
		l.arrive()
		plan := l.planner.Decide(l.cluster, FIFO(), Tune())
		if err := Check(l.cluster, plan); err != nil {
			l.t.Fatal(err)
		}
		counts := round >= rounds/3
		if counts {
			l.bound += configured(l.running(plan)) * playedRound.Seconds()
			l.pooled += bound(l.running(plan)) * playedRound.Seconds()
		}
		l.train(plan, counts)
	}
}

// arrive keeps 40 jobs waiting.
func (l *long) arrive() {
	waiting, held := 0, 0
	for i := range l.cluster.Jobs {
		if j := &l.cluster.Jobs[i]; j.Running == nil {
			waiting++
		} else {
			held += j.GPUs
		}
	}
	for gpus := 8*len(l.cluster.Nodes) - held; waiting < 40 || gpus > 0; waiting++ {
		j := l.come[0]
		l.come, gpus = l.come[1:], gpus-j.GPUs
		j.Arrival, j.Restart = l.cluster.Now, time.Minute
		j.Length = time.Duration(min(l.draw.ExpFloat64(), 5) * float64(4*time.Hour))
		l.cluster.Jobs = append(l.cluster.Jobs, j)
	}
}

// running is the cluster with the jobs alone that a plan grants something.
func (l *long) running(plan Plan) Cluster {
	c := l.cluster
	c.Jobs = nil
	for j, d := range decided(l.cluster, plan) {
		if d.Grant != nil {
			c.Jobs = append(c.Jobs, *j)
		}
	}
	return c
}

// train carries a plan out for a round, in which who is restarted loses a minute.
func (l *long) train(plan Plan, counts bool) {
	before := l.cluster
	l.cluster = carriedOut(before, plan)
	l.cluster.Now = l.cluster.Now.Add(playedRound)
	for i, d := range plan.Decisions {
		j, trains := &l.cluster.Jobs[i], playedRound
		if d.Grant == nil {
			continue
		}
		if was := &before.Jobs[i]; was.Running != nil && !unchanged(was, d) {
			trains -= time.Minute
			l.restarts += asInt(counts)
		}
		j.Done += time.Duration(float64(trains) * d.Gain)
		if counts {
			l.trained += trains.Seconds() * d.Gain * float64(j.GPUs)
		}
	}
	l.cluster.Jobs = slices.DeleteFunc(l.cluster.Jobs, func(j Job) bool {
		over := j.Running != nil && j.Done >= j.Length
		l.ended += asInt(over && counts)
		return over
	})
}
