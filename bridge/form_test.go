package bridge

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// requestOf generates what users ask for, as Slurm shows it.
func requestOf(t *rapid.T) slurm.Request {
	q := slurm.Request{Nodes: rapid.IntRange(1, 3).Draw(t, "nodes"), CPUsPerTask: 1}
	if rapid.Bool().Draw(t, "cores for a task") {
		q.CPUsPerTask = rapid.IntRange(1, 8).Draw(t, "cpus per task")
	}
	q.Tasks, q.GPUs = q.Nodes*rapid.IntRange(1, 4).Draw(t, "tasks on a node"), q.Nodes
	q.CPUs, q.CPUsPerNode = q.Tasks*q.CPUsPerTask, q.CPUsPerTask
	if rapid.Bool().Draw(t, "least of a node") {
		q.CPUsPerNode = q.Tasks/q.Nodes*q.CPUsPerTask + rapid.IntRange(0, 4).Draw(t, "more on a node")
	}
	amount := gres.Memory(rapid.IntRange(1, 90000).Draw(t, "memory"))
	switch rapid.SampledFrom([]string{"node", "core", "gpu", "nobody"}).Draw(t, "memory by") {
	case "node":
		q.Memory = amount
	case "core":
		q.MemoryPerCPU = amount
	case "gpu":
		q.MemoryPerGPU = amount
	}
	if rapid.Bool().Draw(t, "cores follow the GPUs") {
		q.CPUsPerGPU = rapid.IntRange(1, 8).Draw(t, "cpus per gpu")
	}
	return q
}

// TestAGrantIsWrittenInTheFormInWhichTheUserSpoke: whatever is asked and granted. What is written comes to what was
// granted, and says nothing that the user did not say.
func TestAGrantIsWrittenInTheFormInWhichTheUserSpoke(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := &Record{Own: requestOf(t)}
		own := &rec.Own
		tasks, most := own.TasksPerNode(), own.CPUsPerTask == 1 && own.CPUsPerNode > own.TasksPerNode()
		g := gres.Vector{GPUs: 1, CPUs: tasks * rapid.IntRange(1, 24).Draw(t, "cores of a task"),
			Memory: gres.Memory(rapid.IntRange(1000, 500000).Draw(t, "granted memory"))}
		if rec.hasMemoryPerCore() {
			g.Memory -= g.Memory % gres.Memory(g.CPUs)
		}
		got := resizedRequest(rec, own.Nodes, g)

		switch {
		case got.Tasks != own.Tasks || got.CPUsPerGPU != own.CPUsPerGPU || got.MemoryPerGPU != own.MemoryPerGPU:
			t.Fatalf("written %+v: tasks and what follows the GPUs are the user's", got)
		case own.MemoryPerCPU > 0 && (got.Memory > 0 || got.MemoryPerCPU == 0),
			own.Memory > 0 && (got.MemoryPerCPU > 0 || got.Memory == 0),
			own.MemoryPerGPU > 0 && (got.Memory > 0 || got.MemoryPerCPU > 0):
			t.Fatalf("memory in another form: %+v of %+v", got, *own)
		case most && own.CPUsPerGPU == 0 && got.CPUsPerTask != 1:
			t.Fatalf("a task has %d cores, and its user named the least of a node alone", got.CPUsPerTask)
		}
		has := got.PerNode()
		if own.CPUsPerGPU == 0 && has.CPUs != g.CPUs {
			t.Fatalf("written %+v are %d cores on a node, granted %d", got, has.CPUs, g.CPUs)
		}
		if own.MemoryPerGPU == 0 && own.CPUsPerGPU == 0 && has.Memory != g.Memory {
			t.Fatalf("written %+v are %s on a node, granted %s", got, has.Memory, g.Memory)
		}
	})
}

func TestAllTheMemoryOfANodeIsNotTurnedIntoANumber(t *testing.T) {
	rec := &Record{Own: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, GPUs: 1},
		Explicit: Explicit{Told: true, Memory: true}}
	got := resizedRequest(rec, 1, gres.Vector{GPUs: 1, CPUs: 9, Memory: 500000})
	if got.Memory != 0 || got.MemoryPerCPU != 0 || got.CPUsPerTask != 9 {
		t.Errorf("written %+v, want no amount of memory, and 9 cores", got)
	}
}

// TestAForeignPlanComesInWholeMiBForEachCore: as far as the floor allows, and never where a job goes on as it is.
func TestAForeignPlanComesInWholeMiBForEachCore(t *testing.T) {
	running := policy.Placement{Nodes: []string{"n1"}, PerNode: gres.Vector{GPUs: 1, CPUs: 9, Memory: 62500}}
	c := policy.Cluster{Jobs: []policy.Job{{ID: 1, PerCore: true}, {ID: 2}, {ID: 3, PerCore: true, Running: &running},
		{ID: 4, PerCore: true, Floor: gres.Vector{Memory: 62500}}}}
	var plan policy.Plan
	for _, j := range append(c.Jobs, policy.Job{ID: 9}) {
		g := running
		plan.Decisions = append(plan.Decisions, policy.Decision{Job: j.ID, Grant: &g})
	}
	roundMemoryPerCore(&c, plan)
	for i, want := range []gres.Memory{62496, 62500, 62500, 62500, 62500} {
		if got := plan.Decisions[i].Grant.PerNode.Memory; got != want {
			t.Errorf("job %d is granted %d MiB, want %d", plan.Decisions[i].Job, got, want)
		}
	}
}
