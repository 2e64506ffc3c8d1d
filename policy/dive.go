package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// repack places and sizes anew, all at once, jobs that start in this round: by fillings of whole servers (policy/columns)
// in place of one job after the other. Who runs is settled before and stays so, and nobody who runs already is touched.
// What else is on a server is taken off it. On a server for which somebody waits as many GPUs stay free as before, so that
// who sits with whom has no say in who runs in the next round either.
type repack struct {
	*board
	movable []int // jobs that may be placed anew, ascending
	class   []int // of each of them
	classes []pack
	zones   []ground
	shapes  []stand
	shapeOf map[int]int // of each server that takes part
	problem columns.Problem
	sizes   [][]sensitivity.Option // those of problem.Options, as they stand on the menu
	present float64                // what the jobs are worth as they sit
}

// pack is the jobs that nothing tells apart but their order.
type pack struct {
	kind    *kind
	profile *sensitivity.Profile // of the menu at hand: a job stays where as much is known of its speed
	ground  int                  // where it may be, in repack.zones
}

// ground is the servers on which some jobs may be started.
type ground struct {
	zone *zone
	shut set // see kind
}

// stand is servers that have the same room for the same jobs.
type stand struct {
	standKey
	servers []int // ascending
	gpus    int   // of the jobs that may be placed anew
}

type standKey struct {
	room   gres.Vector
	shape  int    // of the server
	ground uint64 // a bit for each of repack.zones
}

// Bounds of a repack, which keep its cost near linear in jobs and servers. Steps are those of policy/columns.
const (
	mostStands       = 24
	mostGrounds      = 64
	mostPairs        = 3000 // classes × stands, whose sizes are listed
	stepsForPrices   = 2_000_000
	stepsForFillings = 10_000_000
	stepsForDive     = 10_000_000
)

// close is how near to the bound a plan is left as it is.
const closeEnough = 1e-4

// repack places jobs that start anew where that is worth more, and says whether it did.
func (b *board) repack() bool {
	r := repack{board: b}
	if !r.gather() || !r.survey() || !r.list() {
		return false
	}
	fillings, worth := r.solve()
	if worth <= r.present*(1+1e-9) {
		return false
	}
	r.carryOut(fillings)
	return true
}

// gather finds who may be placed anew; false where nobody gains by that.
func (r *repack) gather() bool {
	hungry, homes := false, newSet(len(r.servers))
	for _, i := range r.fresh() {
		if s := &r.seats[i]; r.maySitElsewhere(i) {
			r.movable = append(r.movable, i)
			homes.add(s.servers[0])
			hungry = hungry || s.gain < s.menu.demand().Gain*(1-tie)
		}
	}
	return hungry && homes.shared(homes) > 1
}

// maySitElsewhere says whether job i starts in this round on one server, which is open to choice, and can be asked to give
// back what it is lent there. No quota counts what it is given.
func (r *repack) maySitElsewhere(i int) bool {
	s, j := &r.seats[i], r.jobs[i]
	return s.standing == fresh && j.Running == nil && len(s.servers) == 1 && !s.cleared && s.kind.lends && !r.c.Rationed(j) &&
		(r.reserved == nil || !r.reserved.servers.has(s.servers[0]))
}

// survey sorts servers by the room that they have, and jobs into classes; false where there are too many of these, or
// nothing to choose. Of too many kinds of servers those take part that have most of the jobs.
func (r *repack) survey() bool {
	if !r.classify() {
		return false
	}
	r.group()
	if len(r.shapes) > mostStands {
		slices.SortStableFunc(r.shapes, func(x, y stand) int { return cmp.Compare(y.gpus, x.gpus) })
		r.shapes = r.shapes[:mostStands]
		r.stay()
		if !r.classify() {
			return false
		}
	}
	return len(r.classes)*len(r.shapes) <= mostPairs
}

// classify sorts jobs into classes.
func (r *repack) classify() bool {
	r.classes, r.zones, r.class = nil, nil, make([]int, len(r.movable))
	type alike struct {
		profile, known *sensitivity.Profile
		gpus, tasks    int
		terms          terms
		ground         int
	}
	byKind, numbers, grounds := map[pack]int{}, map[alike]int{}, map[seasonal]int{}
	for at, i := range r.movable {
		s := &r.seats[i]
		k, place := s.kind, seasonal{s.kind.zone, s.kind.season.own, s.kind.season.now}
		g, known := grounds[place]
		if !known {
			if g = len(r.zones); g == mostGrounds {
				return false
			}
			grounds[place] = g
			r.zones = append(r.zones, ground{k.zone, k.shut})
		}
		p := pack{k, s.menu.profile, g}
		c, known := byKind[p]
		if !known {
			key := alike{k.profile, p.profile, k.gpus, k.tasks, k.terms, g}
			if c, known = numbers[key]; !known {
				if c = len(r.classes); c == columns.MostClasses {
					return false
				}
				numbers[key] = c
				r.classes = append(r.classes, p)
			}
			byKind[p] = c
		}
		r.class[at] = c
	}
	return true
}

// seasonal is a zone and what reservations there are in the way.
type seasonal struct {
	zone *zone
	own  string
	now  int
}

// group finds the servers that take part, and what room each has.
func (r *repack) group() {
	held := make([]gres.Vector, len(r.servers))
	for _, i := range r.movable {
		s := &r.seats[i]
		held[s.servers[0]] = held[s.servers[0]].Plus(s.size)
	}
	r.shapes, r.shapeOf = nil, map[int]int{}
	numbers := map[standKey]int{}
	for n := range r.servers {
		sv := &r.servers[n]
		room := sv.open().Plus(held[n])
		if !r.calm.has(n) || sv.Closed != "" || r.reserved != nil && r.reserved.servers.has(n) {
			room.GPUs = held[n].GPUs
		}
		if room.GPUs <= 0 {
			continue
		}
		key := standKey{room, sv.shape, r.groundOf(n)}
		at, known := numbers[key]
		if !known {
			at = len(r.shapes)
			numbers[key] = at
			r.shapes = append(r.shapes, stand{standKey: key})
		}
		st := &r.shapes[at]
		st.servers, st.gpus = append(st.servers, n), st.gpus+held[n].GPUs
	}
}

