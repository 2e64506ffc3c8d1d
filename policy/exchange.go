package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Running jobs exchange places. While jobs wait no GPU is idle, so a job stays where it first fell, and hungry ones sit
// together. An exchange of as many GPUs for as many harms nobody who waits. It is done where what the jobs of both
// servers gain within rules.payback, sized as well as can be, is more than all the restarts that it takes. Everybody in
// it counts for the whole of that time, so whether it pays depends on the two servers alone.

// market is what is known of the servers for exchanges. All of it can be worked out anew from the board.
type market struct {
	parties     []party // of each server
	rank        []int   // the servers with a party, those first that could gain most
	rich        []int   // where there are many, those of them that lack nothing, those first that have most left
	at          prices
	wanted      []*eligibility // of those who wait for GPUs
	were        []*eligibility // those of the time before
	uncontested set            // as it was then
	era         int            // another one whenever one of the two has changed
	many        bool           // too many servers to compare all with all, and two jobs with one
	still       bool           // nothing has changed since it was found that nothing can be gained
	tested      map[[2]int]vain
	refilled    attempt
	left        int   // of the work of a round
	stamps      []int // of each server, another one whenever it does not stand as it did

	// scratch
	stock   []choice
	jobs    []int
	groups  []*menu
	priced  int // so many of the groups are enough to find prices by
	filling filling
	lists   [][]choice
	trials  []trial
	spare   [2]curve
}

func newMarket(servers int) market {
	m := market{stamps: make([]int, servers), parties: make([]party, servers)}
	for n := range m.parties {
		m.parties[n] = party{server: n, stamp: -1}
	}
	return m
}

// party is those jobs of a server that an exchange may move or resize, and what they share.
type party struct {
	server   int
	partners []partner
	hands    []hand // what it may give
	at       prices // at which it was priced
	stamp    int    // of the server when its partners' choices were listed
	stock    []choice
	room     gres.Vector // GPUs that are idle; cores and memory that the partners hold, and what is left beside them
	slack    float64     // see price
	least    float64     // the least loss of a hand that it may give
	lacks    gres.Vector // what they want at the prices of the round beyond what is left; negative: what they leave
	alone    float64     // the most that they can net where they are, see onItsOwn; not a number where it is not known
	curves   []curve     // of all but one of them each; empty where it is not known
}

// partner is a job that may be moved or resized.
type partner struct {
	job, id int
	choices []choice // where it is
	best    float64  // the most that a choice nets at the prices of the round, beside what the job holds now
	loss    float64  // how much less that is if it leaves for a server of the same shape
}

// hand is what a server gives in an exchange: one or two of its partners, or a place that is idle.
type hand struct {
	at    [2]int
	count int
	gpus  int
	// how much less the party nets at most, at the prices of the round, if this leaves for a server of the same shape
	loss  float64
	reach float64 // see reachOf; not a number where it is not known
}

func (h hand) jobs() []int { return h.at[:h.count] }

func (h hand) has(x int) bool { return slices.Contains(h.jobs(), x) }

// trial is an exchange that may gain so much at most.
type trial struct {
	p, q  hand
	bound float64
}

// exchange is one between two servers, and what it nets.
type exchange struct {
	net    float64
	orders []order
}

// order is a job, where it is to be, and with what.
type order struct {
	job, server int
	choice      choice
}

// vain is what two servers looked like between which nothing can be gained, and the work that it took to find that.
type vain struct {
	stamps [2]int
	work   int
	idle   bool // who waits has kept them from exchanging an idle place; it holds in this era of the market
	era    int
}

// work bounds what is done in a round to find exchanges, in pairs of servers that are compared and exchanges that are
// sized exactly.
const work = 4096

// fillsAsOne is how many fills that sizing looks at count as one more of these: jobs that are all unlike can be
// combined in many ways.
const fillsAsOne = 256

// hardlyAGPU is a gain that is not worth the trouble, in GPUs over rules.payback.
const hardlyAGPU = 1.0 / 128

