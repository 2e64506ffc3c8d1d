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
// its own, and of the others only that their cores and memory are taken. If it makes the leader give its GPU away, all
// leave. Then jobs that must wait by the planner's decision get slots beside others, in the policy's order, with what
// is left of cores and memory.

// Shared plans a round in which jobs may share GPUs, with a planner (alone) that gives each job GPUs of its own, such
// as a plugin. The policy decides which job gets a slot first, and which job of a shared GPU the planner sees (the
// leader); a is the allocator with which the policy orders jobs. A snapshot in which no job shares goes to the planner
// as it is.
func Shared(c Cluster, p Policy, a Allocator, alone func(c Cluster) (Plan, error)) (Plan, error) {
	if !c.hasSharing() {
		return alone(c)
	}
	return newSharing(c, new(Planner).policyRights(c, p, a)).planRound(func(c Cluster) (Plan, map[string]int, error) {
		plan, err := alone(c)
		return plan, nil, err
	})
}

// hasSharing reports whether a job has a slot on a device, or may get one: only then has the round to be planned around
// shared GPUs.
func (c *Cluster) hasSharing() bool {
	devices := false
	for i := range c.Nodes {
		devices = devices || len(c.Nodes[i].Devices) > 0
	}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.Share != nil && devices || j.hasSlot() {
			return true
		}
	}
	return false
}

// hasSlot reports that a job runs on a device that others may share with it.
func (j *Job) hasSlot() bool {
	return j.Running != nil && j.Running.Device != "" && len(j.Running.Nodes) == 1 && j.Running.PerNode.GPUs == 1
}

// rights is what the policy says of all jobs, those that the planner does not see included, by job ID.
type rights struct {
	position map[int]int  // position in the order
	forGood  map[int]bool // jobs that may share and, once they run, give way to no job
}

// policyRights orders the jobs of a snapshot as the policy does. The planner needs its own order of those that it sees;
// this one is of all jobs, for leaders and slots.
func (pl *Planner) policyRights(c Cluster, p Policy, a Allocator) rights {
	b := pl.boardFor(&c, p, a)
	r := rights{make(map[int]int, len(b.order)), map[int]bool{}}
	for at, i := range b.order {
		r.position[b.ids[i]] = at
		if b.jobs[i].Share != nil && staysForGood(b, i) {
			r.forGood[b.ids[i]] = true
		}
	}
	return r
}

// keptJobByNode is the ID of the job for which each kept node is kept, by node name; nil: no nodes are kept. Slots on
// these nodes are not for jobs that would keep that job waiting.
func (b *board) keptJobByNode() map[string]int {
	if b.keptNodes == nil {
		return nil
	}
	kept := map[string]int{}
	for n := range b.servers {
		if b.keptNodes.servers.has(n) {
			kept[b.servers[n].Name] = b.jobs[b.keptNodes.job].ID
		}
	}
	return kept
}

// alonePlanner plans a round in which every job has its GPUs to itself, and says for which job it keeps nodes.
type alonePlanner func(c Cluster) (plan Plan, kept map[string]int, err error)

// sharing is a round in which jobs share GPUs: the snapshot, which running jobs share a device, and which of them are
// to leave it.
type sharing struct {
	c           Cluster
	rights      rights
	byID        map[int]*Job
	nodes       map[string]int // index in c.Nodes, by name
	sortedNodes []int          // indexes in c.Nodes, ascending in name
	sizes       map[slotKey][]sensitivity.Option
	groups      []*deviceGroup // the devices that are in use, ascending in node and device
	leavingJobs []*Job         // jobs that leave a device that is not enough for all
	// heldLeaders are leaders that stay as they are, since with another size they would slow others down too much; by
	// ID.
	heldLeaders map[int]bool
}

// deviceGroup is the jobs that run on one device. The first is the leader.
type deviceGroup struct {
	node   int // index in Cluster.Nodes
	device string
	jobs   []*Job
}

// newSharing groups the running jobs of a snapshot by device, and decides which jobs leave devices that are not enough
// for all (leavingJobs).
func newSharing(c Cluster, r rights) *sharing {
	s := &sharing{c: c, rights: r, byID: make(map[int]*Job, len(c.Jobs)), nodes: make(map[string]int, len(c.Nodes)),
		sizes: map[slotKey][]sensitivity.Option{}, heldLeaders: map[int]bool{}}
	for n := range c.Nodes {
		s.nodes[c.Nodes[n].Name], s.sortedNodes = n, append(s.sortedNodes, n)
	}
	slices.SortFunc(s.sortedNodes, func(x, y int) int { return cmp.Compare(c.Nodes[x].Name, c.Nodes[y].Name) })
	for i := range c.Jobs {
		s.byID[c.Jobs[i].ID] = &c.Jobs[i]
	}
	s.gatherGroups()
	s.splitCrowded()
	return s
}

