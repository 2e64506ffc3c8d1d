package bridge

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Unmanaged jobs wait in the same queue, in any partition over the same nodes, and Slurm starts them. Sometimes only
// what was lent to managed jobs keeps one of them waiting. So plans are told of these jobs: they recall loans for them,
// and keep the room until Slurm has used it.

// mostUnmanaged is how many unmanaged jobs a plan is told of: the first in Slurm's order.
const mostUnmanaged = 64

// unmanaged lists for the planner the first unmanaged jobs, in Slurm's order, that only wait for room on managed nodes.
// Left out are exclusive jobs, whose needs are unknown, and jobs that have had room for some time without being started
// (idleRoom); the times for that are updated here. If the site arms no jobs, an unmanaged job comes before all managed
// ones, since none of these is eligible when room comes free.
func (r *Runner) unmanaged(s *sortedObservation) []policy.Unmanaged {
	nodes := map[string][]string{} // by list of partitions
	idle := map[int]idleRoom{}
	var list []policy.Unmanaged
	for _, tn := range s.contenders {
		if len(list) == mostUnmanaged {
			break
		}
		if tn.Shape != "" || tn.Whole {
			continue // it is unknown what the job lacks: an exclusive one waits for whole nodes
		}
		in, known := nodes[tn.Partition]
		if !known {
			in = s.nodesOf(tn.Partition)
			nodes[tn.Partition] = in
		}
		on := s.usableNodes(tn, in)
		room := r.idleRooms[tn.ID].afterLook(s.hasRoomFor(tn, on), s.at)
		idle[tn.ID] = room
		if len(on) >= max(1, tn.Request.Nodes) && !s.at.Before(room.ignoredUntil) {
			u := policy.Unmanaged{ID: tn.ID, Priority: tn.Priority, Nodes: max(1, tn.Request.Nodes),
				PerNode: tn.Request.PerNode(), On: on}
			if r.Settings.Ahead <= 0 { // no managed job is eligible before there is room, so Slurm finds this one first
				u.Priority = math.MaxInt64
			}
			list = append(list, u)
		}
	}
	r.idleRooms = idle
	return list
}

// unmanagedGPUs is on how many GPUs of managed nodes unmanaged jobs were started within a time (0: the planner's
// default), as far as Slurm still lists them: the planner expects as many to come. A job without a GPU counts as one
// GPU, since it takes the cores that go with one. Jobs that have our directive and are left to Slurm do not count.
func (r *Runner) unmanagedGPUs(s *sortedObservation, within time.Duration) (gpus int) {
	since := s.at.Add(-cmp.Or(within, policy.DefaultHorizon))
	near := map[string]bool{} // whether a partition has managed nodes
	for _, t := range r.cache.jobs {
		ran := t.State != slurm.Pending && t.Started.After(since) && !t.directives.Managed &&
			t.treatmentAt(s.at) == untracked
		if !ran {
			continue
		}
		ours, known := near[t.Partition]
		if !known {
			ours = len(s.nodesOf(t.Partition)) > 0
			near[t.Partition] = ours
		}
		if ours {
			gpus += max(1, t.Request.GPUs)
		}
	}
	return gpus
}

// idleRoom is since when an unmanaged job has had room without being started. Slurm may have a reason that it does not
// report: a license, an exclusive node, a job that it would delay. Until ignoredUntil no loan is recalled and no room
// kept for such a job. That time is doubled each time; times counts them.
type idleRoom struct {
	roomSince, ignoredUntil time.Time
	times                   int
}

const (
	// roomTakenWithin is how long Slurm may take to start a job that has room. Its backfill looks twice a minute.
	roomTakenWithin = 3 * time.Minute
	// firstIgnored is how long such a job is ignored the first time.
	firstIgnored = 15 * time.Minute
)

