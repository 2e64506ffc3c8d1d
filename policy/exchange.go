package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Running jobs exchange places. While jobs wait no GPU is idle, so a job would stay where it was first placed, and jobs
// with large demands would stay together. An exchange of as many GPUs for as many harms no waiting job. It is made if
// the jobs of both servers, sized as well as possible, gain more within rules.payback than all the restarts cost. Every
// job in it counts for the whole of that time, so whether it pays depends on the two servers alone.

// market is what is known of the servers for exchanges. All of it is a cache that the board can rebuild.
type market struct {
	jobsOn          []serverJobs          // of each server
	rank            []int                 // servers with jobs to exchange, those that could gain most first
	unlacking       []int                 // if servers are many: those of rank that lack nothing (see lacking)
	roundPrices     prices                // the prices of the round, see pricesOf
	contested       []*eligibility        // eligible servers of jobs that wait for GPUs
	contestedBefore []*eligibility        // contested, when it was listed the time before
	uncontested     serverSet             // board.uncontested when contested was listed
	contestEra      int                   // counts the changes of contested and uncontested
	manyServers     bool                  // too many servers to compare all pairs, or to exchange two jobs for one
	searchedInVain  bool                  // nothing has changed since a search found no gain
	vainPairs       map[[2]int]vainSearch // by pair of servers: the last search without a gain
	refilled        refillState           // see nothingChanged
	budgetLeft      int                   // of the round's budget, see exchangeBudget
	stamps          []int                 // of each server, counts its changes (forgetSearches)

	// Scratch memory.
	choiceStock []choice   // memory for the choices that a search lists
	listedJobs  []int      // see exchangeableOn
	groups      []*menu    // menus of all partners, each once, while prices are computed
	priced      int        // how many of the groups prices are computed from
	sizer       sizeSolver // sizes the jobs of one server
	lists       [][]choice // the choices of several jobs, while they are sized
	trials      []trial    // see listTrials
	spareCurves [2]curve   // memory for curves, see curveWithout
}

// newMarket makes an empty market of so many servers; no server has the stamp -1, so each is listed when it is first
// looked at.
func newMarket(servers int) market {
	m := market{stamps: make([]int, servers), jobsOn: make([]serverJobs, servers)}
	for n := range m.jobsOn {
		m.jobsOn[n] = serverJobs{server: n, stamp: -1}
	}
	return m
}

// serverJobs is the jobs of a server that an exchange may move or resize, and what is known of them together.
type serverJobs struct {
	server    int
	partners  []partner // the jobs that may be moved or resized
	offers    []offer   // what it may give
	pricedFor prices    // prices for which it was valued; NaN, which equals no prices: not yet
	stamp     int       // of the server when the partners' choices were listed
	stock     []choice  // holds the choices of all partners
	// room is the idle GPUs, and the cores and memory that the partners hold or that are free.
	room      gres.Vector
	slack     float64 // see priceServer
	leastLoss float64 // the smallest loss of an offer that it may give
	// lacks is what they want beyond what is left, at the round's prices; negative: what they leave.
	lacks    gres.Vector
	netAlone float64 // the most that they can net where they are, see netWithoutExchange; NaN: not computed
	curves   []curve // of all partners but one, for each; empty: not computed
}

// partner is a job that may be moved or resized.
type partner struct {
	job, id int      // its number in this round, and its ID
	choices []choice // on its present server
	// bestNet is the most that a choice nets at the round's prices, compared with what the job holds now.
	bestNet float64
	// loss is how much less that is if the job moves to a server of the same shape.
	loss float64
}

// offer is what a server gives in an exchange: one or two of its partners, or an idle place.
type offer struct {
	partnerIndexes [2]int // indexes of its partners
	count          int    // how many of partnerIndexes are used
	gpus           int    // of all of them together; 0: an idle place
	// loss is how much less the server's jobs net at most, at the round's prices, if this leaves for a server of the
	// same shape.
	loss     float64
	netBound float64 // see boundWithout; NaN: not computed
}

func (h offer) partnersGiven() []int { return h.partnerIndexes[:h.count] }

func (h offer) givesPartner(x int) bool { return slices.Contains(h.partnersGiven(), x) }

// trial is a possible exchange and an upper bound on what it gains, by which trials are tried in turn.
type trial struct {
	firstOffer, secondOffer offer // what each of the two servers gives
	bound                   float64
}

// exchange is a set of changes on two or more servers, and what they net.
type exchange struct {
	net           float64        // in GPU-seconds, the cost of all restarts taken off
	reassignments []reassignment // all that has to be carried out together
}

// reassignment says on which server a job is to be, and with what size.
type reassignment struct {
	job, server int
	choice      choice // its size there, and what that nets
}