// gatherGroups finds which jobs run on which device, and sorts the jobs of each so that the leader comes first. A job
// on a node that has left the cluster is in no group, since nothing is known of its device any more.
func (s *sharing) gatherGroups() {
	for i := range s.c.Jobs {
		j := &s.c.Jobs[i]
		if !j.hasSlot() {
			continue
		}
		if n, known := s.nodes[j.Running.Nodes[0]]; known {
			s.joinGroup(n, j)
		}
	}
	slices.SortFunc(s.groups, func(x, y *deviceGroup) int {
		return cmp.Or(cmp.Compare(s.c.Nodes[x.node].Name, s.c.Nodes[y.node].Name), cmp.Compare(x.device, y.device))
	})
	for _, g := range s.groups {
		slices.SortFunc(g.jobs, s.compareRights)
	}
}

// joinGroup adds a running job to the group of its device on node n, which it makes if the job is the first.
func (s *sharing) joinGroup(n int, j *Job) {
	at := slices.IndexFunc(s.groups, func(g *deviceGroup) bool { return g.node == n && g.device == j.Running.Device })
	if at < 0 {
		at = len(s.groups)
		s.groups = append(s.groups, &deviceGroup{node: n, device: j.Running.Device})
	}
	s.groups[at].jobs = append(s.groups[at].jobs, j)
}

