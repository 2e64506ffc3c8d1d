package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// rearrange gives other servers to the single-node jobs that start, so that those which want much do not meet on one
// server. While jobs wait for GPUs it only exchanges places of one size, so that how hungry a job is has no say in who
// runs; to servers that none of those could use jobs may also move (the paper's best fit, §4).
func (b arrangement) rearrange() {
	movers := b.movers()
	for _, group := range alikeIn(movers, b.comparePlaces) {
		b.exchange(group)
	}
	if b.uncontested.any() {
		slices.SortFunc(movers, b.wantsMore)
		for _, i := range movers {
			if !b.seats[i].cleared { // others were stopped for that place
				b.moveToBetter(i)
			}
		}
	}
	for n := range b.servers {
		if sv := &b.servers[n]; sv.wished != (gres.Vector{}) {
			sv.wished = gres.Vector{}
			b.reshelve(n)
		}
	}
}

// movers are the jobs whose server is still open to choice. That of one which restarts to be faster there is not.
func (b arrangement) movers() []int {
	var movers []int
	for _, i := range b.fresh() {
		if s := &b.seats[i]; s.standing == fresh && len(s.servers) == 1 && !s.growing() {
			movers = append(movers, i)
		}
	}
	return movers
}

// helpless are the reasons of jobs that could not use a server if one came free.
var helpless = []Reason{Barred, Shape, Closed, InReservation, InQuota}

// findUncontested finds the servers that no job could use which waits for GPUs.
func (b arrangement) findUncontested() {
	for n := range b.servers {
		b.uncontested.add(n)
	}
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == waits && !slices.Contains(helpless, s.told.reason) {
			if b.uncontested.without(s.class.eligible.servers); !b.uncontested.any() {
				return
			}
		}
	}
}

// alikeIn sorts jobs and cuts them into runs of equals.
func alikeIn(jobs []int, compare func(x, y int) int) [][]int {
	sorted := slices.Clone(jobs)
	slices.SortStableFunc(sorted, compare)
	var groups [][]int
	for from, at := 0, 1; at <= len(sorted); at++ {
		if at == len(sorted) || compare(sorted[from], sorted[at]) != 0 {
			groups = append(groups, sorted[from:at])
			from = at
		}
	}
	return groups
}

