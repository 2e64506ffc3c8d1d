package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Node is what jobs can use of a node.
type Node struct {
	Name       string
	Total      gres.Vector
	GPUType    string // empty if the site has no types or the node has several
	Partitions []string
}

// Nodes returns all nodes with GPUs that Slurm shows this user.
func Nodes(ctx context.Context) ([]Node, error) {
	said, err := program(ctx, os.Environ(), "scontrol", "--oneliner", "show", "node")
	if err != nil {
		return nil, fmt.Errorf("scontrol show node: %w", said.errorOr(err))
	}
	var all []Node
	for line := range strings.Lines(said.output) {
		n, err := parseNode(line)
		if err != nil {
			return nil, fmt.Errorf("scontrol show node: %w", err)
		}
		if n.Total.GPUs > 0 {
			all = append(all, n)
		}
	}
	return all, nil
}

// parseNode parses a record of scontrol. Cores and memory that are reserved for the system are left out. An older Slurm
// has no CPUEfctv.
func parseNode(line string) (n Node, err error) {
	n.Name = field(line, "NodeName")
	counts, err := gres.ParseCounts(field(line, "Gres"))
	if err != nil {
		return n, fmt.Errorf("node %.64q: %w", n.Name, err)
	}
	n.Total.GPUs, n.GPUType = gres.GPUs(counts)
	cpus, memory, system := amount(line, "CPUEfctv"), amount(line, "RealMemory"), amount(line, "MemSpecLimit")
	n.Total.CPUs, n.Total.Memory = cmp.Or(cpus, amount(line, "CPUTot")), gres.Memory(max(0, memory-system))
	n.Partitions = strings.Split(field(line, "Partitions"), ",")
	if n.Total.GPUs > 0 && (n.Total.CPUs < 1 || n.Total.Memory < 1) {
		return n, fmt.Errorf("node %.64q has %d CPUs and %d MB: want some of both", n.Name, n.Total.CPUs,
			n.Total.Memory)
	}
	return n, nil
}

// beyond is more than any amount of a node.
const beyond = 1 << 40

// amount returns a number of the record; 0 if it is missing or not plausible.
func amount(line, name string) int {
	n, err := strconv.Atoi(field(line, name))
	if err != nil || n < 0 || n > beyond {
		return 0
	}
	return n
}

// DefaultPartition returns the partition of a job that names none.
func DefaultPartition(ctx context.Context) (string, error) {
	if named := os.Getenv("SBATCH_PARTITION"); named != "" {
		return named, nil
	}
	said, err := program(ctx, os.Environ(), "scontrol", "--oneliner", "show", "partition")
	if err != nil {
		return "", fmt.Errorf("scontrol show partition: %w", said.errorOr(err))
	}
	for line := range strings.Lines(said.output) {
		if field(line, "Default") == "YES" {
			return field(line, "PartitionName"), nil
		}
	}
	return "", nil
}

// Shape is a kind of node: all nodes with the same resources and GPU type.
type Shape struct {
	Total   gres.Vector
	GPUType string
	Names   []string
}

// Shapes returns the kinds of nodes on which a job with this many GPUs can run, the most frequent first. partitions is
// one or several, with commas; empty: all. A node without types, or with several, may have GPUs of the wanted one and
// is included.
func Shapes(nodes []Node, partitions, gpuType string, gpus int) (all []Shape) {
	for _, n := range nodes {
		if n.Total.GPUs < gpus || gpuType != "" && n.GPUType != "" && n.GPUType != gpuType || !n.in(partitions) {
			continue
		}
		at := slices.IndexFunc(all, func(s Shape) bool { return s.Total == n.Total && s.GPUType == n.GPUType })
		if at < 0 {
			at, all = len(all), append(all, Shape{Total: n.Total, GPUType: n.GPUType})
		}
		all[at].Names = append(all[at].Names, n.Name)
	}
	slices.SortStableFunc(all, func(a, b Shape) int { return cmp.Compare(len(b.Names), len(a.Names)) })
	return all
}

func (n Node) in(partitions string) bool {
	if partitions == "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(partitions, ","),
		func(p string) bool { return slices.Contains(n.Partitions, p) })
}
