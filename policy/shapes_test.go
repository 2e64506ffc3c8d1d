package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// uneven draws a tame snapshot on servers of which some have more cores for each GPU than others.
func uneven(t *rapid.T, profiles []*sensitivity.Profile) Cluster {
	c := Cluster{Now: epoch, Rules: Rules{Patience: 1000 * time.Hour}}
	for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprintf("n%d", i), Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}}
		n.Total.CPUs = rapid.SampledFrom([]int{16, 24, 64, 128}).Draw(t, "cores")
		c.Nodes = append(c.Nodes, n)
	}
	free := freeOn(c.Nodes)
	for id := range rapid.IntRange(1, 20).Draw(t, "jobs") {
		j := tameJob(t, id+1, profiles)
		if rapid.IntRange(0, 3).Draw(t, "runs") > 0 {
			run(t, &j, c.Nodes, free, fineSize)
		}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

// TestNobodyIsRestartedForAGainThatIsALoss: whoever restarts or moves to be faster is faster, in samples a second, and
// by as much as it is told, however large the shares of the servers are that it comes from and goes to.
func TestNobodyIsRestartedForAGainThatIsALoss(t *testing.T) {
	profiles := paperModels(t)
	rapid.Check(t, func(t *rapid.T) {
		c := uneven(t, profiles)
		for j, d := range decided(c, Decide(c, FIFO(), Tune())) {
			if d.Reason != Grows {
				continue
			}
			was, is := j.Profile.Rate(sensitivity.ShareOf(j.Running.PerNode)),
				j.Profile.Rate(sensitivity.ShareOf(d.Grant.PerNode))
			said := 0.0
			fmt.Sscanf(d.Why[strings.Index(d.Why, "train"):], "train %f× as fast", &said)
			if is <= was || math.Abs(said-is/was) > 0.00501 {
				t.Fatalf("job %d %s, and goes from %g to %g samples a second\n%s", j.ID, d.Why, was, is, sketch(c))
			}
		}
	})
}
