package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Decide plans one round (Synergy, OSDI'22, §4): in the policy's order every job gets a place if one can be had,
// running jobs stay where they are unless a job that goes first needs the room, and the allocator says how much each
// gets. The result has exactly one decision for every job, ascending in ID, and passes Check. The cluster is not
// changed.
func Decide(c Cluster, p Policy, a Allocator) Plan {
	return new(Planner).Decide(c, p, a)
}

// turn gives job i what can be had when its turn comes.
func (b allocation) turn(i int) {
	switch s := &b.seats[i]; s.standing {
	case loose:
		b.keep(i)
		if b.jobs[i].Owed {
			b.fallBack(i)
			return
		}
		b.claim(i)
	case waits:
		b.place(i)
	}
}

// place finds a place for job i. The first in turn that has been passed over for too long has nodes kept for it, and no
// cost of restarts keeps it from its turn. To a job that only its quotas keep waiting nodes are of no use.
func (b allocation) place(i int) {
	if b.jobs[i].Barred != "" || b.seatSomewhere(i) {
		return
	}
	if !b.reserve(i) {
		return
	}
	if b.seats[i].limit == byCost && b.seatSomewhere(i) {
		clear(b.reserved.servers)
		return
	}
	b.clearNodes()
}

// denial is what the search for a place for one class of jobs came to. Others of this class are denied without another
// search.
type denial struct {
	freed int // it holds as long as nothing has been freed since
	limit limit
	due   float64 // what the place was worth to the job that was denied; where it is worth more, cost is no limit
	firm  bool    // it was to one that is kept off where others of its class may not be, see keptOff
	late  bool    // it was to one that is overdue, and may not stop those that precede it
	key   float64 // of that one
}

// denied says whether others of its class have looked for a place for job i in vain since something was freed.
func (b placement) denied(i int) bool {
	d := &b.seats[i].class.denial
	return d.freed == b.freed && (!d.firm || b.keptOff(i)) &&
		(!d.late || b.seats[i].key > d.key)
}

func (b allocation) seatSomewhere(i int) bool {
	s := &b.seats[i]
	if d := &s.class.denial; b.denied(i) && (d.limit != byCost || b.due(i) <= d.due) {
		s.limit = d.limit
		return false
	}
	due := b.due(i)
	if p, _ := b.pinched(s.class); p != nil {
		if slices.ContainsFunc(s.class.gangShapes, func(w gangShape) bool { return b.repay(i, w) }) {
			return true
		}
		s.limit, s.class.denial = byQuota, denial{b.freed, byQuota, due, false, s.overdue, s.key}
		return false
	}
	b.limit = none
	for _, w := range s.class.gangShapes {
		if b.settleIn(i, w) || b.makeRoom(i, w) {
			return true
		}
	}
	s.limit, s.class.denial = b.limit, denial{b.freed, b.limit, due, b.keptOff(i), s.overdue, s.key}
	return false
}

// due is what a place is worth to waiting job i, in GPU-seconds at the proportional speed. A job that has outrun its
// declared length counts as one of unknown length.
func (b placement) due(i int) float64 {
	if b.reserved != nil && b.reserved.job == i {
		return math.Inf(1)
	}
	j, ahead := b.jobs[i], b.c.Rules.horizon()
	if left := remaining(j); left > 0 {
		ahead = min(ahead, left)
	}
	return worth(j, 1, ahead)
}

// settleIn seats job i where it disturbs nobody: on the fullest nodes that will do, so that whole nodes stay whole.
func (b placement) settleIn(i int, w gangShape) bool {
	k := b.seats[i].class
	servers := b.roomFor(i, w, func(size gres.Vector) bool { return b.affords(k, w.nodes, size) })
	if servers == nil {
		return false
	}
	b.seatAt(i, servers, b.least(i, w, servers[0]))
	return true
}

// roomFor finds servers with room for job i, with sizes that it may have; nil where there are none.
func (b placement) roomFor(i int, w gangShape, may func(size gres.Vector) bool) []int {
	k := b.seats[i].class
	found := gathering{nodes: w.nodes}
	b.now.from(w.gpus, k.eligible.servers, func(n int) bool {
		if b.lonely(w, n) {
			return true
		}
		if least := b.least(i, w, n).Size; !b.bars(i, n) && least.Fits(b.servers[n].open()) && may(least) {
			found.add(b.servers[n].model, n)
		}
		return found.servers == nil
	})
	slices.Sort(found.servers)
	return found.servers
}

// lonely says that there are too few servers like n for a gang.
func (b constraints) lonely(w gangShape, n int) bool { return b.equals[b.servers[n].model] < w.nodes }

// gathering collects servers of each model until there are enough of one.
type gathering struct {
	nodes   int
	groups  map[int][]int // by model
	servers []int         // enough; nil until then
}

func (g *gathering) add(model, n int) {
	if g.nodes == 1 {
		g.servers = []int{n}
		return
	}
	if g.groups == nil {
		g.groups = map[int][]int{}
	}
	if g.groups[model] = append(g.groups[model], n); len(g.groups[model]) == g.nodes {
		g.servers = g.groups[model]
	}
}

// catchUp gives out what has come free: to those who were stopped and could have stayed, then to those who wait. It
// says whether any were reprieved.
func (b allocation) catchUp() bool {
	reprieved := b.reprieve()
	b.backfill()
	return reprieved
}

// reprieve lets jobs go on as they were that turn out to have been stopped for nothing: others have left their place
// since, or need less than was freed. Who has left for an exchange is not one of them: without it there would be an
// idle place where it is now. It says whether there were any.
func (b allocation) reprieve() bool {
	slices.SortFunc(b.stopped, func(x, y int) int { return cmp.Compare(b.rank[x], b.rank[y]) })
	reprieved := false
	for again := true; again; {
		again = false
		for _, i := range b.stopped {
			if s := &b.seats[i]; s.stopped && s.told.reason != Grows && s.told.reason != Moves && !b.jobs[i].Owed &&
				b.goOn(i) {
				again, reprieved = true, true
			}
		}
	}
	return reprieved
}

// goOn puts stopped job i back to where and what it was, if there is room for that.
func (b allocation) goOn(i int) bool {
	j, now := b.jobs[i], b.seats[i]
	b.vacate(i)
	if was := b.serversOf(j.Running.Nodes); b.allHave(was, j.Running.PerNode) &&
		(len(now.class.quotas) == 0 || b.mayReturn(i)) {
		s := &b.seats[i]
		s.standing, s.servers, s.size = kept, was, j.Running.PerNode
		if now.standing == fixed { // it was only asked for what it was lent
			s.standing = fixed
		}
		s.menu = b.menu(s.class, s.size.GPUs, was[0])
		s.gain = s.menu.gainOf(s.size)
		s.stopped, s.cleared, s.told = false, false, nil
		b.occupy(i)
		b.stops++
		b.freed++
		return true
	}
	b.occupy(i)
	return false
}

func (b *board) allHave(servers []int, v gres.Vector) bool {
	for _, n := range servers {
		if !v.Fits(b.servers[n].open()) {
			return false
		}
	}
	return true
}

// backfill seats waiting jobs on what came free after their turn, disturbing nobody.
func (b allocation) backfill() {
	if b.filled == b.freed {
		return
	}
	b.filled = b.freed
	for _, i := range b.order {
		s := &b.seats[i]
		if s.standing != waits || b.denied(i) || b.jobs[i].Barred != "" {
			continue
		}
		if !slices.ContainsFunc(s.class.gangShapes, func(w gangShape) bool { return b.settleIn(i, w) }) {
			s.class.denial.freed, s.class.denial.firm = b.freed, b.keptOff(i)
		}
	}
}

// plan reads the board.
func (b allocation) plan() Plan {
	decisions := make([]Decision, len(b.seats))
	for i := range b.seats {
		b.decide(i, &decisions[i])
	}
	return Plan{decisions}
}

// decide writes down what becomes of job i.
func (b allocation) decide(i int, d *Decision) {
	s := &b.seats[i]
	d.Job = b.ids[i]
	if s.told != nil {
		d.Reason, d.Why = s.told.reason, s.told.why
	}
	if s.standing == waits {
		return
	}
	j := b.jobs[i]
	switch {
	case (s.standing == fixed || s.standing == kept) && !s.stopped:
		d.Grant = j.Running
	default:
		d.Grant = &Placement{Nodes: b.names(s.servers), PerNode: s.size}
	}
	d.Gain = s.gain
	if s.menu != nil {
		d.Fair = s.menu.fair
	}
	switch {
	case j.Running == nil:
		d.Reason, d.Why = Starts, b.unmeasured(i)
	case d.Grant == j.Running || d.Grant.Equal(*j.Running):
		d.Grant, d.Reason, d.Why = j.Running, "", ""
	case d.Reason == Grows && s.speed() <= s.was*(1+tie):
		d.Reason, d.Why = Shrinks, "gives back what others are owed or gain more by"
	case d.Reason == Grows:
		d.Why = explanation{b.constraints}.faster(i, *d.Grant)
	}
}

func (b allocation) names(servers []int) []string {
	names := make([]string, len(servers))
	for k, n := range servers {
		names[k] = b.servers[n].Name
	}
	return names
}