// leastNet is the least that an exchange must net, in GPU-seconds.
func (b appraisal) leastNet() float64 { return hardlyAGPU * b.c.Rules.payback().Seconds() }

// swap makes exchanges, the servers first that could gain most by one, as long as there are any, and says whether there
// were.
func (b exchanging) swap() bool {
	m := &b.market
	if len(b.servers) < 2 {
		return false
	}
	b.whoWaits()
	if m.still && m.settledFor(b.board) {
		return false
	}
	done := false
	for pass := 0; pass < passes; pass++ {
		m.still = true
		b.gather()
		again := false
		for _, n := range m.rank {
			for b.exchangeFrom(n) {
				again, done = true, true
			}
		}
		if !again {
			break
		}
	}
	return done
}

// settledFor says that what was found when the market was last held holds now: where all pairs of servers are looked
// at, time alone makes none gain.
func (m *market) settledFor(b *board) bool { return len(b.servers) <= looks }

// exchangeFrom makes the best exchange of server n, if there is one.
func (b exchanging) exchangeFrom(n int) bool {
	m := &b.market
	p := &m.parties[n]
	best := exchange{net: b.leastNet()}
	seen := 0
	for _, o := range m.partnersOf(p) {
		q := &m.parties[o]
		if o == n {
			continue
		}
		if seen++; seen > looks {
			break
		}
		if m.left <= 0 {
			m.still = false
			break
		}
		if b.mayGain(p, q, best.net) {
			b.between(p, q, &best)
		}
	}
	if best.orders == nil {
		return false
	}
	b.carry(&best)
	b.regather(best.orders)
	return true
}

// partnersOf lists the servers with which one is compared: all, or, where there are many, those that lack nothing with
// those that lack something.
func (m *market) partnersOf(p *party) []int {
	switch {
	case !m.many:
		return m.rank
	case p.lacking():
		return m.rich
	}
	return nil
}

func (p *party) lacking() bool { return p.lacks.CPUs > 0 || p.lacks.Memory > 0 }

// mayGain says whether two servers may gain more than so much. Of unlike ones that is not known before each job's sizes
// on the other are; where there are too many shapes they are not compared.
func (b exchanging) mayGain(p, q *party, net float64) bool {
	switch {
	case b.alike(p, q) && p.slack+q.slack-p.least-q.least <= net:
		return false
	case b.alike(p, q):
		return true
	}
	return len(b.equals) <= fewShapes
}

// reachOf is the most that the jobs of a party can net if a hand leaves for a server of the same shape, which has all
// for it, and the others may have all that there is where they are.
func (b appraisal) reachOf(p *party, h *hand) float64 {
	if math.IsNaN(h.reach) {
		h.reach = b.without(p, *h)[p.room.CPUs] + float64(b.market.at.memory*float64(p.room.Memory))
		for _, x := range h.jobs() {
			h.reach += b.leaving(p.partners[x].job, p.partners[x].choices, prices{})
		}
	}
	return h.reach
}

// fewShapes is how many shapes of servers there may be for jobs of unlike ones to exchange places.
const fewShapes = 8

func (b appraisal) alike(p, q *party) bool {
	return b.servers[p.server].shape == b.servers[q.server].shape
}

// gather finds the parties of all servers, and what they are worth to each other.
func (b appraisal) gather() {
	m := &b.market
	m.parties = resized(m.parties, len(b.servers))
	for n := range b.servers {
		b.meetOn(n)
	}
	m.at = b.pricesOf(m.parties)
	m.rank = m.rank[:0]
	for n := range m.parties {
		if p := &m.parties[n]; len(p.partners) > 0 {
			b.price(p, m.at)
			m.rank = append(m.rank, n)
		}
	}
	worth := func(n int) float64 { return m.parties[n].slack - m.parties[n].least }
	if many := len(m.rank) > looks; many != m.many {
		m.many = many
		b.forget()
	}
	slices.SortStableFunc(m.rank, func(x, y int) int { return cmp.Compare(worth(y), worth(x)) })
	b.rankTheRich()
}