// vainSearch records the state of two servers between which nothing can be gained, and the work that it took to find
// that.
type vainSearch struct {
	stamps [2]int // of both servers (market.stamps): the record holds as long as these are the same
	work   int    // in units of exchangeBudget
	// idle says that waiting jobs kept them from exchanging an idle place: the record holds only in this era of the
	// market.
	idle bool
	era  int
}

// exchangeBudget bounds the search for exchanges in a round, in pairs of servers that are compared and exchanges that
// are sized exactly.
const exchangeBudget = 4096

// fillsPerUnit is how many fills (ways to size the first jobs of a server, see sizeSolver) count as one more unit of
// work: jobs that are all unlike can be combined in many ways.
const fillsPerUnit = 256

// leastNetGPUs is the gain, in GPUs over rules.payback, up to which an exchange is not made.
const leastNetGPUs = 1.0 / 128

// leastNet is the least that an exchange must net, in GPU-seconds.
func leastNet(b *board) float64 { return leastNetGPUs * b.c.Rules.payback().Seconds() }

// swap makes exchanges, beginning with the servers that could gain most, as long as there are any, at most maxRepeats
// times over all servers, and reports whether there were. It does nothing if an earlier search found none and nothing
// has changed since.
func swap(b *board) bool {
	m := &b.market
	if len(b.servers) < 2 {
		return false
	}
	listContested(b)
	if m.searchedInVain && m.settledFor(b) {
		return false
	}
	done := false
	for pass := 0; pass < maxRepeats; pass++ {
		m.searchedInVain = true
		appraiseServers(b)
		again := false
		for _, n := range m.rank {
			for exchangeFrom(b, n) {
				again, done = true, true
			}
		}
		if !again {
			break
		}
	}
	return done
}

// settledFor reports whether a search in vain need not be repeated as time passes. That is so if all pairs of servers
// were compared; otherwise the next search looks at others.
func (m *market) settledFor(b *board) bool { return len(b.servers) <= maxCompared }

// exchangeFrom makes the best exchange of server n with another one, and reports whether there is one. It compares at
// most maxCompared servers, and stops when the round's budget is used up; then the search does not count as in vain
// (searchedInVain), so that the next round goes on.
func exchangeFrom(b *board, n int) bool {
	m := &b.market
	p := &m.jobsOn[n]
	best := exchange{net: leastNet(b)}
	seen := 0
	for _, o := range m.partnersOf(p) {
		q := &m.jobsOn[o]
		if o == n {
			continue
		}
		if seen++; seen > maxCompared {
			break
		}
		if m.budgetLeft <= 0 {
			m.searchedInVain = false // the next round goes on with a new budget
			break
		}
		if pairMayGain(b, p, q, best.net) {
			searchPair(b, p, q, &best)
		}
	}
	if best.reassignments == nil {
		return false
	}
	carryOutExchange(b, &best)
	reappraise(b, best.reassignments)
	return true
}

// partnersOf lists the servers that the server of p is compared with: all; or, if the servers are many, those that lack
// nothing. nil: the servers are many and p lacks nothing, so no exchange begins with p, but p may be the other side of
// one.
func (m *market) partnersOf(p *serverJobs) []int {
	switch {
	case !m.manyServers:
		return m.rank
	case p.lacking():
		return m.unlacking
	}
	return nil
}

// lacking reports that the jobs of a server want more cores or memory than there are, at the round's prices.
func (p *serverJobs) lacking() bool { return p.lacks.CPUs > 0 || p.lacks.Memory > 0 }

// pairMayGain reports whether an exchange between two servers may net more than net, so that a search is worth its
// time. For servers of one shape the slacks bound what it can net. For unlike ones no bound is known before each job's
// sizes on the other server are listed, so they are compared unless there are too many shapes (maxShapes).
func pairMayGain(b *board, p, q *serverJobs, net float64) bool {
	switch {
	case sameShape(b, p, q) && p.slack+q.slack-p.leastLoss-q.leastLoss <= net:
		return false
	case sameShape(b, p, q):
		return true
	}
	return b.shapes <= maxShapes
}

// boundWithout is an upper bound, cached, on what the jobs of server p net if offer h leaves for a server of the same
// shape. It takes the offer's jobs to have all the room there, and the others all the room here. It rules out offers
// before they are combined with those of the other server.
func boundWithout(b *board, p *serverJobs, h *offer) float64 {
	if math.IsNaN(h.netBound) {
		h.netBound = curveWithout(b, p, *h)[p.room.CPUs] + float64(b.market.roundPrices.memory*float64(p.room.Memory))
		for _, x := range h.partnersGiven() {
			// Room costs it nothing: it has the other server's to itself.
			h.netBound += valueIfMoved(b, p.partners[x].job, p.partners[x].choices, prices{})
		}
	}
	return h.netBound
}

