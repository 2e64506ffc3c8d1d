package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// refill fills all servers anew, all at once, with running and starting jobs. Which jobs share a server is found as for
// repack, by fillings of whole servers, and done if it pays for all the restarts that it takes. Exchanges of two
// servers (see market) find what two can gain from each other. What only several can gain, each giving jobs to the next
// in a ring, is found here. A filling says which jobs share a server; their sizes are computed afterwards, with the
// cost of restarts subtracted.
type refill struct {
	repack
	// groups lists, for each server that takes part, its jobs that may be moved or resized, as indexes in movable: by
	// class, and in each class those with the dearest restart first, since the first ones stay (see assign).
	groups       map[int][]int
	targetServer []int // the server that each movable job is to be on
	ringParent   []int // of each server, another that it exchanges jobs with; itself at the root (a union-find)
}

// maxMatches bounds how often servers are compared with fillings (matchServers), which takes the square of the number
// of equal servers: up to a thousand of them may take part.
const maxMatches = 1 << 20

// stayBonus is the part of the cost of restarting all jobs on a server that counts for leaving it as it is, while
// fillings are searched for: about that part of the jobs has to move for another filling.
const stayBonus = 0.25

// refillServers exchanges jobs between servers, as many servers at a time as it takes, where that pays for the
// restarts, and reports whether it did. It does nothing if no job could gain, or nothing has changed since that gained
// nothing.
func refillServers(b *board) bool {
	r := refill{repack: repack{board: b}, groups: map[int][]int{}}
	if !r.gatherAll(b) || !r.classifyJobs() || !r.repack.limitGroups() || !r.listProblem() {
		return false
	}
	if r.tooManyMatches() || r.nothingChanged() {
		return false
	}
	fillings := r.findFillings()
	if fillings == nil || !r.assign(fillings) {
		return false
	}
	done := false
	for _, servers := range r.rings() {
		done = r.exchangeRing(b, servers) || done
	}
	if done {
		r.market.refilled = refillState{}
	}
	return done
}

// refillState is the state of the servers when they were last to be filled anew. If it is still the same, filling them
// again would find the same.
type refillState struct {
	jobs, stamps []int           // IDs of the movable jobs; stamps of the servers, see market
	room         []columns.Shape // the server groups and their room
}

// nothingChanged reports whether nothing has changed since the servers were last to be filled anew and that gained
// nothing, so that the long search can be saved. As a side effect it records the present state for the next call. The
// record is dropped (market.refilled) where servers exchanged jobs, and where exchangeRing found a gain that the rules
// or quotas forbade: that may be allowed in a later round.
func (r *refill) nothingChanged() bool {
	now := refillState{stamps: slices.Clone(r.market.stamps), room: r.problem.Shapes}
	for _, i := range r.movable {
		now.jobs = append(now.jobs, r.ids[i])
	}
	was := &r.market.refilled
	vain := slices.Equal(now.jobs, was.jobs) && slices.Equal(now.stamps, was.stamps) && slices.Equal(now.room, was.room)
	*was = now
	return vain
}

// tooManyMatches reports whether the servers are too many to compare each with the fillings of its group (maxMatches).
func (r *refill) tooManyMatches() bool {
	matches := 0
	for s := range r.serverGroups {
		matches += len(r.serverGroups[s].servers) * len(r.serverGroups[s].servers)
	}
	return matches > maxMatches
}

// gatherAll finds the jobs that may be placed or sized anew (movable) and their servers (participants). It is false if
// no job could gain by that, if fewer than two servers take part, or if no running job is among them: starting jobs
// alone are for repackStarts.
func (r *refill) gatherAll(b *board) bool {
	hungry, runs := false, false
	r.participants = newServerSet(len(r.servers))
	for n := range r.servers {
		sv := &r.servers[n]
		if sv.Closed != "" || r.keptNodes != nil && r.keptNodes.servers.has(n) ||
			!(gres.Vector{}).Fits(sv.available()) {
			continue // the last condition: more is held there than the server has
		}
		for _, i := range sv.jobs {
			s := &r.states[i]
			starts := s.status == statusStarting && r.jobs[i].Running == nil
			// A running job that was stopped for another job has shrunk to make room for it and must not grow again.
			if !mayExchange(b, i) || starts && !r.mayPlaceAnew(i) ||
				!starts && s.stopped && !s.growing() && s.answer.reason != Moves {
				continue
			}
			r.movable = append(r.movable, i)
			hungry = hungry || s.gain < s.menu.demand().Gain*(1-gainTie)
			runs = runs || !starts
			r.participants.add(n)
		}
	}
	slices.Sort(r.movable)
	return hungry && runs && r.participants.countCommon(r.participants) > 1
}

