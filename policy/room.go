package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// clearing is what must happen on one server so that a job fits: some give back what they hold beyond their share, some go.
type clearing struct {
	server  int
	shrinks []shrink
	leaves  []int
	last    int     // the earliest turn among those that leave; the later the better
	cost    float64 // of the restarts, in GPU-seconds at the proportional speed
}

// shrink is a running job and the size that it is restarted with.
type shrink struct {
	job int
	to  sensitivity.Option
}

func (c clearing) stops() int { return len(c.shrinks) + len(c.leaves) }

// makeRoom seats job i by disturbing running jobs: first by taking back what others hold beyond their share, and only then by
// stopping those whose turn comes later.
func (b *board) makeRoom(i int, w way) bool {
	if b.stops <= 0 {
		b.costly = b.costly || b.maybe.top() >= w.gpus
		return false
	}
	return b.clear(i, w, b.now, 0) || b.clear(i, w, b.maybe, math.MaxInt)
}

// clear seats job i on servers from the shelf after clearing them, if few enough leave and the rules allow it.
func (b *board) clear(i int, w way, from *shelf, leaves int) bool {
	plans := b.clearings(i, w, from, leaves)
	if plans == nil || !b.affordable(i, plans) {
		return false
	}
	servers := make([]int, 0, len(plans))
	for _, p := range plans {
		b.carryOut(p, i)
		servers = append(servers, p.server)
	}
	slices.Sort(servers)
	b.seatAt(i, servers, w.gpus, b.alloc.least(b.menus.of(&b.c.Jobs[i], w.gpus, b.servers[servers[0]].Total)))
	b.seats[i].cleared = true
	return true
}

// clearings finds as many servers of one shape as the way has that can be cleared, those first whose leaving jobs come last.
func (b *board) clearings(i int, w way, from *shelf, leaves int) []clearing {
	j := &b.c.Jobs[i]
	var all []clearing
	seen := 0
	from.from(w.gpus, func(n int) bool {
		if !b.allows(j, n) {
			return true
		}
		if plan, can := b.clearServer(i, n, w, leaves); can {
			all = append(all, plan)
		}
		seen++
		return seen < max(looks, 4*w.nodes)
	})
	slices.SortStableFunc(all, func(x, y clearing) int {
		return cmp.Or(cmp.Compare(y.last, x.last), cmp.Compare(x.cost, y.cost))
	})
	return b.ofOneShape(all, w.nodes)
}

func (b *board) ofOneShape(all []clearing, nodes int) []clearing {
	for _, first := range all {
		var chosen []clearing
		for _, p := range all {
			if b.servers[p.server].Total == b.servers[first.server].Total && !overlap(chosen, p) {
				chosen = append(chosen, p)
			}
			if len(chosen) == nodes {
				return chosen
			}
		}
	}
	return nil
}

// overlap says whether p shrinks a job that another server's clearing shrinks as well, to another size perhaps: a gang across
// both. Only one of the two servers is taken then.
func overlap(chosen []clearing, p clearing) bool {
	for _, c := range chosen {
		for _, s := range c.shrinks {
			if slices.ContainsFunc(p.shrinks, func(t shrink) bool { return t.job == s.job }) {
				return true
			}
		}
	}
	return false
}

// clearServer plans how job i could be fitted on server n with no more than so many jobs leaving. The last in turn leaves first.
func (b *board) clearServer(i, n int, w way, leaves int) (clearing, bool) {
	sv := &b.servers[n]
	need := b.alloc.least(b.menus.of(&b.c.Jobs[i], w.gpus, sv.Total)).Size
	plan := clearing{server: n, last: math.MaxInt}
	left := sv.open()
	for {
		if need.Fits(left) {
			return plan, true
		}
		if need.GPUs <= left.GPUs && b.giveBack(&plan, sv, need.Minus(left)) {
			return plan, true
		}
		v := b.nextToLeave(i, sv, plan.leaves)
		if v < 0 || len(plan.leaves) >= leaves {
			return plan, false
		}
		plan.leaves = append(plan.leaves, v)
		plan.last = min(plan.last, b.rank[v])
		plan.cost += b.restartCost(v)
		left = left.Plus(b.seats[v].size)
	}
}

