package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// slotPlanner adds the jobs that share GPUs to a plan that was made without sharing, and finds slots for waiting ones.
// It is made for one plan (newSlotPlanner), changes its decisions, and is read off by finishedPlan.
type slotPlanner struct {
	*sharing
	kept          map[string]int // the job for which each node is kept, by node name
	decisions     []Decision
	decisionIndex map[int]int     // index of each job's decision
	stops         int             // running jobs that stop or change
	devices       []*sharedDevice // ascending in node and device
	rooms         []nodeRoom      // of each node
	slotQuotas    []slotQuota     // of each of Cluster.Quotas
	idle          []int           // nodes with GPUs that no job has or waits for
	slotGrants    []slotGrant     // in the order in which they got their slots
	// noSlotAnswers is why jobs of a kind get no slot. What is left only becomes less, so the next of them gets none
	// either.
	noSlotAnswers map[slotKind]answer
	// usersMatter says that on some device it matters which user a job belongs to, see SharedBy.
	usersMatter   bool
	prospectCache prospects
	// wanted is, by node, what is missing for jobs that would get a slot if all other jobs that start or restart there
	// had what they are promised, and no more; nil: nothing.
	wanted []gres.Vector
}

// sharedDevice is a device (one GPU that jobs can share) and the jobs that are on it under the plan.
type sharedDevice struct {
	node      int       // index in Cluster.Nodes
	device    *Device   // as in the snapshot
	tenants   []tenant  // changed by setTenants alone
	changes   int       // how often tenants was changed
	occupancy occupancy // cached, see currentOccupancy
}

// slotGrant is a job that was given a slot beside others. (Job.hasSlot is another thing: that a job runs on a device.)
type slotGrant struct {
	job *Job
	on  *sharedDevice
}

// nodeRoom is what a node has left for slots if every idle GPU keeps its proportional share for a later job.
type nodeRoom struct {
	free     gres.Vector
	promised gres.Vector // the same if jobs that start or restart there had no more than they are promised
	full     bool        // more GPUs are in use than there are
	idle     int         // GPUs that no job has
}

// newSlotPlanner decides what becomes of the running jobs on devices under a plan that was made without them, and
// counts the running jobs that stop or change (stops). It names devices for the jobs that start, and finds what is left
// for slots. kept is the job for which nodes are kept, by node name; nil: none.
func newSlotPlanner(s *sharing, plan Plan, kept map[string]int) *slotPlanner {
	t := &slotPlanner{sharing: s, kept: kept, noSlotAnswers: map[slotKind]answer{}, decisions: plan.Decisions,
		prospectCache: prospects{byDemand: map[speedKey][]prospect{}},
		decisionIndex: make(map[int]int, len(s.c.Jobs))}
	for i := range t.decisions {
		t.decisionIndex[t.decisions[i].Job] = i
	}
	for _, g := range s.groups {
		t.settleGroup(g)
	}
	for _, j := range s.leavingJobs {
		t.addDecision(Decision{Job: j.ID, Reason: Parts, Why: j.leaveText()})
	}
	for i := range s.c.Jobs {
		j := &s.c.Jobs[i]
		if d := t.decision(j.ID); d != nil && j.Running != nil && !j.keepsGrant(d.Grant) {
			t.stops++
		}
	}
	t.nameDevices()
	t.measureLeft()
	return t
}

// leaveText says, as the reason of its decision, why a job leaves the device that it has a slot on.
func (j *Job) leaveText() string {
	why := "which is not enough for all who share it"
	if j.Unruly {
		why = "where it would not give its turn back again and again"
	}
	return fmt.Sprintf("leaves %s of %s, %s", j.Running.Device, j.Running.Nodes[0], why)
}

// keepsGrant reports that a job runs and is granted exactly what it has, so nothing happens to it in this round.
func (j *Job) keepsGrant(g *Placement) bool {
	return j.Running != nil && g != nil && (g == j.Running || g.Equal(*j.Running))
}

// decision is the plan's decision on the job with an ID; nil: there is none. The pointer is valid until the next
// addDecision.
func (t *slotPlanner) decision(job int) *Decision {
	if i, decided := t.decisionIndex[job]; decided {
		return &t.decisions[i]
	}
	return nil
}

// addDecision adds the decision on a job that was hidden from the planner (leaderSnapshot).
func (t *slotPlanner) addDecision(d Decision) {
	t.decisionIndex[d.Job] = len(t.decisions)
	t.decisions = append(t.decisions, d)
}

