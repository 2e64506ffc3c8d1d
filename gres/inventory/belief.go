package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Belief is what slurmctld knows about one node.
type Belief struct {
	Node   string
	GPUs   []Term
	Shards int
	States []string // IDLE, DRAIN, INVALID_REG, …
	Reason string   // why the node was drained or set down, if so
}

// Term is a number of GPUs that Slurm does not distinguish.
type Term struct {
	Type    string // empty if the site has no types
	Count   int
	Sockets Set // whose cores may use them; empty: all
}

// answer is the part of scontrol --json show node that is used here. The field gres and its notation have been the same
// since Slurm has JSON output.
type answer struct {
	Nodes []struct {
		Name   string   `json:"name"`
		Gres   string   `json:"gres"`
		States []string `json:"state"`
		Reason string   `json:"reason"`
	} `json:"nodes"`
	Errors []struct {
		Text        string `json:"error"`
		Description string `json:"description"`
	} `json:"errors"`
}

// ParseBelief parses the output of scontrol --json show node for the node with this name. The first error that scontrol
// reports is returned.
func ParseBelief(text []byte, node string) (Belief, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return Belief{}, fmt.Errorf("scontrol's answer: %w", err)
	}
	for _, e := range a.Errors {
		return Belief{}, fmt.Errorf("scontrol's answer: %s", Printable(e.Text+" "+e.Description))
	}
	for _, n := range a.Nodes {
		if n.Name != node {
			continue
		}
		b := Belief{Node: node, Reason: Printable(n.Reason)}
		for _, state := range n.States {
			b.States = append(b.States, Printable(state))
		}
		return b, b.count(n.Gres)
	}
	return Belief{}, fmt.Errorf("scontrol's answer has no node %s: --node says what Slurm calls it", node)
}

// count parses the node's GRES.
func (b *Belief) count(text string) error {
	counts, err := gres.ParseCounts(text)
	if err != nil {
		return fmt.Errorf("node %s: %w", b.Node, err)
	}
	for _, c := range counts {
		switch c.Name {
		case "shard":
			b.Shards += c.Count
		case "gpu":
			sockets, err := ParseSet(c.Sockets)
			if err != nil {
				return fmt.Errorf("node %s: gres %q: sockets: %w", b.Node, text, err)
			}
			b.GPUs = append(b.GPUs, Term{c.Type, c.Count, sockets})
		}
	}
	return nil
}

// Record is one device of gres.conf as slurmd on the node reads it.
type Record struct {
	Name  string // gpu, shard
	Type  string
	Count int
	Files []string // one device file, or the files of a MIG device; none if only a number is configured
	Cores Set      // empty if all cores may use it
}

// maxRecords bounds the records of one node.
const maxRecords = 4 * maxGPUs * maxParts

// record matches a line of slurmd -G, after a possible log prefix: Gres Name=gpu Type=a100 Count=1 Index=0 ID=7
// File=/dev/nvidia0 Cores=0-11 …
var record = regexp.MustCompile(`(?m)\bGres Name=.*$`)

// ParseRecords parses the output of slurmd -G, which is the node's gres.conf as slurmd understands it. Other lines are
// skipped. If there are no records the list is empty and not nil, since that is also an answer of slurmd.
func ParseRecords(text []byte) ([]Record, error) {
	all := []Record{}
	for _, line := range record.FindAllString(string(text), maxRecords) {
		r, err := parseRecord(line)
		if err != nil {
			return nil, fmt.Errorf("slurmd -G: line %.160q: %w", line, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRecord parses a line of key=value words. Slurm writes (null) where there is no value.
func parseRecord(line string) (Record, error) {
	values := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		if key, value, is := strings.Cut(Printable(word), "="); is && value != "(null)" {
			values[key] = value
		}
	}
	count, err := strconv.ParseUint(values["Count"], 10, 31)
	if err != nil {
		return Record{}, fmt.Errorf("its Count=%s: want a number", values["Count"])
	}
	cores, err := ParseSet(values["Cores"])
	if err != nil {
		return Record{}, fmt.Errorf("its Cores=: %w", err)
	}
	if values["Name"] == "" {
		return Record{}, errors.New("want a Name=")
	}
	r := Record{Name: values["Name"], Type: values["Type"], Count: int(count), Cores: cores}
	if f := values["File"]; f != "" {
		r.Files = slices.Collect(strings.SplitSeq(f, ","))
	}
	return r, nil
}

// minor returns the number of the record's device file; a MIG device and a record without a file have none.
func (r Record) minor() (int, bool) {
	if len(r.Files) != 1 {
		return 0, false
	}
	digits, is := strings.CutPrefix(r.Files[0], "/dev/nvidia")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), is && err == nil
}
