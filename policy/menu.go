package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// menu is what a job can be given on one kind of server: sizes that keep the promised speed, ascending in gain. The
// first asks for no more than is owed, so that where the shares of all jobs fit, their least sizes fit, except for jobs
// with a floor above their share. The last is the demand.
type menu struct {
	fair    gres.Vector          // the proportional share
	owed    []sensitivity.Option // one: fair, in whole cores for each task and within the job's terms
	options []sensitivity.Option // at least one
	profile *sensitivity.Profile // nil if there is none that applies to such servers
	// unit is the throughput with the share, relative to that with the share of the reference server. Speeds are
	// compared in it, since gains are relative to shares that differ from server to server.
	unit float64
	// jobCount is how many jobs of a market have the menu, while its prices are computed; 0 otherwise.
	jobCount int
}

// demand is the smallest size with the largest gain.
func (m *menu) demand() sensitivity.Option { return m.options[len(m.options)-1] }

// menuKey is all that a menu depends on.
type menuKey struct {
	profile *sensitivity.Profile
	gpus    int // on one node
	tasks   int // on one node
	total   gres.Vector
	terms   terms
	// reference is the server whose share is the unit of speeds.
	reference gres.Vector
	// noLoans says that nothing beyond the share may be given, since it could not be called back.
	noLoans bool
}

// menus caches menus: ten thousand jobs of ten models share a few dozen.
type menus map[menuKey]*menu

// menuOf returns the menu of a key, computed when first asked for.
func (ms menus) menuOf(key menuKey) *menu {
	m, known := ms[key]
	if !known {
		m = newMenu(key)
		ms[key] = m
	}
	return m
}

// newMenu computes a menu. If nothing beyond the share may be given (noLoans), the sizes above what is owed are
// dropped.
func newMenu(key menuKey) *menu {
	m := fullMenu(key)
	if key.noLoans {
		m.options = withoutLoans(m.options, m.owed[0].Size)
	}
	return m
}

// withoutLoans drops the options with more than is owed, for jobs that could not give it back. The least option stays
// in any case, since a job gets it whatever it is.
func withoutLoans(options []sensitivity.Option, owed gres.Vector) []sensitivity.Option {
	kept := slices.Clone(options[:1])
	for _, o := range options[1:] {
		if o.Size.Fits(owed) {
			kept = append(kept, o)
		}
	}
	return kept
}

// fullMenu is the menu with all sizes, including those above the share, which are lent. Without profile or terms it has
// only the share.
func fullMenu(key menuKey) *menu {
	fair := gres.Proportional(key.total, key.gpus)
	owed := sensitivity.Option{Size: wholeTasks(fair, key.tasks), Gain: 1}
	m := &menu{fair: fair, owed: []sensitivity.Option{owed}, options: []sensitivity.Option{owed}, profile: key.profile}
	m.unit = Unit(key.profile, fair, key.reference)
	switch {
	case key.terms != terms{}:
		return m.applyTerms(key)
	case key.profile == nil:
		return m
	}
	m.owed[0].Gain = key.profile.Gain(owed.Size, fair)
	m.options = fromShare(inWholeTasks(key.profile.Options(fair, key.total), key, fair), m.owed[0])
	return m
}

// fromShare drops the options before the first that asks for no more than is owed, so that the least size of every job
// fits where its share does. There is such an option unless the share itself, in whole tasks, is more than the server
// has; then what is owed is the only option.
func fromShare(options []sensitivity.Option, owed sensitivity.Option) []sensitivity.Option {
	at := slices.IndexFunc(options, func(o sensitivity.Option) bool { return o.Size.Fits(owed.Size) })
	if at < 0 {
		return []sensitivity.Option{owed}
	}
	return options[at:]
}

// inWholeTasks rounds every option up to the same number of cores for each task, since Slurm gives tasks equal numbers
// of cores, and drops options that become too large for the server or no better than another.
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

// worthwhile sorts sizes by gain, in place, and returns them without those for which another is as fast with no more of
// anything; no job needs these.
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

// wholeTasks rounds cores up to the same whole number for each of so many tasks, at least one.
func wholeTasks(v gres.Vector, tasks int) gres.Vector {
	v.CPUs = (v.CPUs + tasks - 1) / tasks * tasks
	return v
}

// gainOf is the gain of a size that need not be on the menu, such as that of a running job; 1 without a profile.
func (m *menu) gainOf(size gres.Vector) float64 {
	if m.profile == nil {
		return 1
	}
	return m.profile.Gain(size, m.fair)
}