// settleGroup decides the jobs of a device by what the planner decided on their leader, the first of them. The others
// stay as long as the leader stays on the node, and leave with it, since the GPU was given to another job. The planner
// knows no devices, so the leader's device is written into its grant. If the leader cannot share the device any more
// (keepsDevice is false), its grant names none, which is a whole GPU. Without a decision on the leader, no job of the
// group gets one here.
func (t *slotPlanner) settleGroup(g *deviceGroup) {
	first, d := g.jobs[0], t.decision(g.jobs[0].ID)
	if d == nil {
		return
	}
	home := t.c.Nodes[g.node].Name
	switch stays := d.Grant != nil && slices.Equal(d.Grant.Nodes, first.Running.Nodes); {
	case stays && d.Grant.PerNode == first.Running.PerNode:
		d.Grant = first.Running
	case stays && t.keepsDevice(g):
		d.Grant = &Placement{Nodes: d.Grant.Nodes, PerNode: d.Grant.PerNode, Device: g.device}
	case !stays:
		for _, j := range g.jobs[1:] {
			t.addDecision(Decision{Job: j.ID, Reason: GivesWay, Why: fmt.Sprintf(
				"leaves %s of %s with job %d, to which the GPU was given", g.device, home, first.ID)})
		}
		return
	}
	for _, j := range g.jobs[1:] {
		fair := gres.Proportional(t.c.Nodes[g.node].Total, 1)
		t.addDecision(Decision{Job: j.ID, Grant: j.Running, Gain: t.sharing.tenantOf(j, g.node, j.Running.PerNode).gain,
			Fair: fair})
	}
}

