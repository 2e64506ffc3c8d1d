package artifact

import (
	"cmp"
	"slices"
)

// choice is one way to serve a job: worth is its value, the job's speed in ten-thousandths of that at the proportional
// share (speedUnits), and the rest its amounts. All are whole numbers, so that sums are exact in any order.
type choice struct{ worth, cpus, memory int64 }

func (c choice) plus(other choice) choice {
	return choice{c.worth + other.worth, c.cpus + other.cpus, c.memory + other.memory}
}

// group is a number of equal jobs.
type group struct {
	choices []choice // at least one
	count   int      // of the jobs
}

// knapsack makes one choice for each job such that the total value is maximal within two capacities: the first program
// of Synergy (OSDI'22), in whole numbers. The solution is exact.
//
// The best prices for cores and memory give an upper bound on any solution (the Lagrangian bound). Compared with it, a
// job loses the difference between its choice and its best one after both have paid for their amounts, and unused
// capacity loses its price. Few solutions lose little, so all that lose at most a limit are enumerated group by group,
// and the limit is doubled until there is one. No other solution can be better than the best of these.
type knapsack struct {
	groups       []group
	cpus, memory int64           // capacities
	prices       point           // those that give the lowest bound
	limit        float64         // how much worth a solution may lose
	laterGroups  []capacityRange // by group: what the groups after it can take

	// Memory that the next call of solve uses again.
	area, cut    []point            // polygons in which findPrices searches: what is left, and the next
	ranked       []ranked           // choices of the present group within the limit
	choiceCounts []int32            // by choice: how many jobs make it in the move that is being built
	counts       []int32            // the tallies of all moves, one after the other
	moves        []move             // of the present group
	layers       [][]state          // by the number of groups that the states include
	stateIndex   map[[2]int64]int32 // index in the new layer of the state with these cores and memory
}

// capacityRange is the least and the most that groups can take together, whatever their jobs choose.
type capacityRange struct{ leastCPUs, mostCPUs, leastMemory, mostMemory int64 }

// ranked is a choice with the loss of one job that makes it, compared with the best choice at the prices.
type ranked struct {
	choice
	index int // in group.choices
	loss  float64
}

// move is a choice for each job of a group, as sums over its jobs.
type move struct {
	choice // the sums over all jobs
	loss   float64
	counts int // index in knapsack.counts of the number of jobs for each choice
}

// state is a choice for each job of the groups so far. Of states with equal amounts only the best is kept.
type state struct {
	choice
	loss   float64
	before int32 // index of the state without the last group, in the layer before
	counts int   // those of the last move
}

// firstLimit is about what a good solution loses: a hundredth of one job's speed at its proportional share, in the unit
// of worth.
const firstLimit = 100

// solve returns how many jobs make each choice, for all groups one after the other. A solution must exist, since
// otherwise the limit is doubled for ever.
func (k *knapsack) solve(groups []group, cpus, memory int64) []int32 {
	k.groups, k.cpus, k.memory = groups, cpus, memory
	k.findPrices()
	k.sumLaterGroups()
	for k.limit = firstLimit; ; k.limit *= 2 {
		if k.search() {
			return k.bestCounts()
		}
	}
}

// sumLaterGroups sums what the groups after each group can take, from the last one on. With it the search drops a state
// early whose rest cannot fit or would leave too much unused.
func (k *knapsack) sumLaterGroups() {
	k.laterGroups = append(k.laterGroups[:0], make([]capacityRange, len(k.groups)+1)...)
	for i := len(k.groups) - 1; i >= 0; i-- {
		g, s, n := k.groups[i], k.laterGroups[i+1], int64(k.groups[i].count)
		first := g.choices[0]
		own := capacityRange{first.cpus, first.cpus, first.memory, first.memory}
		for _, c := range g.choices {
			own = capacityRange{min(own.leastCPUs, c.cpus), max(own.mostCPUs, c.cpus), min(own.leastMemory, c.memory),
				max(own.mostMemory, c.memory)}
		}
		k.laterGroups[i] = capacityRange{
			s.leastCPUs + n*own.leastCPUs, s.mostCPUs + n*own.mostCPUs,
			s.leastMemory + n*own.leastMemory, s.mostMemory + n*own.mostMemory,
		}
	}
}

// search enumerates the solutions that lose no more than the limit, and returns whether there are any. If not, the
// caller tries a higher limit.
func (k *knapsack) search() bool {
	for len(k.layers) <= len(k.groups) {
		k.layers = append(k.layers, nil)
	}
	k.counts = k.counts[:0]
	k.layers[0] = append(k.layers[0][:0], state{})
	for i := range k.groups {
		k.listMoves(&k.groups[i])
		k.extend(i)
	}
	return len(k.layers[len(k.groups)]) > 0
}

