package policy

import (
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// move is a job that leaves a GPU that it shares for an idle one. Speeds are in proportional shares of one GPU.
type move struct {
	mover      *Job
	from       *sharedDevice      // the device that it leaves
	toNode     int                // index in Cluster.Nodes of the node with the idle GPU
	size       sensitivity.Option // what it gets there
	gain       float64            // its speed there, relative to the share there
	moreShares float64            // by how much all the jobs involved train more than now, in shares
	speedThere float64            // its speed there, relative to the share where it is
	speedNow   float64            // its speed now, beside the others
}

// moveOut moves jobs that share to idle GPUs of their own, as long as a restart is worth it and the rules allow one.
// The move that gains most comes first, among equals that of the job that has lost most. No job moves to a GPU that a
// waiting job might get one day, nor to a node that is kept for a job.
func (t *slotPlanner) moveOut() {
	t.idle = slices.DeleteFunc(slices.Clone(t.sortedNodes), func(n int) bool {
		_, kept := t.kept[t.c.Nodes[n].Name]
		return t.rooms[n].idle == 0 || kept || t.hasWaitingJob(&t.c.Nodes[n])
	})
	for range min(maxMoves, len(t.c.Jobs)) {
		if most := t.c.Rules.MaxPreemptions; most > 0 && t.stops >= most {
			return
		}
		best := t.bestMove()
		if best == nil {
			return
		}
		t.goAlone(best)
	}
}

// maxMoves bounds the moves of one round; the next round goes on with them.
const maxMoves = 32

// bestMove finds the move that gains most, of all jobs that share and all nodes with idle GPUs; nil if none pays.
func (t *slotPlanner) bestMove() (best *move) {
	if len(t.idle) == 0 {
		return nil
	}
	for _, from := range t.devices {
		if len(from.tenants) < 2 {
			continue
		}
		for at := range from.tenants {
			if !t.mayMove(from.tenants[at].job) {
				continue
			}
			for _, n := range t.idle {
				if m := t.moveTo(from, at, n); m != nil && (best == nil || m.before(best)) {
					best = m
				}
			}
		}
	}
	return best
}

// before reports that move m is to be made before another: it gains more, or as much for a job that has lost more.
func (m *move) before(other *move) bool {
	if diff := m.moreShares - other.moreShares; diff > speedTolerance || diff < -speedTolerance {
		return diff > 0
	}
	return m.speedNow < other.speedNow-speedTolerance
}

// mayMove reports that a job goes on unchanged under the plan, and may be restarted for a gain: it shares willingly, it
// saves, its last restart has paid off, and it could be started again.
func (t *slotPlanner) mayMove(j *Job) bool {
	d := t.decision(j.ID)
	return j.Share != nil && j.keepsGrant(d.Grant) && j.Saves && j.Barred == "" && j.hasEarned(&t.c) && t.mayLeave(j)
}

// moveTo is the move of a tenant, at its index on device from, to an idle GPU of node n. It is nil if the job may not
// run there, no size fits, a job left behind would become too slow, or the move does not pay within rules.payback. What
// counts is how much all the jobs involved train: also those that are left behind.
func (t *slotPlanner) moveTo(from *sharedDevice, at, n int) *move {
	u, node, r := &from.tenants[at], &t.c.Nodes[n], &t.rooms[n]
	// Its run there begins only when it has been restarted.
	if r.idle == 0 || t.isClosedTo(u.job, node) || node.reservationBlocks(u.job, t.c.Now.Add(u.job.Restart)) {
		return nil
	}
	// An idle GPU keeps its share; the job takes one of them, and with it what is kept for that one.
	left := r.free.Plus(t.idleShare(n, r.idle)).Minus(t.idleShare(n, r.idle-1))
	if n == from.node {
		left = left.Plus(u.size)
	}
	var size *sensitivity.Option
	for _, o := range t.aloneSizes(u.job, n) {
		if r.hasRoomIn(left, o.Size) && t.affordsInstead(u.job, u.size, o.Size) {
			size = &o // sizes ascend in gain, so the last that fits is the best
		}
	}
	if size == nil {
		return nil
	}
	rest := slices.Delete(slices.Clone(from.tenants), at, at+1)
	if slowsTenant(from.device, from.tenants, rest) { // the jobs left behind may now fill the GPU
		return nil
	}
	speed := float64(speedsOf(from.device, from.tenants)[at] * u.gain)
	alone := aloneSpeed(node, t.tenantOf(u.job, n, size.Size))
	would := float64(t.tenantOf(u.job, from.node, size.Size).gain * alone) // in terms of the share where it is
	more := trainedTogether(from.device, rest) + would - trainedTogether(from.device, from.tenants)
	m := &move{u.job, from, n, *size, float64(size.Gain * alone), more, would, speed}
	ahead := t.c.Rules.payback()
	if to := remaining(u.job); to > 0 {
		ahead = min(ahead, to)
	}
	if float64(m.moreShares*ahead.Seconds()) <= float64(would*u.job.Restart.Seconds()) || m.moreShares <= gainTie {
		return nil
	}
	return m
}

// aloneSizes are the sizes that a job may have on a GPU of node n that it shares with no other job. The least is the
// size at which it trains as fast as promised. The largest is its proportional share, or the least where that is
// larger. The job's class does not matter there: the less that a low-class job accepts is for slots beside others.
func (t *slotPlanner) aloneSizes(j *Job, n int) []sensitivity.Option {
	important := *j
	request := *j.Share
	request.Class, important.Share = withinShare, &request
	return t.slotSizes(&important, n)
}

// affordsInstead reports whether the quotas of a running job leave it size in place of was, which it has now.
func (t *slotPlanner) affordsInstead(j *Job, was, size gres.Vector) bool {
	t.charge(j, 1, was, -1)
	defer t.charge(j, 1, was, 1)
	return t.quotasAfford(j, size)
}

// hasWaitingJob reports that a job waits for room that could be started on a node, so that the node's idle GPUs are
// left to it. The reasons that do not count are those for which an idle GPU would not help.
func (t *slotPlanner) hasWaitingJob(node *Node) bool {
	for i := range t.c.Jobs {
		j := &t.c.Jobs[i]
		d := t.decision(j.ID)
		if d == nil || d.Grant != nil || j.Running != nil || !j.suits(node) {
			continue
		}
		switch d.Reason {
		case Barred, Shape, Closed, InReservation, InQuota:
		default:
			return true
		}
	}
	return false
}

// goAlone carries out a move: in the plan, in the quotas, and in what the two nodes have left. The GPU that the job
// leaves does not become idle: other jobs stay on it.
func (t *slotPlanner) goAlone(m *move) {
	d, home := t.decision(m.mover.ID), &t.c.Nodes[m.toNode]
	was := d.Grant.PerNode
	d.Grant = &Placement{Nodes: []string{home.Name}, PerNode: m.size.Size}
	if free := t.unusedDevices(m.toNode); slices.ContainsFunc(free, m.mover.canUseSlot) {
		d.Grant.Device = free[slices.IndexFunc(free, m.mover.canUseSlot)].Name
	}
	d.Gain, d.Fair, d.Reason = m.gain, gres.Proportional(home.Total, 1), Moves
	d.Why = fmt.Sprintf(
		"moves to a GPU of its own to train %.2f× as fast",
		m.speedThere/max(m.speedNow, speedTolerance),
	)
	t.stops++
	t.charge(m.mover, 1, was, -1)
	t.charge(m.mover, 1, m.size.Size, 1)
	m.from.setTenants(slices.DeleteFunc(m.from.tenants, func(u tenant) bool { return u.job == m.mover }))
	t.rooms[m.from.node].subtract(gres.Vector{CPUs: -was.CPUs, Memory: -was.Memory})
	r := &t.rooms[m.toNode]
	r.subtract(m.size.Size.Minus(t.idleShare(m.toNode, r.idle)).Plus(t.idleShare(m.toNode, r.idle-1)))
	r.idle--
}