// jobsByTurn lists the jobs with one GPU that may share it and have a decision, in the policy's order: in this order
// they get devices and slots.
func (t *slotPlanner) jobsByTurn() (jobs []*Job) {
	for i := range t.c.Jobs {
		if j := &t.c.Jobs[i]; j.Share != nil && j.GPUs == 1 && t.decision(j.ID) != nil {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, t.compareTurns)
	return jobs
}

// nameDevices names an unused device for each sharing job that was given a GPU of its own on a node with devices, so
// that other jobs can join it there later. If it is unknown which devices are unused, the job gets its GPU without a
// device, and no job can join it.
func (t *slotPlanner) nameDevices() {
	free := map[int][]*Device{}
	for _, j := range t.jobsByTurn() {
		d := t.decision(j.ID)
		if d.Grant == nil || d.Grant.Device != "" || j.keepsGrant(d.Grant) || len(d.Grant.Nodes) != 1 ||
			d.Grant.PerNode.GPUs != 1 {
			continue
		}
		n, known := t.nodes[d.Grant.Nodes[0]]
		if !known {
			continue
		}
		if _, looked := free[n]; !looked {
			free[n] = t.unusedDevices(n)
		}
		if at := slices.IndexFunc(free[n], j.canUseSlot); at >= 0 {
			d.Grant = &Placement{Nodes: d.Grant.Nodes, PerNode: d.Grant.PerNode, Device: free[n][at].Name}
			free[n] = slices.Delete(free[n], at, at+1)
		}
	}
}

// canUseSlot reports that a job may have a slot on device v if no other job uses it.
func (j *Job) canUseSlot(v *Device) bool {
	return !j.Unruly && v.Slots > 0 && j.gpuMemory() > 0 && j.gpuMemory() <= usableGPUMemory(v)
}

// unusedDevices lists the devices of node n that no job uses under the plan; none if some GPUs in use cannot be told
// apart, since a job could be sent to one of these.
func (t *slotPlanner) unusedDevices(n int) (free []*Device) {
	node := &t.c.Nodes[n]
	if len(node.Devices) == 0 || !t.knowsUsedDevices(node) {
		return nil
	}
	taken := map[string]bool{}
	for i := range t.decisions {
		if g := t.decisions[i].Grant; g != nil && g.Device != "" && slices.Contains(g.Nodes, node.Name) {
			taken[g.Device] = true
		}
	}
	for i := range node.Devices {
		v := &node.Devices[i]
		if !v.Foreign && !taken[v.Name] && (v.Job == 0 || t.leavesNode(v.Job, node.Name)) {
			free = append(free, v)
		}
	}
	return free
}

// knowsUsedDevices reports whether it is known which devices of a node are in use. That is so if each job with GPUs of
// its own has as many devices in its name, and foreign jobs have as many marked as foreign.
func (t *slotPlanner) knowsUsedDevices(node *Node) bool {
	named, foreign := map[int]int{}, 0
	for i := range node.Devices {
		if v := &node.Devices[i]; v.Foreign {
			foreign++
		} else {
			named[v.Job]++
		}
	}
	for i := range t.c.Jobs {
		j := &t.c.Jobs[i]
		if j.Running != nil && !j.hasSlot() && slices.Contains(j.Running.Nodes, node.Name) &&
			named[j.ID] < j.Running.PerNode.GPUs {
			return false
		}
	}
	return foreign >= node.Foreign.GPUs
}

// leavesNode reports that the job with an ID, which runs, holds nothing of a node any more under the plan.
func (t *slotPlanner) leavesNode(job int, node string) bool {
	d := t.decision(job)
	return d != nil && (d.Grant == nil || !slices.Contains(d.Grant.Nodes, node))
}

// measureLeft finds what the plan leaves for slots. It lists the jobs of each device (devices), takes all grants off
// the nodes (rooms) and the quotas (slotQuotas), and keeps the share of idle GPUs back for later jobs. It comes after
// all decisions on running jobs.
func (t *slotPlanner) measureLeft() {
	t.rooms = make([]nodeRoom, len(t.c.Nodes))
	t.usersMatter = slices.ContainsFunc(t.c.Nodes, func(n Node) bool {
		return slices.ContainsFunc(n.Devices, func(d Device) bool { return d.Mode == share.Fill })
	})
	gpus, found := make([]int, len(t.c.Nodes)), map[string]*sharedDevice{}
	for n := range t.c.Nodes {
		left := t.c.Nodes[n].Total.Minus(t.c.Nodes[n].Foreign)
		t.rooms[n], gpus[n] = nodeRoom{free: left, promised: left}, left.GPUs
	}
	for _, q := range t.c.Quotas {
		t.slotQuotas = append(t.slotQuotas, newSlotQuota(q))
	}
	for i := range t.decisions {
		d := &t.decisions[i]
		j := t.byID[d.Job]
		if d.Grant == nil || j == nil {
			continue
		}
		t.charge(j, len(d.Grant.Nodes), d.Grant.PerNode, 1)
		promised := t.promisedSize(j, d.Grant)
		for _, name := range d.Grant.Nodes {
			n, known := t.nodes[name]
			if !known {
				continue
			}
			r := &t.rooms[n]
			r.free, r.promised = r.free.Minus(d.Grant.PerNode), r.promised.Minus(promised)
			if t.addTenant(found, n, j, d.Grant) {
				gpus[n] -= d.Grant.PerNode.GPUs
			}
		}
	}
	for n := range t.rooms {
		r := &t.rooms[n]
		r.full, r.idle = gpus[n] < 0, max(0, gpus[n])
		r.subtract(t.idleShare(n, r.idle))
	}
	slices.SortFunc(t.devices, func(x, y *sharedDevice) int {
		return cmp.Or(cmp.Compare(t.c.Nodes[x.node].Name, t.c.Nodes[y.node].Name),
			cmp.Compare(x.device.Name, y.device.Name))
	})
}

// idleShare is the share of cores and memory that is kept on node n for so many idle GPUs, so that later jobs can use
// them; zero for none.
func (t *slotPlanner) idleShare(n, gpus int) gres.Vector {
	if gpus == 0 {
		return gres.Vector{}
	}
	return gres.Proportional(t.c.Nodes[n].Total, gpus)
}

// addTenant adds a job to its device under the plan, and reports whether it takes GPUs that were not counted yet: of
// the jobs on one device only the first does; a job without a device always does. A device that has left the node is
// counted, but gets no further job. found has the devices so far, by node and name.
func (t *slotPlanner) addTenant(found map[string]*sharedDevice, n int, j *Job, g *Placement) bool {
	if g.Device == "" {
		return true
	}
	place := g.Nodes[0] + "\x00" + g.Device
	on, another := found[place]
	if !another {
		v := t.c.Nodes[n].device(g.Device)
		on = &sharedDevice{node: n, device: v}
		found[place] = on
		if v != nil {
			t.devices = append(t.devices, on)
		}
	}
	on.setTenants(append(on.tenants, t.tenantOf(j, n, g.PerNode)))
	return !another
}

// promisedSize is the least that a job may have on each node of its grant. A job that starts or restarts may have its
// least size; one that goes on unchanged, or runs on several nodes, what it is granted. A second plan could make room
// for a slot by taking what the job has beyond that (planRound).
func (t *slotPlanner) promisedSize(j *Job, g *Placement) gres.Vector {
	if j.keepsGrant(g) || len(g.Nodes) != 1 {
		return g.PerNode
	}
	n, known := t.nodes[g.Nodes[0]]
	if !known {
		return g.PerNode
	}
	node := &t.c.Nodes[n]
	key := slotKey{menuKey{ProfileOn(j.Profile, node.GPUType), g.PerNode.GPUs, max(1, j.Tasks), node.Total, termsOf(j),
		node.Total, false}, promisedSizes}
	sizes, known := t.sizes[key]
	if !known {
		sizes = newMenu(key.menuKey).options
		t.sizes[key] = sizes
	}
	return atMost(g.PerNode, sizes[0].Size)
}

// slotKey has these in place of a class for a job that shares no GPU: one for all of its sizes, one for those within
// its share.
const (
	promisedSizes share.Class = ""
	withinShare   share.Class = "within"
)

// slotQuota is what a quota leaves for slots; negative amounts are overdrawn. A slot counts as a GPU.
type slotQuota struct {
	of   Quota // the quota, for which of its amounts are Unbounded
	left quotaUse
}

// newSlotQuota keeps Unbounded amounts as they are, so that affords can tell them from others; charge makes them
// meaningless numbers.
func newSlotQuota(q Quota) slotQuota {
	return slotQuota{q, quotaUse{q.Jobs, q.Nodes, gres.Vector{GPUs: q.GPUs, CPUs: q.CPUs, Memory: q.Memory}}}
}

// charge books a size on each of so many nodes on the quotas of j; sign is 1, or -1 to take it back. Quota numbers that
// the cluster does not have are ignored.
func (t *slotPlanner) charge(j *Job, nodes int, size gres.Vector, sign int) {
	for _, q := range j.Quotas {
		if q >= 0 && q < len(t.slotQuotas) {
			t.slotQuotas[q].left = t.slotQuotas[q].left.plusTimes(quotaUseFor(nodes, size), -sign)
		}
	}
}

// quotasAfford reports whether all quotas of a job leave it one slot with that size. Unbounded amounts, and quota
// numbers that the cluster does not have, bound nothing.
func (t *slotPlanner) quotasAfford(j *Job, size gres.Vector) bool {
	for _, q := range j.Quotas {
		if q < 0 || q >= len(t.slotQuotas) {
			continue
		}
		b, needs := &t.slotQuotas[q], quotaUseFor(1, size)
		over := func(bound, left, need int) bool { return bound != Unbounded && left < need }
		if over(b.of.Jobs, b.left.jobs, needs.jobs) || over(b.of.Nodes, b.left.nodes, needs.nodes) ||
			over(b.of.GPUs, b.left.amount.GPUs, size.GPUs) || over(b.of.CPUs, b.left.amount.CPUs, size.CPUs) ||
			over(int(b.of.Memory), int(b.left.amount.Memory), int(size.Memory)) {
			return false
		}
	}
	return true
}

// giveSlots gives slots to waiting jobs that may share, in the policy's order. First each gets the least size that will
// do, so that more jobs get one; then they get more of what is left (enlargeSlot). Jobs that wait for a reason that a
// slot would not remove are left out, and so are jobs on several nodes and those that did not give back their turns
// (Unruly).
func (t *slotPlanner) giveSlots() {
	for _, j := range t.jobsByTurn() {
		d := t.decision(j.ID)
		if d.Grant != nil || j.Running != nil || j.Nodes > 1 || j.Unruly {
			continue
		}
		switch d.Reason {
		case Barred, Shape, Closed, InReservation, InQuota: // a slot would not help it
		default:
			t.giveSlot(j, d)
		}
	}
	for _, s := range t.slotGrants {
		t.enlargeSlot(s)
	}
}

// slotOffer is a slot that a job can have. If on is nil, it is no offer.
type slotOffer struct {
	on   *sharedDevice
	size sensitivity.Option
	// more is what all jobs on the device train with it beyond what they would train without it, in shares.
	more float64
}

// obstacle is what keeps a job from a slot. The later the stage, the nearer the job came to one, and the more there is
// to report.
type obstacle struct {
	stage int           // one of the stages below
	on    *sharedDevice // the device
	size  gres.Vector   // that it failed with
}

// The stages at which a job may fail to get a slot.
const (
	noObstacle = iota // nothing that would have to be reported
	noFreeSlot
	noMemory
	tooSlow
	noRoom
	noQuotaLeft
)

// speedTolerance is a difference of speed that counts as none.
const speedTolerance = 1e-9

// giveSlot gives job j the slot with which most is trained, of equal ones the first, or adds to its decision why it
// gets none. That reason is remembered for all jobs of its kind (noSlotAnswers), so that they need no search. If there
// would be a slot but for what others have beyond what they are promised, that is noted for a second plan (noteWanted).
func (t *slotPlanner) giveSlot(j *Job, d *Decision) {
	if j.gpuMemory() == 0 {
		d.Why += "; it shares no GPU, since nobody knows how much of a GPU's memory it needs: say mem= in synergy-share"
		return
	}
	of := t.slotKindOf(j)
	for _, keeper := range t.kept {
		of.kept = of.kept || keeper == j.ID
	}
	missed, tried := t.noSlotAnswers[of]
	if tried {
		d.addReason(missed)
		return
	}
	best, wanted, last := t.bestSlot(j)
	switch {
	case best.on != nil:
		t.takeSlot(j, d, &best)
		return
	case wanted.on != nil:
		t.noteWanted(&wanted)
	}
	if last.stage > noObstacle {
		missed = t.noSlotAnswer(j, last)
	}
	// If something is wanted for it, the next job of the kind is compared anew: nodeRoom.promised is smaller then, so
	// what is wanted for that job may be on another node.
	if wanted.on == nil {
		t.noSlotAnswers[of] = missed
	}
	d.addReason(missed)
}

// bestSlot compares a job with all devices. best is the slot to take; wanted is the slot that it would get if others
// had no more than they are promised; last is what kept it from a slot, at the latest stage, for the reason that it is
// told. In best and wanted, no device (on is nil) means that there is no such slot.
func (t *slotPlanner) bestSlot(j *Job) (best, wanted slotOffer, last obstacle) {
	better := func(o, than *slotOffer) bool {
		return o.on != nil && (than.on == nil || o.more > than.more+speedTolerance)
	}
	d := speedKey{profile: j.Profile, class: j.Share.Class, tasks: j.Tasks, terms: termsOf(j)}
	if t.usersMatter {
		d.user = j.User
	}
	row, node, closed := t.prospectCache.listFor(d, len(t.devices)), -1, false
	for k, on := range t.devices {
		if on.node != node { // devices of a node are neighbours
			node, closed = on.node, t.isClosedTo(j, &t.c.Nodes[on.node])
		}
		if closed {
			continue // not for this job, so there is nothing to report
		}
		if stage, suits := t.deviceObstacle(j, on); !suits {
			continue
		} else if stage != noObstacle {
			if stage > last.stage {
				last = obstacle{stage: stage, on: on}
			}
			continue
		}
		found, would, failed := t.matchDevice(j, k, row)
		if better(&found, &best) {
			best = found
		}
		if better(&would, &wanted) {
			wanted = would
		}
		last = laterObstacle(last, failed)
	}
	return best, wanted, last
}

// addReason adds to the decision of a waiting job why it has no slot; an empty reason adds nothing.
func (d *Decision) addReason(why answer) {
	if why.reason != "" {
		d.Reason, d.Why = why.reason, d.Why+"; "+why.why
	}
}

// slotKind is everything about a job that decides whether it gets a slot. If one job of a kind gets none, neither does
// the next, so it need not be compared with all devices again.
type slotKind struct {
	profile                *sensitivity.Profile
	request                share.Request
	tasks                  int
	terms                  terms
	gpuType                string
	features, only, except string
	quotas, reservation    string
	limit                  time.Duration // Job.TimeLimit
	saves                  bool
	restarts               int
	kept                   bool   // nodes are kept for it
	forGood                bool   // it gives way to no job, so it keeps off nodes that are kept for others
	user                   string // if usersMatter, else empty
}

// slotKindOf is the kind of a job that may share a GPU (Job.Share is not nil). Whether nodes are kept for the job is
// left to the caller, who sets kept.
func (t *slotPlanner) slotKindOf(j *Job) slotKind {
	of := slotKind{j.Profile, *j.Share, j.Tasks, termsOf(j), j.GPUType, strings.Join(j.Features, "\x00"),
		strings.Join(j.Only, "\x00"), strings.Join(j.Except, "\x00"), listKey(j.Quotas), j.Reservation, j.TimeLimit,
		j.Saves, j.Restarts, false, t.rights.forGood[j.ID], ""}
	if t.usersMatter {
		of.user = j.User
	}
	return of
}

// matchDevice finds whether job j could have a slot on the device with index k, to which nothing but its size may be an
// obstacle (deviceObstacle). found is a slot with what is left; wanted one that would be possible if others had no more
// than they are promised; failed what prevented found. It takes the smallest size that will do, so that more jobs find
// room; enlargeSlot gives more later. row has the prospects of the job's demand.
func (t *slotPlanner) matchDevice(j *Job, k int, row []prospect) (found, wanted slotOffer, failed obstacle) {
	on, p := t.devices[k], t.prospectOn(j, k, row)
	switch {
	case len(p.sizes) == 0:
		return slotOffer{}, slotOffer{}, obstacle{}
	case p.isTooSlow:
		return slotOffer{}, slotOffer{}, obstacle{tooSlow, on, p.sizes[len(p.sizes)-1].Size}
	}
	r := &t.rooms[on.node]
	for i := range p.sizes {
		o := &p.sizes[i]
		fits, would := r.hasRoomIn(r.free, o.Size), wanted.on == nil && r.hasRoomIn(r.promised, o.Size)
		switch {
		// too slow; a larger size may do
		case j.Share.Class == share.Low && float64(p.ownSpeed*o.Gain) < share.LowKeeps:
		case !fits && !would:
			failed = laterObstacle(failed, obstacle{noRoom, on, o.Size})
		case !t.quotasAfford(j, o.Size):
			failed = laterObstacle(failed, obstacle{noQuotaLeft, on, o.Size})
		case fits:
			return slotOffer{
				on,
				*o,
				float64(p.ownSpeed*o.Gain) + p.othersTrain - p.trainedBefore,
			}, slotOffer{}, obstacle{}
		default:
			wanted = slotOffer{on, *o, float64(p.ownSpeed*o.Gain) + p.othersTrain - p.trainedBefore}
			failed = laterObstacle(failed, obstacle{noRoom, on, o.Size})
		}
	}
	return slotOffer{}, wanted, failed
}

// laterObstacle is the obstacle at the later stage, which says more about what the job lacks; x if they are equal.
func laterObstacle(x, y obstacle) obstacle {
	if y.stage > x.stage {
		return y
	}
	return x
}

// hasRoomIn reports whether a size fits in left, which is what r has free or promised; never on a node that has more
// GPUs in use than it has.
func (r *nodeRoom) hasRoomIn(left, size gres.Vector) bool {
	return !r.full && size.CPUs <= left.CPUs && size.Memory <= left.Memory
}

// isClosedTo reports that a job may not be started on a node whatever is free there: the node is closed, does not suit
// it, is reserved, or is kept for another job for which it would not give way.
func (t *slotPlanner) isClosedTo(j *Job, node *Node) bool {
	keeper, kept := t.kept[node.Name]
	return node.Closed != "" || !j.suits(node) || node.reservationBlocks(j, t.c.Now) ||
		kept && keeper != j.ID && (!j.canGiveBack(t.c.Rules) || t.rights.forGood[j.ID])
}

// deviceObstacle finds what keeps a job from a device, whatever its size, as one of the stages; noObstacle: nothing
// does. suits is false if no job may be put on the device at all (occupancy.unsuited), which is not reported as a
// reason.
func (t *slotPlanner) deviceObstacle(j *Job, on *sharedDevice) (stage int, suits bool) {
	s := on.currentOccupancy(&t.c.Nodes[on.node])
	switch {
	case s.unsuited:
		return noObstacle, false
	case s.measuredSlow != nil:
		return tooSlow, true
	case s.full:
		return noFreeSlot, true
	case s.memory+j.gpuMemory() > usableGPUMemory(on.device):
		return noMemory, true
	case j.Share.Class == share.High && s.highCount > 0: // one high-class job to a GPU
		return tooSlow, true
	}
	return noObstacle, true
}

// slowedJob is a job that stays on a device and was measured there to be slower than it accepts (Job.Kept); nil: there
// is none. No further job is put beside it, whatever is predicted.
func (on *sharedDevice) slowedJob(node *Node) *Job {
	for _, u := range on.tenants {
		if j := u.job; j.Kept != nil && j.runsOn(node, on.device) {
			return j
		}
	}
	return nil
}

// runsOn reports that a job runs on a device now.
func (j *Job) runsOn(n *Node, d *Device) bool {
	return j.hasSlot() && j.Running.Device == d.Name && j.Running.Nodes[0] == n.Name
}

// tooSlowIndex is the index of the first of the jobs on a device that would be slower at these speeds than it accepts;
// -1: none would be. speeds are in the order of the jobs.
func tooSlowIndex(together []tenant, speeds []float64) int {
	for i := range together {
		if least, is := together[i].acceptedSpeed(speeds[i]); is < least {
			return i
		}
	}
	return -1
}

// acceptedSpeed returns the least speed that a job accepts, and its own speed in the same unit (is). The speed is given
// as part of its speed alone on the GPU. A high-class job was promised a part of that speed; a low-class one only a
// throughput relative to its share.
func (t *tenant) acceptedSpeed(speed float64) (least, is float64) {
	if t.class() == share.High {
		return share.HighKeeps, speed
	}
	return share.LowKeeps, float64(speed * t.gain)
}

// noSlotAnswer is the reason, for its decision, why a job gets no slot: the obstacle that it met at the latest stage.
// At stage noRoom it is what the node lacks.
func (t *slotPlanner) noSlotAnswer(j *Job, o obstacle) answer {
	v, name := o.on.device, t.c.Nodes[o.on.node].Name
	switch o.stage {
	case noFreeSlot:
		return answer{NoSlot, fmt.Sprintf("%s of %s is shared by %s, as many as may be", v.Name, name,
			count(len(o.on.tenants), "job"))}
	case noMemory:
		memory, _ := neededGPUMemory(o.on.tenants)
		return answer{GPUMemory, fmt.Sprintf(
			"beside others on %s of %s %s of the GPU's memory may be used, %s is, and it needs %s", v.Name, name,
			usableGPUMemory(v), memory, j.gpuMemory())}
	case tooSlow:
		return answer{Slowdown, t.slowdownText(j, o)}
	case noQuotaLeft:
		return answer{InQuota, "its quotas leave it no slot beside others"}
	}
	return t.lackAnswer(o.on, o.size)
}

// slowdownText says which job would be slower than it accepts if j had the slot: by measurement, by class, or by
// prediction.
func (t *slotPlanner) slowdownText(j *Job, o obstacle) string {
	v, name := o.on.device, t.c.Nodes[o.on.node].Name
	if other := o.on.slowedJob(&t.c.Nodes[o.on.node]); other != nil {
		return fmt.Sprintf("on %s of %s job %d was measured to keep %.2f of its speed alone, and %g is the least",
			v.Name,
			name, other.ID, other.Kept.Part, share.HighKeeps)
	}
	if j.Share.Class == share.High && countHighs(o.on.tenants) > 0 {
		return fmt.Sprintf("on %s of %s there is an important job, and it is one, too", v.Name, name)
	}
	together := append(slices.Clone(o.on.tenants), t.tenantOf(j, o.on.node, o.size))
	speeds := speedsOf(v, together)
	at := max(0, tooSlowIndex(together, speeds))
	least, is := together[at].acceptedSpeed(speeds[at])
	who := fmt.Sprintf("job %d", together[at].job.ID)
	if together[at].job == j {
		who = "it"
	}
	is = math.Floor(100*is) / 100 // rounded down, so that too little does not look like enough
	return fmt.Sprintf("on %s of %s, by %s, %s would run at %.2f of its speed alone, and %g is the least", v.Name, name,
		sharedBy(v, together).Words(), who, is, least)
}

// lackAnswer says whether the node of a device lacks cores or memory for a slot of that size, and how much.
func (t *slotPlanner) lackAnswer(on *sharedDevice, size gres.Vector) answer {
	left, node := t.rooms[on.node].free, &t.c.Nodes[on.node]
	if more := size.CPUs - left.CPUs; more > 0 {
		return answer{Cores, fmt.Sprintf("%s of %s has a slot for it, but the node is %s short", on.device.Name,
			node.Name, count(more, "core"))}
	}
	return answer{RAM, fmt.Sprintf("%s of %s has a slot for it, but the node is %s of memory short", on.device.Name,
		node.Name, max(1, size.Memory-left.Memory))}
}

// takeSlot gives a job the slot that it was offered, and books it on the device, the node and the quotas. If the
// device's jobs now share it in another mode, slots that were refused before may be possible, so those refusals are
// forgotten.
func (t *slotPlanner) takeSlot(j *Job, d *Decision, o *slotOffer) {
	node := &t.c.Nodes[o.on.node]
	d.Grant = &Placement{Nodes: []string{node.Name}, PerNode: o.size.Size, Device: o.on.device.Name}
	d.Reason, d.Why, d.Fair = Shares, "", gres.Proportional(node.Total, 1)
	mode := sharedBy(o.on.device, o.on.tenants)
	o.on.setTenants(append(o.on.tenants, t.tenantOf(j, o.on.node, o.size.Size)))
	if sharedBy(o.on.device, o.on.tenants) != mode {
		clear(t.noSlotAnswers) // in the other mode some jobs may be faster
	}
	t.slotGrants = append(t.slotGrants, slotGrant{j, o.on})
	t.charge(j, 1, o.size.Size, 1)
	t.rooms[o.on.node].subtract(o.size.Size)
}

// subtract takes a size from what is left. The size may be negative, which gives it back; what is left may become
// negative.
func (r *nodeRoom) subtract(size gres.Vector) {
	r.free, r.promised = r.free.Minus(size), r.promised.Minus(size)
}

// noteWanted notes the cores and memory by which a slot failed only because others have more than they are promised.
// They are kept for it in a second plan (sharing.planRound), and taken off the promised room, so that no other wish
// counts on them.
func (t *slotPlanner) noteWanted(o *slotOffer) {
	if t.wanted == nil {
		t.wanted = make([]gres.Vector, len(t.c.Nodes))
	}
	size := gres.Vector{CPUs: o.size.Size.CPUs, Memory: o.size.Size.Memory}
	t.wanted[o.on.node] = t.wanted[o.on.node].Plus(size)
	r := &t.rooms[o.on.node]
	r.promised = r.promised.Minus(size)
}

// enlargeSlot gives a job with a new slot the largest of its sizes for which there is room and with which no job on the
// device is slower than it accepts. It keeps its size if none is better. It is called once all jobs that can have slots
// do.
func (t *slotPlanner) enlargeSlot(s slotGrant) {
	d := t.decision(s.job.ID)
	r, was := &t.rooms[s.on.node], d.Grant.PerNode
	at := slices.IndexFunc(s.on.tenants, func(u tenant) bool { return u.job == s.job })
	r.subtract(gres.Vector{}.Minus(was))
	t.charge(s.job, 1, was, -1)
	sizes, size := t.slotSizes(s.job, s.on.node), was
	for i := len(sizes) - 1; i >= 0; i-- {
		together := slices.Clone(s.on.tenants)
		together[at] = t.tenantOf(s.job, s.on.node, sizes[i].Size)
		if r.hasRoomIn(r.free, sizes[i].Size) && t.quotasAfford(s.job, sizes[i].Size) &&
			tooSlowIndex(together, speedsOf(s.on.device, together)) < 0 && together[at].gain >= s.on.tenants[at].gain {
			s.on.setTenants(together)
			size = sizes[i].Size
			break
		}
	}
	d.Grant = &Placement{Nodes: d.Grant.Nodes, PerNode: size, Device: d.Grant.Device}
	r.subtract(size)
	t.charge(s.job, 1, size, 1)
}

// runsAllOf reports whether this plan runs all jobs that another runs, and more, and stops no more: then nothing is
// lost by taking it instead.
func (t *slotPlanner) runsAllOf(other *slotPlanner) bool {
	mine, others := 0, 0
	for i := range t.decisions {
		if t.decisions[i].Grant != nil {
			mine++
		}
	}
	for i := range other.decisions {
		d := &other.decisions[i]
		if d.Grant == nil {
			continue
		}
		others++
		if own := t.decision(d.Job); own == nil || own.Grant == nil {
			return false
		}
	}
	return mine > others && t.stops <= other.stops
}

// finishedPlan is the plan, ascending in job ID. The gain of a job on a device becomes what the job has beside the
// others there, and a job that was given a slot is told so. On a node that fills its GPUs (MPS) sharing changes the
// gain of a low-class job even if it is alone.
func (t *slotPlanner) finishedPlan() Plan {
	for _, on := range t.devices {
		speeds := speedsOf(on.device, on.tenants)
		for i := range on.tenants {
			d := t.decision(on.tenants[i].job.ID)
			if d.Gain = float64(on.tenants[i].gain * speeds[i]); d.Reason == Shares {
				d.Why = t.besideText(on, i, speeds)
			}
		}
	}
	slices.SortStableFunc(t.decisions, func(x, y Decision) int { return cmp.Compare(x.Job, y.Job) })
	return Plan{t.decisions}
}

// besideText says, for the decision of the tenant with index i, which jobs it starts beside, and how fast each of them
// is predicted to be.
func (t *slotPlanner) besideText(on *sharedDevice, i int, speeds []float64) string {
	var others []string
	for k := range on.tenants {
		if k != i {
			others = append(others, fmt.Sprintf("job %d at %.2f", on.tenants[k].job.ID, speeds[k]))
		}
	}
	return fmt.Sprintf("shares %s of %s by %s: by prediction it runs at %.2f of its speed alone, %s", on.device.Name,
		t.c.Nodes[on.node].Name, sharedBy(on.device, on.tenants).Words(), speeds[i], strings.Join(others, ", "))
}
