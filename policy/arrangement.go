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
// A job's wish is the size that it would get if there were room (wishOf). The wishes that were noted on servers for
// this are erased at the end.
func rearrange(b *board) {
	movers := movableStarts(b)
	for _, group := range alikeIn(movers, func(x int, y int) int { return comparePlaces(b, x, y) }) {
		dealPlaces(b, group)
	}
	if b.uncontested.any() {
		slices.SortFunc(movers, func(x int, y int) int { return compareWishes(b, x, y) })
		for _, i := range movers {
			if !b.states[i].onClearedPlace { // other jobs were stopped for exactly that place
				moveToBestServer(b, i)
			}
		}
	}
	for n := range b.servers {
		if sv := &b.servers[n]; sv.wishedBeyond != (gres.Vector{}) {
			sv.wishedBeyond = gres.Vector{}
			b.reindex(n)
		}
	}
}

// movableStarts lists the starting jobs on one server that could as well be on another. A running job that restarts
// with more on its own server (growing) is not among them.
func movableStarts(b *board) []int {
	var movers []int
	for _, i := range b.startingJobs() {
		if s := &b.states[i]; s.status == statusStarting && len(s.servers) == 1 && !s.growing() {
			movers = append(movers, i)
		}
	}
	return movers
}

// cannotUseFree are the reasons of waiting jobs that could not use a server that becomes free. Such jobs do not keep
// other jobs from moving to idle servers.
var cannotUseFree = []Reason{Barred, Shape, Closed, InReservation, InQuota}

// findUncontested finds the servers that no job waiting for GPUs could use. Jobs may move to idle places only there, so
// that no waiting job loses a place to a job that runs already.
func findUncontested(b *board) {
	for n := range b.servers {
		b.uncontested.add(n)
	}
	for i := range b.states {
		if s := &b.states[i]; s.status == statusWaiting && !slices.Contains(cannotUseFree, s.answer.reason) {
			if b.uncontested.removeAll(s.class.eligible.servers); !b.uncontested.any() {
				return
			}
		}
	}
}

// alikeIn sorts jobs by compare and cuts them into groups of equals, for each of which places are dealt out separately.
// There are no groups without jobs.
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

// comparePlaces orders jobs by the size of their places, most GPUs first. It is 0 only for two jobs that may exchange
// places: with one size in GPUs, server shape, set of eligible servers, number of tasks, reservation, and ability to
// give back.
func comparePlaces(b *board, x, y int) int {
	s, t := &b.states[x], &b.states[y]
	return cmp.Or(
		cmp.Compare(t.size.GPUs, s.size.GPUs),
		cmp.Compare(b.servers[s.servers[0]].shape,
			b.servers[t.servers[0]].shape),
		cmp.Compare(s.class.eligible.number, t.class.eligible.number),
		cmp.Compare(s.class.tasks, t.class.tasks),
		cmp.Compare(
			s.class.reservationKey.own,
			t.class.reservationKey.own,
		),
		cmp.Compare(s.class.reservationKey.now, t.class.reservationKey.now),
		compareBool(s.class.canGiveBack, t.class.canGiveBack),
	)
}

// compareBool puts false before true, for sorting.
func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// dealPlaces deals out anew the places of jobs that may exchange them (comparePlaces). In each turn the jobs that wish
// for most go to the servers with most room, one job to a server, so that jobs with large demands do not meet on one.
// If a job finds no place in that way, all keep their old places.
func dealPlaces(b *board, jobs []int) {
	slices.SortFunc(jobs, func(x int, y int) int { return compareWishes(b, x, y) })
	homes := make([]int, len(jobs))
	var cleared serverSet // servers on which jobs were stopped to make a place
	for k, i := range jobs {
		homes[k] = b.states[i].servers[0]
		if b.states[i].onClearedPlace {
			if cleared == nil {
				cleared = newServerSet(len(b.servers))
			}
			cleared.add(homes[k])
		}
		b.takeOff(i)
	}
	left, places := jobs, slices.Clone(homes)
	for before := 0; len(left) > 0 && len(left) != before; {
		before = len(left)
		left, places = dealOnePerServer(b, left, places)
	}
	if len(left) == 0 {
		if cleared != nil {
			dealByRank(b, jobs, cleared)
		}
		return
	}
	for _, i := range jobs[:len(jobs)-len(left)] {
		liftWithWish(b, i)
	}
	for k, i := range jobs {
		placeWithWish(b, i, homes[k])
	}
}

