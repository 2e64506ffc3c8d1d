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

// device is the index of the GPU of that type; -1: the node has no such device.
func (n *node) device(gpuType string) int {
	return slices.IndexFunc(n.fixed.Devices, func(d slurm.Device) bool { return gpuType != "" && d.Type == gpuType })
}

// hasRoom reports whether the node has that much free for the job.
func (n *node) hasRoom(j *job, perNode gres.Vector) bool {
	if j.request.Shard != "" {
		d := n.device(j.request.Shard)
		perNode.GPUs = 0 // a part of a GPU, which is counted separately
		return d >= 0 && n.gpus[d] == 0 && len(n.seats[d]) < n.fixed.Devices[d].Shards && perNode.Fits(n.free())
	}
	if d := n.device(j.request.GPUType); d >= 0 && !n.idle(d) {
		return false
	}
	if len(n.fixed.Types) > 0 && n.countGPUs(j.request.GPUType) < perNode.GPUs {
		return false
	}
	return perNode.Fits(n.free())
}

// idle reports whether a GPU is unused, whole and in part.
func (n *node) idle(d int) bool { return n.gpus[d] == 0 && (d >= len(n.seats) || len(n.seats[d]) == 0) }

// seat allocates a shard of the GPU that the job names.
func (n *node) seat(j *job) []int {
	d := n.device(j.run.seen.Shard)
	if len(n.seats[d]) == 0 {
		n.allocated.GPUs++
	}
	n.seats[d] = append(n.seats[d], j)
	return []int{d}
}

// unseat is the reverse of seat.
func (n *node) unseat(j *job) {
	d := n.device(j.run.seen.Shard)
	n.seats[d] = slices.DeleteFunc(n.seats[d], func(other *job) bool { return other == j })
	if len(n.seats[d]) == 0 {
		n.allocated.GPUs--
	}
}

// shardsHeld is a job's shard in Slurm's notation: shard:1(0/4,1/4).
func (n *node) shardsHeld(d int) string {
	parts := make([]string, len(n.fixed.Devices))
	for i, device := range n.fixed.Devices {
		parts[i] = fmt.Sprintf("%d/%d", count(i == d), device.Shards)
	}
	return "shard:1(" + strings.Join(parts, ",") + ")"
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// printed is a job's GPUs on a node in Slurm's notation.
func (n *node) printed(j *job, given []int) string {
	if j.run.seen.Shard != "" {
		return n.shardsHeld(given[0])
	}
	if len(n.fixed.Types) > 0 {
		return n.printedByType(j, given)
	}
	if len(n.fixed.Devices) == 0 {
		return notation(n.fixed.GPUType, given)
	}
	terms := make([]string, len(n.fixed.Devices))
	for d, device := range n.fixed.Devices {
		index := ""
		if slices.Contains(given, d) {
			index = fmt.Sprint(d)
		}
		terms[d] = fmt.Sprintf("gpu:%s:%d(IDX:%s)", device.Type, count(index != ""), index)
	}
	return strings.Join(terms, ",")
}

// printedByType is that for a node with several types: the type that the job named, or else each type, such as
// gpu:a100:1(IDX:0),gpu:t4:0(IDX:).
func (n *node) printedByType(j *job, given []int) string {
	var terms []string
	for i, t := range n.fixed.Types {
		if j.request.GPUType != "" && j.request.GPUType != t.Type {
			continue
		}
		terms = append(terms, notation(t.Type, slices.DeleteFunc(slices.Clone(given),
			func(d int) bool { return n.typeOf(d) != i })))
	}
	return strings.Join(terms, ",")
}

// shardOf sets GRES and GPUType of a request for a shard, as Slurm prints them.
func shardOf(r *slurm.Request) {
	r.GRES, r.GPUType = gres.Count{Name: "shard", Type: r.Shard, Count: 1}.String(), ""
}

// sharable refuses a shard for a job that does not ask for one GPU per node: Slurm accepts neither a second way of
// asking for GPUs nor amounts per GPU without GPUs.
func sharable(j *job, wants slurm.Request) error {
	switch {
	case wants.Shard == "":
		return nil
	case j.own.GRES == "" || j.own.GPUs != 1 || wants.GPUs != 1 || wants.Nodes != 1:
		return fmt.Errorf("%w: a shard for a job with %d GPUs, %q, on %d nodes: invalid generic resource specification",
			slurm.ErrRefused, j.own.GPUs, j.own.GRES, wants.Nodes)
	case j.own.CPUsPerGPU+int(j.own.MemoryPerGPU) > 0:
		return fmt.Errorf("%w: a shard for a job with amounts by GPU: invalid generic resource specification",
			slurm.ErrRefused)
	}
	return nil
}

// crowd updates the speed of the jobs that share the GPU of job j. Jobs that are saving make no progress anyway.
func crowd(s *Slurm, j *job) {
	if j.run.seen.Shard == "" || s.options.Together == nil {
		return
	}
	n := j.run.nodes[0]
	for _, mate := range n.seats[n.device(j.run.seen.Shard)] {
		if mate == j || mate.state != slurm.Running || mate.configuring || !mate.saves.IsZero() {
			continue
		}
		mate.progress(s.clock.Now())
		mate.run.rate = rate(s, mate)
		mate.generation++ // voids the planned end
		s.planEnd(mate)
	}
}

// rate is the speed of a job, by its size and by the jobs that share its GPU.
func rate(s *Slurm, j *job) float64 {
	alone := 1.0
	if j.spec.Work.Rate != nil {
		alone = j.spec.Work.Rate(j.run.seen)
	}
	if j.run.seen.Shard == "" || s.options.Together == nil {
		return alone
	}
	n := j.run.nodes[0]
	var there []int
	for _, mate := range n.seats[n.device(j.run.seen.Shard)] {
		if mate == j || mate.state == slurm.Running {
			there = append(there, mate.id)
		}
	}
	slices.Sort(there)
	return alone * s.options.Together(j.id, there)
}