// maxShapes is how many shapes of servers there may be for jobs on servers of unlike shape to exchange places: each
// pair of shapes needs every job's sizes on both.
const maxShapes = 8

// sameShape reports that two servers have one shape.
func sameShape(b *board, p, q *serverJobs) bool {
	return b.servers[p.server].shape == b.servers[q.server].shape
}

// appraiseServers lists the jobs of all servers that an exchange may touch, finds the prices of the round, and ranks
// the servers by what an exchange could gain there. If the number of servers crosses maxCompared, what was searched in
// vain is searched again.
func appraiseServers(b *board) {
	m := &b.market
	m.jobsOn = resized(m.jobsOn, len(b.servers))
	for n := range b.servers {
		appraise(b, n)
	}
	m.roundPrices = pricesOf(b, m.jobsOn)
	m.rank = m.rank[:0]
	for n := range m.jobsOn {
		if p := &m.jobsOn[n]; len(p.partners) > 0 {
			priceServer(b, p, m.roundPrices)
			m.rank = append(m.rank, n)
		}
	}
	worth := func(n int) float64 { return m.jobsOn[n].slack - m.jobsOn[n].leastLoss }
	if many := len(m.rank) > maxCompared; many != m.manyServers {
		m.manyServers = many
		b.forgetAllSearches() // other exchanges are looked at then, which no earlier search has tried
	}
	slices.SortStableFunc(m.rank, func(x, y int) int { return cmp.Compare(worth(y), worth(x)) })
	rankWithoutLack(b)
}

// rankWithoutLack lists the servers that lack nothing, if there are too many to compare all pairs: a server that lacks
// cores or memory is then compared with these alone.
func rankWithoutLack(b *board) {
	m := &b.market
	m.unlacking = m.unlacking[:0]
	if !m.manyServers {
		return
	}
	for _, n := range m.rank {
		if !m.jobsOn[n].lacking() {
			m.unlacking = append(m.unlacking, n)
		}
	}
}

// reappraise lists anew the jobs of the servers that an exchange has changed, so that the next exchange begins from
// them. The prices of the round stay.
func reappraise(b *board, orders []reassignment) {
	for n := range b.market.jobsOn {
		if slices.ContainsFunc(orders, func(o reassignment) bool { return o.server == n }) {
			appraise(b, n)
			priceServer(b, &b.market.jobsOn[n], b.market.roundPrices)
		}
	}
}

// listContested lists the eligible servers of waiting jobs that could use a GPU that becomes free. On these no idle
// place may be taken by an exchange (mayUseIdlePlace). If the list or the uncontested servers have changed, the era
// changes, and with it what earlier searches found about idle places.
func listContested(b *board) {
	m := &b.market
	m.contested, m.contestedBefore = m.contestedBefore[:0], m.contested
	for i := range b.states {
		if s := &b.states[i]; s.status == statusWaiting && !slices.Contains(m.contested, s.class.eligible) &&
			!slices.Contains(cannotUseFree, s.answer.reason) {
			m.contested = append(m.contested, s.class.eligible)
		}
	}
	if !slices.Equal(m.contested, m.contestedBefore) || !slices.Equal(m.uncontested, b.uncontested) {
		m.contestEra, m.searchedInVain, m.uncontested = m.contestEra+1, false, append(
			m.uncontested[:0],
			b.uncontested...)
	}
}

// appraise lists the jobs of server n that may be exchanged, with their sizes, and the room that they and the idle GPUs
// have. If neither the server nor those jobs have changed, the cached list stands, and only the jobs' numbers are
// updated, which differ from round to round.
func appraise(b *board, n int) {
	m, p := &b.market, &b.market.jobsOn[n]
	jobs := exchangeableOn(b, n)
	if p.stamp == m.stamps[n] && slices.EqualFunc(p.partners, jobs,
		func(x partner, i int) bool { return x.id == b.ids[i] }) {
		for k, i := range jobs {
			p.partners[k].job = i
		}
		return
	}
	*p = serverJobs{server: n, stamp: m.stamps[n], partners: p.partners[:0], offers: p.offers, stock: p.stock[:0],
		curves: p.curves, netAlone: math.NaN(),
		pricedFor: prices{math.NaN(), 0}, room: b.servers[n].available().Max(gres.Vector{})}
	for _, i := range jobs {
		var list []choice
		list, p.stock = listChoices(b, i, n, p.stock)
		p.partners = append(p.partners, partner{job: i, id: b.ids[i], choices: list})
		size := b.states[i].size
		p.room.CPUs, p.room.Memory = p.room.CPUs+size.CPUs, p.room.Memory+size.Memory
	}
}

