package slurmrest

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// A node is open where Slurm would start a job on it now: where its scheduler has the node in avail_node_bitmap
// (src/slurmctld/node_mgr.c, power_save.c, proc_req.c of 24.11 and 26.05). Any other word closes the node, a newer
// Slurm's too. Of those that are known:
//
//   - DOWN, DRAIN, FAIL, REBOOT_ISSUED, INVALID_REG, FUTURE: nothing starts before somebody or the node itself does
//     something; a reboot as soon as possible (REBOOT_REQUESTED) is a DRAIN as well.
//   - POWERING_DOWN: nothing starts before SuspendTimeout is over, when the node is POWERED_DOWN.
//   - BLOCKED: a job that asked for whole switches keeps others off.

// open are the base states in which Slurm starts jobs on a node.
var open = []string{"IDLE", "MIXED", "ALLOCATED"}

// harmless are the flags beside which it still does. A node that is POWERED_DOWN is resumed for the job, and one that
// is POWERING_UP takes more jobs while it boots. A node whose reboot was requested takes jobs until it happens to be
// idle. Who may use a node in MAINTENANCE, or RESERVED, is said by the reservation.
var harmless = []string{"COMPLETING", "RESERVED", "MAINTENANCE", "PLANNED", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE",
	"UNDRAIN", "RESUME", "PERFCTRS", "NET", "POWERED_DOWN", "POWERING_UP", "POWER_UP", "REBOOT_REQUESTED",
	"REBOOT_CANCELED"}

// harmlessBeside says of a flag that closes some nodes that it does not close this one.
func harmlessBeside(word string, state []string) bool {
	switch word {
	case "NOT_RESPONDING": // nobody expects one that is off or boots to respond
		return slices.Contains(state, "POWERED_DOWN") || slices.Contains(state, "POWERING_UP")
	case "POWER_DOWN": // it is asked for and waits for the jobs there to end; others may come until then
		return !slices.Contains(state, "IDLE")
	}
	return slices.Contains(harmless, word)
}

// readNode tells a node in the round's words. Memory that is kept for Slurm's own daemons is no job's. Its GPUs in use
// are those that are given away whole and those of which a part is, as far as Slurm tells.
func readNode(node *wire.Node) bridge.Node {
	read := bridge.Node{
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
	// a word beside what others keep there; as a feature it goes wherever the node does
	if slices.Contains(strings.Fields(node.Comment), bridge.Served) &&
		!slices.Contains(read.Features, bridge.Served) {
		read.Features = append(slices.Clone(read.Features), bridge.Served)
	}
	has, err := gres.ParseCounts(node.GRES)
	used, usedErr := gres.ParseCounts(node.GRESUsed)
	if err != nil || usedErr != nil {
		read.Closed = "GRES_NOT_UNDERSTOOD" // nothing is placed where the GPUs cannot be counted
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

// typesOf counts the GPUs of a node by type; nil where all are of one. Of those that are shared Slurm does not say
// which type they are: they are counted for each.
func typesOf(has, used []gres.Count, shared int) (types []bridge.TypedGPUs) {
	of := func(gpuType string, add bool) *bridge.TypedGPUs {
		i := slices.IndexFunc(types, func(t bridge.TypedGPUs) bool { return t.Type == gpuType })
		if i < 0 && !add {
			return nil
		}
		if i < 0 {
			i, types = len(types), append(types, bridge.TypedGPUs{Type: gpuType})
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

// devices are the GPUs of a node one by one, in Slurm's order, where each has a type of its own and shards; nil where a
// single one has not.
func devices(has []gres.Count) []bridge.Device {
	var list []bridge.Device
	for _, c := range has {
		if c.Name != "gpu" {
			continue
		}
		shards := shardsOf(has, c.Type)
		known := slices.ContainsFunc(list, func(d bridge.Device) bool { return d.Type == c.Type })
		if c.Type == "" || c.Count != 1 || shards < 1 || known {
			return nil
		}
		list = append(list, bridge.Device{Type: c.Type, Shards: shards})
	}
	return list
}

// shardsOf is into how many shards the GPUs of a type are divided.
func shardsOf(has []gres.Count, gpuType string) int {
	n := 0
	for _, c := range has {
		if c.Name == "shard" && c.Type == gpuType {
			n += c.Count
		}
	}
	return n
}

// closed joins the words that keep a node from starting anything.
func closed(state []string) string {
	var words []string
	opened := false
	for _, word := range state {
		if slices.Contains(open, word) {
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

// sharing are the GRES by which a GPU is given away in parts. Slurm gives none away whole of which a part is in use.
var sharing = []string{"shard", "mps"}

// sharedGPUs counts the GPUs of which a part is in use.
func sharedGPUs(text string, has, used []gres.Count) int {
	text, gpus := strings.ReplaceAll(text, ":(null)", ""), 0
	for _, name := range sharing {
		inUse, told := partsByDevice(text, name)
		if !told {
			inUse = packed(amount(used, name), amount(has, name), has)
		}
		gpus += inUse
	}
	return gpus
}

// partsByDevice counts the GPUs of which a part is in use, where Slurm tells it by device, as in shard:3(3/4,0/4). Of
// one that is given away whole Slurm 26.05 says -/4 and older ones 0/4; it is counted where GPUs are.
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

// amount is how many of that name there are.
func amount(counts []gres.Count, name string) int {
	n := 0
	for _, c := range counts {
		if c.Name == name {
			n += c.Count
		}
	}
	return n
}

// packed is how many GPUs so many parts fill, at least: where Slurm does not say which are in use they are taken to be
// packed.
func packed(used, all int, has []gres.Count) int {
	gpus, _ := gres.GPUs(has)
	if all == 0 || gpus == 0 {
		return 0
	}
	return (used*gpus + all - 1) / all
}