// findFillings finds which jobs are to share a server, without regard to which server that is (assign decides it). It
// is nil, and all stays as it is, if the present plan is nearly the best, a job is left over, or a server is too large
// for the program (columns.NewConfigured).
func (r *refill) findFillings() []columns.Filling {
	present := r.listPresent()
	configured, pooled := columns.NewConfigured(&r.problem), columns.NewPooled(&r.problem)
	if configured == nil || pooled.Least(r.present, r.uses, stepsForPrices).Value <= r.present*(1+repackTolerance) {
		return nil
	}
	for _, p := range present {
		configured.Keep(p.stand, p.options, p.bonus)
	}
	configured.Least(pooled.Best, nil, stepsForFillings)
	fillings, left := configured.Dive(stepsForDive)
	if slices.ContainsFunc(left, func(jobs int) bool { return jobs > 0 }) {
		return nil
	}
	return fillings
}

// presentFilling is how a server is filled now. The bonus lets the search prefer that filling, since it takes no
// restarts.
type presentFilling struct {
	stand   int     // index in repack.serverGroups
	options []int   // indexes in problem.Options of that group, one for each job
	bonus   float64 // added to the value of this filling, see stayBonus
}

// listPresent lists how servers are filled now, and adds the present sizes of jobs to the sizes on which the program
// decides: without them it could not choose to leave a server as it is. As a side effect it lists the jobs of each
// server (groups).
func (r *refill) listPresent() (all []presentFilling) {
	standOf := map[int]int{}
	for s := range r.serverGroups {
		for _, n := range r.serverGroups[s].servers {
			standOf[n] = s
		}
	}
	for at, i := range r.movable {
		s := &r.states[i]
		on := standOf[s.servers[0]]
		if r.optionOf(on, at) < 0 {
			value := float64(s.speed() * float64(s.size.GPUs))
			r.problem.Options[on] = append(r.problem.Options[on],
				columns.Option{Class: r.class[at], Parts: 1, Size: s.size, Value: value})
			r.sizes[on] = append(r.sizes[on], sensitivity.Option{Size: s.size, Gain: s.gain})
		}
	}
	for s := range r.serverGroups {
		r.sortSizes(s)
	}
	jobGroups := map[int][]int{}
	for at, i := range r.movable {
		n := r.states[i].servers[0]
		jobGroups[n] = append(jobGroups[n], at)
	}
	payback := r.c.Rules.payback().Seconds()
	for s := range r.serverGroups {
		for _, n := range r.serverGroups[s].servers {
			p := presentFilling{stand: s}
			for _, at := range jobGroups[n] {
				p.options = append(p.options, r.optionOf(s, at))
				p.bonus += stayBonus * r.restartCost(r.movable[at]) / payback
			}
			slices.Sort(p.options)
			if r.groups[n] = r.sortByRestartCost(jobGroups[n]); p.options != nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// sortByRestartCost orders jobs of a server by class, and within a class by the cost of a restart, the largest first:
// the first jobs of a class stay (assign), so the cheapest restarts are made.
func (r *refill) sortByRestartCost(jobGroup []int) []int {
	slices.SortStableFunc(jobGroup, func(x, y int) int {
		i, j := r.movable[x], r.movable[y]
		return cmp.Or(cmp.Compare(r.class[x], r.class[y]), cmp.Compare(r.restartCost(j), r.restartCost(i)),
			cmp.Compare(r.rank[i], r.rank[j]))
	})
	return jobGroup
}

// sortSizes sorts the options of server group s by class, and the sizes in the same order. The linear program needs
// options sorted by class, and listPresent has added some at the end.
func (r *refill) sortSizes(s int) {
	order := make([]int, len(r.sizes[s]))
	for k := range order {
		order[k] = k
	}
	options, sizes := r.problem.Options[s], r.sizes[s]
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(options[x].Class, options[y].Class) })
	r.problem.Options[s], r.sizes[s] = make([]columns.Option, len(order)), make([]sensitivity.Option, len(order))
	for k, at := range order {
		r.problem.Options[s][k], r.sizes[s][k] = options[at], sizes[at]
	}
}

// optionOf finds the option in server group s that is the present size of the movable job with index at; -1: there is
// none.
func (r *refill) optionOf(s, at int) int {
	size := r.states[r.movable[at]].size
	return slices.IndexFunc(r.problem.Options[s],
		func(o columns.Option) bool { return o.Class == r.class[at] && o.Size == size })
}

// jobGroup is the classes of the jobs that a server is to have, ascending; a class occurs once for each of its jobs.
type jobGroup []int

// jobGroupsOf lists the groups of jobs that the fillings give to servers of server group s, one for each server that is
// filled.
func (r *refill) jobGroupsOf(s int, fillings []columns.Filling) (all []jobGroup) {
	for _, f := range fillings {
		if f.Shape != s {
			continue
		}
		c := jobGroup{}
		for _, o := range f.Options {
			c = append(c, r.problem.Options[s][o].Class)
		}
		slices.Sort(c)
		for range f.Nodes {
			all = append(all, c)
		}
	}
	return all
}

// assign decides on which server each movable job is to be (targetServer). Fillings go to the servers that have most of
// their jobs already, so that few jobs restart; a job that cannot stay goes where one of its class is missing. It is
// false if the fillings have other numbers of jobs than there are.
func (r *refill) assign(fillings []columns.Filling) bool {
	r.targetServer, r.ringParent = make([]int, len(r.movable)), make([]int, len(r.servers))
	for n := range r.ringParent {
		r.ringParent[n] = n
	}
	missing, spare := make([][]int, len(r.classes)), make([][]int, len(r.classes))
	for s := range r.serverGroups {
		jobGroups, servers := r.jobGroupsOf(s, fillings), r.serverGroups[s].servers
		got := r.matchServers(jobGroups, servers)
		for k, n := range servers {
			left := got[k]
			for _, at := range r.groups[n] {
				if x, stays := slices.BinarySearch(left, r.class[at]); stays {
					left, r.targetServer[at] = slices.Delete(slices.Clone(left), x, x+1), n
				} else {
					spare[r.class[at]] = append(spare[r.class[at]], at)
				}
			}
			for _, c := range left {
				missing[c] = append(missing[c], n)
			}
		}
	}
	for c := range spare {
		if len(spare[c]) != len(missing[c]) {
			return false
		}
		r.sendJobs(spare[c], missing[c])
	}
	return true
}

// matchServers decides which group of jobs each of the servers is to have, the pairs with most GPUs in common first, so
// that most jobs stay. If there are fewer groups than servers, the servers that are left over get nil: all their
// movable jobs go elsewhere.
func (r *refill) matchServers(jobGroups []jobGroup, servers []int) []jobGroup {
	type pair struct{ jobGroup, server, common int }
	var pairs []pair
	for k, n := range servers {
		has := r.groups[n]
		for c := range jobGroups {
			pairs = append(pairs, pair{c, k, r.commonGPUs(jobGroups[c], has)})
		}
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(y.common, x.common) })
	got, given := make([]jobGroup, len(servers)), make([]bool, len(jobGroups))
	done := make([]bool, len(servers))
	for _, p := range pairs {
		if !given[p.jobGroup] && !done[p.server] {
			got[p.server], given[p.jobGroup], done[p.server] = jobGroups[p.jobGroup], true, true
		}
	}
	return got
}