// dealByRank deals places out once more among jobs with equal sizes and wishes. Places that are free now go to the
// earlier-ranked jobs. The others are on cleared servers, where jobs were stopped to make a place; they are free only
// once those jobs have saved.
func dealByRank(b *board, jobs []int, cleared serverSet) {
	slices.SortFunc(jobs, func(x, y int) int { return cmp.Compare(b.rank[x], b.rank[y]) })
	type wants struct{ least, most gres.Vector }
	var all []wants // the keys of equal in a fixed order, which a map has not
	equal := map[wants][]int{}
	for _, i := range jobs {
		w := wants{b.states[i].size, wishOfJob(b, i)}
		if len(equal[w]) == 0 {
			all = append(all, w)
		}
		equal[w] = append(equal[w], i)
	}
	for _, w := range all {
		dealFreeFirst(b, equal[w], cleared)
	}
	for _, i := range jobs {
		b.states[i].onClearedPlace = cleared.has(b.states[i].servers[0])
	}
}

// dealFreeFirst deals out the places of equal jobs, which come in rank order: first those on servers without stopped
// jobs, where a job starts sooner, then those on cleared servers. It changes nothing if no place is on a cleared
// server.
func dealFreeFirst(b *board, jobs []int, cleared serverSet) {
	places := make([]int, len(jobs))
	for k, i := range jobs {
		places[k] = b.states[i].servers[0]
	}
	slices.SortStableFunc(places, func(x, y int) int { return compareBool(cleared.has(x), cleared.has(y)) })
	if !slices.ContainsFunc(jobs, func(i int) bool { return cleared.has(b.states[i].servers[0]) }) {
		return
	}
	for _, i := range jobs {
		liftWithWish(b, i)
	}
	for k, i := range jobs {
		placeWithWish(b, i, places[k])
	}
}

// dealOnePerServer gives each server with a place one job. jobs come with the largest wish first, and the first of them
// goes to the server with most room. The jobs and places that are left over are for the next turn.
func dealOnePerServer(b *board, jobs, places []int) (waiting, free []int) {
	slices.SortFunc(places, func(x, y int) int {
		return cmp.Or(cmp.Compare(unwishedRoom(b, y), unwishedRoom(b, x)), cmp.Compare(x, y))
	})
	last := -1
	for _, n := range places {
		if n != last && len(jobs) > 0 && leastOnOneNode(b, jobs[0], n).Size.Fits(b.servers[n].available()) {
			placeWithWish(b, jobs[0], n)
			jobs = jobs[1:]
		} else {
			free = append(free, n)
		}
		last = n
	}
	return jobs, free
}

// placeWithWish places single-node job i on server n with its least size. What the job wishes for beyond that is noted
// there, so that jobs placed later see how much of the server's room is still unclaimed.
func placeWithWish(b *board, i, n int) {
	b.placeOn(i, []int{n}, leastOnOneNode(b, i, n))
	noteWish(b, i, 1)
}

// liftWithWish undoes placeWithWish.
func liftWithWish(b *board, i int) {
	noteWish(b, i, -1)
	b.takeOff(i)
}

// leastOnOneNode is the least size of job i on a single node.
func leastOnOneNode(b *board, i, n int) sensitivity.Option {
	return leastSize(b, i, gangShape{1, b.jobs[i].GPUs}, n)
}