// exchangeableOn lists the jobs on server n that an exchange may touch, at most maxPartners, in reused memory. There
// are none on a server that is closed, overdrawn, or kept for a job: a job that restarts on a kept server could not be
// asked to leave for some time. A kept server may not be kept in another round, so the search then does not count as in
// vain (searchedInVain).
func exchangeableOn(b *board, n int) []int {
	m, sv := &b.market, &b.servers[n]
	m.listedJobs = m.listedJobs[:0]
	if sv.Closed != "" || !(gres.Vector{}).Fits(sv.available()) {
		return nil
	}
	if b.keptNodes != nil && b.keptNodes.servers.has(n) {
		m.searchedInVain = false // in another round it may not be kept
		return nil
	}
	for _, i := range sv.jobs {
		if mayExchange(b, i) && len(m.listedJobs) < maxPartners {
			m.listedJobs = append(m.listedJobs, i)
		}
	}
	return m.listedJobs
}

// maxPartners bounds the partners of a server.
const maxPartners = 16

// mayExchange reports whether job i may be moved or resized for the common gain. A gang may not, nor a job for which
// other jobs were stopped, nor one that ends before a restart must have paid off (rules.payback). If the round has no
// stops left for a running job, the search does not count as in vain (searchedInVain), since the next round may stop
// it.
func mayExchange(b *board, i int) bool {
	s := &b.states[i]
	if len(s.servers) != 1 || s.onClearedPlace || !growable(b, i) ||
		timeUntilEnd(b, i, unknownLength) < b.c.Rules.payback() {
		return false
	}
	if s.status == statusKept && b.stops <= 0 {
		b.market.searchedInVain = false // the next round may stop it
	}
	return sizeIsFree(b, i)
}

// listChoices lists the sizes that job i may have on server n and what they net, at the end of stock, which many lists
// share. It returns that part and the whole stock. Where the job is now, it leaves out sizes that are no better than
// staying: they net nothing and are at least as large. For a job that was to grow it leaves out sizes that would make
// it slower than it was before the round: then it should not restart at all. On a server where another profile applies
// the job has no choice.
func listChoices(b *board, i, n int, stock []choice) (list, more []choice) {
	s := &b.states[i]
	m := b.menu(s.class, s.size.GPUs, n)
	from, home, payback := len(stock), s.servers[0] == n, b.c.Rules.payback()
	if home {
		stock = append(stock, choice{s.size, s.gain, 0, true})
	}
	if m.profile == s.menu.profile { // else its speed is unknown on one of the two
		unit := m.unit / s.menu.unit
		for _, o := range m.options {
			net := netOver(b, i, o.Gain*unit, payback)
			if home && net <= 0 && s.size.Fits(o.Size) || s.growing() && o.Gain*m.unit < s.speedBefore {
				continue
			}
			stock = append(stock, choice{o.Size, o.Gain, net, false})
		}
	}
	return stock[from:len(stock):len(stock)], stock
}

// pricesOf finds prices at which all jobs together want no more than their servers have; by these it is estimated what
// exchanges can net. Jobs with one menu want the same, so they are counted on the menu (menu.jobCount, 0 again at the
// end) and looked at once.
func pricesOf(b *board, parties []serverJobs) prices {
	m := &b.market
	m.groups, m.priced = m.groups[:0], math.MaxInt
	var supply gres.Vector
	for k := range parties {
		p := &parties[k]
		if len(p.partners) == 0 {
			continue
		}
		supply = supply.Plus(p.room)
		for x := range p.partners {
			g := b.states[p.partners[x].job].menu
			if g.jobCount == 0 {
				m.groups = append(m.groups, g)
			}
			g.jobCount++
		}
	}
	at := clearingPrices(b, sampleMenus(b, supply))
	for _, g := range m.groups {
		g.jobCount = 0
	}
	return at
}

// maxPriced is how many menus prices are computed from. A sample will do: the bounds hold at any prices.
const maxPriced = 256

// pricedMenus are the menus that prices are computed from.
func (m *market) pricedMenus() []*menu { return m.groups[:min(m.priced, len(m.groups))] }

// sampleMenus keeps only every n-th of the menus for the prices, if there are more than maxPriced: these are moved to
// the front of market.groups and counted (priced). It returns the part of the supply that belongs to their jobs by
// GPUs.
func sampleMenus(b *board, supply gres.Vector) gres.Vector {
	m := &b.market
	step := (len(m.groups) + maxPriced - 1) / maxPriced
	if step < 2 {
		return supply
	}
	all, some := 0, 0
	for k, g := range m.groups {
		all += g.jobCount * g.fair.GPUs
		if k%step == 0 {
			some += g.jobCount * g.fair.GPUs
			m.groups[k/step], m.groups[k] = g, m.groups[k/step]
		}
	}
	m.priced = (len(m.groups) + step - 1) / step
	part := float64(some) / float64(all)
	return gres.Vector{GPUs: supply.GPUs, CPUs: int(part * float64(supply.CPUs)),
		Memory: gres.Memory(part * float64(supply.Memory))}
}

