package policy

import (
	"fmt"
	"math"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// terms bound what a job may be given on each node, whatever its profile says: by its user's request and estimate, and
// by what the site allows, see Job.Floor, Pace and Ceiling. A zero amount bounds nothing; GPUs are always zero.
type terms struct {
	floor, pace, ceiling gres.Vector
	perCore              bool // see Job.PerCore
}

func termsOf(j *Job) terms {
	t := terms{j.Floor, j.Pace, j.Ceiling, j.PerCore}
	t.floor.GPUs, t.pace.GPUs, t.ceiling.GPUs = 0, 0, 0 // the count of GPUs is fixed
	return t
}

// floorSize is the floor, rounded up to whole cores for each task.
func (t terms) floorSize(tasks int) gres.Vector { return wholeTasks(t.floor, tasks) }

// ceilingSize is the ceiling, cores rounded down to whole ones for each task; a resource without a ceiling is
// unbounded.
func (t terms) ceilingSize(tasks int) gres.Vector {
	most := gres.Vector{GPUs: math.MaxInt, CPUs: math.MaxInt, Memory: math.MaxInt64}
	if t.ceiling.CPUs > 0 {
		most.CPUs = t.ceiling.CPUs / tasks * tasks
	}
	if t.ceiling.Memory > 0 {
		most.Memory = t.ceiling.Memory
	}
	return most
}

// contradictionText says, for people, why no size is possible under the terms: the job needs more on a node than the
// site allows it; empty if one is possible. The job cannot run then.
func (t terms) contradictionText(tasks int) string {
	least, most := t.floorSize(tasks).Max(gres.Vector{CPUs: tasks}), t.ceilingSize(tasks)
	switch {
	case least.CPUs > most.CPUs:
		return fmt.Sprintf("needs %s on each node, and the site allows it %d", count(least.CPUs, "core"),
			t.ceiling.CPUs)
	case least.Memory > most.Memory:
		return fmt.Sprintf("needs %s of memory on each node, and the site allows it %s", least.Memory, most.Memory)
	}
	return ""
}

// applyTerms applies the terms of its key to the menu of a job. What is owed becomes the share, cut to the ceiling and
// raised to the floor; if that is slower than the pace, it is raised until it is as fast (raiseToPace). Of the options
// only those remain that are within the terms and as fast as the share and the pace require. Without a profile no speed
// is known, so the job has one option: the largest of share, floor and pace, within the ceiling.
func (m *menu) applyTerms(key menuKey) *menu {
	most := key.terms.ceilingSize(key.tasks)
	owed := atMost(wholeTasks(m.fair, key.tasks), most).Max(key.terms.floorSize(key.tasks))
	pace := atMost(wholeTasks(key.terms.pace, key.tasks), most)
	if key.profile == nil {
		m.owed[0].Size = key.evenSize(owed.Max(pace))
		m.options = m.owed
		return m
	}
	gain := func(size gres.Vector) float64 { return key.profile.Gain(size, m.fair) }
	// A size with so many cores needs the gain of the share, at most 1, and at least the gain of the pace. The cores
	// matter for memory that is given by the core: it is rounded down to whole MiB for each core.
	need := func(cores int) float64 {
		due, reckoned := atMost(m.fair, most), atMost(key.terms.completePace(m.fair), most)
		return math.Max(math.Min(1, gain(key.terms.wholeMiB(due, cores))), gain(key.terms.wholeMiB(reckoned, cores)))
	}
	share := owed // unrounded: with more cores, less of its memory may be cut off
	if owed = key.evenSize(share); gain(owed) < need(owed.CPUs) {
		owed = key.evenSize(m.raiseToPace(share, pace, key, need(owed.CPUs), gain))
	}
	m.owed[0] = sensitivity.Option{Size: owed, Gain: gain(owed)}
	m.options = fromShare(m.optionsWithin(key, need, gain), m.owed[0])
	return m
}

// wholeMiB is an amount as a job with so many cores can be given it: if memory is given by the core, it is rounded down
// to whole MiB for each of them.
func (t terms) wholeMiB(v gres.Vector, cores int) gres.Vector {
	if t.perCore && cores > 0 {
		v.Memory -= v.Memory % gres.Memory(cores)
	}
	return v
}

// sizeWithMemory is a size to which cores were added, with its memory divided anew if memory is given by the core. The
// memory is what is owed, or what the size had before if that is more, in whole MiB for each core; it is rounded up if
// it would be below the floor.
func (t terms) sizeWithMemory(size, owed gres.Vector) gres.Vector {
	if !t.perCore || size.CPUs < 1 {
		return size
	}
	size.Memory = max(t.wholeMiB(size, size.CPUs).Memory, t.wholeMiB(owed, size.CPUs).Memory)
	if size.Memory < t.floor.Memory {
		size.Memory += gres.Memory(size.CPUs)
	}
	return size
}

// evenSize is a size whose cores share the memory in whole MiB, since Slurm takes no fractions where memory is given by
// the core: the next lower memory, or, if that is less than the floor, the next higher. If that is more than the job
// may have, more cores share it, up to as many as the job may have. Other jobs keep the size as it is.
func (key menuKey) evenSize(size gres.Vector) gres.Vector {
	t, most := key.terms, atMost(key.total, key.terms.ceilingSize(key.tasks))
	if !t.perCore || size.CPUs < 1 {
		return size
	}
	for tried := size; tried.CPUs <= most.CPUs; tried.CPUs += key.tasks {
		if tried.Memory = t.wholeMiB(size, tried.CPUs).Memory; tried.Memory < t.floor.Memory {
			tried.Memory += gres.Memory(tried.CPUs)
		}
		if tried.Memory <= most.Memory {
			return tried
		}
	}
	return size
}

// uncappedShare is the least that a job has of one resource if its ceiling leaves it less than its share of the other.
// What the ceiling takes of one is no reason to give less of the other, even if the profile says that more is of no
// use. A zero field is no such bound.
func (t terms) uncappedShare(fair gres.Vector, tasks int) (least gres.Vector) {
	due := atMost(wholeTasks(fair, tasks), t.ceilingSize(tasks))
	if t.ceiling.Memory > 0 && t.ceiling.Memory < fair.Memory {
		least.CPUs = due.CPUs
	}
	if t.ceiling.CPUs > 0 && t.ceiling.CPUs < fair.CPUs {
		least.Memory = due.Memory
	}
	return least
}

// completePace is the pace with the share for a resource that it does not name, so that a profile can tell its speed;
// zero if there is no pace.
func (t terms) completePace(fair gres.Vector) gres.Vector {
	pace := t.pace
	if pace == (gres.Vector{}) {
		return pace
	}
	pace.GPUs = fair.GPUs
	if pace.CPUs == 0 {
		pace.CPUs = fair.CPUs
	}
	if pace.Memory == 0 {
		pace.Memory = fair.Memory
	}
	return pace
}

// raiseToPace raises what is owed to a size that is as fast as need, by the pace: only as far as the server has room if
// that is fast enough, and else to the full pace. That is more than the server has, so the job does not fit there.
func (m *menu) raiseToPace(
	owed, pace gres.Vector,
	key menuKey,
	need float64,
	gain func(gres.Vector) float64,
) gres.Vector {
	total := key.total
	total.CPUs = total.CPUs / key.tasks * key.tasks
	if here := owed.Max(atMost(pace, total)); gain(here) >= need {
		return here
	}
	return owed.Max(pace)
}

// optionsWithin are the sizes among which the allocator may choose under the key's terms (floor and ceiling): sizes of
// the profile, raised to the floor, with equally many cores for each task. gain is the speed of a size, and need the
// least gain that a size with so many cores must have; slower ones are left out.
func (m *menu) optionsWithin(key menuKey, need func(cores int) float64,
	gain func(gres.Vector) float64) []sensitivity.Option {
	least, most := key.terms.floorSize(key.tasks), atMost(key.total, key.terms.ceilingSize(key.tasks))
	least = least.Max(key.terms.uncappedShare(m.fair, key.tasks))
	tried := key.profile.Options(atMost(m.fair, most), most)
	var sizes []sensitivity.Option
	for _, o := range append(tried, m.owed[0]) {
		size := key.evenSize(wholeTasks(o.Size.Max(least), key.tasks))
		if g := gain(size); size.Fits(most) && g >= need(size.CPUs) {
			sizes = append(sizes, sensitivity.Option{Size: size, Gain: g})
		}
	}
	return worthwhile(sizes)
}

// atMost takes the smaller of each component.
func atMost(v, w gres.Vector) gres.Vector {
	return gres.Vector{GPUs: min(v.GPUs, w.GPUs), CPUs: min(v.CPUs, w.CPUs), Memory: min(v.Memory, w.Memory)}
}
