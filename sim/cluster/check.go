package cluster

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Bounds of valid values. Nothing that exists comes near them, and many values in a wrong unit exceed them.
const (
	maxServers = 1_000_000
	maxGPUs    = 1024
	maxCPUs    = 10_000
	maxMemory  = 32_768     // GB
	maxStorage = 10_000_000 // MB/s
	maxNetwork = 100_000    // Gb/s
	maxWord    = 40         // bytes of a name
	maxGroups  = 1000
)

// measure is a number of a group of servers, with how to read and print it.
type measure struct {
	name string
	read func(g *Group, text string) error // the error says what is expected
	text func(g Group) string
}

// The names of the measures in YAML.
const (
	servers   = "servers"
	gpus      = "gpus"
	cpus      = "cpus"
	memoryGB  = "memory_gb"
	storageMB = "storage_mb_s"
	networkGb = "network_gb_s"
)

// measures lists the numbers of a group. Each format reads and prints them by these, so that all have the same bounds
// and errors.
func measures() []measure {
	return []measure{
		count(servers, maxServers, func(g *Group) *int { return &g.Servers }),
		count(gpus, maxGPUs, func(g *Group) *int { return &g.GPUs }),
		count(cpus, maxCPUs, func(g *Group) *int { return &g.CPUs }),
		amount(memoryGB, maxMemory, "GB, not MiB", func(g *Group) *float64 { return &g.Memory }),
		amount(storageMB, maxStorage, "MB/s", func(g *Group) *float64 { return &g.Storage }),
		amount(networkGb, maxNetwork, "Gb/s", func(g *Group) *float64 { return &g.Network }),
	}
}

// count makes a measure of a whole number from 1 to most, which is stored where of says.
func count(name string, most int, of func(g *Group) *int) measure {
	read := func(g *Group, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("want a whole number from 1 to %d", most)
		}
		*of(g) = n
		return nil
	}
	return measure{name, read, func(g Group) string { return strconv.Itoa(*of(&g)) }}
}

// amount makes a measure of a decimal number from 1 to most in this unit, which is stored where of says.
func amount(name string, most float64, unit string, of func(g *Group) *float64) measure {
	read := func(g *Group, text string) error {
		x, err := strconv.ParseFloat(text, 64)
		plain := strings.Trim(text, "0123456789.") == ""
		if err != nil || !plain || x < 1 || x > most {
			return fmt.Errorf("want a number from 1 to %.0f %s", most, unit)
		}
		*of(g) = x
		return nil
	}
	return measure{name, read, func(g Group) string { return decimal(*of(&g)) }}
}

// decimal is the shortest text that parses to x again.
func decimal(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// measureOf returns the measure with this name, and false if there is none.
func measureOf(name string) (measure, bool) {
	for _, m := range measures() {
		if m.name == name {
			return m, true
		}
	}
	return measure{}, false
}

// Check returns an error for an impossible value in a cluster that a program has built. Clusters read by this package
// are already checked.
func (c Cluster) Check() error {
	if err := c.check(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// check returns an error for the first impossible value; readers put the name of the cluster before it.
func (c Cluster) check() error {
	if len(c.Groups) == 0 {
		return errors.New("no group of servers: want one at least")
	}
	if len(c.Groups) > maxGroups {
		return fmt.Errorf("%d groups of servers: want at most %d", len(c.Groups), maxGroups)
	}
	total := 0
	for i, g := range c.Groups {
		if err := g.check(); err != nil {
			return fmt.Errorf("group %d: %w", i+1, err)
		}
		total += g.Servers
	}
	if total > maxServers {
		return fmt.Errorf("%d servers in all: want at most %d", total, maxServers)
	}
	return nil
}

// checked returns c if it is valid, and otherwise an error.
func (c Cluster) checked() (Cluster, error) {
	if err := c.check(); err != nil {
		return Cluster{}, err
	}
	return c, nil
}

// check prints and reads back each number, since reading refuses impossible values; it reads into its own copy of the
// group. Names may be empty.
func (g Group) check() error {
	for _, m := range measures() {
		text := m.text(g)
		if err := m.read(&g, text); err != nil {
			return fmt.Errorf("%s = %s: %w", m.name, text, err)
		}
	}
	for _, word := range append([]string{g.Name, g.GPUType}, g.Features...) {
		if word != "" && !isWord(word) {
			return fmt.Errorf("name %s: %w", shown(word), errWord)
		}
	}
	return nil
}

var errWord = fmt.Errorf("want a letter, then letters, digits and . _ -, %d at most", maxWord)

// isWord says whether text is a valid name of servers, a GPU type or a feature.
func isWord(text string) bool {
	for i, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789._-", r)) {
			return false
		}
	}
	return text != "" && len(text) <= maxWord
}

// shown formats a piece of a description for an error: shortened and printable.
func shown(text string) string { return printable.Quote(text, maxWord) }
