// Package spelling compares names as people type them: with a pattern, and with those that a mistyped one may have
// meant. Pure.
package spelling

import (
	"slices"
	"strings"
)

// Nearest returns the name that was probably meant; empty: none. A name may differ in a third of the typed letters, or
// in one if those are few. If there is none, the first name counts that begins with the typed letters, at least two: it
// was cut short. Of equally near names the first in order of the alphabet counts.
func Nearest(typed string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	best, at := "", max(1, len(typed)/3)+1
	for _, name := range names {
		if d := distance(typed, name); d < at {
			best, at = name, d
		}
	}
	if k := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, typed) }); best == "" &&
		len(typed) > 1 && k >= 0 {
		return names[k]
	}
	return best
}

// Fits says whether text matches the pattern, in which * stands for any text.
func Fits(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	rest, begins := strings.CutPrefix(text, parts[0])
	if !begins {
		return false
	}
	for _, part := range parts[1:last] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// longestName is longer than names that people mistype.
const longestName = 40

// distance counts the letters to insert, delete, replace or swap with the next (edit distance with transpositions). Of
// a longer name than longestName it is longestName, which is never near, so that the work is bounded.
func distance(a, b string) int {
	if len(a) > longestName || len(b) > longestName {
		return longestName
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