// rankTheRich lists the servers that lack nothing, where there are too many to compare all with all.
func (b appraisal) rankTheRich() {
	m := &b.market
	m.rich = m.rich[:0]
	if !m.many {
		return
	}
	for _, n := range m.rank {
		if !m.parties[n].lacking() {
			m.rich = append(m.rich, n)
		}
	}
}

// regather finds the parties of servers anew on which something has changed.
func (b appraisal) regather(orders []order) {
	for n := range b.market.parties {
		if slices.ContainsFunc(orders, func(o order) bool { return o.server == n }) {
			b.meetOn(n)
			b.price(&b.market.parties[n], b.market.at)
		}
	}
}

// whoWaits lists the servers that are eligible for those who could use a GPU that comes free.
func (b appraisal) whoWaits() {
	m := &b.market
	m.wanted, m.were = m.were[:0], m.wanted
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == waits && !slices.Contains(m.wanted, s.class.eligible) &&
			!slices.Contains(helpless, s.told.reason) {
			m.wanted = append(m.wanted, s.class.eligible)
		}
	}
	if !slices.Equal(m.wanted, m.were) || !slices.Equal(m.uncontested, b.uncontested) {
		m.era, m.still, m.uncontested = m.era+1, false, append(m.uncontested[:0], b.uncontested...)
	}
}

// meetOn finds the party of server n. Nobody is in one where nodes are kept for another: who restarts there cannot be
// asked for some time.
func (b appraisal) meetOn(n int) {
	m, p := &b.market, &b.market.parties[n]
	jobs := b.partnersOn(n)
	if p.stamp == m.stamps[n] && slices.EqualFunc(p.partners, jobs,
		func(x partner, i int) bool { return x.id == b.ids[i] }) {
		for k, i := range jobs {
			p.partners[k].job = i
		}
		return
	}
	*p = party{server: n, stamp: m.stamps[n], partners: p.partners[:0], hands: p.hands, stock: p.stock[:0],
		curves: p.curves, alone: math.NaN(),
		at: prices{math.NaN(), 0}, room: b.servers[n].open().Max(gres.Vector{})}
	for _, i := range jobs {
		var list []choice
		list, p.stock = b.choices(i, n, p.stock)
		p.partners = append(p.partners, partner{job: i, id: b.ids[i], choices: list})
		size := b.seats[i].size
		p.room.CPUs, p.room.Memory = p.room.CPUs+size.CPUs, p.room.Memory+size.Memory
	}
}

// partnersOn lists the jobs on server n that an exchange may touch.
func (b appraisal) partnersOn(n int) []int {
	m, sv := &b.market, &b.servers[n]
	m.jobs = m.jobs[:0]
	if sv.Closed != "" || !(gres.Vector{}).Fits(sv.open()) {
		return nil
	}
	if b.reserved != nil && b.reserved.servers.has(n) {
		m.still = false
		return nil
	}
	for _, i := range sv.jobs {
		if b.mayExchange(i) && len(m.jobs) < most {
			m.jobs = append(m.jobs, i)
		}
	}
	return m.jobs
}

// most bounds the partners of a server.
const most = 16

// mayExchange says whether job i may be moved or resized for the sake of all. Who ends before a restart must have paid
// for itself stays.
func (b appraisal) mayExchange(i int) bool {
	s := &b.seats[i]
	if len(s.servers) != 1 || s.cleared || !b.growable(i) || b.until(i, unknown) < b.c.Rules.payback() {
		return false
	}
	if s.standing == kept && b.stops <= 0 {
		b.market.still = false
	}
	return b.sizable(i)
}

// choices are the sizes that job i may have on server n, listed at the end of a stock.
func (b appraisal) choices(i, n int, stock []choice) (list, more []choice) {
	s := &b.seats[i]
	m := b.menu(s.class, s.size.GPUs, n)
	from, home, payback := len(stock), s.servers[0] == n, b.c.Rules.payback()
	if home {
		stock = append(stock, choice{s.size, s.gain, 0, true})
	}
	if m.profile == s.menu.profile { // else nobody knows of one of the two how fast the job is there
		unit := m.unit / s.menu.unit
		for _, o := range m.options {
			net := b.netOver(i, o.Gain*unit, payback)
			if home && net <= 0 && s.size.Fits(o.Size) || s.growing() && o.Gain*m.unit < s.was {
				continue
			}
			stock = append(stock, choice{o.Size, o.Gain, net, false})
		}
	}
	return stock[from:len(stock):len(stock)], stock
}

