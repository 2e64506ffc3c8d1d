package slurmrest

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A node is open if Slurm would start a job on it now, which is if its scheduler has it in avail_node_bitmap
// (src/slurmctld/node_mgr.c, power_save.c, proc_req.c of 24.11 and 26.05). Any other word closes the node, also an
// unknown word of a newer Slurm. Of the known ones:
//
//   - DOWN, DRAIN, FAIL, REBOOT_ISSUED, INVALID_REG, FUTURE: nothing starts before an administrator or the node acts;
//     a reboot as soon as possible (REBOOT_REQUESTED) is a DRAIN as well.
//   - POWERING_DOWN: nothing starts until SuspendTimeout is over and the node is POWERED_DOWN.
//   - BLOCKED: a job that asked for whole switches keeps others off.

// openStates are the base states in which Slurm starts jobs on a node.
var openStates = []string{"IDLE", "MIXED", "ALLOCATED"}

// openFlags are the flags with which it still does. A POWERED_DOWN node is resumed for the job, and a POWERING_UP node
// takes more jobs while it boots. A node with a requested reboot takes jobs until it happens to be idle. Who may use a
// MAINTENANCE or RESERVED node is decided by the reservation.
var openFlags = []string{"COMPLETING", "RESERVED", "MAINTENANCE", "PLANNED", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE",
	"UNDRAIN", "RESUME", "PERFCTRS", "NET", "POWERED_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_REQUESTED",
	"REBOOT_CANCELED"}

// harmlessBeside reports whether a flag of a node with this state still lets Slurm start jobs there.
func harmlessBeside(word string, state []string) bool {
	switch word {
	case "NOT_RESPONDING": // no response is expected of a node that is off or boots
		return slices.Contains(state, "POWERED_DOWN") || slices.Contains(state, "POWERING_UP")
	case "POWER_DOWN": // requested, and waiting for the node's jobs to end; others may start until then
		return !slices.Contains(state, "IDLE")
	}
	return slices.Contains(openFlags, word)
}

// readNode converts a node from the API. Memory reserved for Slurm's daemons is subtracted. GPUs in use are those
// allocated whole and those of which a part is in use, as far as Slurm shows it.
func readNode(node *wire.Node) slurm.Node {
	read := slurm.Node{
		Name:       node.Name,
		Features:   node.Features,
		Partitions: node.Partitions,
		Total: gres.Vector{
			CPUs:   node.CPUs,
			Memory: gres.Memory(node.Memory - node.Specialized),
		},
		Allocated:  gres.Vector{CPUs: node.AllocatedCPUs, Memory: gres.Memory(node.AllocatedMB)},
		Completing: slices.Contains(node.State, "COMPLETING"),
		Closed:     closed(node.State),
	}
	// The broker's word in the node's comment counts as a feature. Other words in the comment are not ours.
	if slices.Contains(strings.Fields(node.Comment), bridge.Served) &&
		!slices.Contains(read.Features, bridge.Served) {
		read.Features = append(slices.Clone(read.Features), bridge.Served)
	}
	has, err := gres.ParseCounts(node.GRES)
	used, usedErr := gres.ParseCounts(node.GRESUsed)
	if err != nil || usedErr != nil {
		read.Closed = "GRES_NOT_UNDERSTOOD" // nothing is placed where GPUs cannot be counted
		return read
	}
	read.Total.GPUs, read.GPUType = gres.GPUs(has)
	read.Devices = devices(has)
	whole, _ := gres.GPUs(used)
	shared := sharedGPUs(node.GRESUsed, has, used)
	read.Allocated.GPUs = min(read.Total.GPUs, whole+shared)
	if len(read.Devices) == 0 {
		read.Types = typesOf(has, used, shared)
	}
	return read
}

