package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// most bounds the numbers in a set; Linux itself stops at 8192 CPUs.
const most = 1 << 14

// Set is a set of CPUs, cores or sockets by their numbers, in ascending order. As text it is 0-3,8, which is how Linux
// and Slurm write it. An empty set stands for what is not known.
type Set []int

// ParseSet reads a list as Linux and Slurm write it: 0-3,8. Order and repetitions do not matter. Errors name the part.
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

// SetOf is the set of these numbers.
func SetOf(numbers ...int) Set {
	all := slices.Clone(numbers)
	slices.Sort(all)
	return Set(slices.Compact(all))
}

// ends are the first and the last number of 0-3; of 8 they are equal.
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

// String writes ranges as short as they go: 0-3,8.
func (s Set) String() string { return gres.FormatRanges(s) }

// MarshalText is String, so that JSON has "0-3,8".
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSet.
func (s *Set) UnmarshalText(text []byte) error {
	read, err := ParseSet(string(text))
	*s = read
	return err
}

// covers says whether all of these numbers are in s.
func (s Set) covers(these Set) bool {
	return !slices.ContainsFunc(these, func(n int) bool { return !slices.Contains(s, n) })
}

// union has the numbers of all sets; it is empty where one of them is, since what is not known adds up to nothing that
// is.
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
