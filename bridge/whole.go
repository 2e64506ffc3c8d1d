package bridge

import (
	"cmp"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// An exclusive job (--exclusive) gets whole nodes whatever it asks for: all cores and GPUs of each, and no other job
// beside it. So its size is that of its nodes. A plan chooses when and where it starts; it is never moved, and its
// request stays as its user wrote it.

// unlikeNodes is why an exclusive job is left to Slurm.
const unlikeNodes = "exclusive, and no size of nodes has enough of them: Slurm can give it nodes of several sizes"

// describeWhole makes the planner give an exclusive job whole nodes: it sets size and nodes, and bars a job for which
// no size of nodes has enough of them. It clears what only a job of variable size has (profile, tasks, memory per core,
// Owed). A running job keeps its nodes and counts with the GPUs that it holds.
func (s *sortedObservation) describeWhole(t *managedJob, j *policy.Job) {
	j.GPUs, j.Tasks, j.PerCore, j.Owed = t.gpus(), 1, false, false
	j.Profile, j.ProfileName = nil, ""
	if t.State == slurm.Running {
		return
	}
	names, size := s.wholeNodes(t)
	if len(names) == 0 {
		t.bar = barReason{CauseShape, unlikeNodes}
		return
	}
	j.Nodes = max(1, t.record.Own.Nodes)
	j.GPUs, j.Only = size.GPUs*j.Nodes, names
}

// wholeNodes lists the nodes that a waiting exclusive job may get, ascending, all of one size, so that its number of
// GPUs is fixed. Of several sizes with enough nodes for the job it is the one that most nodes have, and of equally
// frequent ones the smallest. No names: no size has enough nodes. Nodes that are divided into pools (pool.go) are left
// out: a plan could not give all pools of one.
func (s *sortedObservation) wholeNodes(t *managedJob) (names []string, size gres.Vector) {
	in := s.allowedNodes(t)
	if in == nil {
		in = s.topology.names
	}
	bySize := map[gres.Vector][]string{}
	for _, name := range s.usableNodes(t, in) {
		if name == hostOf(name) {
			total := s.topology.total(s.topology.placesOf([]string{name})[0])
			bySize[total] = append(bySize[total], name)
		}
	}
	for total, all := range bySize {
		better := cmp.Or(cmp.Compare(len(all), len(names)), cmp.Compare(size.GPUs, total.GPUs),
			cmp.Compare(size.CPUs, total.CPUs), cmp.Compare(size.Memory, total.Memory)) > 0
		if len(all) >= t.record.Own.Nodes && better {
			names, size = all, total
		}
	}
	return names, size
}

// gpus is how many GPUs a job asks for. For a running exclusive job it is how many it holds, since it was given whole
// nodes.
func (t *managedJob) gpus() int {
	if t.Whole && t.State == slurm.Running {
		return t.Runs.PerNode.GPUs * len(t.Runs.Nodes)
	}
	return t.Request.GPUs
}
