package policy

import (
	"fmt"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// More unlike servers than take part in a repack at once, jobs that are bound to half of them, and the servers of the
// first jobs left out: each stand still knows which classes may use it.
func TestWhenServersAreLeftOutOfARepackEachClassKeepsItsOwn(t *testing.T) {
	profiles := paperModels(t)
	c := Cluster{Now: epoch}
	for i := range maxServerGroups + 6 {
		feature, gpus := "a", 8
		if i < 6 {
			feature, gpus = "b", 2 // with the fewest GPUs, so these are left out
		}
		c.Nodes = append(c.Nodes, Node{Name: fmt.Sprintf("n%02d", i), Features: []string{feature},
			Total: gres.Vector{GPUs: gpus, CPUs: 3*gpus + i%5, Memory: gres.Memory(500+40*i) * gres.Gigabyte}})
		for k := range gpus {
			c.Jobs = append(c.Jobs, Job{ID: len(c.Jobs) + 1, GPUs: 1, Arrival: epoch, Features: []string{feature},
				Profile: profiles[(i+k)%len(profiles)], Saves: true})
		}
	}
	var pl Planner
	b := pl.boardFor(&c, FIFO(), Tune())
	for _, i := range b.order {
		scheduleJob(b, i)
	}
	r := repack{board: b}
	if !r.gatherJobs() || !r.classifyJobs() || !r.limitGroups() {
		t.Fatal("nothing is repacked")
	}
	if len(r.serverGroups) != maxServerGroups {
		t.Fatalf("%d stands", len(r.serverGroups))
	}
	for s := range r.serverGroups {
		for k := range r.classes {
			ground := r.classes[k].startSetAt
			may := r.startSets[ground].eligible.servers.has(r.serverGroups[s].servers[0])
			if marked := r.serverGroups[s].startSetMask&(1<<ground) != 0; marked != may {
				t.Errorf("class %d on %s: %t, want %t", k, c.Nodes[r.serverGroups[s].servers[0]].Name, marked, may)
			}
		}
	}
}