// unwishedRoom weighs what server n has left beside the wishes noted there: the free parts of its cores and of its
// memory, added up; negative if the wishes exceed what is free. The server with most takes the next job.
func unwishedRoom(b *board, n int) float64 {
	sv := &b.servers[n]
	left := sv.available().Minus(sv.wishedBeyond)
	return float64(left.CPUs)/float64(max(1, sv.Total.CPUs)) + float64(left.Memory)/float64(max(1, sv.Total.Memory))
}

// compareWishes orders jobs by what they wish for, the largest first, then by ID.
func compareWishes(b *board, x, y int) int {
	v, w := wishOfJob(b, x), wishOfJob(b, y)
	return cmp.Or(cmp.Compare(w.GPUs, v.GPUs), cmp.Compare(w.CPUs, v.CPUs), cmp.Compare(w.Memory, v.Memory),
		cmp.Compare(x, y))
}

// wishOfJob is the size that the allocator would give job i if there were room.
func wishOfJob(b *board, i int) gres.Vector { return b.wishOf(b.states[i].menu) }

// noteWish notes on the server of job i what the job would like beyond what it has; sign -1 takes the note back. Notes
// reserve nothing: they only tell how crowded a server would be.
func noteWish(b *board, i, sign int) {
	n := b.states[i].servers[0]
	sv := &b.servers[n]
	sv.wishedBeyond = sv.wishedBeyond.Plus(wishOfJob(b, i).Minus(b.states[i].size).Times(sign))
	b.reindex(n)
}

// moveToBestServer moves job i to the server that suits its wish best, if that is another one. It stays where all the
// wishes noted on its server fit. The place that it leaves counts as freed, since a waiting job may fit there.
func moveToBestServer(b *board, i int) {
	s := &b.states[i]
	home := s.servers[0]
	if b.servers[home].wishedBeyond.Fits(b.servers[home].available()) {
		return // all wishes fit here
	}
	liftWithWish(b, i)
	to := bestServer(b, i)
	if to < 0 {
		to = home
	}
	placeWithWish(b, i, to)
	if to != home {
		b.freedCount++ // the old place: a waiting job may fit there
	}
}

// maxCompared bounds how many nodes are compared before the best of them is taken.
const maxCompared = 64

// bestServer finds the server that suits the wish of job i best, among uncontested servers with more free cores than go
// with one GPU. Where the wish fits beside the other wishes, the server with the least left over is best. If it fits
// nowhere, the server with the most cores left is. -1: none of them has room for the least size of the job.
func bestServer(b *board, i int) int {
	k, w := b.states[i].class, gangShape{1, b.jobs[i].GPUs}
	best, seen := -1, 0
	var least gres.Vector // what the best one would have left
	b.byFreeGPUs.visitFrom(
		w.gpus,
		k.eligible.servers.intersection(b.roomyServers).intersection(b.uncontested),
		func(n int) bool {
			sv := &b.servers[n]
			if least := leastSize(b, i, w, n).Size; keptFrom(b, i, n) || !least.Fits(sv.available()) ||
				!affords(b, k, 1, least) {
				return true
			}
			left := sv.available().Minus(sv.wishedBeyond).Minus(b.wishOf(b.menu(k, w.gpus, n)))
			if best < 0 || leavesBetter(left, least) {
				best, least = n, left
			}
			seen++
			return seen < maxCompared
		},
	)
	return best
}

// leavesBetter reports whether a server that would have a left is better for a job than one that would have b left.
// Negative amounts are missing. A server with enough is better than one with too little. Of two with enough, the one
// with less left is better, which saves the larger room. Of two with too little, the one with more is better.
func leavesBetter(a, b gres.Vector) bool {
	order := cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory))
	switch {
	case nothingMissing(a) && nothingMissing(b):
		return order < 0
	case nothingMissing(a) != nothingMissing(b):
		return nothingMissing(a)
	}
	return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory)) > 0
}

// nothingMissing reports that neither cores nor memory are missing.
func nothingMissing(left gres.Vector) bool { return left.CPUs >= 0 && left.Memory >= 0 }