// commonGPUs is how many GPUs of a server's jobs stay if it gets jobGroup c. has lists these jobs in the order of
// classes.
func (r *refill) commonGPUs(c jobGroup, has []int) (gpus int) {
	x, y := 0, 0
	for x < len(c) && y < len(has) {
		switch k := r.class[has[y]]; {
		case c[x] < k:
			x++
		case c[x] > k:
			y++
		default:
			gpus += r.classes[k].gpus
			x, y = x+1, y+1
		}
	}
	return gpus
}

// sendJobs assigns jobs of a class to servers that lack one, if possible between servers that exchange others already.
// A ring of servers is accepted or rejected as a whole (exchangeRing), so the smaller the rings, the more of them pay.
// There are as many jobs as servers.
func (r *refill) sendJobs(jobs, servers []int) {
	for _, at := range jobs {
		home := r.states[r.movable[at]].servers[0]
		// The first of the servers if none of them exchanges jobs with the job's own so far.
		k := max(0, slices.IndexFunc(servers, func(n int) bool { return r.ringRoot(n) == r.ringRoot(home) }))
		r.targetServer[at] = servers[k]
		r.ringParent[r.ringRoot(servers[k])] = r.ringRoot(home)
		servers = slices.Delete(servers, k, k+1)
	}
}

