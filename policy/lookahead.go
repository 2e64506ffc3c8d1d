package policy

import (
	"iter"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Next is a waiting job whose turn comes before that of the others, and what it would be given if it were alone.
type Next struct {
	Job     int
	Nodes   int
	PerNode gres.Vector // on each of so many nodes
}

// Ahead names, in the policy's order, the waiting jobs that could run if there were room, with the size that each would
// get.
//
// Left out are jobs that are barred, jobs that too few servers, open or not, could ever hold as far as reservations
// allow, jobs to which their quotas leave too little, and jobs under a quota of cores or memory: Slurm starts these
// jobs by itself, and keeps no such limit on sizes that an operator has written.
//
// A job that can be asked to give back gets its demand. Any other gets no more than its share, as much of that as it
// can use, since it may not leave others without theirs. But none gets less than it needs to be no slower than it is
// owed on any server on which it could be started with that.
//
// The names end before the first job that may share a GPU and has nodes with devices to go to: a round has to start
// that job, and no job behind it is to take its place. The cluster is not changed. The sequence is for one walk, before
// the planner is asked for anything else.
func (pl *Planner) Ahead(c Cluster, p Policy, a Allocator) iter.Seq[Next] {
	return func(yield func(Next) bool) {
		b := pl.boardFor(&c, p, a)
		for _, i := range b.order {
			if b.states[i].status != statusWaiting || b.jobs[i].Barred != "" || c.Rationed(b.jobs[i]) {
				continue
			}
			if next, could := nextGrant(b, i); could && (mayShareDevice(b, i) || !yield(next)) {
				return
			}
		}
	}
}

// mayShareDevice reports that waiting job i could be sent to a device, where others can join it. Such a job is not left
// to Slurm, which would start it with a GPU of its own that no other job can share for as long as it runs.
func mayShareDevice(b *board, i int) bool {
	j := b.jobs[i]
	return j.Share != nil && slices.ContainsFunc(b.c.Nodes, func(n Node) bool {
		return n.Closed == "" && j.suits(&n) && slices.ContainsFunc(n.Devices, func(d Device) bool {
			return !d.Foreign && j.canUseSlot(&d)
		})
	})
}

// Queue lists the waiting jobs in the policy's order, including those that may not start. The cluster is not changed.
func (pl *Planner) Queue(c Cluster, p Policy, a Allocator) []int {
	b := pl.boardFor(&c, p, a)
	queue := make([]int, 0, len(b.order))
	for _, i := range b.order {
		if b.states[i].status == statusWaiting {
			queue = append(queue, b.ids[i])
		}
	}
	return queue
}

// Rationed reports that a job of the snapshot counts in a quota of cores or memory. Such a job must not wait with a
// size that the daemon wrote, since Slurm does not keep such a limit on sizes that an operator has written.
func (c *Cluster) Rationed(j *Job) bool {
	return slices.ContainsFunc(j.Quotas, func(k int) bool {
		return k < len(c.Quotas) && (c.Quotas[k].CPUs != Unbounded || c.Quotas[k].Memory != Unbounded)
	})
}

// nextGrant is what waiting job i would be given if it were alone; false if it could not run. What keeps one job of a
// class from running keeps all of them. The class's denial serves as a note of that: nothing is freed during the walk,
// so the note holds to its end.
func nextGrant(b *board, i int) (next Next, could bool) {
	k := b.states[i].class
	if k.denial.freed == b.freedCount || len(k.gangShapes) == 0 {
		return Next{}, false
	}
	n, could := anyServerFor(b, k)
	if !could {
		k.denial.freed = b.freedCount
		return Next{}, false
	}
	w := b.fitOf(k).shape
	size := raiseForAll(b, k, wishOn(b, k, b.menu(k, w.gpus, n)))
	size.GPUs = w.gpus
	if !fitsSomeServer(b, k, size) || !size.Fits(k.terms.ceilingSize(k.tasks)) {
		return Next{}, false
	}
	return Next{b.ids[i], w.nodes, size}, true
}

// anyServerFor finds a server that could hold a part of a job of class k if it were empty, an open one if there is one.
// It is false if there are too few such servers for the job, as far as reservations allow, or if its quotas leave too
// little.
func anyServerFor(b *board, k *jobClass) (n int, found bool) {
	able := slices.Clone(b.fitOf(k).ableNodes)
	if k.reservedNow != nil {
		able.removeAll(k.reservedNow)
	}
	if able.countCommon(able) < b.fitOf(k).shape.nodes {
		return 0, false
	}
	if p, _ := blockingQuota(b, k); p != nil {
		return 0, false
	}
	open := slices.Clone(able)
	if open.removeAll(b.closed); open.any() {
		able = open
	}
	for !able.has(n) {
		n++
	}
	return n, true
}

// fitsSomeServer reports whether a size fits on one of the servers that could hold a part of a job of class k:
// raiseForAll may have raised it beyond all of them.
func fitsSomeServer(b *board, k *jobClass, size gres.Vector) bool {
	able := b.fitOf(k).ableNodes
	for n := range b.servers {
		if able.has(n) && size.Fits(b.servers[n].Total) {
			return true
		}
	}
	return false
}

// raiseForAll raises a size until it contains a size of the menu of class k on every server where Slurm could start a
// job with it. The planner does not know on which server that will be, and the job must be no slower on any than it is
// owed.
func raiseForAll(b *board, k *jobClass, size gres.Vector) gres.Vector {
	w := b.fitOf(k).shape
	for again := true; again; {
		again = false
		for n := range b.servers {
			if !k.eligible.servers.has(n) || !size.Fits(b.servers[n].Total) {
				continue
			}
			m := b.menu(k, w.gpus, n)
			if !slices.ContainsFunc(m.options, func(o sensitivity.Option) bool { return o.Size.Fits(size) }) {
				more := k.terms.sizeWithMemory(
					size.Max(m.options[0].Size),
					atMost(m.fair, k.terms.ceilingSize(k.tasks)),
				)
				size, again = more, more != size
			}
		}
	}
	return size
}

// wishOn is the size of menu m that a job of class k would be given if it were alone. For a job that can be asked to
// give back, it is the largest that the allocator gives. For any other it is the largest within what it is owed, since
// it may not leave others without their share.
func wishOn(b *board, k *jobClass, m *menu) gres.Vector {
	sizes := b.alloc.sizes(m)
	if k.canGiveBack {
		return sizes[len(sizes)-1].Size
	}
	within := sizes[0].Size
	for _, o := range sizes {
		if o.Size.Fits(m.owed[0].Size) {
			within = o.Size
		}
	}
	return within
}
