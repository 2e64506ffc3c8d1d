package policy

import (
	"cmp"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// Several jobs on one GPU are planned around a planner that knows nothing of that, so every order, every allocator and
// every plugin has it. Of the jobs that run on one device one leads: the planner sees it alone, as a job with a GPU of
// its own, and of the others only that their cores and memory are not to be had. Where it makes the leader give its GPU
// away, all leave. Then those of whom the planner found that they must wait are seated beside others, in the order of
// the policy, with what is left of cores and memory.

// Shared plans a round in which jobs may share GPUs, with a planner that gives each job GPUs of its own. The policy
// says whose turn it is to be seated, and who leads. A snapshot in which nobody shares is the planner's as it is.
func Shared(c Cluster, p Policy, a Allocator, alone func(c Cluster) (Plan, error)) (Plan, error) {
	if !c.shares() {
		return alone(c)
	}
	return newSharing(c, new(Planner).rights(c, p, a)).plan(func(c Cluster) (Plan, map[string]int, error) {
		plan, err := alone(c)
		return plan, nil, err
	})
}

// shares says whether there is a job that shares a GPU, or may.
func (c *Cluster) shares() bool {
	devices := false
	for i := range c.Nodes {
		devices = devices || len(c.Nodes[i].Devices) > 0
	}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Share != nil && devices || j.seated() {
			return true
		}
	}
	return false
}

// seated says that a job runs on a device that others may share with it.
func (j *Job) seated() bool {
	return j.Running != nil && j.Running.Device != "" && len(j.Running.Nodes) == 1 && j.Running.PerNode.GPUs == 1
}

// rights is whose turn it is among the jobs of a snapshot, and who gives its place to nobody once it runs; by ID.
type rights struct {
	turn    map[int]int
	forGood map[int]bool
}

func (pl *Planner) rights(c Cluster, p Policy, a Allocator) rights {
	b := pl.lay(&c, p, a)
	r := rights{make(map[int]int, len(b.order)), map[int]bool{}}
	for at, i := range b.order {
		r.turn[b.ids[i]] = at
		if b.jobs[i].Share != nil && b.staysForGood(i) {
			r.forGood[b.ids[i]] = true
		}
	}
	return r
}

// keptFor is for which job nodes are kept, by their names.
func (b *board) keptFor() map[string]int {
	if b.reserved == nil {
		return nil
	}
	kept := map[string]int{}
	for n := range b.servers {
		if b.reserved.servers.has(n) {
			kept[b.servers[n].Name] = b.jobs[b.reserved.job].ID
		}
	}
	return kept
}

// alonePlanner plans a round in which every job has its GPUs to itself, and says for whom it keeps nodes.
type alonePlanner func(c Cluster) (plan Plan, kept map[string]int, err error)

// sharing is a round in which jobs share GPUs.
type sharing struct {
	c      Cluster
	rights rights
	byID   map[int]*Job
	nodes  map[string]int
	named  []int // the nodes, ascending in name
	sizes  map[seatKey][]sensitivity.Option
	groups []*group     // the devices that are in use, ascending in node and device
	parted []*Job       // who leaves a device that is not enough for all
	held   map[int]bool // leaders that stay as they are, since with more the others could not bear them; by ID
}

// group is the jobs that run on one device. The first leads.
type group struct {
	node   int // number in the snapshot
	device string
	jobs   []*Job
}

func newSharing(c Cluster, r rights) *sharing {
	s := &sharing{c: c, rights: r, byID: make(map[int]*Job, len(c.Jobs)), nodes: make(map[string]int, len(c.Nodes)),
		sizes: map[seatKey][]sensitivity.Option{}, held: map[int]bool{}}
	for n := range c.Nodes {
		s.nodes[c.Nodes[n].Name], s.named = n, append(s.named, n)
	}
	slices.SortFunc(s.named, func(x, y int) int { return cmp.Compare(c.Nodes[x].Name, c.Nodes[y].Name) })
	for i := range c.Jobs {
		s.byID[c.Jobs[i].ID] = &c.Jobs[i]
	}
	s.gather()
	s.part()
	return s
}

// gather finds out who runs on which device. On a node that has left the cluster nobody knows.
func (s *sharing) gather() {
	for i := range s.c.Jobs {
		j := &s.c.Jobs[i]
		if !j.seated() {
			continue
		}
		if n, known := s.nodes[j.Running.Nodes[0]]; known {
			s.join(n, j)
		}
	}
	slices.SortFunc(s.groups, func(x, y *group) int {
		return cmp.Or(cmp.Compare(s.c.Nodes[x.node].Name, s.c.Nodes[y.node].Name), cmp.Compare(x.device, y.device))
	})
	for _, g := range s.groups {
		slices.SortFunc(g.jobs, s.compareRights)
	}
}