// pricesOf finds prices at which all parties together want no more than they have.
func (b appraisal) pricesOf(parties []party) prices {
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
			g := b.seats[p.partners[x].job].menu
			if g.crowd == 0 {
				m.groups = append(m.groups, g)
			}
			g.crowd++
		}
	}
	at := b.clearingPrices(b.sampled(supply))
	for _, g := range m.groups {
		g.crowd = 0
	}
	return at
}

// mostPriced is how many menus prices are found by. Whatever the prices, what they bound is bounded.
const mostPriced = 256

func (m *market) forPrices() []*menu { return m.groups[:min(m.priced, len(m.groups))] }

// sampled leaves every so manieth of the menus to find prices by, where there are too many, and answers what they have
// of the supply.
func (b appraisal) sampled(supply gres.Vector) gres.Vector {
	m := &b.market
	step := (len(m.groups) + mostPriced - 1) / mostPriced
	if step < 2 {
		return supply
	}
	all, some := 0, 0
	for k, g := range m.groups {
		all += g.crowd * g.fair.GPUs
		if k%step == 0 {
			some += g.crowd * g.fair.GPUs
			m.groups[k/step], m.groups[k] = g, m.groups[k/step]
		}
	}
	m.priced = (len(m.groups) + step - 1) / step
	part := float64(some) / float64(all)
	return gres.Vector{GPUs: supply.GPUs, CPUs: int(part * float64(supply.CPUs)),
		Memory: gres.Memory(part * float64(supply.Memory))}
}

// clearingPrices finds the least price of a core, and of a MiB beside it, at which no more is wanted than there is.
func (b appraisal) clearingPrices(supply gres.Vector) prices {
	at := prices{}
	highest := 0.0
	for _, g := range b.market.forPrices() {
		highest = max(highest, b.valueOf(g, g.demand().Gain))
	}
	for range 2 {
		at.core = leastPrice(highest, func(core float64) bool { return b.wanted(prices{core, at.memory}).CPUs <= supply.CPUs })
		at.memory = leastPrice(highest/1000,
			func(memory float64) bool { return b.wanted(prices{at.core, memory}).Memory <= supply.Memory })
	}
	return at
}

// leastPrice halves its way to the least price that will do.
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

// valueOf is what a gain on a menu is worth over rules.payback.
func (b appraisal) valueOf(m *menu, gain float64) float64 {
	return float64(gain * m.unit * b.c.Rules.payback().Seconds() * float64(m.fair.GPUs))
}

// wanted is what all partners would take at such prices.
func (b appraisal) wanted(at prices) gres.Vector {
	var sum gres.Vector
	for _, g := range b.market.forPrices() {
		best, most := 0, math.Inf(-1)
		for k := range g.options {
			if v := b.valueOf(g, g.options[k].Gain) - at.of(g.options[k].Size); v > most {
				best, most = k, v
			}
		}
		sum = sum.Plus(g.options[best].Size.Times(g.crowd))
	}
	return sum
}

// price works out the slack of a party: what its jobs could net at most if cores and memory could be had and sold at
// such prices. Two parties of one shape never net more together than their slacks, whoever of them sits where, since
// these are a dual of what they can do; whatever the prices.
func (b appraisal) price(p *party, at prices) {
	if p.at == at {
		return
	}
	p.at, p.hands = at, p.hands[:0]
	for x := range p.curves {
		p.curves[x] = p.curves[x][:0]
	}
	open := b.servers[p.server].open()
	p.slack, p.lacks = at.of(open), gres.Vector{}.Minus(open)
	p.least = math.Inf(1)
	if p.room.GPUs > 0 {
		p.least = 0
	}
	for k := range p.partners {
		x := &p.partners[k]
		now, wants := b.seats[x.job].size, gres.Vector{}
		x.best = 0
		for c := range x.choices {
			o := &x.choices[c]
			more := o.size.Minus(now)
			if net := o.net - at.of(more); net > x.best {
				x.best, wants = net, more
			}
		}
		x.loss = x.best - b.leaving(x.job, x.choices, at)
		p.slack, p.lacks, p.least = p.slack+x.best, p.lacks.Plus(wants), min(p.least, x.loss)
	}
}

