package policy

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Numbers of GPUs in the paper's proportions (Synergy, OSDI'22): one each, or 70/10/15/5 % with 1/2/4/8.
var (
	oneGPU   = []int{1}
	manyGPUs = []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 4, 8}
)

// mix draws waiting jobs that save: so many percent image and language models, the rest speech.
func mix(t testing.TB, jobs, image, language int, gpus []int) []Job {
	families := [][]*sensitivity.Profile{
		models(t, "alexnet", "res18", "res50", "mobilenet", "shufflenet"), models(t, "gnmt", "transformer", "lstm"),
		models(t, "m5", "deepspeech"),
	}
	r := rand.New(rand.NewSource(42))
	var all []Job
	for id := 1; id <= jobs; id++ {
		family := families[2]
		switch p := r.Intn(100); {
		case p < image:
			family = families[0]
		case p < image+language:
			family = families[1]
		}
		p := family[r.Intn(len(family))]
		all = append(all, Job{
			ID: id, GPUs: gpus[r.Intn(len(gpus))], Arrival: epoch,
			Profile: p, ProfileName: p.Model, Saves: true, Restart: p.RestartCost(),
		})
	}
	return all
}

func models(t testing.TB, names ...string) []*sensitivity.Profile {
	var all []*sensitivity.Profile
	for _, name := range names {
		all = append(all, paperModel(t, name))
	}
	return all
}

// paperCluster has so many of the paper's servers.
func paperCluster(servers int) Cluster {
	c := Cluster{Now: epoch}
	for i := range servers {
		c.Nodes = append(c.Nodes, Node{Name: fmt.Sprintf("n%04d", i), Total: shapes[0].Total})
	}
	return c
}

// full is a cluster with a batch of jobs for just its GPUs.
func full(t testing.TB, servers, image, language int, gpus []int) Cluster {
	c := paperCluster(servers)
	room := 8 * servers
	for _, j := range mix(t, room, image, language, gpus) {
		if j.GPUs <= room {
			c.Jobs, room = append(c.Jobs, j), room-j.GPUs
		}
	}
	return c
}
