package policy

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

// site plays rounds: jobs arrive, are planned, train for a round and end, so that a snapshot has what rounds leave
// behind, such as sizes that grew in turns, and GPUs that are lent.
type site struct {
	t       testing.TB
	cluster Cluster
	policy  Policy
	alloc   Allocator
	waiting int // the queue that arrivals keep up
	fresh   []Job
	draw    *rand.Rand
}

const playedRound = 5 * time.Minute

// newSite is a full cluster with a queue. Jobs are so long that one or two end in a round.
func newSite(t testing.TB, servers, waiting int, gpus []int, p Policy, a Allocator) *site {
	s := &site{t: t, cluster: paperCluster(servers), policy: p, alloc: a, waiting: waiting,
		draw: rand.New(rand.NewSource(7))}
	s.fresh = mix(t, 8*servers+waiting+2000, 20, 70, gpus)
	for room := 8 * servers; room > 0; room -= s.fresh[0].GPUs {
		s.arrive()
	}
	for range waiting {
		s.arrive()
	}
	for i := range s.cluster.Jobs {
		j := &s.cluster.Jobs[i]
		j.Arrival = epoch.Add(-time.Duration(len(s.cluster.Jobs)-i) * time.Minute)
		j.Done = time.Duration(s.draw.Float64() * float64(j.Length))
	}
	return s
}

// arrive adds a job.
func (s *site) arrive() {
	j := s.fresh[0]
	s.fresh = s.fresh[1:]
	j.Arrival, j.User = s.cluster.Now, []string{"ann", "bob", "cy", "di"}[j.ID%4]
	mean := 1.5 * float64(len(s.cluster.Nodes)*8) * playedRound.Seconds()
	j.Length = time.Minute + time.Duration(min(s.draw.ExpFloat64(), 8)*mean)*time.Second
	s.cluster.Jobs = append(s.cluster.Jobs, j)
}

// play is the snapshots of so many rounds, one after the other.
func (s *site) play(rounds int) []Cluster {
	var seen []Cluster
	for range rounds {
		seen = append(seen, deepCopy(s.cluster))
		plan := Decide(s.cluster, s.policy, s.alloc)
		if err := Check(s.cluster, plan); err != nil {
			s.t.Fatal(err)
		}
		s.train(plan)
		for range min(4, s.waiting-s.queue()) {
			s.arrive()
		}
	}
	return seen
}

func (s *site) queue() int {
	n := 0
	for i := range s.cluster.Jobs {
		if s.cluster.Jobs[i].Running == nil {
			n++
		}
	}
	return n
}

// train carries a plan out and lets a round pass. Who is restarted loses the time that this costs.
func (s *site) train(plan Plan) {
	s.cluster = carriedOut(s.cluster, plan)
	s.cluster.Now = s.cluster.Now.Add(playedRound)
	for i, d := range plan.Decisions {
		j := &s.cluster.Jobs[i]
		if d.Grant == nil {
			continue
		}
		trains := playedRound
		if j.Started.Equal(s.cluster.Now.Add(-playedRound)) {
			trains -= min(j.Restart, playedRound)
		}
		j.Attained += playedRound.Seconds() * float64(j.GPUs)
		j.Done += time.Duration(float64(trains) * d.Gain)
	}
	s.cluster.Jobs = slices.DeleteFunc(s.cluster.Jobs,
		func(j Job) bool { return j.Running != nil && j.Done >= j.Length })
}
