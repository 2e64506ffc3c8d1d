package bridge

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Jobs without the word wait in the same queue, in whatever partition over the same nodes, and Slurm starts them by
// itself. What keeps one of them waiting that Slurm would otherwise start may be nothing but what was lent to jobs of
// ours. So a plan is told of them: it calls loans back for them and keeps the room until Slurm has taken it.

// mostUnmanaged bounds of how many of them a plan is told: the first in Slurm's order.
const mostUnmanaged = 64

// unmanaged lists the jobs that wait for nothing but room and are not ours to start, in Slurm's order.
func (r *Runner) unmanaged(s *scene) []policy.Unmanaged {
	nodes := map[string][]string{} // by partitions
	idle := map[int]idleRoom{}
	var list []policy.Unmanaged
	for _, tn := range s.strangers {
		if len(list) == mostUnmanaged {
			break
		}
		if tn.Shape != "" || tn.Whole {
			continue // nobody knows what it lacks: an exclusive one waits for whole nodes
		}
		in, known := nodes[tn.Partition]
		if !known {
			in = s.nodesOf(tn.Partition)
			nodes[tn.Partition] = in
		}
		on := s.serving(tn, in)
		room := r.idleRooms[tn.ID].follow(s.fits(tn, on), s.at)
		idle[tn.ID] = room
		if len(on) >= max(1, tn.Request.Nodes) && !s.at.Before(room.again) {
			u := policy.Unmanaged{ID: tn.ID, Priority: tn.Priority, Nodes: max(1, tn.Request.Nodes),
				PerNode: tn.Request.perNode(), On: on}
			if r.Settings.Ahead <= 0 { // none of ours is ever in the queue before there is room for it
				u.Priority = math.MaxInt64
			}
			list = append(list, u)
		}
	}
	r.idleRooms = idle
	return list
}

// unmanagedGPUs is on how many GPUs such jobs were started within a time, as far as Slurm still lists them. One without
// a GPU counts as one: it takes cores that go with one.
func (r *Runner) unmanagedGPUs(s *scene, within time.Duration) (gpus int) {
	since := s.at.Add(-cmp.Or(within, policy.DefaultHorizon))
	near := map[string]bool{} // whether a partition has nodes of ours
	for _, t := range r.reader.jobs {
		ran := t.State != Pending && t.Started.After(since) && !t.said.managed && t.standing(s.at) == stranger
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

// idleRoom is since when a job has had room and was not started all the same. Slurm may know a reason that no reason of
// its says: a license, an exclusive node, somebody behind whom the job would delay. Nothing is called back for such a
// job, or kept, for a while, which is doubled each time.
type idleRoom struct {
	since, again time.Time
	times        int
}

const (
	// soonTaken is how long Slurm may take to start a job that has room: its backfill looks twice a minute.
	soonTaken = 3 * time.Minute
	// leftOut is how long a job is left out then for the first time.
	leftOut = 15 * time.Minute
)

// follow takes up whether the job has room now.
func (i idleRoom) follow(has bool, now time.Time) idleRoom {
	switch {
	case !has || now.Before(i.again):
		i.since = time.Time{}
	case i.since.IsZero():
		i.since = now
	case now.Sub(i.since) > soonTaken:
		i = idleRoom{again: now.Add(leftOut << min(i.times, 6)), times: i.times + 1}
	}
	return i
}

// fits says that a job has room on enough of some nodes, as they are.
func (s *scene) fits(t *managedJob, on []string) bool {
	need, short := t.Request.perNode(), max(1, t.Request.Nodes)
	for _, place := range s.topology.find(on) {
		if n := &s.nodes[s.topology.managed[place]]; !n.Completing && need.Fits(n.Total.Minus(n.Allocated)) {
			if short--; short == 0 {
				return true
			}
		}
	}
	return false
}

// needsOn is what a waiting job asks for on a node; all of that where nobody knows.
func (t *managedJob) needsOn(n *Node) gres.Vector {
	if t.Shape != "" || t.Whole {
		return n.Total
	}
	return t.Request.perNode()
}

// nodesOf lists the nodes, of those that a plan decides on, that are in one of the partitions of a list.
func (s *scene) nodesOf(list string) []string {
	parts := partitions(list)
	var names []string
	for _, i := range s.topology.managed {
		n := &s.nodes[i]
		if slices.ContainsFunc(n.Partitions, func(part string) bool { return slices.Contains(parts, part) }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// serving lists those of some nodes that a job could run on, if they were empty.
func (s *scene) serving(t *managedJob, in []string) []string {
	only := in
	if t.Reservation != "" {
		only = s.reservedFor(t.Reservation, in)
	}
	need := t.Request.perNode()
	fits := func(name string) bool {
		place := s.topology.find([]string{name})[0]
		return place != elsewhere && s.serves(t, &s.nodes[s.topology.managed[place]], need)
	}
	if !slices.ContainsFunc(only, func(name string) bool { return !fits(name) }) {
		return only // the same list for all of a partition
	}
	return slices.DeleteFunc(slices.Clone(only), func(name string) bool { return !fits(name) })
}

// serves says that a job could run on a node, if that were empty.
func (s *scene) serves(t *managedJob, n *Node, need gres.Vector) bool {
	q := &t.Request
	switch {
	case n.Closed != "" || !need.Fits(n.Total), q.GPUType != "" && q.GPUType != n.GPUType,
		slices.Contains(t.Except, n.Name), len(q.Pin) > 0 && !slices.Contains(q.Pin, n.Name):
		return false
	}
	if slices.ContainsFunc(t.Features, func(f string) bool { return !slices.Contains(n.Features, f) }) {
		return false
	}
	return !slices.ContainsFunc(s.reserved[n.Name], func(r policy.Reservation) bool {
		ends := t.TimeLimit > 0 && !s.at.Add(t.TimeLimit).After(r.From)
		over := !r.To.IsZero() && !r.To.After(s.at)
		return r.Name != t.Reservation && !ends && !over
	})
}

// isOf says that a node is in one of the partitions of a list, joined by commas.
func isOf(n *Node, list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if slices.Contains(n.Partitions, part) {
			return true
		}
	}
	return false
}