// comparePlaces orders jobs by the size of their places, large ones first, and tells those apart that cannot exchange
// them.
func (b arrangement) comparePlaces(x, y int) int {
	s, t := &b.seats[x], &b.seats[y]
	return cmp.Or(cmp.Compare(t.size.GPUs, s.size.GPUs), cmp.Compare(b.servers[s.servers[0]].shape,
		b.servers[t.servers[0]].shape),
		cmp.Compare(s.class.eligible.number, t.class.eligible.number), cmp.Compare(s.class.tasks, t.class.tasks),
		cmp.Compare(s.class.season.own, t.class.season.own), cmp.Compare(s.class.season.now, t.class.season.now),
		compareBool(s.class.lends, t.class.lends))
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// exchange deals the places of the jobs out anew, round after round: in each the hungriest go to the servers with most
// room. If that leaves a job without place, everything stays as it was.
func (b arrangement) exchange(jobs []int) {
	slices.SortFunc(jobs, b.wantsMore)
	homes := make([]int, len(jobs))
	var cleared set // servers on which some of the places were made by others
	for k, i := range jobs {
		homes[k] = b.seats[i].servers[0]
		if b.seats[i].cleared {
			if cleared == nil {
				cleared = newSet(len(b.servers))
			}
			cleared.add(homes[k])
		}
		b.unseat(i)
	}
	left, places := jobs, slices.Clone(homes)
	for before := 0; len(left) > 0 && len(left) != before; {
		before = len(left)
		left, places = b.deal(left, places)
	}
	if len(left) == 0 {
		if cleared != nil {
			b.inTurn(jobs, cleared)
		}
		return
	}
	for _, i := range jobs[:len(jobs)-len(left)] {
		b.lift(i)
	}
	for k, i := range jobs {
		b.sit(i, homes[k])
	}
}

// inTurn gives the places that are free already, of those that equal jobs have, to those that go first: in the others
// one waits until somebody has saved.
func (b arrangement) inTurn(jobs []int, cleared set) {
	slices.SortFunc(jobs, func(x, y int) int { return cmp.Compare(b.rank[x], b.rank[y]) })
	type wants struct{ least, most gres.Vector }
	var all []wants // in an order that no map has
	equal := map[wants][]int{}
	for _, i := range jobs {
		w := wants{b.seats[i].size, b.wish(i)}
		if len(equal[w]) == 0 {
			all = append(all, w)
		}
		equal[w] = append(equal[w], i)
	}
	for _, w := range all {
		b.freeFirst(equal[w], cleared)
	}
	for _, i := range jobs {
		b.seats[i].cleared = cleared.has(b.seats[i].servers[0])
	}
}

// freeFirst deals the places of equal jobs, which come in their turn, so that those on servers that nobody had to clear
// come first.
func (b arrangement) freeFirst(jobs []int, cleared set) {
	places := make([]int, len(jobs))
	for k, i := range jobs {
		places[k] = b.seats[i].servers[0]
	}
	slices.SortStableFunc(places, func(x, y int) int { return compareBool(cleared.has(x), cleared.has(y)) })
	if !slices.ContainsFunc(jobs, func(i int) bool { return cleared.has(b.seats[i].servers[0]) }) {
		return
	}
	for _, i := range jobs {
		b.lift(i)
	}
	for k, i := range jobs {
		b.sit(i, places[k])
	}
}

// deal gives each server with a place one job, the hungriest to the one with most room, and answers who and what is
// left over.
func (b arrangement) deal(jobs, places []int) (waiting, free []int) {
	slices.SortFunc(places, func(x, y int) int { return cmp.Or(cmp.Compare(b.room(y), b.room(x)), cmp.Compare(x, y)) })
	last := -1
	for _, n := range places {
		if n != last && len(jobs) > 0 && b.leastAlone(jobs[0], n).Size.Fits(b.servers[n].open()) {
			b.sit(jobs[0], n)
			jobs = jobs[1:]
		} else {
			free = append(free, n)
		}
		last = n
	}
	return jobs, free
}

// sit puts job i, alone of its node, on server n, and notes what it wishes for.
func (b arrangement) sit(i, n int) {
	b.seatAt(i, []int{n}, b.leastAlone(i, n))
	b.wishUpon(i, 1)
}

// lift undoes sit.
func (b arrangement) lift(i int) {
	b.wishUpon(i, -1)
	b.unseat(i)
}

// leastAlone is the least size of a job on one node.
func (b arrangement) leastAlone(i, n int) sensitivity.Option {
	return b.least(i, gangShape{1, b.jobs[i].GPUs}, n)
}

// room weighs what server n has beside the wishes on it.
func (b arrangement) room(n int) float64 {
	sv := &b.servers[n]
	left := sv.open().Minus(sv.wished)
	return float64(left.CPUs)/float64(max(1, sv.Total.CPUs)) + float64(left.Memory)/float64(max(1, sv.Total.Memory))
}

// wantsMore orders by what jobs wish for, the largest first, then by ID.
func (b arrangement) wantsMore(x, y int) int {
	v, w := b.wish(x), b.wish(y)
	return cmp.Or(cmp.Compare(w.GPUs, v.GPUs), cmp.Compare(w.CPUs, v.CPUs), cmp.Compare(w.Memory, v.Memory),
		cmp.Compare(x, y))
}

func (b arrangement) wish(i int) gres.Vector { return b.wishOf(b.seats[i].menu) }

// wishUpon notes on its server what job i would like beyond what it has.
func (b arrangement) wishUpon(i, sign int) {
	n := b.seats[i].servers[0]
	sv := &b.servers[n]
	sv.wished = sv.wished.Plus(b.wish(i).Minus(b.seats[i].size).Times(sign))
	b.reshelve(n)
}

// moveToBetter moves job i to the node that suits its wish best, if there is a better one than its own.
func (b arrangement) moveToBetter(i int) {
	s := &b.seats[i]
	home := s.servers[0]
	if b.servers[home].wished.Fits(b.servers[home].open()) {
		return // everybody's wish can be granted here
	}
	b.lift(i)
	to := b.bestFor(i)
	if to < 0 {
		to = home
	}
	b.sit(i, to)
	if to != home {
		b.freed++
	}
}

// looks bounds how many nodes are compared before the best of them is taken.
const looks = 64

// bestFor finds the server with the least left over on which the wish of job i fits beside the wishes of others, or the
// one with the most cores left where none has enough; -1 where there is no room beyond the share.
func (b arrangement) bestFor(i int) int {
	k, w := b.seats[i].class, gangShape{1, b.jobs[i].GPUs}
	best, seen := -1, 0
	var least gres.Vector
	b.now.from(w.gpus, k.eligible.servers.and(b.roomy).and(b.uncontested), func(n int) bool {
		sv := &b.servers[n]
		if least := b.least(i, w, n).Size; b.bars(i, n) || !least.Fits(sv.open()) || !b.affords(k, 1, least) {
			return true
		}
		left := sv.open().Minus(sv.wished).Minus(b.wishOf(b.menu(k, w.gpus, n)))
		if best < 0 || better(left, least) {
			best, least = n, left
		}
		seen++
		return seen < looks
	})
	return best
}

// better compares what two servers would have left: enough before too little; of two with enough, the one with less; of
// two with too little, the one with more.
func better(a, b gres.Vector) bool {
	order := cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory))
	switch {
	case covers(a) && covers(b):
		return order < 0
	case covers(a) != covers(b):
		return covers(a)
	}
	return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory)) > 0
}

func covers(left gres.Vector) bool { return left.CPUs >= 0 && left.Memory >= 0 }
