package policy

import (
	"fmt"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// menu is what a job can be given on one kind of server: sizes that keep the promise, ascending in gain. The first is the
// least, the last is its demand.
type menu struct {
	fair    gres.Vector        // the proportional share
	owed    sensitivity.Option // fair, in whole cores for each task
	options []sensitivity.Option
}

func (m *menu) least() sensitivity.Option  { return m.options[0] }
func (m *menu) demand() sensitivity.Option { return m.options[len(m.options)-1] }

// menuKey is all that a menu depends on.
type menuKey struct {
	profile *sensitivity.Profile
	gpus    int // on one node
	tasks   int // on one node
	total   gres.Vector
}

// menus computes each menu once a round: ten thousand jobs of ten models share a few dozen.
type menus map[menuKey]*menu

func (ms menus) of(j *Job, gpus int, total gres.Vector) *menu {
	key := menuKey{j.Profile, gpus, max(1, j.Tasks), total}
	m, known := ms[key]
	if !known {
		m = newMenu(key)
		ms[key] = m
	}
	return m
}

func newMenu(key menuKey) *menu {
	fair := gres.Proportional(key.total, key.gpus)
	m := &menu{fair: fair, owed: sensitivity.Option{Size: wholeTasks(fair, key.tasks), Gain: 1}}
	if key.profile == nil {
		m.options = []sensitivity.Option{m.owed}
		return m
	}
	m.options = inWholeTasks(key.profile.Options(fair, key.total), key, fair)
	m.owed.Gain = key.profile.Gain(m.owed.Size, fair)
	return m
}

// inWholeTasks rounds every option up to the same number of cores for each task, and drops what that makes too large for the
// server or no better than the one before. Slurm gives cores to tasks in equal parts.
func inWholeTasks(options []sensitivity.Option, key menuKey, fair gres.Vector) []sensitivity.Option {
	if key.tasks == 1 {
		return options
	}
	var kept []sensitivity.Option
	for i, o := range options {
		size := wholeTasks(o.Size, key.tasks)
		if i > 0 && !size.Fits(key.total) {
			continue
		}
		gain := key.profile.Gain(size, fair)
		if n := len(kept); n > 0 && (kept[n-1].Size == size || gain <= kept[n-1].Gain) {
			continue
		}
		kept = append(kept, sensitivity.Option{Size: size, Gain: gain})
	}
	return kept
}

func wholeTasks(v gres.Vector, tasks int) gres.Vector {
	v.CPUs = (v.CPUs + tasks - 1) / tasks * tasks
	return v
}

// gainOf is the gain of a size that need not be on the menu, such as the one that a running job holds.
func (m *menu) gainOf(j *Job, size gres.Vector) float64 {
	if j.Profile == nil {
		return 1
	}
	return j.Profile.Gain(size, m.fair)
}

// Allocator says how much a job gets.
type Allocator struct {
	Name string
	// least is the smallest size with which a job may be started.
	least func(m *menu) sensitivity.Option
	// wish is the size that a job is placed for.
	wish func(m *menu) sensitivity.Option
	// finish hands out what the placement left over.
	finish func(b *board)
}

// Allocators are the ones that can be named in a configuration.
func Allocators() []Allocator { return []Allocator{Proportional(), Greedy(), Tune()} }

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

// Proportional gives every job the GPU-proportional share: what most clusters do today, and what no other may fall below.
func Proportional() Allocator {
	return Allocator{"proportional", fairOf, fairOf, nothing}
}

// Greedy gives every job its full demand or nothing (the paper's first attempt, §4): jobs that want many cores leave GPUs idle.
// It is there to be compared with.
func Greedy() Allocator {
	return Allocator{"greedy", (*menu).demand, (*menu).demand, nothing}
}

// Tune is Synergy-TUNE (OSDI'22, §4): every job that is owed a turn runs, at no less than its proportional speed, and what some
// do not need goes to those that gain by it. Beyond the paper, sizes between the share and the demand are used.
func Tune() Allocator {
	return Allocator{"tune", (*menu).least, (*menu).demand, (*board).spread}
}

func fairOf(m *menu) sensitivity.Option { return m.owed }

func nothing(*board) {}

// divisors lists the numbers of nodes over which gpus GPUs can be divided equally with no node getting more than most.
func divisors(gpus, most int) []int {
	var ways []int
	for n := 1; n <= gpus; n++ {
		if gpus%n == 0 && gpus/n <= most {
			ways = append(ways, n)
		}
	}
	return ways
}
