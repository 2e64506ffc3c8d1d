package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// When a preempted job ends, Slurm gives its resources at once to the first eligible job in its own order. So before a
// round asks any job to leave, every eligible job must have the size that the plan gives it. To arm a job is to make it
// eligible for Slurm's own scheduler, with a planned size and on any node (arm.go). There are three cases:
//
//   - a job that was armed earlier and whose place is free is started;
//   - a job whose place other jobs still hold is armed again (arm.go), with the size of its grant: it is secured;
//   - every other job is leased again (lease.go).
//
// A secured job is eligible on any node, and starts as soon as that much is free; only jobs before it in Slurm's order
// can start first. A start that is written after the preempted job has gone would come after all jobs that are eligible
// then. A secured job has no required nodes: if the daemon dies, it must not wait for a node whose job was never asked.
//
// A secured job must not block others. Slurm's main scheduler stops at the first job of a partition that does not fit.
// So where the place of another start is free, the secured jobs before it in Slurm's order are leased again until it
// runs. Nor may a secured job take the place of another start. Where it would fit there and has another size, it is
// leased until its own place is free, and then started there.

// secure makes every job with a start that was not begun either eligible with the size of its grant, or leased. A job
// whose place is free is started at once if it is eligible already, since Slurm could put it elsewhere; one under a
// lease is left to startAll. Nothing is done when the time that is left only suffices to take starts back.
func (a *executor) secure(ctx context.Context) error {
	if a.timeLeft() <= a.rollBackTime() {
		return nil
	}
	ready := a.readyStarts()
	safe := a.safeToSecure(ready)
	var free, arm, lease []*step
	for _, s := range a.steps.filter(func(s *step) bool { return s.Verb == Start && s.stage == notBegun }) {
		eligible := a.isEligible(s)
		switch {
		case slices.Contains(ready, s):
			if eligible && !s.secured {
				free = append(free, s)
			}
		case slices.Contains(safe, s):
			if !s.secured {
				arm = append(arm, s)
			}
		case eligible || s.secured:
			lease = append(lease, s)
		}
	}
	// All three are tried, whatever becomes of the others; the first error is returned.
	return cmp.Or(
		a.forEachStep(ctx, free, sent, func(s *step) error { return a.start(ctx, s) }),
		a.forEachStep(ctx, lease, notBegun, func(s *step) error { return a.unsecure(ctx, s) }),
		a.forEachStep(ctx, arm, notBegun, func(s *step) error { return a.secureOne(ctx, s) }),
	)
}

// safeToSecure lists the starts whose jobs can be eligible on any node without harm to another start: they come in
// Slurm's order before no start whose place is free (ready, or sent), and could take the place of no other. Two jobs of
// equal size may take each other's place.
func (a *executor) safeToSecure(ready []*step) []*step {
	open := a.steps.filter(func(s *step) bool { return s.Verb == Start && (s.stage == notBegun || s.stage == sent) })
	under := slices.Concat(ready, a.steps.filter(func(s *step) bool { return s.Verb == Start && s.stage == sent }))
	safe := slices.DeleteFunc(slices.Clone(open), func(s *step) bool {
		return slices.Contains(under, s) || !a.mayBeSecured(s) || s.blocksAny(under)
	})
	// A job that drops out may be the one with which another could have changed places, so this is repeated.
	for before := len(safe) + 1; len(safe) < before; {
		before = len(safe)
		safe = slices.DeleteFunc(slices.Clone(safe), func(s *step) bool {
			return slices.ContainsFunc(open, func(o *step) bool {
				return a.couldTake(s, o) && !(slices.Contains(safe, o) && s.changesPlaces(o))
			})
		})
	}
	return safe
}

// couldTake says that the job of s, if eligible on any node, could get the place of the other start: it would fit,
// after the preemptions, on a node of that start that is not its own.
func (a *executor) couldTake(s, other *step) bool {
	return s != other && slices.ContainsFunc(other.Grant.Nodes, func(name string) bool {
		k, found := slices.BinarySearchFunc(
			a.nodes,
			name,
			func(n slurm.Node, name string) int { return strings.Compare(n.Name, name) },
		)
		if !found || slices.Contains(s.Grant.Nodes, name) {
			return false
		}
		room := a.nodes[k].Total.Minus(a.nodes[k].Allocated)
		for _, v := range a.steps.filter(func(v *step) bool { return v.Verb == Preempt }) {
			j := a.seenNow(v.Job)
			if (j.State == slurm.Running || j.Completing) && slices.Contains(j.Runs.Nodes, name) {
				room = room.Plus(j.Runs.PerNode)
			}
		}
		return s.Grant.PerNode.Fits(room)
	})
}

