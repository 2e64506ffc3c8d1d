package outcome

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable is a name from outside as files and tables have it: as it is, or as a Go string with escapes where a terminal would obey a
// part of it, or not show it.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}

// printable is the setting with all its names so.
func (s Setting) printable() Setting {
	for _, name := range []*string{&s.Engine, &s.Policy, &s.Allocator, &s.Placement, &s.Split, &s.Workload, &s.Cluster} {
		*name = printable(*name)
	}
	return s
}