// compareRights puts high-class jobs first, and then goes by the policy's order. The first job of a device leads, and
// the last ones leave first if the device is not enough for all.
func (s *sharing) compareRights(x, y *Job) int {
	low := func(j *Job) int {
		if j.Share != nil && j.Share.Class == share.High {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(low(x), low(y)), s.compareTurns(x, y))
}

// compareTurns puts the job first that comes first in the policy's order, then the smaller ID.
func (s *sharing) compareTurns(x, y *Job) int {
	return cmp.Or(cmp.Compare(s.rights.position[x.ID], s.rights.position[y.ID]), cmp.Compare(x.ID, y.ID))
}

// device finds a device of the node by its name; nil if there is none, as when it has left the node.
func (n *Node) device(name string) *Device {
	at := slices.IndexFunc(n.Devices, func(d Device) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	return &n.Devices[at]
}

// leaveTolerance is by how much an important (high-class) job may be slower than it accepts, as part of its speed
// alone, before a job leaves its GPU: a restart costs, and predictions move with what is learned.
const leaveTolerance = 0.05

// splitCrowded lets jobs leave devices that are not enough for all, by restarting them elsewhere. First those leave
// that do not give their slices back (Unruly), even the leader; one job always stays. Then the last in the order leave
// until the rest run as they were promised; the leader stays. Jobs leave only as far as they save and the rules let
// them be stopped.
func (s *sharing) splitCrowded() {
	for _, g := range s.groups {
		d := s.c.Nodes[g.node].device(g.device)
		if d == nil {
			continue
		}
		for at := len(g.jobs) - 1; at >= 0 && len(g.jobs) > 1; at-- {
			if g.jobs[at].Unruly {
				s.leaveDevice(g, at)
			}
		}
		for at := len(g.jobs) - 1; at > 0 && s.isCrowded(g, d); at-- {
			s.leaveDevice(g, at)
		}
	}
}

// leaveDevice takes the job with index at off the group of a device and lists it in leavingJobs, if it saves and the
// rules let it be stopped; otherwise nothing changes.
func (s *sharing) leaveDevice(g *deviceGroup, at int) {
	if j := g.jobs[at]; !s.hasSpentStops() && j.Saves && s.mayLeave(j) {
		s.leavingJobs = append(s.leavingJobs, j)
		g.jobs = slices.Delete(g.jobs, at, at+1)
	}
}

// isCrowded reports that a device is not enough for its jobs: they need more memory than may be used, or a high-class
// job is slower than it accepts by more than leaveTolerance, by measurement or by prediction.
func (s *sharing) isCrowded(g *deviceGroup, d *Device) bool {
	if slices.ContainsFunc(g.jobs, g.isSlowedDown) {
		return true
	}
	var tenants []tenant
	for _, j := range g.jobs {
		tenants = append(tenants, s.tenantOf(j, g.node, j.Running.PerNode))
	}
	if memory, _ := neededGPUMemory(tenants); memory > usableGPUMemory(d) {
		return true
	}
	speeds := speedsOf(d, tenants)
	for i := range tenants {
		if tenants[i].class() == share.High && speeds[i] < share.HighKeeps-leaveTolerance {
			return true
		}
	}
	return false
}

// isSlowedDown reports that job j was measured to be slowed down too much by jobs that are all on its device still.
// When one of them has left, the measurement no longer counts: the speed is measured anew.
func (g *deviceGroup) isSlowedDown(j *Job) bool {
	if j.Kept == nil || j.Kept.Part >= share.HighKeeps-leaveTolerance || len(j.Kept.Beside) == 0 {
		return false
	}
	here := func(id int) bool { return slices.ContainsFunc(g.jobs, func(o *Job) bool { return o.ID == id }) }
	return !slices.ContainsFunc(j.Kept.Beside, func(id int) bool { return !here(id) })
}

// mayLeave reports that a running job may be stopped, and could be started again before reservations keep it away: some
// open node that suits it is free of them now and two rounds after the restart. If no reservation is in the way on any
// node, closed nodes do not matter.
func (s *sharing) mayLeave(j *Job) bool {
	if !j.mayStop(&s.c) {
		return false
	}
	back, shut := s.c.Now.Add(j.Restart).Add(2*s.c.Rules.round()), false
	for i := range s.c.Nodes {
		n := &s.c.Nodes[i]
		switch {
		case n.Total.GPUs == 0 || !j.suits(n):
		case n.reservationBlocks(j, back) || n.reservationBlocks(j, s.c.Now):
			shut = true
		case n.Closed == "":
			return true
		}
	}
	return !shut
}

// leaderSnapshot is the snapshot as the planner sees it, which knows no shared GPUs: of the jobs on one device only the
// leader, as a job with a GPU of its own. It may stay where it is with another size, or leave if all may leave with it.
// Cores and memory of the others count as foreign. kept is what the planner must not give away on each node beside
// that, nil: nothing. still says that leaders of several jobs are fixed.
func (s *sharing) leaderSnapshot(kept []gres.Vector, still bool) Cluster {
	c := s.c
	c.Nodes, c.Quotas = slices.Clone(c.Nodes), slices.Clone(c.Quotas)
	for n := range kept {
		c.Nodes[n].Foreign = c.Nodes[n].Foreign.Plus(kept[n])
	}
	hidden := make(map[int]bool)
	leads := make(map[int]*deviceGroup, len(s.groups))
	for _, g := range s.groups {
		leads[g.jobs[0].ID] = g
		for _, j := range g.jobs[1:] {
			hidden[j.ID] = true
			c.deductHidden(g.node, j)
		}
	}
	for _, j := range s.leavingJobs {
		hidden[j.ID] = true
	}
	still = still || s.hasSpentStops()
	c.Jobs = make([]Job, 0, len(s.c.Jobs)-len(hidden))
	for i := range s.c.Jobs {
		if hidden[s.c.Jobs[i].ID] {
			continue
		}
		j := s.c.Jobs[i]
		if g := leads[j.ID]; g != nil {
			// A leader that leaves its device if its size changes must not be asked for loans while its run is
			// protected.
			j.Fixed = j.Fixed || !s.keepsDevice(g) && !j.mayStop(&s.c)
			j.Running = &Placement{Nodes: j.Running.Nodes, PerNode: j.Running.PerNode}
			s.bindLeader(&j, g, still)
		}
		j.Share, j.Kept, j.Unruly = nil, nil, false
		j.Fixed = j.Fixed || j.Running != nil && s.hasSpentStops()
		c.Jobs = append(c.Jobs, j)
	}
	// If the stops are spent, all running jobs are fixed instead: a bound of 0 would mean that there is none.
	if most := c.Rules.MaxPreemptions; most > 0 && !s.hasSpentStops() {
		c.Rules.MaxPreemptions = most - len(s.leavingJobs)
	}
	return c
}

// keepsDevice reports that the leader of a group stays on the device if its size changes. False: it is alone on the
// device and cannot share it any more, so with another size it is a job with a GPU of its own.
func (s *sharing) keepsDevice(g *deviceGroup) bool {
	first := g.jobs[0]
	return len(g.jobs) > 1 || first.Share != nil && !first.Unruly && s.c.Nodes[g.node].device(g.device) != nil
}

// unseenJobs are the jobs that the planner does not see, ascending in ID. They count in the policy's order, where some
// keys depend on the number of jobs.
func (s *sharing) unseenJobs() (hidden []*Job) {
	for _, g := range s.groups {
		hidden = append(hidden, g.jobs[1:]...)
	}
	hidden = append(hidden, s.leavingJobs...)
	slices.SortFunc(hidden, func(x, y *Job) int { return cmp.Compare(x.ID, y.ID) })
	return hidden
}

// hasSpentStops reports that the jobs which leave devices use up all the stops that the rules allow in a round. Then no
// other running job may be stopped.
func (s *sharing) hasSpentStops() bool {
	return s.c.Rules.MaxPreemptions > 0 && len(s.leavingJobs) >= s.c.Rules.MaxPreemptions
}

// deductHidden takes what a job that the planner does not see has of node n, and of its quotas, off the snapshot. The
// GPU counts with its leader.
func (c *Cluster) deductHidden(n int, j *Job) {
	own := j.Running.PerNode
	c.Nodes[n].Foreign = c.Nodes[n].Foreign.Plus(gres.Vector{CPUs: own.CPUs, Memory: own.Memory})
	for _, q := range j.Quotas {
		if q >= 0 && q < len(c.Quotas) {
			c.Quotas[q] = c.Quotas[q].Less(1, own)
		}
	}
}

// bindLeader ties a leader that is not alone to its node: if it moved alone, its GPU would not be free for others. It
// becomes fixed if one of the jobs with it may not leave, since the leader leaves only with all of them.
func (s *sharing) bindLeader(j *Job, g *deviceGroup, still bool) {
	if len(g.jobs) == 1 {
		return
	}
	n := &s.c.Nodes[g.node]
	stays := func(partner *Job) bool { return !s.mayLeave(partner) }
	j.Fixed = j.Fixed || still || s.heldLeaders[j.ID] || n.device(g.device) == nil || !j.suits(n) ||
		slices.ContainsFunc(g.jobs[1:], stays)
	j.Only = []string{n.Name}
}

// planRound plans the round. Starting jobs get more than they are promised where it is idle, which may take the room of
// a slot. So if a job would get a slot if they had no more, the round is planned once more with so much kept for it;
// the second plan is taken only if it runs all jobs of the first, and more.
func (s *sharing) planRound(alone alonePlanner) (Plan, error) {
	first, err := s.planOnce(alone, nil)
	if err != nil || first.wanted == nil {
		return first.finishedPlan(), err
	}
	if second, err := s.planOnce(alone, first.wanted); err == nil && second.runsAllOf(first) {
		return second.finishedPlan(), nil
	}
	return first.finishedPlan(), nil
}

// planOnce asks the planner, and finds slots for jobs that wait; wanted is what the planner must leave for slots on
// each node, nil: nothing. A leader keeps its size if with its new one others would be slower than they accept: the
// planner is asked again then. If the plan stops more than the rules allow, since all jobs leave a device with their
// leader, or if one leader after the other grows too much, it is asked once more with all leaders of other jobs fixed.
func (s *sharing) planOnce(alone alonePlanner, wanted []gres.Vector) (*slotPlanner, error) {
	t, err := s.askPlanner(alone, s.leaderSnapshot(wanted, false))
	if err == nil && s.holdLeaders(t) {
		t, err = s.askPlanner(alone, s.leaderSnapshot(wanted, false))
	}
	if most := s.c.Rules.MaxPreemptions; err == nil && (most > 0 && t.stops > most || s.holdLeaders(t)) {
		t, err = s.askPlanner(alone, s.leaderSnapshot(wanted, true))
	}
	if err != nil {
		return t, err
	}
	t.moveOut()
	t.giveSlots()
	return t, nil
}

// askPlanner has the planner plan, and decides what that means for the running jobs that share.
func (s *sharing) askPlanner(alone alonePlanner, c Cluster) (*slotPlanner, error) {
	plan, kept, err := alone(c)
	if err != nil {
		return &slotPlanner{sharing: s}, err
	}
	return newSlotPlanner(s, plan, kept), nil
}

// holdLeaders adds to heldLeaders the leaders whose new size under a plan would make a job on their device slower than
// it accepts, and slower than it is, and reports whether there are any. These keep their size when the planner is asked
// again. Otherwise the next round would let the slowed job leave.
func (s *sharing) holdLeaders(t *slotPlanner) (some bool) {
	for _, g := range s.groups {
		on, first := s.c.Nodes[g.node].device(g.device), g.jobs[0]
		d := t.decision(first.ID)
		if on == nil || len(g.jobs) < 2 || d == nil || d.Grant == nil || d.Grant.Device != g.device ||
			first.keepsGrant(d.Grant) {
			continue
		}
		var before []tenant
		for _, j := range g.jobs {
			before = append(before, s.tenantOf(j, g.node, j.Running.PerNode))
		}
		after := slices.Clone(before)
		if after[0] = s.tenantOf(first, g.node, d.Grant.PerNode); slowsTenant(on, before, after) {
			s.heldLeaders[first.ID], some = true, true
		}
	}
	return some
}
