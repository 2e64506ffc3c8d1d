package gres

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds how many names one expression may give; the largest Slurm clusters have tens of thousands of nodes.
const maxHosts = 1 << 16

// maxDigits and maxBrackets bound the length of a name, so that the result stays small in bytes, too.
const (
	maxDigits   = 18
	maxBrackets = 4
)

// ParseHosts expands Slurm's node list notation, e.g. n[1-3,07],login → n1 n2 n3 n07 login. A name may have several
// brackets, as used for racks; the rightmost varies fastest. Order and duplicates are kept. Errors name the part.
func ParseHosts(text string) ([]string, error) {
	if text == "" || text == "(null)" || text == "None assigned" {
		return nil, nil
	}
	var hosts []string
	for _, part := range splitHosts(text) {
		if strings.Count(part, "[") > maxBrackets {
			return nil, fmt.Errorf("node list %q: %q: more than %d brackets", text, part, maxBrackets)
		}
		names, err := expandHost(part, maxHosts-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("node list %q: %q: %w", text, part, err)
		}
		hosts = append(hosts, names...)
	}
	return hosts, nil
}

// splitHosts splits at commas outside of brackets.
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

// expandHost returns the names that part stands for, at most room: the text before its first bracket, with each number
// in the bracket, with each expansion of the text after it. Each of these is joined with each number, so there may be
// room/len(numbers) of them.
func expandHost(part string, room int) ([]string, error) {
	prefix, rest, bracket := strings.Cut(part, "[")
	if !bracket {
		return plainHost(part, room)
	}
	if prefix != "" && !isWord(prefix) {
		return nil, fmt.Errorf("%q cannot start a node name", prefix)
	}
	ranges, suffix, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("want each bracket closed")
	}
	numbers, err := expandRanges(ranges, room)
	if err != nil || suffix == "" {
		return join([]string{prefix}, numbers), err
	}
	tails, err := expandHost(suffix, room/len(numbers))
	return join(join([]string{prefix}, numbers), tails), err
}

// plainHost returns a name without brackets, if there is room for one more.
func plainHost(name string, room int) ([]string, error) {
	if !isWord(name) {
		return nil, fmt.Errorf("%q cannot be in a node name", name)
	}
	if room < 1 {
		return nil, fmt.Errorf("more than %d nodes", maxHosts)
	}
	return []string{name}, nil
}

// join appends each tail to each head.
func join(heads, tails []string) []string {
	joined := make([]string, 0, len(heads)*len(tails))
	for _, head := range heads {
		for _, tail := range tails {
			joined = append(joined, head+tail)
		}
	}
	return joined
}

// expandRanges expands the content of a bracket, such as 1-3,07.
func expandRanges(ranges string, room int) ([]string, error) {
	var all []string
	for item := range strings.SplitSeq(ranges, ",") {
		numbers, err := expandRange(item, room-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, numbers...)
	}
	return all, nil
}

// expandRange expands 07-10 to 07 08 09 10: the width of the first number applies to all.
func expandRange(item string, room int) ([]string, error) {
	low, high, isRange := strings.Cut(item, "-")
	if !isRange {
		high = low
	}
	first, err := hostNumber(low)
	if err != nil {
		return nil, err
	}
	last, err := hostNumber(high)
	if err != nil {
		return nil, err
	}
	if last < first {
		return nil, fmt.Errorf("range %q: want low-high", item)
	}
	if last-first >= max(room, 0) {
		return nil, fmt.Errorf("range %q: more than %d nodes", item, maxHosts)
	}
	numbers := make([]string, 0, last-first+1)
	for n := first; n <= last; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(low), n))
	}
	return numbers, nil
}

// hostNumber parses a number of a bracket, which may have leading zeros, up to 31 bits.
func hostNumber(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || len(text) > maxDigits {
		return 0, fmt.Errorf("number %q: want at most %d digits", text, maxDigits)
	}
	return int(n), nil
}

// FormatRanges formats ascending numbers as Slurm writes CPUs, cores and devices: 0 1 3 becomes 0-1,3.
func FormatRanges(numbers []int) string {
	var parts []string
	for first := 0; first < len(numbers); {
		last := first
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[first])
		if last > first {
			part += "-" + strconv.Itoa(numbers[last])
		}
		parts = append(parts, part)
		first = last + 1
	}
	return strings.Join(parts, ",")
}
