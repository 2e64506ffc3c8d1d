package cluster

import (
	"fmt"
	"strings"
)

// Shape is the syntax of a word that describes a cluster, for help texts.
const Shape = "[TYPE=]SERVERSxGPUS:CORES:GB[:MB/s[:Gb/s]], several joined by +"

// example is the paper's cluster.
const example = "16x8:24:500"

// wordMeasures are the numbers of a group in the order of the word, with their names in errors.
var wordMeasures = []struct{ name, measure string }{
	{"servers", servers}, {"GPUs", gpus}, {"cores", cpus}, {"memory", memoryGB}, {"storage", storageMB},
	{"network", networkGb},
}

// leastNumbers is how many of the numbers are required.
const leastNumbers = 4

// Parse reads a word such as 16x8:24:500: 16 servers with 8 GPUs, 24 cores and 500 GB each. The storage's MB/s and the
// network's Gb/s may follow; their defaults are 500 and 40. Groups of different servers are joined by +, and each may
// begin with its GPU type: a100=8x8:64:1000+v100=16x8:24:500. The error names the group, the number, and what is
// expected.
func Parse(text string) (Cluster, error) {
	var c Cluster
	for i, part := range strings.Split(text, "+") {
		g, err := parseGroup(part)
		if err != nil {
			return Cluster{}, fmt.Errorf("cluster %s: group %d: %w", shown(text), i+1, err)
		}
		c.Groups = append(c.Groups, g)
	}
	if err := c.check(); err != nil {
		return Cluster{}, fmt.Errorf("cluster %s: %w", shown(text), err)
	}
	return c, nil
}

// parseGroup parses one group, with an optional GPU type in front.
func parseGroup(text string) (Group, error) {
	g := Group{Storage: DefaultStorage, Network: DefaultNetwork}
	if kind, rest, said := strings.Cut(text, "="); said {
		if !isWord(kind) {
			return Group{}, fmt.Errorf("GPU type = %s: %w", shown(kind), errWord)
		}
		g.GPUType, text = kind, rest
	}
	numbers, err := splitGroup(text)
	if err != nil {
		return Group{}, err
	}
	for i, number := range numbers {
		m, _ := measureOf(wordMeasures[i].measure)
		if err := m.read(&g, number); err != nil {
			return Group{}, fmt.Errorf("%s = %s: %w", wordMeasures[i].name, shown(number), err)
		}
	}
	return g, nil
}

// splitGroup splits a group into its numbers, in the order of wordMeasures.
func splitGroup(text string) ([]string, error) {
	count, rest, crossed := strings.Cut(text, "x")
	numbers := append([]string{count}, strings.Split(rest, ":")...)
	if !crossed || len(numbers) < leastNumbers || len(numbers) > len(wordMeasures) {
		return nil,
			fmt.Errorf("%s: want SERVERSxGPUS:CORES:GB, as %s, and perhaps :MB/s:Gb/s of storage and network behind",
				shown(text), example)
	}
	return numbers, nil
}

// String returns the word that Parse reads. It does not contain names of servers and features.
func (c Cluster) String() string {
	parts := make([]string, len(c.Groups))
	for i, g := range c.Groups {
		parts[i] = g.String()
	}
	return strings.Join(parts, "+")
}

// String returns the group's part of the cluster's word. A network that is not the default needs the storage before it,
// since numbers have no names in a word.
func (g Group) String() string {
	text := fmt.Sprintf("%dx%d:%d:%s", g.Servers, g.GPUs, g.CPUs, decimal(g.Memory))
	if g.GPUType != "" {
		text = g.GPUType + "=" + text
	}
	if g.Storage != DefaultStorage || g.Network != DefaultNetwork {
		text += ":" + decimal(g.Storage)
	}
	if g.Network != DefaultNetwork {
		text += ":" + decimal(g.Network)
	}
	return text
}
