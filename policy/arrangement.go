package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// rearrange redistributes the starting single-node jobs over servers, so that jobs with large demands do not meet on
// one server. While jobs wait for GPUs it only exchanges equal places, so that a job's demand for cores has no
// influence on which jobs run. To servers that no waiting job could use, jobs may also move (the paper's best fit, §4).
func (b arrangement) rearrange() {
	movers := b.movers()
	for _, group := range alikeIn(movers, b.comparePlaces) {
		b.exchange(group)
	}
	if b.uncontested.any() {
		slices.SortFunc(movers, b.wantsMore)
		for _, i := range movers {
			if !b.seats[i].cleared { // other jobs were stopped for exactly that place
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

// movers lists the starting jobs whose server is still open to choice. A job that restarts to be faster on its server
// is not among them.
func (b arrangement) movers() []int {
	var movers []int
	for _, i := range b.fresh() {
		if s := &b.seats[i]; s.standing == fresh && len(s.servers) == 1 && !s.growing() {
			movers = append(movers, i)
		}
	}
	return movers
}

// helpless are the reasons of waiting jobs that could not use a server that becomes free.
var helpless = []Reason{Barred, Shape, Closed, InReservation, InQuota}

// findUncontested finds the servers that no job waiting for GPUs could use.
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

// alikeIn sorts jobs by compare and cuts them into groups of equals.
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

// comparePlaces orders jobs by the size of their places, most GPUs first, and tells apart jobs that cannot exchange
// places: with other server shapes, eligible servers, tasks, reservations, or ability to give back.
func (b arrangement) comparePlaces(x, y int) int {
	s, t := &b.seats[x], &b.seats[y]
	return cmp.Or(cmp.Compare(t.size.GPUs, s.size.GPUs), cmp.Compare(b.servers[s.servers[0]].shape,
		b.servers[t.servers[0]].shape),
		cmp.Compare(s.class.eligible.number, t.class.eligible.number), cmp.Compare(s.class.tasks, t.class.tasks),
		cmp.Compare(s.class.season.own, t.class.season.own), cmp.Compare(s.class.season.now, t.class.season.now),
		compareBool(s.class.lends, t.class.lends))
}

// compareBool puts false before true.
func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// exchange deals out the places of equal jobs anew, round after round: in each round the jobs that wish for most go to
// the servers with most room, one job to a server. If that leaves a job without place, all keep their old places.
func (b arrangement) exchange(jobs []int) {
	slices.SortFunc(jobs, b.wantsMore)
	homes := make([]int, len(jobs))
	var cleared set // servers on which jobs were stopped to make a place
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

// inTurn deals places out among jobs with equal sizes and wishes: places that are free now go to the earlier-ranked
// jobs, since a cleared place is free only once the stopped jobs have saved.
func (b arrangement) inTurn(jobs []int, cleared set) {
	slices.SortFunc(jobs, func(x, y int) int { return cmp.Compare(b.rank[x], b.rank[y]) })
	type wants struct{ least, most gres.Vector }
	var all []wants // the keys of equal in a fixed order, which a map has not
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

// freeFirst deals out the places of equal jobs, which come in rank order, places on servers without stopped jobs first.
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

// deal gives each server with a place one job, the job that wishes for most to the server with most room. It returns
// the jobs and places that are left over.
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

// sit places single-node job i on server n with its least size, and notes there what it wishes for beyond that.
func (b arrangement) sit(i, n int) {
	b.seatAt(i, []int{n}, b.leastAlone(i, n))
	b.wishUpon(i, 1)
}

// lift undoes sit.
func (b arrangement) lift(i int) {
	b.wishUpon(i, -1)
	b.unseat(i)
}

// leastAlone is the least size of job i on a single node.
func (b arrangement) leastAlone(i, n int) sensitivity.Option {
	return b.least(i, gangShape{1, b.jobs[i].GPUs}, n)
}

// room weighs what server n has left beside the wishes noted there: the free parts of its cores and of its memory,
// added up.
func (b arrangement) room(n int) float64 {
	sv := &b.servers[n]
	left := sv.open().Minus(sv.wished)
	return float64(left.CPUs)/float64(max(1, sv.Total.CPUs)) + float64(left.Memory)/float64(max(1, sv.Total.Memory))
}

// wantsMore orders jobs by what they wish for, the largest first, then by ID.
func (b arrangement) wantsMore(x, y int) int {
	v, w := b.wish(x), b.wish(y)
	return cmp.Or(cmp.Compare(w.GPUs, v.GPUs), cmp.Compare(w.CPUs, v.CPUs), cmp.Compare(w.Memory, v.Memory),
		cmp.Compare(x, y))
}

// wish is the size that the allocator would give job i if there were room.
func (b arrangement) wish(i int) gres.Vector { return b.wishOf(b.seats[i].menu) }

// wishUpon notes on its server what job i would like beyond what it has; sign -1 takes the note back.
func (b arrangement) wishUpon(i, sign int) {
	n := b.seats[i].servers[0]
	sv := &b.servers[n]
	sv.wished = sv.wished.Plus(b.wish(i).Minus(b.seats[i].size).Times(sign))
	b.reshelve(n)
}

// moveToBetter moves job i to the server that suits its wish best, if that is another one.
func (b arrangement) moveToBetter(i int) {
	s := &b.seats[i]
	home := s.servers[0]
	if b.servers[home].wished.Fits(b.servers[home].open()) {
		return // all wishes fit here
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

// bestFor finds the server with the least left over on which the wish of job i fits beside other wishes, or, if it fits
// nowhere, the one with the most cores left; -1 if no server has room beyond the share.
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

// better compares what two servers would have left: enough beats too little; of two with enough, the one with less left
// is better; of two with too little, the one with more.
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

// covers reports that neither cores nor memory are missing.
func covers(left gres.Vector) bool { return left.CPUs >= 0 && left.Memory >= 0 }