// changesPlaces says that two eligible jobs can take each other's place, since they have the same size. A smaller job
// could not: it would fit into what the first of several preempted jobs leaves for the other.
func (s *step) changesPlaces(other *step) bool {
	return len(s.Grant.Nodes) == len(other.Grant.Nodes) && other.Grant.PerNode == s.Grant.PerNode
}

// isEligible says that Slurm may start the step's job at any moment, since neither a lease nor a begin time keeps it.
func (a *executor) isEligible(s *step) bool {
	j := a.seenNow(s.Job)
	return j.State == slurm.Pending && !s.leased && !j.WaitsAt(a.round.now())
}

// mayBeSecured says that a step's job can be armed with its grant: it waits, its last run is cleaned up, Slurm could
// find the place by itself, and refuses no similar job. A job that counts in a quota of cores or memory is not armed,
// since Slurm does not keep such a limit on a size that the daemon wrote (policy.Cluster.Rationed). Nor is a job that
// was running when the round began and whose new place other jobs have taken, nor one that is to have a slot on a
// shared GPU.
func (a *executor) mayBeSecured(s *step) bool {
	j, there := a.find(s.Job)
	if a.runner.Settings.Ahead <= 0 || !there || !a.lastRunIsOver(s, j) || s.Grant.Device != "" ||
		a.round.refusals.retryStateOf(s.job) != nil {
		return false
	}
	if s.job.State == slurm.Running && a.isPlaceTaken(s) {
		return false // its new place is taken: it is better off where it was
	}
	c := &a.round.report.Snapshot
	k, found := slices.BinarySearchFunc(c.Jobs, s.Job, func(j policy.Job, id int) int { return j.ID - id })
	return found && !c.Rationed(&c.Jobs[k])
}

// secureOne arms the step's job with its grant, unless it is armed so already. If Slurm refuses that, the job gets a
// lease and waits for its place; if Slurm has just started the job, the next observation shows it and there is no
// error.
func (a *executor) secureOne(ctx context.Context, s *step) error {
	next := policy.Next{Job: s.Job, Nodes: len(s.Grant.Nodes), PerNode: s.Grant.PerNode}
	// Nothing about the job has changed since it was read, and it is armed with this size already.
	if j := a.seenNow(s.Job); j == s.job.Job && s.job.isArmedAs(next, a.at) {
		s.secured = true
		return nil
	}
	u := armUpdate(s.job.record, *s.Grant, next.Nodes, a.round.report.Round, s.Why, s.job.note, a.round.now())
	u.Request.Partition = s.job.partitionList()
	switch err := a.write(ctx, s, u); {
	case err == nil:
		s.secured, s.leased = true, false
		return nil
	case errors.Is(err, slurm.ErrRefused):
		return a.unsecure(ctx, s)
	default:
		return s.noteRaced(err)
	}
}

// unsecure gives the step's job its lease again, so that Slurm cannot start it. If Slurm has just done so, that is no
// error (noteRaced).
func (a *executor) unsecure(ctx context.Context, s *step) error {
	err := a.write(ctx, s, a.round.leaseUpdate(s))
	if err == nil {
		s.secured, s.leased = false, true
	}
	return s.noteRaced(err)
}

// noteRaced drops the error that Slurm has just started the job by itself, with its earlier size. It marks the step as
// secured, so that noteSecured closes it with the next observation, and as startedByItself, so that callOff puts off
// what was to use the same nodes. Other errors are returned.
func (s *step) noteRaced(err error) error {
	if errors.Is(err, slurm.ErrNotPending) {
		s.secured, s.startedByItself = true, true
		return nil
	}
	return err
}

