package slurmrest

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// open are the base states in which Slurm starts jobs on a node.
var open = []string{"IDLE", "MIXED", "ALLOCATED"}

// harmless are the flags beside which it still does. Any other word closes the node: a newer Slurm's too.
var harmless = []string{"COMPLETING", "PLANNED", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "UNDRAIN", "RESUME", "PERFCTRS", "NET"}

func readNode(node *v0042.Node) bridge.Node {
	read := bridge.Node{
		Name:       node.Name,
		Features:   node.ActiveFeatures,
		Partitions: node.Partitions,
		Total: gres.Vector{
			CPUs:   int(node.EffectiveCpus),
			Memory: gres.Memory(node.RealMemory - node.SpecializedMemory),
		},
		Allocated:  gres.Vector{CPUs: int(node.AllocCpus), Memory: gres.Memory(node.AllocMemory)},
		Completing: slices.Contains(node.State, "COMPLETING"),
		Closed:     closed(node.State),
	}
	has, err := gres.ParseCounts(node.Gres)
	used, usedErr := gres.ParseCounts(node.GresUsed)
	if err != nil || usedErr != nil {
		read.Closed = "GRES_NOT_UNDERSTOOD" // nothing is placed where the GPUs cannot be counted
		return read
	}
	read.Total.GPUs, read.GPUType = gres.GPUs(has)
	whole, _ := gres.GPUs(used)
	read.Allocated.GPUs = min(read.Total.GPUs, whole+sharedGPUs(node.GresUsed, has, used))
	return read
}

// closed joins the words that keep a node from starting anything.
func closed(state []string) string {
	var words []string
	opened := false
	for _, word := range state {
		if slices.Contains(open, word) {
			opened = true
		} else if !slices.Contains(harmless, word) {
			words = append(words, word)
		}
	}
	if !opened && len(words) == 0 {
		return "UNKNOWN"
	}
	return strings.Join(words, "+")
}

// sharedGPUs counts the GPUs of which a shard is in use: Slurm gives none of them away whole. It tells the shards in use by
// device, as in shard:3(3/4,0/4); where it does not, they are taken to be packed.
func sharedGPUs(text string, has, used []gres.Count) int {
	text = strings.ReplaceAll(text, ":(null)", "")
	gpus, told := 0, false
	for {
		_, rest, found := strings.Cut(text, "shard:")
		if !found {
			break
		}
		devices, tail, _ := strings.Cut(rest, ")")
		_, devices, _ = strings.Cut(devices, "(")
		for _, device := range strings.Split(devices, ",") {
			inUse, _, byDevice := strings.Cut(device, "/")
			told = told || byDevice
			if byDevice && inUse != "0" {
				gpus++
			}
		}
		text = tail
	}
	if told {
		return gpus
	}
	return packed(shards(used), shards(has), has)
}

func shards(counts []gres.Count) int {
	n := 0
	for _, c := range counts {
		if c.Name == "shard" {
			n += c.Count
		}
	}
	return n
}

// packed is how many GPUs so many shards fill, at least.
func packed(used, all int, has []gres.Count) int {
	gpus, _ := gres.GPUs(has)
	if all == 0 || gpus == 0 {
		return 0
	}
	return (used*gpus + all - 1) / all
}
