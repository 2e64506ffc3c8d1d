package policy

import (
	"math"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Under a policy of one's own some jobs may give way and others never: what starts on kept nodes must be one of the
// first.
func TestWhoNeverGivesWayIsKeptOffWhatIsKeptForAnother(t *testing.T) {
	share := func(gpus int) gres.Vector {
		return gres.Vector{GPUs: gpus, CPUs: 3 * gpus, Memory: gres.Memory(gpus) * 62500}
	}
	firm := By("firm for prod", func(_ *Cluster, j *Job) float64 { return float64(j.ID) },
		func(_ *Cluster, j *Job) float64 {
			if j.User == "prod" {
				return math.Inf(1)
			}
			return 1
		})
	for _, c := range []struct {
		patient, comer string
		want           Reason
	}{{"dev", "prod", HeldBack}, {"prod", "dev", Starts}, {"prod", "prod", HeldBack}, {"dev", "dev", Starts}} {
		cluster := Cluster{
			Now:   epoch.Add(9 * time.Hour),
			Nodes: []Node{{Name: "n1", Total: share(8)}},
			Jobs: []Job{
				{ID: 1, GPUs: 4, Fixed: true, Running: &Placement{Nodes: []string{"n1"}, PerNode: share(4)}},
				{ID: 2, GPUs: 8, User: c.patient, Arrival: epoch, Saves: true},
				{ID: 3, GPUs: 4, User: c.comer, Arrival: epoch.Add(9 * time.Hour), Saves: true},
			},
		}
		plan := Decide(cluster, firm, Tune())
		if got := plan.Decisions[2]; got.Reason != c.want {
			t.Errorf("what is kept for %s: %s gets %s (%s), want %s", c.patient, c.comer, got.Reason, drawn(got),
				c.want)
		}
	}

	both := Cluster{Now: epoch.Add(9 * time.Hour), Nodes: []Node{{Name: "n1", Total: share(8)}}, Jobs: []Job{
		{ID: 1, GPUs: 4, Fixed: true, Running: &Placement{Nodes: []string{"n1"}, PerNode: share(4)}},
		{ID: 2, GPUs: 8, Arrival: epoch, Saves: true},
		{ID: 3, GPUs: 4, User: "prod", Arrival: epoch.Add(9 * time.Hour), Saves: true},
		{ID: 4, GPUs: 4, User: "dev", Arrival: epoch.Add(9 * time.Hour), Saves: true},
	}}
	if got := Decide(both, firm, Tune()).Decisions[3]; got.Reason != Starts {
		t.Errorf("behind one that never gives way, one that would: %s, want it to start", drawn(got))
	}
}
