package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// menu is what a job can be given on one kind of server: sizes that keep the promise, ascending in gain. The first asks
// for no more than is owed, so that where the shares of all fit, the least sizes of all fit, but for jobs with a floor
// above theirs; the last is the demand.
type menu struct {
	fair    gres.Vector          // the proportional share
	owed    []sensitivity.Option // fair, in whole cores for each task and within the job's terms; one
	options []sensitivity.Option // at least one
	profile *sensitivity.Profile // nil where there is none that says anything about such servers
	// unit is the throughput with the share, relative to that with the share of the reference server: speeds are
	// compared in it, since gains are relative to shares that differ from server to server.
	unit float64
	// crowd is how many jobs of a market have the menu while its prices are looked for; 0 otherwise.
	crowd int
}

func (m *menu) demand() sensitivity.Option { return m.options[len(m.options)-1] }

// menuKey is all that a menu depends on.
type menuKey struct {
	profile *sensitivity.Profile
	gpus    int // on one node
	tasks   int // on one node
	total   gres.Vector
	terms   terms
	// reference is the server in terms of whose share speeds are compared.
	reference gres.Vector
}

// menus computes each menu once: ten thousand jobs of ten models share a few dozen.
type menus map[menuKey]*menu

func (ms menus) of(key menuKey) *menu {
	m, known := ms[key]
	if !known {
		m = newMenu(key)
		ms[key] = m
	}
	return m
}

func newMenu(key menuKey) *menu {
	fair := gres.Proportional(key.total, key.gpus)
	owed := sensitivity.Option{Size: wholeTasks(fair, key.tasks), Gain: 1}
	m := &menu{fair: fair, owed: []sensitivity.Option{owed}, options: []sensitivity.Option{owed}, profile: key.profile}
	m.unit = Unit(key.profile, fair, key.reference)
	switch {
	case key.terms != terms{}:
		return m.within(key)
	case key.profile == nil:
		return m
	}
	m.owed[0].Gain = key.profile.Gain(owed.Size, fair)
	m.options = fromShare(inWholeTasks(key.profile.Options(fair, key.total), key, fair), m.owed[0])
	return m
}

// fromShare leaves out the options before the first that asks for no more than is owed. There is one unless the share
// itself, in whole tasks, is more than the server has.
func fromShare(options []sensitivity.Option, owed sensitivity.Option) []sensitivity.Option {
	at := slices.IndexFunc(options, func(o sensitivity.Option) bool { return o.Size.Fits(owed.Size) })
	if at < 0 {
		return []sensitivity.Option{owed}
	}
	return options[at:]
}

// inWholeTasks rounds every option up to the same number of cores for each task, since Slurm gives cores to tasks in
// equal parts, and drops what that makes too large for the server or no better than another.
func inWholeTasks(options []sensitivity.Option, key menuKey, fair gres.Vector) []sensitivity.Option {
	if key.tasks == 1 {
		return options
	}
	var whole []sensitivity.Option
	for _, o := range options {
		if size := wholeTasks(o.Size, key.tasks); size.Fits(key.total) {
			whole = append(whole, sensitivity.Option{Size: size, Gain: key.profile.Gain(size, fair)})
		}
	}
	return worthwhile(whole)
}

// worthwhile leaves out the sizes than which another is as fast with no more of anything; the others ascend in gain.
func worthwhile(options []sensitivity.Option) []sensitivity.Option {
	slices.SortStableFunc(options, func(x, y sensitivity.Option) int { return cmp.Compare(x.Gain, y.Gain) })
	var kept []sensitivity.Option
	for i, o := range options {
		if !slices.ContainsFunc(options[i+1:], func(p sensitivity.Option) bool { return p.Size.Fits(o.Size) }) {
			kept = append(kept, o)
		}
	}
	return kept
}

func wholeTasks(v gres.Vector, tasks int) gres.Vector {
	v.CPUs = (v.CPUs + tasks - 1) / tasks * tasks
	return v
}

// gainOf is the gain of a size that need not be on the menu, such as the one that a running job holds.
func (m *menu) gainOf(size gres.Vector) float64 {
	if m.profile == nil {
		return 1
	}
	return m.profile.Gain(size, m.fair)
}

// Allocator says how much a job gets.
type Allocator struct {
	Name string
	// sizes are those of a menu that it gives, ascending in gain: the first is the least with which a job may be
	// started, the last is what it is placed for.
	sizes func(m *menu) []sensitivity.Option
	// finish arranges who starts, and hands out what the least sizes left over.
	finish func(b allocation)
}

// Allocators are the ones that can be named in a configuration.
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

// Proportional gives every job the GPU-proportional share: what most clusters do today, and what no other may fall
// below.
func Proportional() Allocator {
	return Allocator{"proportional", func(m *menu) []sensitivity.Option { return m.owed }, nothing}
}

// Greedy gives every job its full demand or nothing (the paper's first attempt, §4): jobs that want many cores leave
// GPUs idle. It is there to be compared with.
func Greedy() Allocator {
	return Allocator{"greedy", func(m *menu) []sensitivity.Option { return m.options[len(m.options)-1:] }, nothing}
}

// Tune is Synergy-TUNE (OSDI'22, §4): every job that is owed a turn runs, at no less than its proportional speed, and
// what some do not need goes to those that gain by it. Beyond the paper, sizes between the share and the demand are
// used.
func Tune() Allocator {
	return Allocator{"tune", func(m *menu) []sensitivity.Option { return m.options }, allocation.tune}
}

// tune arranges who starts, one after the other, and then those anew who start on servers of their own, where that is
// worth more. Where servers are unlike, as far as they are few, exchanges of two find too little, and it goes on as opt
// does.
func (b allocation) tune() {
	b.arrange()
	b.repack()
	if len(b.servers) <= looks && b.unlike() {
		b.fillAnew()
	}
}

// unlike says whether there are servers of several shapes with GPUs.
func (b allocation) unlike() bool {
	first := -1
	for n := range b.servers {
		if sv := &b.servers[n]; sv.Total.GPUs > 0 && first >= 0 && sv.shape != first {
			return true
		} else if sv.Total.GPUs > 0 {
			first = sv.shape
		}
	}
	return false
}

// arrange finds places for those who start, hands out what the least sizes left over, and lets go on as they were whom
// that made room for.
func (b allocation) arrange() {
	places := arrangement{b.placement}
	places.findUncontested()
	places.rearrange()
	b.catchUp()
	recall(b).keepShares()
	places.findUncontested()
	sizing(b).spread()
	b.improve()
	for pass := 0; pass < passes && b.catchUp(); pass++ {
		b.improve()
	}
}

// Opt comes as near to Synergy-OPT (OSDI'22, §4.1), the optimum that the paper holds Tune against, as restarts and
// promises allow: who runs is decided as by Tune, and then all servers are filled anew as the certificate's program
// says (policy/columns), where that pays for the restarts. It solves that program in each round in which something has
// changed, and takes as long as that.
func Opt() Allocator {
	return Allocator{"opt", func(m *menu) []sensitivity.Option { return m.options }, allocation.opt}
}

// opt goes on, where tune ends, with all servers.
func (b allocation) opt() {
	b.arrange()
	b.repack()
	b.fillAnew()
}

// fillAnew fills all servers anew as long as that pays.
func (b allocation) fillAnew() {
	for pass := 0; pass < passes && b.refill(); pass++ {
		b.catchUp()
		b.improve()
	}
}

func nothing(allocation) {}
