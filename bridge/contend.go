package bridge

import (
	"context"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A place that a victim leaves is empty for some seconds before the next job of the plan can start there, and Slurm
// gives it to whoever it considers first meanwhile. So nobody is stopped for a place that others would have before the
// one that it is for: the victim would have been stopped for nothing. Who comes later in Slurm's order is no reason to
// stop nobody: the beneficiary is in Slurm's queue before its victims are asked.

// strangers are the jobs of an observation that are not ours to start and wait for nothing but room, in Slurm's order.
func strangers(jobs []*managedJob, s *scene) (list []*managedJob) {
	for _, t := range jobs {
		if t.contends(s) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(x, y *managedJob) int { return rankOf(x.Job).compare(rankOf(y.Job)) })
	return list
}

// contends says that Slurm may start the job as soon as there is room.
func (t *managedJob) contends(s *scene) bool {
	if t.State != Pending || t.Held || t.Dependency || t.Completing || t.Begin.After(s.at) ||
		t.standing(s.at) == managed {
		return false
	}
	return slices.Contains(roomAlone, t.Reason)
}

// roomAlone are Slurm's words for jobs that wait for nothing but room. It puts them right when it next looks at the
// job, which is when it may start it: one that is not held any more, depends on nobody and may begin has its last one
// until then.
var roomAlone = []string{"", "Resources", "Priority", "BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin"}

// cluttered says that what a running job would leave could not be given to anybody for a time that others decide: jobs
// of theirs are being torn down on a node of its, and Slurm starts nothing there before they are gone.
func (s *scene) cluttered(t *managedJob) bool {
	return slices.ContainsFunc(t.on, func(place int) bool {
		if place == elsewhere {
			return false
		}
		n := &s.nodes[s.topology.managed[place]]
		return n.Completing && !s.leaving[hostOf(n.Name)]
	})
}

// replans is how often a plan is made anew because others would have what its victims leave. Then nobody is stopped.
const replans = 4

// uncontended makes the plan anew as long as others would have what its victims leave: those stay.
func (t caution) uncontended(ctx context.Context) error {
	for n := 1; len(t.scene.strangers) > 0 && t.keepContended(); n++ {
		if n > replans {
			freeze(&t.report.Snapshot)
		}
		if err := t.planned(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keepContended lets the victims stay on whose nodes others would have what is meant for jobs of the plan. It says
// whether there are any.
func (t caution) keepContended() (any bool) {
	handovers := t.handovers()
	for _, i := range t.victims() {
		if slices.ContainsFunc(t.scene.managed[i].on, func(place int) bool {
			return place != elsewhere && t.lostAt(place, handovers[place])
		}) {
			t.report.Snapshot.Jobs[i].Fixed, any = true, true
		}
	}
	return any
}

// victims are the numbers of the managed jobs that the plan stops.
func (t *turn) victims() (list []int) {
	for i, tn := range t.scene.managed {
		if tn.State == Running && !unchanged(tn, &t.report.Plan.Decisions[i]) {
			list = append(list, i)
		}
	}
	return list
}

// handover is what becomes of a node that victims leave: who starts there, and how much comes back.
type handover struct {
	room   gres.Vector // when all victims have left
	starts []heir      // in Slurm's order
	back   gres.Vector // of victims that restart there for their own sake
	gives  bool        // some give back what they were lent
}

// heir is a job that the plan starts on a node.
type heir struct {
	rank
	armed bool // it is in Slurm's queue before the victims are asked
	size  gres.Vector
}

// handovers are those of a plan by place, of the nodes that victims leave.
func (t caution) handovers() map[int]*handover {
	all := map[int]*handover{}
	for _, i := range t.victims() {
		tn := t.scene.managed[i]
		for _, place := range tn.on {
			if place == elsewhere {
				continue
			}
			h := all[place]
			if h == nil {
				n := &t.scene.nodes[t.scene.topology.managed[place]]
				h = &handover{room: n.Total.Minus(n.Allocated)}
				all[place] = h
			}
			h.room = h.room.Plus(tn.Runs.PerNode)
		}
	}
	for i, tn := range t.scene.managed {
		if d := &t.report.Plan.Decisions[i]; d.Grant != nil && (tn.State != Running || !unchanged(tn, d)) {
			for _, place := range t.scene.topology.find(d.Grant.Nodes) {
				if h := all[place]; h != nil {
					t.inherit(h, i, d)
				}
			}
		}
	}
	for _, h := range all {
		slices.SortFunc(h.starts, func(x, y heir) int { return x.compare(y.rank) })
	}
	return all
}

// inherit adds what job i is granted on a node.
func (t caution) inherit(h *handover, i int, d *policy.Decision) {
	tn := t.scene.managed[i]
	switch {
	case tn.State == Pending:
		armed := t.Settings.Ahead > 0 && d.Grant.Device == "" && !t.report.Snapshot.Rationed(&t.report.Snapshot.Jobs[i])
		h.starts = append(h.starts, heir{rankOf(tn.Job), armed, d.Grant.PerNode})
	case d.Reason == policy.Shrinks:
		h.gives = true
	default:
		h.back = h.back.Plus(d.Grant.PerNode)
	}
}

// lostAt says that others would have, of what victims leave on a node, what is meant for jobs of the plan, or that
// nobody has any use of it: Slurm goes through its queue in order, with those jobs of ours in it that can be armed.
func (t caution) lostAt(place int, h *handover) bool {
	n := &t.scene.nodes[t.scene.topology.managed[place]]
	left, taken, next := h.room, false, 0
	serve := func(before func(x heir) bool) (all bool) {
		for ; next < len(h.starts) && before(h.starts[next]); next++ {
			if !h.starts[next].size.Fits(left) {
				return false
			}
			left = left.Minus(h.starts[next].size)
		}
		return true
	}
	for _, r := range t.scene.strangers {
		if !isOf(n, r.Partition) || r.Request.GPUType != "" && r.Request.GPUType != n.GPUType {
			continue
		}
		if !serve(func(x heir) bool { return x.armed && x.before(rankOf(r.Job)) }) {
			return true
		}
		if need := r.needsOn(n); need.Fits(left) {
			left, taken = left.Minus(need), true
		}
	}
	if !serve(func(heir) bool { return true }) || !h.back.Fits(left) {
		return true
	}
	return h.gives && !taken && len(h.starts) == 0 && h.back == (gres.Vector{})
}
