package outcome

import (
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// named is a name from outside as files and tables show it: unchanged, or as a quoted Go string if it contains
// characters that a terminal would interpret or not show.
func named(name string) string {
	if printable.Is(name) {
		return name
	}
	return strconv.Quote(name)
}

// named returns the setting with all its names in this form.
func (s Setting) named() Setting {
	for _, name := range []*string{&s.Engine, &s.Policy, &s.Allocator, &s.Placement, &s.Split, &s.Workload,
		&s.Cluster} {
		*name = named(*name)
	}
	return s
}