// groundOf has a bit for each ground that server n is part of.
func (r *repack) groundOf(n int) (mask uint64) {
	for g := range r.zones {
		if z := &r.zones[g]; z.zone.servers.has(n) && (z.shut == nil || !z.shut.has(n)) {
			mask |= 1 << g
		}
	}
	return mask
}

// stay leaves those where they are whose servers do not take part.
func (r *repack) stay() {
	part := newSet(len(r.servers))
	for s := range r.shapes {
		for _, n := range r.shapes[s].servers {
			part.add(n)
		}
	}
	r.movable = slices.DeleteFunc(r.movable, func(i int) bool { return !part.has(r.seats[i].servers[0]) })
}

// list writes the problem down in numbers.
func (r *repack) list() bool {
	p := &r.problem
	p.Demand, p.Options = make([]int, len(r.classes)), make([][]columns.Option, len(r.shapes))
	r.sizes = make([][]sensitivity.Option, len(r.shapes))
	for at, i := range r.movable {
		s := &r.seats[i]
		p.Demand[r.class[at]]++
		r.present += s.speed() * float64(s.size.GPUs)
	}
	for s := range r.shapes {
		st := &r.shapes[s]
		count := len(st.servers)
		p.Shapes = append(p.Shapes, columns.Shape{Count: count, Most: st.room, Sum: st.room.Times(count)})
		for c := range r.classes {
			r.addSizes(s, c)
		}
	}
	return true
}

// addSizes adds those of a class on servers of shape s.
func (r *repack) addSizes(s, c int) {
	k, st := &r.classes[c], &r.shapes[s]
	if st.ground&(1<<k.ground) == 0 || k.kind.gpus > st.room.GPUs {
		return
	}
	m := r.menu(k.kind, k.kind.gpus, st.servers[0])
	if m.profile != k.profile {
		return
	}
	for _, o := range r.alloc.sizes(m) {
		if o.Size.Fits(st.room) {
			value := o.Gain * m.unit * float64(o.Size.GPUs)
			r.problem.Options[s] = append(r.problem.Options[s], columns.Option{Class: c, Parts: 1, Size: o.Size, Value: value})
			r.sizes[s] = append(r.sizes[s], o)
		}
	}
}

// solve finds fillings for all jobs, and what they are worth; nothing where it finds none that are worth more.
func (r *repack) solve() (fillings []columns.Filling, worth float64) {
	configured := columns.NewConfigured(&r.problem)
	if configured == nil {
		return nil, 0
	}
	pooled := columns.NewPooled(&r.problem)
	if most := pooled.Least(r.present, r.uses(), stepsForPrices); most.Value <= r.present*(1+closeEnough) {
		return nil, 0
	}
	if most := configured.Least(pooled.Best, nil, stepsForFillings); most.Value <= r.present*(1+closeEnough) {
		return nil, 0
	}
	fillings, left := configured.Dive(stepsForDive)
	if slices.ContainsFunc(left, func(n int) bool { return n > 0 }) {
		return nil, 0
	}
	for _, f := range fillings {
		for _, o := range f.Options {
			worth += float64(float64(f.Nodes) * r.problem.Options[f.Shape][o].Value)
		}
	}
	return fillings, worth
}

// uses is what the jobs use of each resource of each shape as they sit.
func (r *repack) uses() []float64 {
	uses := make([]float64, columns.Resources*len(r.shapes))
	for s := range r.shapes {
		for _, n := range r.shapes[s].servers {
			r.shapeOf[n] = s
		}
	}
	for _, i := range r.movable {
		at := columns.Resources * r.shapeOf[r.seats[i].servers[0]]
		size := r.seats[i].size
		uses[at] += float64(size.GPUs)
		uses[at+1] += float64(size.CPUs)
		uses[at+2] += float64(size.Memory) / float64(gres.Gigabyte)
	}
	return uses
}

// berth is a place for a job of a class.
type berth struct {
	server int
	option sensitivity.Option
}

// carryOut seats the jobs anew. Of those of a class who goes first is fastest.
func (r *repack) carryOut(fillings []columns.Filling) {
	berths := r.berths(fillings)
	turns := make([][]int, len(r.classes))
	for at, i := range r.movable {
		turns[r.class[at]] = append(turns[r.class[at]], i)
		r.unseat(i)
	}
	for c, jobs := range turns {
		slices.SortFunc(jobs, func(x, y int) int { return cmp.Compare(r.rank[x], r.rank[y]) })
		slices.SortStableFunc(berths[c], func(x, y berth) int { return cmp.Compare(y.option.Gain, x.option.Gain) })
		for at, i := range jobs {
			r.seatAt(i, r.only(berths[c][at].server), berths[c][at].option)
		}
	}
}

// berths lists the places that fillings have for the jobs of each class.
func (r *repack) berths(fillings []columns.Filling) [][]berth {
	all, taken := make([][]berth, len(r.classes)), make([]int, len(r.shapes))
	for _, f := range fillings {
		st := &r.shapes[f.Shape]
		for range f.Nodes {
			n := st.servers[taken[f.Shape]]
			taken[f.Shape]++
			for _, o := range f.Options {
				c := r.problem.Options[f.Shape][o].Class
				all[c] = append(all[c], berth{n, r.sizes[f.Shape][o]})
			}
		}
	}
	return all
}