// clearingPrices finds the least price of a core, and of a MiB beside it, at which no more is wanted than there is. A
// core is searched for below the value of the largest gain, at which no job would pay for one more core; a MiB below a
// thousandth of that.
func clearingPrices(b *board, supply gres.Vector) prices {
	at := prices{}
	highest := 0.0
	for _, g := range b.market.pricedMenus() {
		highest = max(highest, gainValue(b, g, g.demand().Gain))
	}
	for range 2 { // since each of the two prices depends on the other
		at.core = leastPrice(
			highest,
			func(core float64) bool { return takenAtPrices(b, prices{core, at.memory}).CPUs <= supply.CPUs },
		)
		at.memory = leastPrice(highest/1000,
			func(memory float64) bool { return takenAtPrices(b, prices{at.core, memory}).Memory <= supply.Memory })
	}
	return at
}

// leastPrice finds the least price for which does is true, by ten bisections below high, at which it need not be true.
// A price that is a little off makes the bounds of exchanges looser, never wrong.
func leastPrice(high float64, does func(price float64) bool) float64 {
	if does(0) {
		return 0
	}
	low := 0.0
	for range 10 {
		if mid := (low + high) / 2; does(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// gainValue is what a gain on a menu is worth over rules.payback, in GPU-seconds.
func gainValue(b *board, m *menu, gain float64) float64 {
	return float64(gain * m.unit * b.c.Rules.payback().Seconds() * float64(m.fair.GPUs))
}

// takenAtPrices is what the jobs of all priced menus would take at these prices. Each takes the size whose value
// exceeds its price by most.
func takenAtPrices(b *board, at prices) gres.Vector {
	var sum gres.Vector
	for _, g := range b.market.pricedMenus() {
		best, most := 0, math.Inf(-1)
		for k := range g.options {
			if v := gainValue(b, g, g.options[k].Gain) - at.costOf(g.options[k].Size); v > most {
				best, most = k, v
			}
		}
		sum = sum.Plus(g.options[best].Size.Times(g.jobCount))
	}
	return sum
}

// priceServer computes, unless that is done for these prices, the slack of a server: what its jobs could net at most if
// cores and memory could be bought and sold at the prices. At any prices, the slacks of two servers of one shape are
// together an upper bound on what both can net, wherever their jobs go (the duality of linear programs); so pairs with
// too little slack need no search. It also computes what each job loses if it has to move, and what the server lacks.
func priceServer(b *board, p *serverJobs, at prices) {
	if p.pricedFor == at {
		return
	}
	p.pricedFor, p.offers = at, p.offers[:0]
	for x := range p.curves {
		p.curves[x] = p.curves[x][:0]
	}
	open := b.servers[p.server].available()
	p.slack, p.lacks = at.costOf(open), gres.Vector{}.Minus(open)
	p.leastLoss = math.Inf(1)
	if p.room.GPUs > 0 {
		p.leastLoss = 0 // to give an idle place costs its jobs nothing
	}
	for k := range p.partners {
		x := &p.partners[k]
		now, wants := b.states[x.job].size, gres.Vector{}
		x.bestNet = 0
		for c := range x.choices {
			o := &x.choices[c]
			more := o.size.Minus(now)
			if net := o.net - at.costOf(more); net > x.bestNet {
				x.bestNet, wants = net, more
			}
		}
		x.loss = x.bestNet - valueIfMoved(b, x.job, x.choices, at)
		p.slack, p.lacks, p.leastLoss = p.slack+x.bestNet, p.lacks.Plus(wants), min(p.leastLoss, x.loss)
	}
}

// valueIfMoved is the most that one of the choices of job i nets at these prices if the job has to be started anew, so
// that even its present size costs a restart.
func valueIfMoved(b *board, i int, choices []choice, at prices) float64 {
	s, leave := &b.states[i], math.Inf(-1)
	for k := range choices {
		o := &choices[k]
		net := o.net
		if o.staysPut {
			net = netOver(b, i, o.gain, b.c.Rules.payback())
		}
		leave = max(leave, net-at.costOf(o.size.Minus(s.size)))
	}
	return leave
}

// searchPair looks for an exchange between two servers that nets more than the best so far, and replaces best with it.
// A search in vain is remembered with the work that it took, so that it need not be made again while the servers stay
// as they are. It is not remembered if stops or quotas were in the way: then it may succeed later all the same. The
// work is taken off the round's budget.
func searchPair(b *board, p, q *serverJobs, best *exchange) {
	m := &b.market
	pair := [2]int{min(p.server, q.server), max(p.server, q.server)}
	note := vainSearch{stamps: [2]int{m.stamps[pair[0]], m.stamps[pair[1]]}, era: m.contestEra, work: m.budgetLeft}
	if was, known := m.vainPairs[pair]; known && was.stamps == note.stamps && (!was.idle || was.era == m.contestEra) {
		m.budgetLeft -= was.work // as if searched again, or the plan would depend on what this planner has cached
		return
	}
	m.budgetLeft, m.choiceStock = m.budgetLeft-1, m.choiceStock[:0]
	least, inVain := leastNet(b), !hasQuotaJobs(b, p.server) && !hasQuotaJobs(b, q.server)
	for _, t := range listTrials(b, p, q, &note) {
		if t.bound <= least {
			break
		}
		m.budgetLeft--
		before := m.sizer.work
		orders, net := sizeTrial(b, p, q, t)
		m.budgetLeft -= (m.sizer.work - before) / fillsPerUnit
		if net <= least {
			continue
		}
		inVain = false
		if net > best.net && ordersAllowed(b, orders) {
			best.net, best.reassignments = net, slices.Clone(orders)
		}
		least = best.net
	}
	if inVain {
		note.work -= m.budgetLeft
		rememberVain(b, pair, note)
	} else {
		m.searchedInVain = false
	}
}

// rememberVain notes that two servers have nothing to gain from each other. All notes are dropped when they become too
// many.
func rememberVain(b *board, pair [2]int, what vainSearch) {
	m := &b.market
	if m.vainPairs == nil || len(m.vainPairs) > maxCompared*len(b.servers) {
		m.vainPairs = map[[2]int]vainSearch{}
	}
	m.vainPairs[pair] = what
}

// listTrials lists the exchanges between two servers that may gain, the largest bound first. If waiting jobs keep the
// two from an exchange of an idle place, that is set in note, since it may be possible when others wait.
func listTrials(b *board, p, q *serverJobs, note *vainSearch) []trial {
	m := &b.market
	m.trials = m.trials[:0]
	listOffers(b, p)
	listOffers(b, q)
	for x := range p.offers {
		for y := range q.offers {
			h, k := &p.offers[x], &q.offers[y]
			if !offersMatch(b, p, q, h, k) || !mayMoveOffer(b, p, h, q) || !mayMoveOffer(b, q, k, p) {
				continue
			}
			if h.gpus == k.gpus || mayUseIdlePlace(b, p, q, k.gpus-h.gpus) {
				addTrial(b, p, q, h, k)
			} else {
				note.idle = true
			}
		}
	}
	slices.SortStableFunc(m.trials, func(x, y trial) int { return cmp.Compare(y.bound, x.bound) })
	return m.trials
}

// offersMatch reports whether offers h of server p and k of server q match, and their exchange may gain. They match
// with as many GPUs on both sides and at most three jobs, or with one job for an idle place. To bound the work, two
// jobs for one are not tried between servers of unlike shape, nor if the servers are many.
func offersMatch(b *board, p, q *serverJobs, h, k *offer) bool {
	switch jobs := h.count + k.count; {
	case h.count > 0 && k.count > 0 && (jobs > 3 || h.gpus != k.gpus), jobs != 1 && (h.count == 0 || k.count == 0):
		return false
	case !sameShape(b, p, q): // what the jobs can net on the other server is not known yet
		return jobs <= 2
	case jobs > 2 && b.market.manyServers:
		return false
	}
	least := leastNet(b)
	return p.slack+q.slack-h.loss-k.loss > least && boundWithout(b, p, h)+boundWithout(b, q, k) > least
}

// listOffers lists what server p may give in an exchange, unless that is done: an idle place, each of its partners, and
// each two partners with equal numbers of GPUs, which another server may take for one job with as many as both.
func listOffers(b *board, p *serverJobs) {
	if len(p.offers) > 0 {
		return
	}
	if p.room.GPUs > 0 {
		p.offers = append(p.offers, offer{netBound: math.NaN()})
	}
	singles := len(p.offers)
	for x := range p.partners {
		p.offers = append(p.offers, offer{[2]int{x}, 1, b.states[p.partners[x].job].size.GPUs, p.partners[x].loss,
			math.NaN()})
	}
	for x, end := singles, len(p.offers); x < end; x++ {
		for y := x + 1; y < end; y++ {
			if h, k := &p.offers[x], &p.offers[y]; h.gpus == k.gpus {
				p.offers = append(
					p.offers,
					offer{[2]int{h.partnerIndexes[0], k.partnerIndexes[0]}, 2, 2 * h.gpus, h.loss + k.loss, math.NaN()},
				)
			}
		}
	}
}

// mayMoveOffer reports whether all jobs of offer h of server p could be started on server q: they may use it, and it is
// not kept for another job or reserved. An idle place (an offer without jobs) may always be given.
func mayMoveOffer(b *board, p *serverJobs, h *offer, q *serverJobs) bool {
	for _, x := range h.partnersGiven() {
		if i := p.partners[x].job; !b.states[i].class.eligible.servers.has(q.server) || keptFrom(b, i, q.server) {
			return false
		}
	}
	return true
}

// mayUseIdlePlace reports whether a job may move to an idle place of the other server: one of q with so many GPUs, or,
// if more is negative, one of p with -more. It may where that leaves waiting jobs with the same places as before, or
// where no job waits that could use any, so that no waiting job loses by it.
func mayUseIdlePlace(b *board, p, q *serverJobs, more int) bool {
	if more > 0 {
		p, q, more = q, p, -more
	}
	// From here on p gives a job with -more GPUs, and q takes it. Unless no waiting job could use either, q must have
	// just so many idle GPUs more than p: then each has free afterwards what the other had before.
	if b.uncontested.has(p.server) && b.uncontested.has(q.server) {
		return q.room.GPUs >= -more
	}
	return sameShape(b, p, q) && q.room.GPUs == p.room.GPUs-more &&
		!slices.ContainsFunc(b.market.contested,
			func(z *eligibility) bool { return z.servers.has(p.server) != z.servers.has(q.server) })
}

// addTrial adds the exchange of offers h and k to the trials if by its bound it may gain enough.
func addTrial(b *board, p, q *serverJobs, h, k *offer) {
	bound := boundWith(b, p, h, q, k)
	if bound <= impossible/2 { // no room on p; half, since nets were added to it
		return
	}
	if bound += boundWith(b, q, k, p, h); bound > leastNet(b) {
		b.market.trials = append(b.market.trials, trial{*h, *k, bound})
	}
}

// boundWith is the most that the jobs of server p can net without offer h and with offer k of server q. They may net
// less in fact: the bound does not limit their memory, it only takes off its price.
func boundWith(b *board, p *serverJobs, h *offer, q *serverJobs, k *offer) float64 {
	m := &b.market
	lists := m.lists[:0]
	for _, y := range k.partnersGiven() {
		lists = append(lists, choicesElsewhere(b, q, y, p.server))
	}
	m.lists = lists
	return curveWithout(
		b,
		p,
		*h,
	).bestNetWith(p.room.CPUs, m.roundPrices.memory, lists) +
		float64(
			m.roundPrices.memory*float64(p.room.Memory),
		)
}

// choicesElsewhere lists the choices of partner y of server q on another server n. The list is in market.choiceStock,
// and valid until the next pair of servers is searched.
func choicesElsewhere(b *board, q *serverJobs, y, n int) []choice {
	list, stock := listChoices(b, q.partners[y].job, n, b.market.choiceStock)
	b.market.choiceStock = stock
	return list
}

// curveWithout is the curve of a server's partners without those of an offer. It is cached for offers of one partner;
// otherwise it is valid until the next call.
func curveWithout(b *board, p *serverJobs, h offer) curve {
	m := &b.market
	for len(p.curves) < len(p.partners) {
		p.curves = append(p.curves, nil)
	}
	if h.count == 1 && len(p.curves[h.partnerIndexes[0]]) > 0 {
		return p.curves[h.partnerIndexes[0]]
	}
	f, next := emptyCurve(p.room.CPUs, m.spareCurves[0]), m.spareCurves[1]
	for x := range p.partners {
		if !h.givesPartner(x) {
			f, next = f.withJob(p.partners[x].choices, m.roundPrices.memory, next), f
		}
	}
	m.spareCurves = [2]curve{f, next}
	if h.count == 1 {
		p.curves[h.partnerIndexes[0]] = append(p.curves[h.partnerIndexes[0]], f...)
		return p.curves[h.partnerIndexes[0]]
	}
	return f
}

// sizeTrial sizes the jobs of both servers exactly after an exchange. It returns the reassignments (orders), in reused
// memory, and what they net beyond what the servers could net without it. If there is no room for all jobs, there are
// no orders and the net is impossible.
func sizeTrial(b *board, p, q *serverJobs, t trial) (orders []reassignment, net float64) {
	orders, here, ok := sizeServer(b, nil, p, t.firstOffer, q, t.secondOffer)
	if !ok {
		return nil, impossible
	}
	orders, there, ok := sizeServer(b, orders, q, t.secondOffer, p, t.firstOffer)
	if !ok {
		return nil, impossible
	}
	return orders, here + there - netWithoutExchange(b, p) - netWithoutExchange(b, q)
}

// sizeServer finds the best sizes on server p if it gives one offer and takes another. It adds a reassignment to orders
// for each job that does not stay as it is, and returns them with what the jobs net; false if there is no room. q is
// the server whose offer is taken; nil if takes is empty.
func sizeServer(
	b *board, orders []reassignment, p *serverJobs, gives offer, q *serverJobs, takes offer,
) ([]reassignment, float64, bool) {
	m := &b.market
	jobs, lists := []int{}, m.lists[:0]
	for x := range p.partners {
		if !gives.givesPartner(x) {
			jobs, lists = append(jobs, p.partners[x].job), append(lists, p.partners[x].choices)
		}
	}
	for _, y := range takes.partnersGiven() {
		jobs, lists = append(jobs, q.partners[y].job), append(lists, choicesElsewhere(b, q, y, p.server))
	}
	m.lists = lists
	net, picks, ok := m.sizer.solve(p.room, lists)
	for at, pick := range picks {
		if o := lists[at][pick]; !o.staysPut {
			orders = append(orders, reassignment{jobs[at], p.server, o})
		}
	}
	return orders, net, ok
}

// netWithoutExchange is the most that the jobs of a server can net where they are, by other sizes alone, cached. An
// exchange is worth only what it nets beyond that.
func netWithoutExchange(b *board, p *serverJobs) float64 {
	if math.IsNaN(p.netAlone) {
		_, p.netAlone, _ = sizeServer(b, nil, p, offer{}, nil, offer{})
	}
	return p.netAlone
}

// ordersAllowed reports whether the rules and quotas allow the reassignments. They must restart no more jobs than the
// round may still stop.
func ordersAllowed(b *board, orders []reassignment) bool {
	stops := 0
	for _, o := range orders {
		stops += boolToInt(b.needsRestart(o.job))
	}
	return stops <= b.stops && quotasAllow(b, orders)
}

// quotasAllow reports whether each quota leaves room for what the reassignments give its jobs together beyond what they
// have now. Jobs that together get no more may exchange even if the quota is overdrawn.
func quotasAllow(b *board, orders []reassignment) bool {
	for q := range b.balances {
		var more gres.Vector
		for _, o := range orders {
			if s := &b.states[o.job]; slices.Contains(s.class.quotas, q) {
				more = more.Plus(o.choice.size.Minus(s.size))
			}
		}
		if (more.CPUs > 0 || more.Memory > 0) &&
			!b.balances[q].left.plusTimes(quotaUse{amount: more}, -1).withinQuota() {
			return false
		}
	}
	return true
}

// carryOutExchange carries out an exchange: it stops the running jobs and places all anew. The job that gains most by
// it is named in the reasons of the others. All jobs are taken off before any is placed, since they take each other's
// places. It counts as freeing room (freedCount), since the servers may now have room for other jobs.
func carryOutExchange(b *board, e *exchange) {
	slices.SortFunc(e.reassignments, func(x, y reassignment) int { return cmp.Compare(x.job, y.job) })
	first := slices.MaxFunc(e.reassignments, func(x, y reassignment) int {
		return cmp.Or(cmp.Compare(x.choice.net, y.choice.net), cmp.Compare(y.job, x.job))
	})
	for _, o := range e.reassignments {
		// A job that was to grow gets the reason of the exchange, which replaces that.
		if s := &b.states[o.job]; s.status == statusKept || s.growing() {
			reason, why := exchangeReason(b, o, b.jobs[first.job].ID)
			b.stop(o.job, reason, why)
		}
	}
	for _, o := range e.reassignments {
		b.takeOff(o.job)
	}
	for _, o := range e.reassignments {
		b.placeOn(o.job, b.singleServer(o.server), sensitivity.Option{Size: o.choice.size, Gain: o.choice.gain})
	}
	b.freedCount++
}

// exchangeReason says why a running job is restarted for an exchange by which job id gains most: it becomes faster, it
// moves, or it gets less where it is. For a job that becomes faster readDecision fills in the text.
func exchangeReason(b *board, o reassignment, id int) (Reason, string) {
	s, to := &b.states[o.job], b.servers[o.server].Name
	switch {
	case o.choice.gain*b.menu(s.class, s.size.GPUs, o.server).unit > s.speedBefore*(1+gainTie):
		return Grows, ""
	case b.jobs[o.job].Running.Nodes[0] != to:
		return Moves, fmt.Sprintf("moves to %s, so that job %d gains more than all the restarts cost", to, id)
	}
	return Shrinks, shrinkText(b, shrink{job: o.job, to: sensitivity.Option{Gain: o.choice.gain}}, id)
}
