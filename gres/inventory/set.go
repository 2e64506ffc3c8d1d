package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// most bounds the numbers in a set; Linux itself supports at most 8192 CPUs.
const most = 1 << 14

// Set is a set of the numbers of CPUs, cores or sockets, ascending. As text it is 0-3,8, as Linux and Slurm write it.
// An empty set means unknown.
type Set []int

// ParseSet parses a list as Linux and Slurm write it: 0-3,8. Order and duplicates do not matter. Errors name the part.
func ParseSet(text string) (Set, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var all Set
	for part := range strings.SplitSeq(text, ",") {
		first, last, err := ends(part)
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", text, err)
		}
		if len(all)+last-first >= most {
			return nil, fmt.Errorf("list %q: more than %d numbers", text, most)
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return SetOf(all...), nil
}

// SetOf returns the set of these numbers.
func SetOf(numbers ...int) Set {
	all := slices.Clone(numbers)
	slices.Sort(all)
	return Set(slices.Compact(all))
}

// ends returns the first and the last number of a part such as 0-3; for 8 they are equal.
func ends(part string) (first, last int, err error) {
	low, high, ranged := strings.Cut(part, "-")
	if !ranged {
		high = low
	}
	first, firstErr := number(low)
	last, lastErr := number(high)
	if firstErr != nil || lastErr != nil || last < first {
		return 0, 0, fmt.Errorf("part %q: want a number from 0 to %d, or two as 0-3", part, most-1)
	}
	return first, last, nil
}

func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n >= most {
		return 0, fmt.Errorf("number %q", text)
	}
	return int(n), nil
}

// String formats the set with ranges: 0-3,8.
func (s Set) String() string { return gres.FormatRanges(s) }

// MarshalText is String, so that JSON has "0-3,8".
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSet.
func (s *Set) UnmarshalText(text []byte) error {
	read, err := ParseSet(string(text))
	*s = read
	return err
}

// covers reports whether all of these numbers are in s.
func (s Set) covers(these Set) bool {
	return !slices.ContainsFunc(these, func(n int) bool { return !slices.Contains(s, n) })
}

// union returns the numbers of all sets. It is empty if one of them is, since with an unknown set the union is unknown,
// too.
func union(sets ...Set) Set {
	var all []int
	for _, s := range sets {
		if len(s) == 0 {
			return nil
		}
		all = append(all, s...)
	}
	return SetOf(all...)
}