// listMoves lists in k.moves the ways in which the jobs of a group can choose together without losing more than the
// limit, sorted by loss. A choice that loses more than the limit for a single job is left out of k.ranked from the
// start.
func (k *knapsack) listMoves(g *group) {
	_, best := g.bestChoice(k.prices)
	k.ranked, k.moves = k.ranked[:0], k.moves[:0]
	for i, c := range g.choices {
		if loss := best - c.netValue(k.prices); loss <= k.limit {
			k.ranked = append(k.ranked, ranked{c, i, loss})
		}
	}
	slices.SortFunc(k.ranked, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.index, b.index)) })
	k.choiceCounts = append(k.choiceCounts[:0], make([]int32, len(g.choices))...)
	k.assignRank(1, g.count, move{})
	slices.SortFunc(k.moves, func(a, b move) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.counts, b.counts)) })
}

// assignRank lets 0, 1, 2, … of the remaining jobs make the choice of this rank (its index in k.ranked), and assigns
// the later ranks to the others by recursion. It stops at the number of jobs that would lose more than the limit. After
// the last rank, the jobs that remain make the best choice, rank 0, which loses nothing, and the complete move is
// appended to k.moves.
func (k *knapsack) assignRank(rank, left int, m move) {
	if rank >= len(k.ranked) {
		k.addJobs(0, left, &m)
		m.counts = len(k.counts)
		k.counts = append(k.counts, k.choiceCounts...)
		k.moves = append(k.moves, m)
		return
	}
	for n := 0; n <= left; n++ {
		with := m
		if k.addJobs(rank, n, &with); with.loss > k.limit {
			break
		}
		k.assignRank(rank+1, left-n, with)
	}
}

// addJobs adds n jobs with the choice of this rank to a move, and stores n as the number of jobs that make this choice.
func (k *knapsack) addJobs(rank, n int, m *move) {
	r, jobs := &k.ranked[rank], int64(n)
	k.choiceCounts[r.index] = int32(n)
	m.choice = m.plus(choice{jobs * r.worth, jobs * r.cpus, jobs * r.memory})
	m.loss += float64(float64(n) * r.loss)
}

// extend computes the layer of states that include group i: it adds the group to all states of the layer before, in
// every way that may lead to a solution within the limit. Of states with equal amounts it keeps the one with the
// highest worth, because all of them leave the later groups the same choices. Moves are sorted by loss, so behind the
// first one that exceeds the limit all others exceed it too.
func (k *knapsack) extend(i int) {
	next := k.layers[i+1][:0]
	if k.stateIndex == nil {
		k.stateIndex = map[[2]int64]int32{}
	}
	clear(k.stateIndex)
	for from := range k.layers[i] {
		s := &k.layers[i][from]
		for m := range k.moves {
			if s.loss+k.moves[m].loss > k.limit {
				break
			}
			t := state{s.plus(k.moves[m].choice), s.loss + k.moves[m].loss, int32(from), k.moves[m].counts}
			if !k.mayLead(&t, &k.laterGroups[i+1]) {
				continue
			}
			place := [2]int64{t.cpus, t.memory}
			at, known := k.stateIndex[place]
			switch {
			case !known:
				k.stateIndex[place] = int32(len(next))
				next = append(next, t)
			case t.worth > next[at].worth:
				next[at] = t
			}
		}
	}
	k.layers[i+1] = next
}

// mayLead says whether a state can lead to a solution within the limit. The capacity that the state leaves must suffice
// for the groups behind it. Capacity that these cannot use even with their largest choices stays unused and loses its
// price, which must not exceed what is left of the limit.
func (k *knapsack) mayLead(s *state, behind *capacityRange) bool {
	cpus, memory := k.cpus-s.cpus, k.memory-s.memory
	if cpus < behind.leastCPUs || memory < behind.leastMemory {
		return false
	}
	idle := float64(k.prices.cpus*float64(max(0, cpus-behind.mostCPUs))) + float64(k.prices.memory*float64(max(0,
		memory-behind.mostMemory)))
	return s.loss+idle <= k.limit
}

// bestCounts returns how many jobs make each choice in the best solution, which it traces back through the groups. Of
// solutions with equal value, it takes the one with fewer cores, then with less memory, so the result does not depend
// on the order of the search.
func (k *knapsack) bestCounts() []int32 {
	last := k.layers[len(k.groups)]
	best := slices.MinFunc(last, func(a, b state) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(a.cpus, b.cpus), cmp.Compare(a.memory, b.memory))
	})
	var chosen [][]int32
	for i := len(k.groups); i > 0; i-- {
		chosen = append(chosen, k.counts[best.counts:best.counts+len(k.groups[i-1].choices)])
		best = k.layers[i-1][best.before]
	}
	slices.Reverse(chosen)
	return slices.Concat(chosen...)
}
