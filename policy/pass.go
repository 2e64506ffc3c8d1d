package policy

import "slices"

// pass is one step of an allocator, made after every job has had its turn: only then is it known which jobs run, and
// what is left for sizes. It changes the board and nothing else, leaves a plan that passes Check, and reports whether
// it changed the plan. What it may spend is counted in steps (repeats, servers compared, exchangeBudget), never in
// time, so that a plan depends on the snapshot alone. BenchmarkAblation in policy/bound says what each pass is worth.
type pass struct {
	name string
	run  func(b *board) (changed bool)
}

// maxRepeats bounds how often changes that gain more than they cost are searched for anew, since one may make room for
// another.
const maxRepeats = 4

// placing are the passes that place the starting jobs and hand out what their least sizes left over; once, in this
// order, whatever they report. Which servers no waiting job could use is found anew after rearrange, by which other
// jobs may have got a place.
func placing() []pass {
	return []pass{
		{"rearrange", func(b *board) bool { findUncontested(b); rearrange(b); return reuseFreed(b) }},
		{"keep shares", func(b *board) bool { keepShares(b); findUncontested(b); return false }},
		{"spread", func(b *board) bool { spreadLeft(b); return false }},
	}
}

// improving are the passes that change running jobs where that gains more than it costs. Jobs first take what is free
// where they are, then they move to idle servers. Trades on a server and exchanges between servers come last, since
// they cost more than one restart. The passes are repeated until none finds anything.
func improving() []pass {
	return []pass{{"grow", grow}, {"relocate", relocate}, {"trade", trade}, {"swap", swap}}
}

// Passes lists the names of the allocator's passes.
func (a Allocator) Passes() []string {
	var names []string
	for _, p := range slices.Concat(a.placing, a.improving, a.filling) {
		names = append(names, p.name)
	}
	return names
}

// Without is the allocator without the pass of that name. The difference between the two plans is what the pass is
// worth; a name that no pass has leaves the allocator as it is.
func (a Allocator) Without(name string) Allocator {
	for _, list := range []*[]pass{&a.placing, &a.improving, &a.filling} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(p pass) bool { return p.name == name })
	}
	return a
}

// runPasses runs the allocator's passes once every job has had its turn. Where the passes have made room, stopped jobs
// may go on after all (reuseFreed), and what they had been given instead is free again. So the improving passes are
// repeated as long as that happens, at most maxRepeats times.
func (a Allocator) runPasses(b *board) {
	if a.placing == nil {
		return // an allocator without passes, such as Proportional
	}
	for _, p := range a.placing {
		p.run(b)
	}
	improve(b)
	for n := 0; n < maxRepeats && reuseFreed(b); n++ {
		improve(b)
	}
	for _, p := range a.filling {
		p.run(b)
	}
}

// improve repeats the improving passes of the round's allocator until none of them changes the plan, since one change
// may make room for another; at most maxRepeats times.
func improve(b *board) {
	for again, n := true, 0; again && n < maxRepeats; n++ {
		again = false
		for _, p := range b.alloc.improving {
			again = p.run(b) || again
		}
	}
}

// fillAnew fills all servers anew (refillServers) as long as that pays, at most maxRepeats times, and reports whether
// it did. What each refill has freed is given out before the next one.
func fillAnew(b *board) (changed bool) {
	for n := 0; n < maxRepeats && refillServers(b); n++ {
		changed = true
		reuseFreed(b)
		improve(b)
	}
	return changed
}

// fillUnlike is fillAnew if the servers are at most maxCompared and of unlike shapes: exchanges between two servers
// (swap) find too little there. It reports whether it changed the plan.
func fillUnlike(b *board) bool {
	return len(b.servers) <= maxCompared && unlikeServers(b) && fillAnew(b)
}

// unlikeServers reports whether the servers with GPUs have two or more shapes.
func unlikeServers(b *board) bool {
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