// callOff puts off the steps on the places of jobs that Slurm has just started by itself, elsewhere or with another
// size: the plan no longer holds there, so no further job is asked to leave for it.
func (a *executor) callOff() {
	for _, r := range a.steps.filter(func(s *step) bool { return s.Verb == Start && s.startedByItself }) {
		a.callOffOn(r.Grant.Nodes, r)
	}
}

// callOffOn puts off to a later round the preemptions and starts on these nodes that were not begun, except the start
// but. It also puts off what would then be in vain: the start of a job that is not preempted after all, the preemption
// of a job whose own start elsewhere is put off, and a preemption whose nodes only starts that are put off were to use.
// A job that is preempted because of its time limit is still preempted in the last two cases. Steps that are put off
// are done for this round.
func (a *executor) callOffOn(nodes []string, but *step) {
	nodes = slices.Clone(nodes)
	var unused []string         // nodes of the starts that were put off
	stays := map[int]bool{}     // jobs that are not preempted after all
	calledOff := map[int]bool{} // jobs that are not started after all
	putOff := func(s *step) { s.PutOff = true; a.setStage(s, done) }
	open := func(verb Verb) []*step {
		return a.steps.filter(func(s *step) bool { return s.Verb == verb && s.stage == notBegun })
	}
	for again := true; again; {
		again = false
		starts := open(Start)
		for _, s := range open(Preempt) {
			mover := calledOff[s.Job] && !s.expires
			profits := func(o *step) bool { return o.Job == s.Job || meet(o.Grant.Nodes, s.freedNodes) }
			forNothing := !s.expires && meet(s.freedNodes, unused) && !slices.ContainsFunc(starts, profits)
			if !mover && !forNothing && !meet(s.freedNodes, nodes) {
				continue
			}
			if mover { // it stays where it is, so that its nodes are not free for others
				nodes = append(nodes, s.freedNodes...)
			}
			stays[s.Job], s.freedNodes, again = true, nil, true
			putOff(s)
		}
		for _, s := range starts {
			if s != but && (stays[s.Job] || meet(s.Grant.Nodes, nodes)) {
				calledOff[s.Job], again = true, true
				unused = append(unused, s.Grant.Nodes...)
				putOff(s)
			}
		}
	}
}

// meet says that two lists of nodes have one in common.
func meet(some, others []string) bool {
	return slices.ContainsFunc(some, func(n string) bool { return slices.Contains(others, n) })
}

// leaseBlockers leases secured jobs again that come, in Slurm's order, before a start whose place is free. Slurm's main
// scheduler would stop at such a job and not get to the start.
func (a *executor) leaseBlockers(ctx context.Context, ready []*step) error {
	aside := a.steps.filter(func(s *step) bool {
		return s.secured && s.stage == notBegun && !slices.Contains(ready, s) && s.blocksAny(ready)
	})
	return a.forEachStep(ctx, aside, notBegun, func(s *step) error { return a.unsecure(ctx, s) })
}

// blocksAny says that Slurm considers the step's job before one of the others in a partition in which both may start.
// If it has no room, the scheduler stops there and does not start the other.
func (s *step) blocksAny(others []*step) bool {
	in := s.job.partitions()
	return slices.ContainsFunc(others, func(o *step) bool {
		return o != s && rankOf(s.job.Job).before(rankOf(o.job.Job)) &&
			slices.ContainsFunc(o.job.partitions(), func(part string) bool { return slices.Contains(in, part) })
	})
}

// partitions are those in which a job may start.
func (t *managedJob) partitions() []string {
	return strings.Split(cmp.Or(t.partitionList(), t.Partition), ",")
}

// noteSecured closes the starts of secured jobs that Slurm has started by itself. A job that is gone has run and ended,
// or was cancelled; there is nothing left to start.
func (a *executor) noteSecured() {
	secured := func(s *step) bool { return s.Verb == Start && s.stage == notBegun && s.secured }
	for _, s := range a.steps.filter(secured) {
		if j, there := a.find(s.Job); !there || j.State != slurm.Pending {
			a.closeStarted(s)
		}
	}
}

// secured are the IDs of the jobs that this round has armed with the size of their grants and whose starts were not
// begun.
func (list steps) secured() map[int]bool {
	jobs := map[int]bool{}
	for _, s := range list {
		if s.secured && s.stage == notBegun {
			jobs[s.Job] = true
		}
	}
	return jobs
}
