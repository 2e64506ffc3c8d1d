package policy

import (
	"fmt"
	"math/rand"
	"testing"
	"time"
)

// wideGang is a gang of half a cluster of 16 servers that comes to a full cluster, and a queue that never ends of small
// jobs behind it.
type wideGang struct {
	policy  Policy
	saves   bool // whether those in its place can be asked to leave
	stops   int  // rules.max_preemptions
	longest time.Duration
	seed    int64
}

const gangID = 1

// begin fills the cluster with jobs of one GPU, and submits the gang just before them.
func (g *wideGang) begin(t *testing.T) *site {
	s := &site{t: t, cluster: paperCluster(16), policy: g.policy, alloc: Tune(), draw: rand.New(rand.NewSource(g.seed))}
	s.cluster.Rules = Rules{MinRun: 10 * time.Minute, MaxPreemptions: g.stops}
	for id := 2; id < 2+128; id++ {
		j := g.small(s, id)
		n := s.cluster.Nodes[id%16]
		j.Started, j.Running = epoch, &Placement{Nodes: []string{n.Name}, PerNode: shareSize(nil, &j, 1, n)}
		s.cluster.Jobs = append(s.cluster.Jobs, j)
	}
	gang := Job{ID: gangID, GPUs: 64, Saves: true, Arrival: epoch, Length: time.Hour}
	s.cluster.Jobs = append([]Job{gang}, s.cluster.Jobs...)
	return s
}

func (g *wideGang) small(s *site, id int) Job {
	return Job{
		ID: id, GPUs: 1, Saves: g.saves, Fixed: !g.saves, Arrival: s.cluster.Now, Restart: 30 * time.Second,
		Length: 2*time.Minute + time.Duration(s.draw.Int63n(int64(g.longest))), Profile: paperModel(s.t, "gnmt"),
	}
}

// waits is how long the gang waits until it runs.
func (g *wideGang) waits(t *testing.T, atMost time.Duration) time.Duration {
	s, id := g.begin(t), 1000
	for ; s.cluster.Now.Sub(epoch) <= atMost; id += 40 {
		s.play(1)
		if s.cluster.Jobs[0].ID != gangID || s.cluster.Jobs[0].Running != nil {
			return s.cluster.Now.Sub(epoch) - playedRound
		}
		for k := range max(0, 40-s.queue()) {
			j := g.small(s, id+k)
			j.Saves = g.saves || k%2 == 0 // at least half of those behind it can be asked to leave
			j.Fixed = !j.Saves
			s.cluster.Jobs = append(s.cluster.Jobs, j)
		}
	}
	return atMost + 1
}

// TestAGangThatNeedsMoreVictimsThanARoundMayStopStartsAllTheSame: once it is out of patience, the first of those who
// are, and nobody is left on its nodes who cannot be asked to leave, it starts within min_run, when the last who has
// come meanwhile may be asked, and as many rounds as the rules need for its GPUs.
func TestAGangThatNeedsMoreVictimsThanARoundMayStopStartsAllTheSame(t *testing.T) {
	for _, p := range Policies() {
		if p.Name == Slurm().Name {
			continue // nobody gives way under it
		}
		for _, saves := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s saves=%t", p.Name, saves), func(t *testing.T) {
				g := wideGang{policy: p, saves: saves, stops: 20, longest: 4 * time.Hour, seed: 3}
				bound := DefaultPatience + 10*time.Minute + time.Duration(64/g.stops+3)*playedRound
				if !saves {
					bound += g.longest + DefaultPatience
				}
				if got := g.waits(t, bound); got > bound {
					t.Errorf("waits after %v", bound)
				}
			})
		}
	}
}