// afterLook is the state after an observation; has says whether the job had room in it. A job that has had room for
// longer than roomTakenWithin without being started is ignored for firstIgnored, so that nothing is kept for it in
// vain. That time doubles with each repetition, up to 64 times firstIgnored.
func (i idleRoom) afterLook(has bool, now time.Time) idleRoom {
	switch {
	case !has || now.Before(i.ignoredUntil):
		i.roomSince = time.Time{}
	case i.roomSince.IsZero():
		i.roomSince = now
	case now.Sub(i.roomSince) > roomTakenWithin:
		i = idleRoom{ignoredUntil: now.Add(firstIgnored << min(i.times, 6)), times: i.times + 1}
	}
	return i
}

// hasRoomFor says that Slurm could start an unmanaged job now: it fits into what is free on enough of these nodes. On a
// node with a job that is being cleaned up Slurm starts nothing.
func (s *sortedObservation) hasRoomFor(t *managedJob, on []string) bool {
	need, short := t.Request.PerNode(), max(1, t.Request.Nodes)
	for _, place := range s.topology.placesOf(on) {
		if n := &s.nodes[s.topology.managed[place]]; !n.Completing && need.Fits(n.Total.Minus(n.Allocated)) {
			if short--; short == 0 {
				return true
			}
		}
	}
	return false
}

// needsOn is what a waiting job needs on a node; all of the node if its needs are unknown or it is exclusive.
func (t *managedJob) needsOn(n *slurm.Node) gres.Vector {
	if t.Shape != "" || t.Whole {
		return n.Total
	}
	return t.Request.PerNode()
}

// nodesOf lists the managed nodes that are in one of the partitions of a list.
func (s *sortedObservation) nodesOf(list string) []string {
	parts := slurm.Partitions(list)
	var names []string
	for _, i := range s.topology.managed {
		n := &s.nodes[i]
		if slices.ContainsFunc(n.Partitions, func(part string) bool { return slices.Contains(parts, part) }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// usableNodes lists those of the nodes in on which a job could run if they were empty. If that is all of them, in
// itself is returned, which must not be modified then.
func (s *sortedObservation) usableNodes(t *managedJob, in []string) []string {
	only := in
	if t.Reservation != "" {
		only = s.reservedFor(t.Reservation, in)
	}
	need := t.Request.PerNode()
	fits := func(name string) bool {
		place := s.topology.placesOf([]string{name})[0]
		return place != unmanagedPlace && s.couldRunOn(t, &s.nodes[s.topology.managed[place]], need)
	}
	if !slices.ContainsFunc(only, func(name string) bool { return !fits(name) }) {
		return only // the same slice for all jobs of a partition
	}
	return slices.DeleteFunc(slices.Clone(only), func(name string) bool { return !fits(name) })
}

// couldRunOn says that Slurm could start a job on a node now if the node were empty: it is open, large enough for need,
// has the type and features, and no reservation keeps it from this job before its time limit.
func (s *sortedObservation) couldRunOn(t *managedJob, n *slurm.Node, need gres.Vector) bool {
	q := &t.Request
	switch {
	case n.Closed != "" || !need.Fits(n.Total), q.GPUType != "" && q.GPUType != n.GPUType,
		slices.Contains(t.Except, n.Name), len(q.Pin) > 0 && !slices.Contains(q.Pin, n.Name):
		return false
	}
	features := policy.Node{Features: n.Features}
	if slices.ContainsFunc(t.Features, func(f string) bool { return !features.Has(f) }) {
		return false
	}
	return !slices.ContainsFunc(s.reserved[n.Name], func(r policy.Reservation) bool {
		ends := t.TimeLimit > 0 && !s.at.Add(t.TimeLimit).After(r.From)
		over := !r.To.IsZero() && !r.To.After(s.at)
		return r.Name != t.Reservation && !ends && !over
	})
}

// isInPartitions says that a node is in one of the partitions of a comma-separated list.
func isInPartitions(n *slurm.Node, list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if slices.Contains(n.Partitions, part) {
			return true
		}
	}
	return false
}