// leaving is the most that the choices of job i net at such prices if it has to be started anew.
func (b appraisal) leaving(i int, choices []choice, at prices) float64 {
	s, leave := &b.seats[i], math.Inf(-1)
	for k := range choices {
		o := &choices[k]
		net := o.net
		if o.stay {
			net = b.netOver(i, o.gain, b.c.Rules.payback())
		}
		leave = max(leave, net-at.of(o.size.Minus(s.size)))
	}
	return leave
}

// between looks for an exchange between two servers that nets more than the best so far. What was looked at in vain is
// remembered, unless it was something beside the two servers that stood in the way.
func (b exchanging) between(p, q *party, best *exchange) {
	m := &b.market
	pair := [2]int{min(p.server, q.server), max(p.server, q.server)}
	note := vain{stamps: [2]int{m.stamps[pair[0]], m.stamps[pair[1]]}, era: m.era, work: m.left}
	if was, known := m.tested[pair]; known && was.stamps == note.stamps && (!was.idle || was.era == m.era) {
		m.left -= was.work
		return
	}
	m.left, m.stock = m.left-1, m.stock[:0]
	least, inVain := b.leastNet(), !b.counted(p.server) && !b.counted(q.server)
	for _, t := range b.trialsOf(p, q, &note) {
		if t.bound <= least {
			break
		}
		m.left--
		before := m.filling.work
		orders, net := b.try(p, q, t)
		m.left -= (m.filling.work - before) / fillsAsOne
		if net <= least {
			continue
		}
		inVain = false
		if net > best.net && b.permits(orders) {
			best.net, best.orders = net, slices.Clone(orders)
		}
		least = best.net
	}
	if inVain {
		note.work -= m.left
		b.remember(pair, note)
	} else {
		m.still = false
	}
}

// remember notes that two servers have nothing to gain from each other.
func (b appraisal) remember(pair [2]int, what vain) {
	m := &b.market
	if m.tested == nil || len(m.tested) > looks*len(b.servers) {
		m.tested = map[[2]int]vain{}
	}
	m.tested[pair] = what
}

// trialsOf lists the exchanges between two servers that may gain, those first that may gain most.
func (b exchanging) trialsOf(p, q *party, note *vain) []trial {
	m := &b.market
	m.trials = m.trials[:0]
	b.dealHands(p)
	b.dealHands(q)
	for x := range p.hands {
		for y := range q.hands {
			h, k := &p.hands[x], &q.hands[y]
			if !b.mayPay(p, q, h, k) || !b.mayGo(p, h, q) || !b.mayGo(q, k, p) {
				continue
			}
			if h.gpus == k.gpus || b.mayIdle(p, q, k.gpus-h.gpus) {
				b.consider(p, q, h, k)
			} else {
				note.idle = true
			}
		}
	}
	slices.SortStableFunc(m.trials, func(x, y trial) int { return cmp.Compare(y.bound, x.bound) })
	return m.trials
}

// mayPay says whether two hands have as many GPUs, an idle place counting for one job, and their exchange may gain.
func (b exchanging) mayPay(p, q *party, h, k *hand) bool {
	switch jobs := h.count + k.count; {
	case h.count > 0 && k.count > 0 && (jobs > 3 || h.gpus != k.gpus), jobs != 1 && (h.count == 0 || k.count == 0):
		return false
	case !b.alike(p, q): // what the jobs can net on the other server is not known yet
		return jobs <= 2
	case jobs > 2 && b.market.many:
		return false
	}
	least := b.leastNet()
	return p.slack+q.slack-h.loss-k.loss > least && b.reachOf(p, h)+b.reachOf(q, k) > least
}

