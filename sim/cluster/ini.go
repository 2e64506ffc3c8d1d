package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/ini.v1"
)

// The sections of the artifact's file. The artifact parses the second one and never uses it; here it is ignored.
const (
	iniCluster   = "CLUSTER"
	iniScheduler = "SCHEDULER"
)

// iniKeys maps the artifact's keys to measures.
var iniKeys = []struct{ name, measure string }{
	{"servers_per_rack", servers}, {"gpus_per_server", gpus}, {"cpus_per_server", cpus},
	{"dram_per_server", memoryGB}, {"sspeed_per_server", storageMB}, {"net_per_server", networkGb},
}

// iniRacks is the key of a factor for the number of servers.
const iniRacks = "racks"

// iniDefault has the artifact's defaults. Its storage is slower than DefaultStorage.
func iniDefault() Group {
	return Group{Servers: 4, GPUs: 8, CPUs: 24, Memory: 500, Storage: 300, Network: DefaultNetwork}
}

// ReadINI reads the cluster file of the paper's artifact. Defaults are the artifact's: 1 rack, 4 servers, 8 GPUs, 24
// cores, 500 GB, 300 MB/s, 40 Gb/s. Unlike there, several racks multiply the servers, and an unknown or repeated key is
// an error, which names the line, the key, its value and what is expected.
func ReadINI(text []byte) (Cluster, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		InsensitiveKeys:            true, // as in Python's parser
		IgnoreContinuation:         true, // as there: a backslash at the end of a line is a character
		AllowShadows:               true, // so that a repeated key is noticed
		AllowDuplicateShadowValues: true, // also one with the same value
	}, text)
	if err != nil {
		return Cluster{}, iniSyntax(text, err)
	}
	if !file.HasSection(iniCluster) {
		return Cluster{}, fmt.Errorf("no section [%s]: want the cluster file of the paper's artifact", iniCluster)
	}
	racks, g := 1, iniDefault()
	for _, section := range file.Sections() {
		for _, key := range section.Keys() {
			if err := iniRead(section.Name(), key, &racks, &g); err != nil {
				return Cluster{}, fmt.Errorf("%s[%s] %s: %w", iniLine(text, section.Name(), key.Name()),
					shown(section.Name()), shown(key.Name()), err)
			}
		}
	}
	g.Servers *= racks
	return Cluster{[]Group{g}}.checked()
}

// iniRead reads one key into the group or the racks. A repeated or unknown key is an error, since it would be ignored
// otherwise.
func iniRead(section string, key *ini.Key, racks *int, g *Group) error {
	if len(key.ValueWithShadows()) > 1 {
		return errors.New("is there more than once: remove the others")
	}
	measure, known := iniMeasure(section, key.Name(), racks)
	if !known {
		return fmt.Errorf("unknown key: want %s in [%s]", strings.Join(iniNames(), ", "), iniCluster)
	}
	if err := measure.read(g, key.Value()); err != nil {
		return fmt.Errorf("%s: %w", shown(key.Value()), err)
	}
	return nil
}

// iniMeasure returns how a key is read, and false for an unknown key. The scheduler's keys are accepted and ignored, as
// in the artifact. The number of racks is stored in racks instead of the group, which has no field for it.
func iniMeasure(section, name string, racks *int) (measure, bool) {
	switch {
	case section == iniScheduler && (name == "policy" || name == "lease_time"):
		return measure{read: func(*Group, string) error { return nil }}, true
	case section == iniCluster && name == iniRacks:
		return count(iniRacks, maxServers, func(*Group) *int { return racks }), true
	case section == iniCluster:
		if i := slices.Index(iniNames()[1:], name); i >= 0 {
			return measureOf(iniKeys[i].measure)
		}
	}
	return measure{}, false
}

// iniNames lists the keys of the cluster section, racks first.
func iniNames() []string {
	names := []string{iniRacks}
	for _, k := range iniKeys {
		names = append(names, k.name)
	}
	return names
}

// iniLine returns the line of a key, with a colon, for errors, since the parser does not report it. If the key is not
// found in the text, the result is empty, and the error names no line.
func iniLine(text []byte, section, key string) string {
	within := ini.DefaultSection
	for i, line := range strings.Split(string(text), "\n") {
		if name, isSection := strings.CutPrefix(strings.TrimSpace(line), "["); isSection {
			within, _, _ = strings.Cut(name, "]")
		}
		end := strings.IndexAny(line, "=:")
		if end >= 0 && within == section && strings.EqualFold(strings.Trim(line[:end], " \t\"`"), key) {
			return "line " + strconv.Itoa(i+1) + ": "
		}
	}
	return ""
}

// iniSyntax reduces the parser's error to what is useful for the author of the file, with the line if there is one.
func iniSyntax(text []byte, err error) error {
	var bare ini.ErrDelimiterNotFound
	if !errors.As(err, &bare) {
		return fmt.Errorf("%s: want sections in brackets and lines like gpus_per_server = 8",
			shown(strings.TrimSpace(err.Error())))
	}
	// The error has the text of the line, which may also be a part of another one.
	wrong := strings.TrimSpace(bare.Line)
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.TrimSpace(line) == wrong })
	return fmt.Errorf("line %d: %s: want a section in brackets, or a key and a value, as gpus_per_server = 8", at+1,
		shown(wrong))
}
