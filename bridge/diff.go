package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// diff turns a plan into the steps that lead from what is to what was decided, in the order in which a round takes
// them. A job that is as it should be has no step.
func (r *Runner) diff(s *scene, plan policy.Plan) []Step {
	var release, restore, preempt, start, arm []Step
	for _, t := range s.debtors {
		if t.standing(s.at) != returning {
			continue
		}
		if step := t.handBack(s.at, handedBack); step != nil {
			release = append(release, *step)
		}
	}
	for i, t := range s.managed {
		d := &plan.Decisions[i] // in one order, as the plan was checked to be
		switch {
		case t.alone != "": // since this round
			if step := t.handBack(s.at, handedBack+": "+t.alone); step != nil {
				release = append(release, *step)
			}
		case t.State == Running && unchanged(t, d):
			if s.expiring[t.ID] {
				preempt = append(preempt, Step{Job: t.ID, Verb: Preempt, Why: timeComes})
			}
		case t.State == Running:
			cost := r.restartCost(t)
			preempt = append(preempt, Step{Job: t.ID, Verb: Preempt, Why: d.Why, Cost: &cost})
			if d.Grant != nil {
				start = append(start, Step{Job: t.ID, Verb: Start, Grant: d.Grant, Why: d.Why})
			}
		case s.behind[t.ID] && s.arms:
			if step := s.armsBehind(t, d); step != nil {
				arm = append(arm, *step)
			}
		case d.Grant != nil && !s.behind[t.ID]:
			start = append(start, Step{Job: t.ID, Verb: Start, Grant: d.Grant, Why: t.granted(d)})
		case s.isNext(t):
			if next := s.ahead[t.ID]; !t.armedAs(next, s.at) {
				arm = append(arm, Step{Job: t.ID, Verb: Arm, Grant: &policy.Placement{PerNode: next.PerNode},
					Why: d.Why})
			}
		default:
			if verb := r.keepWaiting(t, s.at); verb != "" {
				restore = append(restore, Step{Job: t.ID, Verb: verb, Why: foretold(r.Outlook, t.ID, d.Why)})
			}
		}
	}
	return slices.Concat(release, restore, preempt, start, arm)
}

func (s *scene) isNext(t *managedJob) bool {
	_, next := s.ahead[t.ID]
	return next
}

func unchanged(t *managedJob, d *policy.Decision) bool {
	holds := cmp.Or(t.wouldHold, t.holds)
	return d.Grant != nil && (d.Grant == holds || d.Grant.Equal(*holds))
}

// granted says why a job starts, and at which speed. Who could not be asked to give back is told that this is what he
// is given for it.
func (t *managedJob) granted(d *policy.Decision) string {
	if d.Gain == 0 {
		return "its turn"
	}
	why := fmt.Sprintf("its turn, at %.2f× the proportional speed", d.Gain)
	if own := &t.record.Own; d.Gain < 0.99 && own.MemoryPerGPU+gres.Memory(own.CPUsPerGPU) > 0 {
		why += ", to which the amount that it asks for each GPU holds it"
	}
	if t.profile != nil && !t.saves() && !t.Interactive && !t.Whole {
		why += "; without synergy-checkpoint it is lent no more than others can do without"
	}
	if d.Why != "" {
		why += "; " + d.Why
	}
	return why
}

// keepWaiting renews a lease that is half over, or not one that we would give, tells a job that is new why it waits,
// and gives one that carries anything but its user's own request that request back. A job that is well as it is costs
// nothing.
func (r *Runner) keepWaiting(t *managedJob, now time.Time) Verb {
	switch {
	case !sameRequest(&t.Request, &t.record.Own):
		return Restore
	case t.Begin.Sub(now) < r.Settings.Lease/2, !t.told(), t.Begin.After(r.leaseEnd(t.record, now).Add(tooLong)):
		return Renew
	}
	return ""
}

// tooLong is by how much a lease may be longer than it should be. One of before Slurm's clock was set back could last
// for hours, and would outlast the daemon by as much.
const tooLong = time.Minute

// sameRequest compares what a job has with what an update writes.
func sameRequest(a, b *Request) bool {
	return a.sameMemory(b) && a.CPUsPerTask == b.CPUsPerTask && a.CPUs == b.CPUs &&
		a.CPUsPerNode == b.CPUsPerNode && a.Nodes == b.Nodes && slices.Equal(a.Pin, b.Pin) && a.Shard == b.Shard &&
		a.GPUType == b.GPUType &&
		b.allows(a)
}

