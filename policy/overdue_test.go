package policy

import (
	"math/rand"
	"testing"
	"time"
)

// TestNobodyStarvesUnderOverload: on a cluster to which a third more short jobs come than it can run, long ones that
// came first end under every policy by the time that an eighth of the cluster's GPUs needs for all of them, after
// rules.patience and beside what a run and a round last.
func TestNobodyStarvesUnderOverload(t *testing.T) {
	const long, gpus, length = 6, 16, 2 * time.Hour
	bound := DefaultPatience + long*length/(gpus*overdueShare) + length + 30*time.Minute
	for _, p := range Policies() {
		if p.Name == Slurm().Name {
			continue // the site's priorities are its own
		}
		t.Run(p.Name, func(t *testing.T) {
			s := &site{t: t, cluster: paperCluster(2), policy: p, alloc: Tune(), draw: rand.New(rand.NewSource(5))}
			s.cluster.Rules = Rules{MinRun: 10 * time.Minute, MaxPreemptions: 20}
			for id := 1; id <= long; id++ {
				s.submit(id, length)
			}
			left := long
			for id := 1000; left > 0; id += 11 {
				if s.cluster.Now.Sub(epoch) > bound {
					t.Fatalf("%d of %d long jobs have not ended after %v", left, long, bound)
				}
				for k := range 11 { // of ten minutes each: 22 GPUs' worth
					s.submit(id+k, 10*time.Minute)
				}
				s.play(1)
				left = 0
				for i := range s.cluster.Jobs {
					if s.cluster.Jobs[i].ID <= long {
						left++
					}
				}
			}
			t.Logf("all ended after %v, at most %v", s.cluster.Now.Sub(epoch), bound)
		})
	}
}

// submit adds a job of one GPU, which saves.
func (s *site) submit(id int, length time.Duration) {
	p := paperModel(s.t, "gnmt")
	s.cluster.Jobs = append(s.cluster.Jobs, Job{
		ID: id, GPUs: 1, User: []string{"ann", "bob"}[asInt(length > time.Hour)], Saves: true, Arrival: s.cluster.Now,
		Length:  length,
		Restart: 30 * time.Second, Profile: p, ProfileName: p.Model,
	})
}
