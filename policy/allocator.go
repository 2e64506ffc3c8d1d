package policy

import (
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Allocator decides how much each job gets.
type Allocator struct {
	Name string
	// sizes are the options of a menu that it gives, ascending in gain: the first is the least with which a job may be
	// started, the last is what its place is chosen for (wishOf).
	sizes func(m *menu) []sensitivity.Option
	// The passes after every job has had its turn, see runPasses; none: nothing is handed out beyond the least sizes.
	placing, improving, filling []pass
}

// Allocators lists the ones that a configuration can name.
func Allocators() []Allocator { return []Allocator{Proportional(), Greedy(), Tune(), Opt()} }

// ParseAllocator finds an allocator by its name, whatever the case. The error lists the names.
func ParseAllocator(name string) (Allocator, error) {
	var names []string
	for _, a := range Allocators() {
		if strings.EqualFold(a.Name, name) {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Allocator{}, fmt.Errorf("allocator %q: want one of %s", name, strings.Join(names, ", "))
}

// Proportional gives every job the GPU-proportional share: what most clusters do today, and what no other allocator may
// fall below.
func Proportional() Allocator {
	return Allocator{Name: "proportional", sizes: func(m *menu) []sensitivity.Option { return m.owed }}
}

// Greedy gives every job its full demand or nothing (the paper's first attempt, §4), so that jobs that want many cores
// leave GPUs idle. It exists for comparison.
func Greedy() Allocator {
	return Allocator{Name: "greedy", sizes: func(m *menu) []sensitivity.Option { return m.options[len(m.options)-1:] }}
}

// Tune is Synergy-TUNE (OSDI'22, §4): every job that is owed a turn runs at no less than its proportional speed, and
// what some jobs do not need goes to jobs that gain by it. Beyond the paper, it uses sizes between the share and the
// demand. It arranges the starting jobs one after the other, and then all at once those on servers without running
// jobs, if that is worth more.
func Tune() Allocator {
	return Allocator{"tune", func(m *menu) []sensitivity.Option { return m.options }, placing(), improving(),
		[]pass{{"repack", repackStarts}, {"refill", fillUnlike}}}
}

// Opt comes as near to Synergy-OPT (OSDI'22, §4.1), the optimum that the paper compares Tune with, as restarts and
// promises allow. Which jobs run is decided as by Tune; then all servers are filled anew as the certificate's linear
// program says (policy/columns), where that pays for the restarts. It solves that program in each round in which
// something has changed, and takes as long as that.
func Opt() Allocator {
	return Allocator{"opt", func(m *menu) []sensitivity.Option { return m.options }, placing(), improving(),
		[]pass{{"repack", repackStarts}, {"refill", fillAnew}}}
}
