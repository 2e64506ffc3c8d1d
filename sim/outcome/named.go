package outcome

import (
	"strconv"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// named is a name from outside as files and tables have it: as it is, or as a Go string with escapes where a terminal
// would obey a part of it, or not show it.
func named(name string) string {
	if printable.Is(name) {
		return name
	}
	return strconv.Quote(name)
}

// named is the setting with all its names so.
func (s Setting) named() Setting {
	for _, name := range []*string{&s.Engine, &s.Policy, &s.Allocator, &s.Placement, &s.Split, &s.Workload,
		&s.Cluster} {
		*name = named(*name)
	}
	return s
}
