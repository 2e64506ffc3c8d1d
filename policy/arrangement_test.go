package policy

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

const late = `{"version": 1, "model": "late", "task": "image", "gpu_type": "V100", "batch": 1,
	"cores_per_gpu": [1, 3, 12], "memory_per_gpu_mib": [1000], "throughput_samples_per_s": [[100], [100], [300]],
	"checkpoint_s": 1, "start_s": 1}`

// Job 1 wants most and would go to n1, which has most room; but job 2, which has that place, could not run on the one
// core that n2 has left. Both stay where they were seated.
func TestJobsThatCannotChangePlacesKeepTheirs(t *testing.T) {
	p, err := sensitivity.Parse([]byte(late))
	if err != nil {
		t.Fatal(err)
	}
	c := paperCluster(2)
	c.Nodes[0].Foreign.GPUs, c.Nodes[0].Foreign.CPUs = 7, 4
	c.Nodes[1].Foreign.GPUs, c.Nodes[1].Foreign.CPUs = 7, 23
	c.Jobs = []Job{
		{ID: 1, GPUs: 1, Profile: paperModel(t, "res50"), Saves: true, Arrival: epoch},
		{ID: 2, GPUs: 1, Profile: p, Saves: true, Arrival: epoch},
		{ID: 3, GPUs: 1, Saves: true, Arrival: epoch},
	}
	plan := Decide(c, FIFO(), Tune())
	if err := Check(c, plan); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"n0000", "n0001"} {
		if g := plan.Decisions[i].Grant; g == nil || g.Nodes[0] != want {
			t.Errorf("job %d: %+v, want %s", i+1, plan.Decisions[i], want)
		}
	}
}