func (s *sharing) join(n int, j *Job) {
	at := slices.IndexFunc(s.groups, func(g *group) bool { return g.node == n && g.device == j.Running.Device })
	if at < 0 {
		at = len(s.groups)
		s.groups = append(s.groups, &group{node: n, device: j.Running.Device})
	}
	s.groups[at].jobs = append(s.groups[at].jobs, j)
}

// compareRights puts the important job first, and then those whose turn comes first.
func (s *sharing) compareRights(x, y *Job) int {
	low := func(j *Job) int {
		if j.Share != nil && j.Share.Class == share.High {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(low(x), low(y)), s.compareTurns(x, y))
}

func (s *sharing) compareTurns(x, y *Job) int {
	return cmp.Or(cmp.Compare(s.rights.turn[x.ID], s.rights.turn[y.ID]), cmp.Compare(x.ID, y.ID))
}

// device finds one by its name.
func (n *Node) device(name string) *Device {
	at := slices.IndexFunc(n.Devices, func(d Device) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	return &n.Devices[at]
}

// parting is by how much less than it is promised an important job may have before somebody leaves its GPU: a restart
// costs, and predictions move with what is learned.
const parting = 0.05

// part lets jobs leave devices that are not enough for all: those first that do not take turns, and then the last in
// turn, as far as they save and the rules let them be stopped.
func (s *sharing) part() {
	for _, g := range s.groups {
		d := s.c.Nodes[g.node].device(g.device)
		if d == nil {
			continue
		}
		for at := len(g.jobs) - 1; at >= 0 && len(g.jobs) > 1; at-- {
			if g.jobs[at].Unruly {
				s.leave(g, at)
			}
		}
		for at := len(g.jobs) - 1; at > 0 && s.crowded(g, d); at-- {
			s.leave(g, at)
		}
	}
}

// leave lets one of the jobs of a device leave it, if it may.
func (s *sharing) leave(g *group, at int) {
	if j := g.jobs[at]; !s.spent() && j.Saves && s.mayLeave(j) {
		s.parted = append(s.parted, j)
		g.jobs = slices.Delete(g.jobs, at, at+1)
	}
}

// crowded says that the jobs of a device need more memory than it has, or that an important one is slowed down.
func (s *sharing) crowded(g *group, d *Device) bool {
	if slices.ContainsFunc(g.jobs, g.slows) {
		return true
	}
	var tenants []tenant
	for _, j := range g.jobs {
		tenants = append(tenants, s.tenantOf(j, g.node, j.Running.PerNode))
	}
	if memory, _ := needed(tenants); memory > usable(d) {
		return true
	}
	speeds := speedsOf(d, tenants)
	for i := range tenants {
		if tenants[i].class() == share.High && speeds[i] < share.HighKeeps-parting {
			return true
		}
	}
	return false
}

// slows says that a job was measured to be slowed down by those who are on its device now. When one of them has left
// nobody knows any more: the speed that counts then is measured anew.
func (g *group) slows(j *Job) bool {
	if j.Kept == nil || j.Kept.Part >= share.HighKeeps-parting || len(j.Kept.Beside) == 0 {
		return false
	}
	here := func(id int) bool { return slices.ContainsFunc(g.jobs, func(o *Job) bool { return o.ID == id }) }
	return !slices.ContainsFunc(j.Kept.Beside, func(id int) bool { return !here(id) })
}

// mayLeave says that a running job may be stopped, and could be started again before reservations keep it away.
func (s *sharing) mayLeave(j *Job) bool {
	if !j.mayStop(&s.c) {
		return false
	}
	back, shut := s.c.Now.Add(j.Restart).Add(2*s.c.Rules.round()), false
	for i := range s.c.Nodes {
		n := &s.c.Nodes[i]
		switch {
		case n.Total.GPUs == 0 || !j.suits(n):
		case n.shutTo(j, back) || n.shutTo(j, s.c.Now):
			shut = true
		case n.Closed == "":
			return true
		}
	}
	return !shut
}

// inner is the snapshot as the planner sees it: of those on one device only the first, which may stay where it is with
// another size or leave, if all may leave with it. Kept is what is not to be given away on each node.
func (s *sharing) inner(kept []gres.Vector, still bool) Cluster {
	c := s.c
	c.Nodes, c.Quotas = slices.Clone(c.Nodes), slices.Clone(c.Quotas)
	for n := range kept {
		c.Nodes[n].Foreign = c.Nodes[n].Foreign.Plus(kept[n])
	}
	hidden := make(map[int]bool)
	leads := make(map[int]*group, len(s.groups))
	for _, g := range s.groups {
		leads[g.jobs[0].ID] = g
		for _, j := range g.jobs[1:] {
			hidden[j.ID] = true
			c.hold(g.node, j)
		}
	}
	for _, j := range s.parted {
		hidden[j.ID] = true
	}
	still = still || s.spent()
	c.Jobs = make([]Job, 0, len(s.c.Jobs)-len(hidden))
	for i := range s.c.Jobs {
		if hidden[s.c.Jobs[i].ID] {
			continue
		}
		j := s.c.Jobs[i]
		if g := leads[j.ID]; g != nil {
			j.Running = &Placement{Nodes: j.Running.Nodes, PerNode: j.Running.PerNode}
			s.bind(&j, g, still)
		}
		j.Share, j.Kept, j.Unruly = nil, nil, false
		j.Fixed = j.Fixed || j.Running != nil && s.spent()
		c.Jobs = append(c.Jobs, j)
	}
	if most := c.Rules.MaxPreemptions; most > 0 && !s.spent() {
		c.Rules.MaxPreemptions = most - len(s.parted)
	}
	return c
}

// beside are the jobs that the planner does not see, ascending in ID: they have a part in whose turn it is.
func (s *sharing) beside() (hidden []*Job) {
	for _, g := range s.groups {
		hidden = append(hidden, g.jobs[1:]...)
	}
	hidden = append(hidden, s.parted...)
	slices.SortFunc(hidden, func(x, y *Job) int { return cmp.Compare(x.ID, y.ID) })
	return hidden
}

// spent says that as many jobs leave devices as the rules let be stopped in a round.
func (s *sharing) spent() bool {
	return s.c.Rules.MaxPreemptions > 0 && len(s.parted) >= s.c.Rules.MaxPreemptions
}

// hold takes from a node, and from quotas, what a job has there that the planner does not see. The GPU is its leader's.
func (c *Cluster) hold(n int, j *Job) {
	own := j.Running.PerNode
	c.Nodes[n].Foreign = c.Nodes[n].Foreign.Plus(gres.Vector{CPUs: own.CPUs, Memory: own.Memory})
	for _, q := range j.Quotas {
		if q >= 0 && q < len(c.Quotas) {
			c.Quotas[q] = c.Quotas[q].Less(1, own)
		}
	}
}

// bind keeps a leader that is not alone on its node: its GPU is not free for others when it alone moves on.
func (s *sharing) bind(j *Job, g *group, still bool) {
	if len(g.jobs) == 1 {
		return
	}
	n := &s.c.Nodes[g.node]
	stays := func(partner *Job) bool { return !s.mayLeave(partner) }
	j.Fixed = j.Fixed || still || s.held[j.ID] || n.device(g.device) == nil || !j.suits(n) ||
		slices.ContainsFunc(g.jobs[1:], stays)
	j.Only = []string{n.Name}
}

// plan plans the round. Where somebody could be seated if those who start had no more than they are promised, it is
// planned once more with so much kept for him, unless then anybody would wait who does not now.
func (s *sharing) plan(alone alonePlanner) (Plan, error) {
	first, err := s.attempt(alone, nil)
	if err != nil || first.wanted == nil {
		return first.finished(), err
	}
	if second, err := s.attempt(alone, first.wanted); err == nil && second.runsAllOf(first) {
		return second.finished(), nil
	}
	return first.finished(), nil
}

// attempt asks the planner, and seats who is left. A leader whose new size the others could not bear keeps the one that
// it has. Where the plan stops more than the rules allow, since all leave a device whose leader leaves it, or one
// leader after the other grows too much, none that leads others is changed.
func (s *sharing) attempt(alone alonePlanner, wanted []gres.Vector) (*seating, error) {
	t, err := s.ask(alone, s.inner(wanted, false))
	if err == nil && s.hold(t) {
		t, err = s.ask(alone, s.inner(wanted, false))
	}
	if most := s.c.Rules.MaxPreemptions; err == nil && (most > 0 && t.stops > most || s.hold(t)) {
		t, err = s.ask(alone, s.inner(wanted, true))
	}
	if err != nil {
		return t, err
	}
	t.moveOut()
	t.seatAll()
	return t, nil
}

// ask has the planner plan, and says what that is to those who share.
func (s *sharing) ask(alone alonePlanner, c Cluster) (*seating, error) {
	plan, kept, err := alone(c)
	if err != nil {
		return &seating{sharing: s}, err
	}
	return newSeating(s, plan, kept), nil
}

// hold notes the leaders that a plan gives a size with which somebody on their device would be slower than he accepts,
// and than he is, and says whether there are any. Whom the plan slows down the next round would let leave.
func (s *sharing) hold(t *seating) (some bool) {
	for _, g := range s.groups {
		on, first := s.c.Nodes[g.node].device(g.device), g.jobs[0]
		d := t.decision(first.ID)
		if on == nil || len(g.jobs) < 2 || d == nil || d.Grant == nil || d.Grant.Device != g.device ||
			first.goesOn(d.Grant) {
			continue
		}
		var before []tenant
		for _, j := range g.jobs {
			before = append(before, s.tenantOf(j, g.node, j.Running.PerNode))
		}
		after := slices.Clone(before)
		if after[0] = s.tenantOf(first, g.node, d.Grant.PerNode); worsens(on, before, after) {
			s.held[first.ID], some = true, true
		}
	}
	return some
}
