package gres

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what one expression may expand to; the largest Slurm clusters have tens of thousands of nodes.
const maxHosts = 1 << 16

// ParseHosts expands Slurm's node list notation, e.g. n[1-3,07],login → n1 n2 n3 n07 login. One bracket a name is understood,
// as slurmctld prints for every cluster with a single numbering; order is kept. Errors name the part.
func ParseHosts(text string) ([]string, error) {
	if text == "" || text == "(null)" || text == "None assigned" {
		return nil, nil
	}
	var hosts []string
	for _, part := range splitHosts(text) {
		expanded, err := expandHost(part, maxHosts-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("node list %q: %w", text, err)
		}
		hosts = append(hosts, expanded...)
	}
	return hosts, nil
}

func splitHosts(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i, r := range text {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	return append(parts, text[start:])
}

func expandHost(part string, room int) ([]string, error) {
	prefix, rest, bracket := strings.Cut(part, "[")
	if part == "" || strings.ContainsAny(prefix, "] \t\n") {
		return nil, fmt.Errorf("%q is no node name", part)
	}
	if !bracket {
		return []string{part}, nil
	}
	ranges, suffix, closed := strings.Cut(rest, "]")
	if !closed || strings.ContainsAny(suffix, "[]") {
		return nil, fmt.Errorf("%q: want one closed bracket", part)
	}
	var hosts []string
	for _, item := range strings.Split(ranges, ",") {
		numbers, err := expandRange(item, room-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		for _, number := range numbers {
			hosts = append(hosts, prefix+number+suffix)
		}
	}
	return hosts, nil
}

// expandRange expands 07-10 to 07 08 09 10: the width of the first number is the width of all.
func expandRange(item string, room int) ([]string, error) {
	low, high, isRange := strings.Cut(item, "-")
	if !isRange {
		high = low
	}
	first, err := strconv.ParseUint(low, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("number %q: want digits", low)
	}
	last, err := strconv.ParseUint(high, 10, 31)
	if err != nil || last < first {
		return nil, fmt.Errorf("range %q: want low-high", item)
	}
	if last-first >= uint64(max(room, 0)) {
		return nil, fmt.Errorf("range %q: more than %d nodes", item, maxHosts)
	}
	numbers := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(low), n))
	}
	return numbers, nil
}
