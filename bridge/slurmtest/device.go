package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A GPU with a type of its own is given away whole or in shards, as slurmctld does it: one of which a shard is in use
// is closed to those who want it whole, and the reverse. A job gets one shard of one GPU, the one that it names.

// device is the index of the GPU of that type; -1: the node has none that is told apart by it.
func (n *node) device(gpuType string) int {
	return slices.IndexFunc(n.fixed.Devices, func(d bridge.Device) bool { return gpuType != "" && d.Type == gpuType })
}

// hasRoom says whether so much is free here for the job.
func (n *node) hasRoom(j *job, perNode gres.Vector) bool {
	if j.request.Shard != "" {
		d := n.device(j.request.Shard)
		perNode.GPUs = 0 // of the GPU a part, which is counted on its own
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

// idle says that nobody uses a GPU, whole or in part.
func (n *node) idle(d int) bool { return n.gpus[d] == 0 && (d >= len(n.seats) || len(n.seats[d]) == 0) }

// seat gives the job a shard of the GPU that it has named.
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

// shardsHeld is how Slurm prints the shard that a job has of a GPU: shard:1(0/4,1/4).
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

// printed is how Slurm prints the GPUs of a job on a node.
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

// printedByType is how Slurm prints them on a node with several types: those of a type that the job named alone, or
// else those of each, such as gpu:a100:1(IDX:0),gpu:t4:0(IDX:).
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

// shardOf makes a request one for a shard, in the words in which Slurm then prints it.
func shardOf(r *bridge.Request) {
	r.GRES, r.GPUType = gres.Count{Name: "shard", Type: r.Shard, Count: 1}.String(), ""
}

// sharable refuses a shard to a job that does not ask for one GPU by node: Slurm takes no second way to ask for them,
// nor amounts that follow GPUs of which there are none.
func sharable(j *job, wants bridge.Request) error {
	switch {
	case wants.Shard == "":
		return nil
	case j.own.GRES == "" || j.own.GPUs != 1 || wants.GPUs != 1 || wants.Nodes != 1:
		return fmt.Errorf("%w: a shard for a job with %d GPUs, %q, on %d nodes: invalid generic resource specification",
			bridge.ErrRefused, j.own.GPUs, j.own.GRES, wants.Nodes)
	case j.own.CPUsPerGPU+int(j.own.MemoryPerGPU) > 0:
		return fmt.Errorf("%w: a shard for a job with amounts by GPU: invalid generic resource specification",
			bridge.ErrRefused)
	}
	return nil
}

// crowd has the jobs that run on the GPU of a job go on at the speed at which they run together now. Those that save do
// no more work, whoever comes.
func crowd(s *Slurm, j *job) {
	if j.run.seen.Shard == "" || s.options.Together == nil {
		return
	}
	n := j.run.nodes[0]
	for _, mate := range n.seats[n.device(j.run.seen.Shard)] {
		if mate == j || mate.state != bridge.Running || mate.configuring || !mate.saves.IsZero() {
			continue
		}
		mate.progress(s.clock.Now())
		mate.run.rate = rate(s, mate)
		mate.life++ // the end that was planned is void
		s.planEnd(mate)
	}
}

// rate is how fast a job makes progress: by its size, and by who runs on its GPU beside it.
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
		if mate == j || mate.state == bridge.Running {
			there = append(there, mate.id)
		}
	}
	slices.Sort(there)
	return alone * s.options.Together(j.id, there)
}