// allows says that a request is for the partitions that this one names, if it names any.
func (q *Request) allows(other *Request) bool {
	return q.Partition == "" || SamePartitions(q.Partition, other.Partition)
}

// waiting is the update that lets a job wait: its user's own request, and a lease.
func (r *Runner) waiting(rec *Record, round int, why, note string, now time.Time) Update {
	return Update{
		Job: rec.Job, Begin: r.leaseEnd(rec, now), Request: rec.Own,
		Extra: annotationOf(rec, round, why, note).String(),
	}
}

// leaseEnd is when a lease ends that is given now: not before the user's own begin time.
func (r *Runner) leaseEnd(rec *Record, now time.Time) time.Time {
	return later(rec.NotBefore, now.Add(r.leaseOf(rec.Job)))
}

// leaseOf spreads leases over an eighth of their length, so that a backlog that came at once is not renewed at once for
// ever.
func (r *Runner) leaseOf(job int) time.Duration {
	const parts = 16
	return r.Settings.Lease + r.Settings.Lease/8*time.Duration(job%parts)/parts
}

// starting is the update that starts a job with what it is granted.
func starting(rec *Record, g policy.Placement, round int, why, note string, now time.Time, seat *granted) Update {
	annotation := annotationOf(rec, round, why, note)
	annotation.Share = seat
	return Update{Job: rec.Job, Begin: now, Request: sized(rec, g), Extra: annotation.String()}
}

// sized is the user's own request with what a round grants, and the nodes.
func sized(rec *Record, g policy.Placement) Request {
	q := resized(rec, len(g.Nodes), g.PerNode)
	q.Pin, q.Shard = hostsOf(g.Nodes), g.Device
	q.narrow(g.Nodes)
	return q
}

// releasing is the update that hands a job back to Slurm for good. The note says why, where that is for its user to
// mend.
func releasing(rec *Record, round int, note string, now time.Time) Update {
	annotation := annotationOf(rec, round, handedBack, note)
	if p := &rec.NoPlace; p.Slurms {
		annotation.Slurms = &slurms{p.Cause, p.Wait}
	}
	return Update{Job: rec.Job, Begin: later(rec.NotBefore, now), Request: rec.Own, Extra: annotation.String()}
}

// requestChanges adds the fields in which two requests differ, in the words of the audit.
func requestChanges(changes []Change, old, to *Request) []Change {
	if sameRequest(old, to) {
		return changes
	}
	changes = slices.Grow(changes, 8) // room for all of them, and for the begin time
	add := func(field, a, b string) {
		if a != b {
			changes = append(changes, Change{field, a, b})
		}
	}
	add("cpus_per_task", strconv.Itoa(old.CPUsPerTask), strconv.Itoa(to.CPUsPerTask))
	add("cpus", strconv.Itoa(old.CPUs), strconv.Itoa(to.CPUs))
	add("cpus_per_node", strconv.Itoa(old.CPUsPerNode), strconv.Itoa(to.CPUsPerNode))
	if !old.sameMemory(to) {
		add("memory_per_node", old.memory(), to.memory())
	}
	add("gpu_type", old.GPUType, to.GPUType)
	if old.Shard != to.Shard {
		add("tres_per_node", old.perNodeGRES(), to.perNodeGRES())
	}
	add("nodes", strconv.Itoa(old.Nodes), strconv.Itoa(to.Nodes))
	add("required_nodes", strings.Join(old.Pin, ","), strings.Join(to.Pin, ","))
	if !to.allows(old) {
		add("partition", old.Partition, to.Partition)
	}
	return changes
}

func (q *Request) sameMemory(other *Request) bool {
	m, perCore := q.amount()
	same, likewise := other.amount()
	return m == same && perCore == likewise
}

func (q *Request) memory() string {
	switch m, perCore := q.amount(); {
	case perCore:
		return fmt.Sprintf("%dM a core", m)
	case m > 0:
		return fmt.Sprintf("%dM", m)
	}
	return "the partition's default"
}

// amount is the memory asked for, on a node or per core; 0 is the partition's default.
func (q *Request) amount() (m gres.Memory, perCore bool) {
	if q.MemoryPerCPU > 0 {
		return q.MemoryPerCPU, true
	}
	return q.Memory, false
}
