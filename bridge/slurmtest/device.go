package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A GPU with a type of its own is allocated whole or in shards, as by slurmctld: while a shard is in use the GPU is not
// available whole, and the reverse. A job gets one shard of the one GPU that it names.

// deviceIndex is the index of the GPU that has this type for itself; -1 if the node has no such GPU, or for an empty
// type.
func (n *node) deviceIndex(gpuType string) int {
	return slices.IndexFunc(n.fixed.Devices, func(d slurm.Device) bool { return gpuType != "" && d.Type == gpuType })
}

// hasRoom reports whether the node has perNode free for the job, and the right GPUs: a shard of the GPU that it names,
// the single GPU whose own type it names, or enough GPUs of its type.
func (n *node) hasRoom(j *job, perNode gres.Vector) bool {
	if j.request.Shard != "" {
		d := n.deviceIndex(j.request.Shard)
		perNode.GPUs = 0 // a part of a GPU, which is counted separately
		return d >= 0 && n.gpus[d] == 0 && len(n.sharers[d]) < n.fixed.Devices[d].Shards && perNode.Fits(n.freeAmount())
	}
	if d := n.deviceIndex(j.request.GPUType); d >= 0 && !n.isIdle(d) {
		return false
	}
	if len(n.fixed.Types) > 0 && n.countGPUs(j.request.GPUType) < perNode.GPUs {
		return false
	}
	return perNode.Fits(n.freeAmount())
}

// isIdle reports whether no job has GPU d, whole or a shard of it.
func (n *node) isIdle(d int) bool {
	return n.gpus[d] == 0 && (d >= len(n.sharers) || len(n.sharers[d]) == 0)
}

// allocateShard allocates to the job a shard of the GPU that it names, and returns that GPU's index. From its first
// shard to its last the GPU counts as allocated in the node's GPUs.
func (n *node) allocateShard(j *job) []int {
	d := n.deviceIndex(j.run.asObserved.Shard)
	if len(n.sharers[d]) == 0 {
		n.allocated.GPUs++
	}
	n.sharers[d] = append(n.sharers[d], j)
	return []int{d}
}

// freeShard frees the job's shard; with the last one the GPU is no longer allocated.
func (n *node) freeShard(j *job) {
	d := n.deviceIndex(j.run.asObserved.Shard)
	n.sharers[d] = slices.DeleteFunc(n.sharers[d], func(other *job) bool { return other == j })
	if len(n.sharers[d]) == 0 {
		n.allocated.GPUs--
	}
}

// shardText is how Slurm prints one shard of GPU d: for each GPU the shards held and the shards it has, such as
// shard:1(0/4,1/4).
func (n *node) shardText(d int) string {
	parts := make([]string, len(n.fixed.Devices))
	for i, device := range n.fixed.Devices {
		parts[i] = fmt.Sprintf("%d/%d", oneIf(i == d), device.Shards)
	}
	return "shard:1(" + strings.Join(parts, ",") + ")"
}

// oneIf is 1 for true and 0 for false, to add up conditions.
func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// gpuText is how Slurm prints the GPUs that the job holds on the node, whose indices are given; adapters parse that
// text, so it has to be the same here.
func (n *node) gpuText(j *job, given []int) string {
	if j.run.asObserved.Shard != "" {
		return n.shardText(given[0])
	}
	if len(n.fixed.Types) > 0 {
		return n.gpuTextByType(j, given)
	}
	if len(n.fixed.Devices) == 0 {
		return gpuNotation(n.fixed.GPUType, given)
	}
	terms := make([]string, len(n.fixed.Devices))
	for d, device := range n.fixed.Devices {
		index := ""
		if slices.Contains(given, d) {
			index = fmt.Sprint(d)
		}
		terms[d] = fmt.Sprintf("gpu:%s:%d(IDX:%s)", device.Type, oneIf(index != ""), index)
	}
	return strings.Join(terms, ",")
}

// gpuTextByType is what Slurm prints on a node with several types of GPUs: the type that the job named, or else every
// type, also those of which it has none, such as gpu:a100:1(IDX:0),gpu:t4:0(IDX:).
func (n *node) gpuTextByType(j *job, given []int) string {
	var terms []string
	for i, t := range n.fixed.Types {
		if j.request.GPUType != "" && j.request.GPUType != t.Type {
			continue
		}
		terms = append(terms, gpuNotation(t.Type, slices.DeleteFunc(slices.Clone(given),
			func(d int) bool { return n.typeOf(d) != i })))
	}
	return strings.Join(terms, ",")
}

// setShardFields sets GRES and GPUType of a request for a shard, as Slurm prints them.
func setShardFields(r *slurm.Request) {
	r.GRES, r.GPUType = gres.Count{Name: "shard", Type: r.Shard, Count: 1}.String(), ""
}

// checkShard refuses an update to a shard, unless the job was submitted with one GPU on one node and without amounts
// per GPU: Slurm accepts neither a second way of asking for GPUs nor amounts per GPU without GPUs.
func checkShard(j *job, wants slurm.Request) error {
	switch {
	case wants.Shard == "":
		return nil
	case j.userRequest.GRES == "" || j.userRequest.GPUs != 1 || wants.GPUs != 1 || wants.Nodes != 1:
		return fmt.Errorf("%w: a shard for a job with %d GPUs, %q, on %d nodes: invalid generic resource specification",
			slurm.ErrRefused, j.userRequest.GPUs, j.userRequest.GRES, wants.Nodes)
	case j.userRequest.CPUsPerGPU+int(j.userRequest.MemoryPerGPU) > 0:
		return fmt.Errorf("%w: a shard for a job with amounts by GPU: invalid generic resource specification",
			slurm.ErrRefused)
	}
	return nil
}

// updateSharers is called when j starts or leaves: the other jobs on its shared GPU now run at another speed, so their
// ends are planned anew. Jobs that are saving make no progress and are left out, as are all if Options.Together is nil.
func updateSharers(s *Slurm, j *job) {
	if j.run.asObserved.Shard == "" || s.options.Together == nil {
		return
	}
	n := j.run.nodes[0]
	for _, mate := range n.sharers[n.deviceIndex(j.run.asObserved.Shard)] {
		if mate == j || mate.state != slurm.Running || mate.configuring || !mate.saveEnd.IsZero() {
			continue
		}
		mate.progress(s.clock.Now())
		mate.run.rate = jobRate(s, mate)
		mate.generation++ // voids the planned end
		s.planEnd(mate)
	}
}

// jobRate is the running job's progress per second: Work.Rate for its size, times the part of that speed that the other
// jobs on its shared GPU leave to it.
func jobRate(s *Slurm, j *job) float64 {
	alone := 1.0
	if j.spec.Work.Rate != nil {
		alone = j.spec.Work.Rate(j.run.asObserved)
	}
	if j.run.asObserved.Shard == "" || s.options.Together == nil {
		return alone
	}
	n := j.run.nodes[0]
	var there []int
	for _, mate := range n.sharers[n.deviceIndex(j.run.asObserved.Shard)] {
		if mate == j || mate.state == slurm.Running {
			there = append(there, mate.id)
		}
	}
	slices.Sort(there)
	return alone * s.options.Together(j.id, there)
}
