package policy

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Decide plans one round (Synergy, OSDI'22, §4): in the policy's order every job gets a place if one can be had, running jobs
// stay where they are unless a job that goes first needs the room, and the allocator says how much each gets. The result has
// exactly one decision for every job, ascending in ID, and passes Check. The cluster is not changed.
func Decide(c Cluster, p Policy, a Allocator) Plan {
	b := newBoard(&c, a)
	order := p.turns(&c)
	b.queue(order)
	for _, i := range order {
		b.turn(i)
	}
	b.settle()
	a.finish(b)
	return b.plan()
}

// queue notes everybody's turn.
func (b *board) queue(order []int) {
	b.rank = make([]int, len(order))
	for at, i := range order {
		b.rank[i] = at
	}
}

// turn gives job i what can be had when its turn comes.
func (b *board) turn(i int) {
	s := &b.seats[i]
	switch s.standing {
	case fixed:
	case loose:
		b.reseat(i, kept, s.option())
	default:
		b.place(i)
	}
}

// place finds a place for a job that has none, or notes why there is none.
func (b *board) place(i int) {
	j := &b.c.Jobs[i]
	if j.Barred != "" {
		b.deny(i, Barred, j.Barred)
		return
	}
	key := kindOf(j)
	if d, known := b.denied[key]; known && j.plain() && d.freed == b.freed {
		b.deny(i, d.reason, d.why)
		b.reserve(i)
		return
	}
	b.costly = false
	for _, w := range b.ways(j) {
		if b.settleIn(i, w) || b.makeRoom(i, w) {
			return
		}
	}
	reason, why := b.explain(i)
	b.deny(i, reason, why)
	if j.plain() && !b.costly {
		b.denied[key] = denial{b.freed, reason, why}
	}
	b.reserve(i)
}

func (b *board) deny(i int, reason Reason, why string) {
	s := &b.seats[i]
	if s.standing == displaced {
		return // it waits because it was stopped, and that has been said
	}
	s.reason, s.why = reason, why
}

// kind is what jobs have in common that can be placed on the same nodes. A kind that found no place once finds none until
// somebody gives something back.
type kind struct {
	menuKey
	nodes   int
	gpuType string
	saves   bool
}

func kindOf(j *Job) kind {
	return kind{menuKey{j.Profile, j.GPUs, j.Tasks, gres.Vector{}}, j.Nodes, j.GPUType, j.Saves}
}

// denial is why a kind of job found no place, as long as nothing was freed since.
type denial struct {
	freed  int
	reason Reason
	why    string
}

// plain says that any open node of the right GPU type is as good as another for j.
func (j *Job) plain() bool { return len(j.Features)+len(j.Only)+len(j.Except) == 0 }

// way is one manner of dividing a job's GPUs: so many on each of so many nodes.
type way struct{ nodes, gpus int }

// ways lists the manners that j allows, the fewest nodes first.
func (b *board) ways(j *Job) []way {
	if j.Nodes > 0 {
		if j.GPUs%j.Nodes != 0 {
			return nil
		}
		return []way{{j.Nodes, j.GPUs / j.Nodes}}
	}
	if j.GPUs <= b.largest {
		return []way{{1, j.GPUs}}
	}
	var ways []way
	for _, n := range divisors(j.GPUs, b.largest) {
		ways = append(ways, way{n, j.GPUs / n})
	}
	return ways
}

// settleIn seats job i where it disturbs nobody.
func (b *board) settleIn(i int, w way) bool {
	j := &b.c.Jobs[i]
	servers := b.gather(j, w, b.now, func(n int) bool {
		least := b.alloc.least(b.menus.of(j, w.gpus, b.servers[n].Total)).Size
		return least.Fits(b.servers[n].open())
	})
	if servers == nil {
		return false
	}
	b.seatAt(i, servers, w.gpus, b.alloc.least(b.menus.of(j, w.gpus, b.servers[servers[0]].Total)))
	return true
}

// gather collects as many nodes as the way has, all of one shape, from those with enough GPUs on the shelf: the fullest ones
// that will do, so that whole nodes stay whole. It answers nil when there are too few.
func (b *board) gather(j *Job, w way, from *shelf, fits func(n int) bool) []int {
	var shapes []group
	var found []int
	from.from(w.gpus, func(n int) bool {
		if !b.allows(j, n) || !fits(n) {
			return true
		}
		g := shapeOf(&shapes, b.servers[n].Total)
		g.servers = append(g.servers, n)
		if len(g.servers) == w.nodes {
			found = g.servers
		}
		return found == nil
	})
	slices.Sort(found)
	return found
}

// group is the nodes of one shape that gather has seen.
type group struct {
	total   gres.Vector
	servers []int
}

func shapeOf(shapes *[]group, total gres.Vector) *group {
	for k := range *shapes {
		if (*shapes)[k].total == total {
			return &(*shapes)[k]
		}
	}
	*shapes = append(*shapes, group{total: total})
	return &(*shapes)[len(*shapes)-1]
}

// allows says whether j may be started on server n at all.
func (b *board) allows(j *Job, n int) bool {
	sv := &b.servers[n]
	return sv.Closed == "" && suits(j, sv.Node) && !b.reserved.bars(j, n)
}

// suits says whether j asks for such a node, open or not.
func suits(j *Job, n *Node) bool {
	if j.GPUType != "" && j.GPUType != n.GPUType {
		return false
	}
	if j.plain() {
		return true
	}
	for _, f := range j.Features {
		if !slices.Contains(n.Features, f) {
			return false
		}
	}
	return (len(j.Only) == 0 || slices.Contains(j.Only, n.Name)) && !slices.Contains(j.Except, n.Name)
}

// reservation keeps nodes for a job that has been passed over for too long: what starts there meanwhile must be able to give
// way again.
type reservation struct {
	job     int // its ID
	servers []int
}

func (r *reservation) bars(j *Job, n int) bool {
	return r != nil && !j.Saves && slices.Contains(r.servers, n)
}

// reserve keeps nodes free for job i, if it is the first in turn to be out of patience.
func (b *board) reserve(i int) {
	j := &b.c.Jobs[i]
	patience := b.c.Rules.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	if b.reserved != nil || b.c.Now.Sub(j.Arrival) < patience {
		return
	}
	for _, w := range b.ways(j) {
		if servers := b.soonest(j, w); servers != nil {
			b.reserved = &reservation{j.ID, servers}
			return
		}
	}
}

// soonest picks the nodes that lack the fewest GPUs for j.
func (b *board) soonest(j *Job, w way) []int {
	var able []int
	for n := range b.servers {
		if b.allows(j, n) && b.servers[n].Total.GPUs >= w.gpus {
			able = append(able, n)
		}
	}
	if len(able) < w.nodes {
		return nil
	}
	slices.SortStableFunc(able, func(x, y int) int {
		return cmp.Compare(b.servers[y].free.GPUs, b.servers[x].free.GPUs)
	})
	return able[:w.nodes]
}

// settle lets the jobs that are started choose better nodes, the ones that want most first (the paper's best fit, §4): each is
// lifted off its node and put on the fullest one that has all that it wishes for beside what the others there wish.
func (b *board) settle() {
	var movers []int
	for i := range b.seats {
		if s := &b.seats[i]; s.standing == fresh && len(s.servers) == 1 && !b.c.Jobs[i].restarts() && !s.cleared {
			movers = append(movers, i)
		}
	}
	slices.SortFunc(movers, b.wantsMore)
	for _, i := range movers {
		b.wishUpon(i, 1)
	}
	for _, i := range movers {
		b.resettle(i)
	}
}

// restarts says that granting j means stopping it first.
func (j *Job) restarts() bool { return j.Running != nil }

// wantsMore orders by what jobs wish for, the largest first, then by ID.
func (b *board) wantsMore(x, y int) int {
	v, w := b.wish(x), b.wish(y)
	return cmp.Or(cmp.Compare(w.GPUs, v.GPUs), cmp.Compare(w.CPUs, v.CPUs), cmp.Compare(w.Memory, v.Memory),
		cmp.Compare(b.c.Jobs[x].ID, b.c.Jobs[y].ID))
}

func (b *board) wish(i int) gres.Vector { return b.alloc.wish(b.seats[i].menu).Size }

// wishUpon notes on its server what job i would like beyond what it has.
func (b *board) wishUpon(i, sign int) {
	sv := &b.servers[b.seats[i].servers[0]]
	sv.wished = sv.wished.Plus(b.wish(i).Minus(b.seats[i].size).Times(sign))
}

// resettle moves job i to the node that suits its wish best, if there is a better one than its own.
func (b *board) resettle(i int) {
	s := &b.seats[i]
	home := s.servers[0]
	if b.servers[home].wished.Fits(b.servers[home].open()) {
		return // everybody's wish can be granted here
	}
	b.wishUpon(i, -1)
	b.vacate(i)
	if n := b.bestFor(i); n >= 0 {
		s.servers = []int{n}
		s.menu = b.menus.of(&b.c.Jobs[i], s.size.GPUs, b.servers[n].Total)
		least := b.alloc.least(s.menu)
		s.size, s.gain = least.Size, least.Gain
	}
	b.occupy(i)
	b.wishUpon(i, 1)
}

// looks bounds how many nodes that would do are compared before the best of them is taken.
const looks = 64

// bestFor finds the server with the least left over on which the wish of job i fits beside the wishes of others, or the one
// with the most cores left where none has enough; -1 if no server has the GPUs.
func (b *board) bestFor(i int) int {
	j, gpus := &b.c.Jobs[i], b.seats[i].size.GPUs
	best, seen := -1, 0
	var least gres.Vector
	b.now.from(gpus, func(n int) bool {
		m := b.menus.of(j, gpus, b.servers[n].Total)
		if !b.alloc.least(m).Size.Fits(b.servers[n].open()) || !b.allows(j, n) {
			return true
		}
		left := b.servers[n].open().Minus(b.servers[n].wished).Minus(b.alloc.wish(m).Size)
		if best < 0 || better(left, least) {
			best, least = n, left
		}
		seen++
		return seen < looks
	})
	return best
}

// better compares what two servers would have left: enough before too little; of two with enough, the one with less; of two
// with too little, the one with more.
func better(a, b gres.Vector) bool {
	enough := func(v gres.Vector) bool { return v.CPUs >= 0 && v.Memory >= 0 }
	order := cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory))
	switch {
	case enough(a) && enough(b):
		return order < 0
	case enough(a) != enough(b):
		return enough(a)
	}
	return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory)) > 0
}

