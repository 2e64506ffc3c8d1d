package bound_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

var epoch = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func profile(t testing.TB, name string) *sensitivity.Profile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "etc", "profiles", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := sensitivity.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func profiles(t testing.TB, names ...string) (all []*sensitivity.Profile) {
	for _, name := range names {
		all = append(all, profile(t, name))
	}
	return all
}

// Numbers of GPUs in the paper's proportions (Synergy, OSDI'22): one each, or 70/10/15/5 % with 1/2/4/8.
var (
	oneGPU   = []int{1}
	manyGPUs = []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 4, 8}
	fewGPUs  = []int{1, 1, 1, 2, 4}
)

// server is nodes that are alike.
type server struct {
	count int
	total gres.Vector
}

func of(count, gpus, cores, gb int) server {
	return server{count, gres.Vector{GPUs: gpus, CPUs: cores, Memory: gres.Memory(gb) * gres.Gigabyte}}
}

func clusterOf(servers ...server) policy.Cluster {
	c := policy.Cluster{Now: epoch}
	for s, sv := range servers {
		for i := range sv.count {
			c.Nodes = append(c.Nodes, policy.Node{Name: fmt.Sprintf("s%d-n%04d", s, i), Total: sv.total})
		}
	}
	return c
}

// mixed are the paper's proportions of image, language and speech models.
type mixed struct{ image, language int }

// families are the models of each kind: image, language, speech.
type families [3][]*sensitivity.Profile

// ofThePaper are the ten models of Synergy, OSDI'22.
func ofThePaper(t testing.TB) families {
	return families{
		profiles(t, "alexnet", "res18", "res50", "mobilenet", "shufflenet"), profiles(t, "gnmt", "transformer", "lstm"),
		profiles(t, "m5", "deepspeech"),
	}
}

// batch adds waiting jobs of the paper's models for just the GPUs of the cluster.
func batch(t testing.TB, c policy.Cluster, m mixed, gpus []int, seed int64) policy.Cluster {
	return batchOf(ofThePaper(t), c, m, gpus, seed)
}

// batchOf adds waiting jobs of some models for just the GPUs of the cluster.
func batchOf(families families, c policy.Cluster, m mixed, gpus []int, seed int64) policy.Cluster {
	r := rand.New(rand.NewSource(seed))
	room := 0
	for _, n := range c.Nodes {
		room += n.Total.GPUs
	}
	for id := 1; room > 0; id++ {
		family := families[2]
		switch p := r.Intn(100); {
		case p < m.image:
			family = families[0]
		case p < m.image+m.language:
			family = families[1]
		}
		p, n := family[r.Intn(len(family))], gpus[r.Intn(len(gpus))]
		if n <= room {
			c.Jobs = append(c.Jobs, policy.Job{
				ID: id, GPUs: n, Arrival: epoch, Profile: p, ProfileName: p.Model, Saves: true,
				Restart: p.RestartCost(),
			})
			room -= n
		}
	}
	return c
}