// ringRoot finds the server that stands for all those with which server n exchanges jobs: the root of its tree in
// ringParent, a union-find. It is n itself if n exchanges no jobs. As a side effect it shortens the path to the root.
func (r *refill) ringRoot(n int) int {
	for r.ringParent[n] != n {
		r.ringParent[n] = r.ringParent[r.ringParent[n]]
		n = r.ringParent[n]
	}
	return n
}

// rings lists groups of servers, two or more in each, that exchange jobs only with each other, so that each group can
// be exchanged or left alone by itself.
func (r *refill) rings() (all [][]int) {
	number := map[int]int{}
	for n := range r.servers {
		root := r.ringRoot(n)
		at, known := number[root]
		if !known {
			at = len(all)
			number[root], all = at, append(all, nil)
		}
		all[at] = append(all[at], n)
	}
	return slices.DeleteFunc(all, func(servers []int) bool { return len(servers) < 2 })
}

// exchangeRing carries out the exchange of one ring of servers, and reports whether it did. It must net more than the
// best sizes of the jobs where they are now, all restarts paid, by more than leastNet, and the rules and quotas must
// allow it. False, too, if a server has no room for its jobs.
func (r *refill) exchangeRing(b *board, servers []int) bool {
	var e exchange
	for _, n := range servers {
		comes, stays := []int{}, r.jobNumbers(r.groups[n])
		for at, to := range r.targetServer {
			if to == n {
				comes = append(comes, r.movable[at])
			}
		}
		room := r.servers[n].available().Max(gres.Vector{})
		for _, i := range stays {
			room = room.Plus(r.states[i].size)
		}
		orders, net := bestSizesOn(b, n, room, comes)
		_, alone := bestSizesOn(b, n, room, stays)
		e.net, e.reassignments = e.net+net-alone, append(e.reassignments, orders...)
	}
	switch {
	case !(e.net > leastNet(b)) || len(e.reassignments) == 0: // also if net is not a number: -Inf less -Inf
		return false
	case !ordersAllowed(b, e.reassignments):
		r.market.refilled = refillState{}
		return false
	}
	carryOutExchange(b, &e)
	return true
}

// jobNumbers turns indexes in movable into the numbers of the jobs on the board.
func (r *refill) jobNumbers(list []int) (jobs []int) {
	for _, at := range list {
		jobs = append(jobs, r.movable[at])
	}
	return jobs
}

// bestSizesOn returns what has to change so that jobs have the best sizes on server n within room, and what that nets
// in GPU-seconds; -Inf if there is no room for them.
func bestSizesOn(b *board, n int, room gres.Vector, jobs []int) (orders []reassignment, net float64) {
	var lists [][]choice
	var stock []choice
	for _, i := range jobs {
		var list []choice
		list, stock = listChoices(b, i, n, stock)
		lists = append(lists, list)
	}
	net, picks, ok := b.market.sizer.solve(room, lists)
	if !ok {
		return nil, math.Inf(-1)
	}
	for at, pick := range picks {
		if o := lists[at][pick]; !o.staysPut {
			orders = append(orders, reassignment{jobs[at], n, o})
		}
	}
	return orders, net
}