// dealHands lists what party p may give: nothing, each of its partners, and two of one size.
func (b appraisal) dealHands(p *party) {
	if len(p.hands) > 0 {
		return
	}
	if p.room.GPUs > 0 {
		p.hands = append(p.hands, hand{reach: math.NaN()})
	}
	singles := len(p.hands)
	for x := range p.partners {
		p.hands = append(p.hands, hand{[2]int{x}, 1, b.seats[p.partners[x].job].size.GPUs, p.partners[x].loss,
			math.NaN()})
	}
	for x, end := singles, len(p.hands); x < end; x++ {
		for y := x + 1; y < end; y++ {
			if h, k := &p.hands[x], &p.hands[y]; h.gpus == k.gpus {
				p.hands = append(p.hands, hand{[2]int{h.at[0], k.at[0]}, 2, 2 * h.gpus, h.loss + k.loss, math.NaN()})
			}
		}
	}
}

// mayGo says whether the jobs of a hand could be started on the server of another party.
func (b appraisal) mayGo(p *party, h *hand, q *party) bool {
	for _, x := range h.jobs() {
		if i := p.partners[x].job; !b.seats[i].class.eligible.servers.has(q.server) || b.bars(i, q.server) {
			return false
		}
	}
	return true
}

// mayIdle says whether so many GPUs may be idle on server p in place of as many on q: where that leaves those who wait
// for GPUs with the same places as they have, or nobody does who could use any.
func (b exchanging) mayIdle(p, q *party, more int) bool {
	if more > 0 {
		p, q, more = q, p, -more
	}
	// p gives a job with so many GPUs, q takes it
	if b.uncontested.has(p.server) && b.uncontested.has(q.server) {
		return q.room.GPUs >= -more
	}
	return b.alike(p, q) && q.room.GPUs == p.room.GPUs-more &&
		!slices.ContainsFunc(b.market.wanted,
			func(z *eligibility) bool { return z.servers.has(p.server) != z.servers.has(q.server) })
}

// consider notes an exchange if it may gain.
func (b exchanging) consider(p, q *party, h, k *hand) {
	bound := b.boundOn(p, h, q, k)
	if bound <= impossible/2 {
		return
	}
	if bound += b.boundOn(q, k, p, h); bound > b.leastNet() {
		b.market.trials = append(b.market.trials, trial{*h, *k, bound})
	}
}

// boundOn is the most that party p can net without a hand and with one of party q.
func (b appraisal) boundOn(p *party, h *hand, q *party, k *hand) float64 {
	m := &b.market
	lists := m.lists[:0]
	for _, y := range k.jobs() {
		lists = append(lists, b.choicesOf(q, y, p.server))
	}
	m.lists = lists
	return b.without(p, *h).best(p.room.CPUs, m.at.memory, lists) + float64(m.at.memory*float64(p.room.Memory))
}

// choicesOf are those of a partner on another server.
func (b appraisal) choicesOf(q *party, y, n int) []choice {
	list, stock := b.choices(q.partners[y].job, n, b.market.stock)
	b.market.stock = stock
	return list
}

// without is the curve of a party without a hand.
func (b appraisal) without(p *party, h hand) curve {
	m := &b.market
	for len(p.curves) < len(p.partners) {
		p.curves = append(p.curves, nil)
	}
	if h.count == 1 && len(p.curves[h.at[0]]) > 0 {
		return p.curves[h.at[0]]
	}
	f, next := flat(p.room.CPUs, m.spare[0]), m.spare[1]
	for x := range p.partners {
		if !h.has(x) {
			f, next = f.with(p.partners[x].choices, m.at.memory, next), f
		}
	}
	m.spare = [2]curve{f, next}
	if h.count == 1 {
		p.curves[h.at[0]] = append(p.curves[h.at[0]], f...)
		return p.curves[h.at[0]]
	}
	return f
}