// typesOf counts the GPUs of a node by type; nil if all have the same type. Slurm does not show the type of shared
// GPUs, so they are counted for each type.
func typesOf(has, used []gres.Count, shared int) (types []slurm.TypedGPUs) {
	of := func(gpuType string, add bool) *slurm.TypedGPUs {
		i := slices.IndexFunc(types, func(t slurm.TypedGPUs) bool { return t.Type == gpuType })
		if i < 0 && !add {
			return nil
		}
		if i < 0 {
			i, types = len(types), append(types, slurm.TypedGPUs{Type: gpuType})
		}
		return &types[i]
	}
	for _, c := range has {
		if c.Name == "gpu" && c.Count > 0 {
			of(c.Type, true).Total += c.Count
		}
	}
	if len(types) < 2 {
		return nil
	}
	for _, c := range used {
		if t := of(c.Type, false); c.Name == "gpu" && t != nil {
			t.Allocated += c.Count
		}
	}
	for i := range types {
		types[i].Allocated = min(types[i].Total, types[i].Allocated+shared)
	}
	return types
}

// devices lists the GPUs of a node one by one, in Slurm's order, if each has a type of its own and shards. Nil: they do
// not, so no job can be sent to a single one and none is shared.
func devices(has []gres.Count) []slurm.Device {
	var list []slurm.Device
	for _, c := range has {
		if c.Name != "gpu" {
			continue
		}
		shards := shardsOf(has, c.Type)
		known := slices.ContainsFunc(list, func(d slurm.Device) bool { return d.Type == c.Type })
		if c.Type == "" || c.Count != 1 || shards < 1 || known {
			return nil
		}
		list = append(list, slurm.Device{Type: c.Type, Shards: shards})
	}
	return list
}

// shardsOf is the number of shards of the GPUs of a type.
func shardsOf(has []gres.Count, gpuType string) int {
	n := 0
	for _, c := range has {
		if c.Name == "shard" && c.Type == gpuType {
			n += c.Count
		}
	}
	return n
}

// closed is why Slurm starts no job on a node with this state: the words that close it, joined; empty if it is open.
func closed(state []string) string {
	var words []string
	opened := false
	for _, word := range state {
		if slices.Contains(openStates, word) {
			opened = true
		} else if !harmlessBeside(word, state) {
			words = append(words, word)
		}
	}
	if !opened && len(words) == 0 {
		return "UNKNOWN"
	}
	return strings.Join(words, "+")
}

// partGRES are the GRES for parts of a GPU. Slurm allocates no GPU whole while a part of it is in use.
var partGRES = []string{"shard", "mps"}

// sharedGPUs counts the GPUs of which a part is in use. For parts without a type Slurm prints shard:(null):3; the
// (null) is dropped, so that the number follows the name. Where it does not show which GPUs they are on, they count as
// packed on as few as possible.
func sharedGPUs(text string, has, used []gres.Count) int {
	text, gpus := strings.ReplaceAll(text, ":(null)", ""), 0
	for _, name := range partGRES {
		inUse, told := partsByDevice(text, name)
		if !told {
			inUse = packed(amount(used, name), amount(has, name), has)
		}
		gpus += inUse
	}
	return gpus
}

// partsByDevice counts the GPUs of which a part is in use, from shard:3(3/4,0/4); told is false if Slurm does not show
// it by device. For a GPU that is allocated whole Slurm 26.05 shows -/4 and older versions show 0/4; it is counted
// elsewhere, with the GPUs that are allocated whole.
func partsByDevice(text, name string) (gpus int, told bool) {
	for {
		_, rest, found := strings.Cut(text, name+":")
		if !found {
			return gpus, told
		}
		devices, tail, _ := strings.Cut(rest, ")")
		_, devices, _ = strings.Cut(devices, "(")
		for _, device := range strings.Split(devices, ",") {
			inUse, _, byDevice := strings.Cut(device, "/")
			told = told || byDevice
			if byDevice && inUse != "0" && inUse != "-" {
				gpus++
			}
		}
		text = tail
	}
}

// amount is the sum of the counts with that name.
func amount(counts []gres.Count, name string) int {
	n := 0
	for _, c := range counts {
		if c.Name == name {
			n += c.Count
		}
	}
	return n
}

// packed is the least number of GPUs on which used of the node's parts fit, of which there are all. It is for when
// Slurm does not show which GPUs are in use.
func packed(used, all int, has []gres.Count) int {
	gpus, _ := gres.GPUs(has)
	if all == 0 || gpus == 0 {
		return 0
	}
	return (used*gpus + all - 1) / all
}