// nextToLeave picks the job on the server whose turn is last, if it comes after that of job i; -1 if there is none.
func (b *board) nextToLeave(i int, sv *server, gone []int) int {
	last := -1
	for _, v := range sv.jobs {
		if b.seats[v].standing != loose || b.rank[v] < b.rank[i] || slices.Contains(gone, v) {
			continue
		}
		if last < 0 || b.rank[v] > b.rank[last] {
			last = v
		}
	}
	return last
}

// giveBack adds to the plan jobs on the server that shrink until missing is free. Those that lose least go first; each keeps as
// much as it can.
func (b *board) giveBack(plan *clearing, sv *server, missing gres.Vector) bool {
	var shrinks []shrink
	cost := 0.0
	for _, v := range b.mostToSpare(sv, plan.leaves) {
		to, freed := b.shrunk(v, missing)
		if freed.CPUs <= 0 && freed.Memory <= 0 {
			continue
		}
		shrinks = append(shrinks, shrink{v, to})
		cost += b.restartCost(v)
		missing = missing.Minus(freed)
		if missing.CPUs <= 0 && missing.Memory <= 0 {
			plan.shrinks, plan.cost = shrinks, plan.cost+cost
			return true
		}
	}
	return false
}

// mostToSpare lists the server's jobs that may be stopped and stay, those with the most cores beyond their least first.
func (b *board) mostToSpare(sv *server, leaves []int) []int {
	var able []int
	for _, v := range sv.jobs {
		if !slices.Contains(leaves, v) && b.seats[v].menu != nil {
			able = append(able, v)
		}
	}
	slices.SortFunc(able, func(x, y int) int {
		return cmp.Or(cmp.Compare(b.spare(y), b.spare(x)), cmp.Compare(b.c.Jobs[x].ID, b.c.Jobs[y].ID))
	})
	return able
}

func (b *board) spare(v int) int {
	s := &b.seats[v]
	return s.size.CPUs - s.menu.least().Size.CPUs
}

// shrunk is the largest size of running job v that frees what is missing, or as much of it as v can.
func (b *board) shrunk(v int, missing gres.Vector) (to sensitivity.Option, freed gres.Vector) {
	s := &b.seats[v]
	for k := len(s.menu.options) - 1; k >= 0; k-- {
		o := s.menu.options[k]
		less := s.size.Minus(o.Size)
		if less.CPUs < 0 || less.Memory < 0 {
			continue
		}
		to, freed = o, less
		if less.CPUs >= missing.CPUs && less.Memory >= missing.Memory {
			break
		}
	}
	return to, freed
}

// restartCost is what one restart of running job v costs, in GPU-seconds at the proportional speed.
func (b *board) restartCost(v int) float64 {
	return worth(&b.c.Jobs[v], b.seats[v].gain, b.c.Jobs[v].Restart)
}

// affordable says whether the rules allow what the plans stop, and whether the job that is seated gains by it. What a job holds
// beyond its share is lent, so its loss does not count against the one who is owed; the restarts do.
func (b *board) affordable(i int, plans []clearing) bool {
	stops, cost := 0, 0.0
	for _, p := range plans {
		stops += p.stops()
		cost += p.cost
	}
	j := &b.c.Jobs[i]
	if stops > b.stops || cost > worth(j, 1, b.ahead(j)) {
		b.costly = true
		return false
	}
	return true
}

// carryOut stops and shrinks whom the plan says, for job i.
func (b *board) carryOut(p clearing, i int) {
	id := b.c.Jobs[i].ID
	for _, v := range p.leaves {
		if b.seats[v].standing == loose { // a gang may have left with another server
			b.stop(v, GivesWay, fmt.Sprintf("gives way to job %d", id))
			b.unseat(v, displaced)
		}
	}
	for _, s := range p.shrinks {
		if st := b.seats[s.job].standing; st == loose || st == kept {
			b.stop(s.job, Shrinks, fmt.Sprintf("gives back what it held beyond its share, for job %d", id))
			b.reseat(s.job, fresh, s.to)
		}
	}
}

// stop notes that running job v is stopped, and why.
func (b *board) stop(v int, reason Reason, why string) {
	b.seats[v].reason, b.seats[v].why = reason, why
	b.stops--
	b.freed++
}