// try sizes both servers as well as can be after an exchange. It answers what has to be done and what that nets beyond
// what the servers could do without it; the orders are in memory that is used again.
func (b exchanging) try(p, q *party, t trial) (orders []order, net float64) {
	orders, here, ok := b.sizes(nil, p, t.p, q, t.q)
	if !ok {
		return nil, impossible
	}
	orders, there, ok := b.sizes(orders, q, t.q, p, t.p)
	if !ok {
		return nil, impossible
	}
	return orders, here + there - b.onItsOwn(p) - b.onItsOwn(q)
}

// sizes adds what has to be done on server p if it gives one hand and takes another.
func (b appraisal) sizes(orders []order, p *party, gives hand, q *party, takes hand) ([]order, float64, bool) {
	m := &b.market
	jobs, lists := []int{}, m.lists[:0]
	for x := range p.partners {
		if !gives.has(x) {
			jobs, lists = append(jobs, p.partners[x].job), append(lists, p.partners[x].choices)
		}
	}
	for _, y := range takes.jobs() {
		jobs, lists = append(jobs, q.partners[y].job), append(lists, b.choicesOf(q, y, p.server))
	}
	m.lists = lists
	net, picks, ok := m.filling.solve(p.room, lists)
	for at, pick := range picks {
		if o := lists[at][pick]; !o.stay {
			orders = append(orders, order{jobs[at], p.server, o})
		}
	}
	return orders, net, ok
}

// onItsOwn is the most that the jobs of a party can net where they are.
func (b appraisal) onItsOwn(p *party) float64 {
	if math.IsNaN(p.alone) {
		_, p.alone, _ = b.sizes(nil, p, hand{}, nil, hand{})
	}
	return p.alone
}

// permits says whether the rules and the quotas let the orders be carried out.
func (b exchanging) permits(orders []order) bool {
	stops := 0
	for _, o := range orders {
		stops += asInt(b.restarts(o.job))
	}
	return stops <= b.stops && b.affordAll(orders)
}

// affordAll says whether the quotas leave what the jobs are to have together.
func (b exchanging) affordAll(orders []order) bool {
	for q := range b.purses {
		var more gres.Vector
		for _, o := range orders {
			if s := &b.seats[o.job]; slices.Contains(s.class.quotas, q) {
				more = more.Plus(o.choice.size.Minus(s.size))
			}
		}
		if (more.CPUs > 0 || more.Memory > 0) && !b.purses[q].left.plus(bill{amount: more}, -1).covered() {
			return false
		}
	}
	return true
}

// carry carries an exchange out.
func (b exchanging) carry(e *exchange) {
	slices.SortFunc(e.orders, func(x, y order) int { return cmp.Compare(x.job, y.job) })
	first := slices.MaxFunc(e.orders, func(x, y order) int {
		return cmp.Or(cmp.Compare(x.choice.net, y.choice.net), cmp.Compare(y.job, x.job))
	})
	for _, o := range e.orders {
		if s := &b.seats[o.job]; s.standing == kept || s.growing() {
			reason, why := b.reasonOf(o, b.jobs[first.job].ID)
			b.stop(o.job, reason, why)
		}
	}
	for _, o := range e.orders {
		b.unseat(o.job)
	}
	for _, o := range e.orders {
		b.seatAt(o.job, b.only(o.server), sensitivity.Option{Size: o.choice.size, Gain: o.choice.gain})
	}
	b.freed++
}

// reasonOf says why a running job is restarted for an exchange by which another gains most.
func (b exchanging) reasonOf(o order, id int) (Reason, string) {
	s, to := &b.seats[o.job], b.servers[o.server].Name
	switch {
	case o.choice.gain*b.menu(s.class, s.size.GPUs, o.server).unit > s.was*(1+tie):
		return Grows, ""
	case b.jobs[o.job].Running.Nodes[0] != to:
		return Moves, fmt.Sprintf("moves to %s, so that job %d gains more than all the restarts cost", to, id)
	}
	return Shrinks, b.thanks(shrink{job: o.job, to: sensitivity.Option{Gain: o.choice.gain}}, id)
}
