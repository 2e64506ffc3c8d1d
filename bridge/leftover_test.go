package bridge

import (
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// TestWhatAJobIsOwedOfLeftoversIsNeverMoreThanItMayHave: beside a job with nearly all cores of the node, a job with an
// exact number of cores (srun -c 4 in an salloc) has those, and one that asked for less than its share what is left.
func TestWhatAJobIsOwedOfLeftoversIsNeverMoreThanItMayHave(t *testing.T) {
	total := gres.Vector{GPUs: 8, CPUs: 96, Memory: 800}
	large := gres.Vector{GPUs: 1, CPUs: 88, Memory: 100}
	c := policy.Cluster{Nodes: []policy.Node{{Name: "n1", Total: total}},
		Jobs: []policy.Job{{ID: 1, GPUs: 1, Floor: large,
			Running: &policy.Placement{Nodes: []string{"n1"}, PerNode: large}}}}
	nodes := nodeLeftovers(&c)
	asked := gres.Vector{GPUs: 1, CPUs: 4}
	exact := policy.Job{ID: 2, GPUs: 1, Floor: gres.Vector{CPUs: 4}, Ceiling: gres.Vector{CPUs: 4}}
	if ceiling, found := leftoverCeiling(&c, nodes, &exact, asked); found {
		t.Errorf("with exactly 4 cores: it is owed %v", ceiling)
	}
	free := policy.Job{ID: 3, GPUs: 1}
	if ceiling, found := leftoverCeiling(&c, nodes, &free, asked); !found || ceiling.CPUs != 8 {
		t.Errorf("otherwise: %v, %v, want the 8 cores that are left", ceiling, found)
	}
}

// TestASharedGPUIsNotIdle beside a job with more than its share, however many jobs are on it.
func TestASharedGPUIsNotIdle(t *testing.T) {
	large := gres.Vector{GPUs: 1, CPUs: 20, Memory: 100}
	on := func(id int, size gres.Vector, device string) policy.Job {
		return policy.Job{ID: id, GPUs: 1, Floor: size,
			Running: &policy.Placement{Nodes: []string{"n1"}, PerNode: size, Device: device}}
	}
	small := gres.Vector{GPUs: 1, CPUs: 1, Memory: 10}
	c := policy.Cluster{Nodes: []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 2, CPUs: 24, Memory: 800}}},
		Jobs: []policy.Job{on(1, large, ""), on(2, small, "g1"), on(3, small, "g1")}}
	n := nodeLeftovers(&c)["n1"]
	if n.idleGPUs != 0 || n.freeable.CPUs != 2 || n.freeable.Memory != 680 {
		t.Errorf("%d GPUs are idle, and %v left, want none, and 2 cores", n.idleGPUs, n.freeable)
	}
}

// TestASharedGPUIsTakenOnceInTheLedgerOfSavings of an 8-GPU node with two jobs on one of them.
func TestASharedGPUIsTakenOnceInTheLedgerOfSavings(t *testing.T) {
	r := &activeRound{}
	r.report.Snapshot.Nodes = []policy.Node{{Name: "n1", Total: gres.Vector{GPUs: 8, CPUs: 96, Memory: 800}}}
	for id := 1; id <= 2; id++ {
		r.observation.managed = append(r.observation.managed, &managedJob{nodePlaces: []int{0}, Job: &slurm.Job{ID: id,
			State: slurm.Running, Runs: slurm.Allocated{Nodes: []string{"n1"}, Shard: "g1",
				PerNode: gres.Vector{GPUs: 1, CPUs: 4, Memory: 50}}}})
	}
	if free := savingsPlaces(r)[0].Free; free != (gres.Vector{GPUs: 7, CPUs: 88, Memory: 700}) {
		t.Errorf("%v are free, want 7 GPUs", free)
	}
}