// plan reads the board.
func (b *board) plan() Plan {
	decisions := make([]Decision, len(b.seats))
	for i := range b.seats {
		decisions[i] = b.decision(i)
	}
	slices.SortFunc(decisions, func(x, y Decision) int { return cmp.Compare(x.Job, y.Job) })
	return Plan{decisions}
}

func (b *board) decision(i int) Decision {
	s, j := &b.seats[i], &b.c.Jobs[i]
	d := Decision{Job: j.ID, Reason: s.reason, Why: s.why}
	switch s.standing {
	case fixed, kept:
		d.Grant, d.Reason, d.Why = j.Running, "", ""
	case fresh:
		d.Grant = &Placement{Nodes: b.names(s.servers), PerNode: s.size}
		if !j.restarts() {
			d.Reason, d.Why = Starts, ""
		}
	default:
		return d
	}
	d.Gain = s.gain
	if s.menu != nil {
		d.Fair = s.menu.fair
	}
	return d
}

func (b *board) names(servers []int) []string {
	names := make([]string, len(servers))
	for k, n := range servers {
		names[k] = b.servers[n].Name
	}
	slices.Sort(names)
	return names
}

// worth is what running for d with a gain is worth, in GPU-seconds at the proportional speed.
func worth(j *Job, gain float64, d time.Duration) float64 {
	return gain * d.Seconds() * float64(j.GPUs)
}
