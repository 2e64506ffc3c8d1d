package policy

import (
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// long is a cluster in the long run: who is restarted, and who ends.
type long struct {
	t               testing.TB
	cluster         Cluster
	planner         Planner
	come            []Job
	draw            *rand.Rand
	restarts, ended int
}

func newLong(t testing.TB, image, language int, gpus []int, memory gres.Memory) *long {
	l := &long{t: t, cluster: paperCluster(16), come: mix(t, 6000, image, language, gpus),
		draw: rand.New(rand.NewSource(11))}
	for i := range l.cluster.Nodes {
		l.cluster.Nodes[i].Total.Memory = memory
	}
	l.cluster.Rules = Rules{Patience: 1000 * time.Hour}
	return l
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
			l.restarts += boolToInt(counts)
		}
		j.Done += time.Duration(float64(trains) * d.Gain)
	}
	l.cluster.Jobs = slices.DeleteFunc(l.cluster.Jobs, func(j Job) bool {
		over := j.Running != nil && j.Done >= j.Length
		l.ended += boolToInt(over && counts)
		return over
	})
}
