package limits

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Judge computes what the site allows each managed job and all of them together. jobs are all jobs of the cluster,
// ascending in ID; unmanaged jobs count by what they hold.
func (b *Book) Judge(jobs []Job) Verdict {
	var v Verdict
	where, pools := classCache{b, map[jobClass]*classLimits{}, jobs, map[poolKey]int64{}}, map[poolKey]*pool{}
	for i := range jobs {
		if j := &jobs[i]; j.Managed {
			v.Terms = append(v.Terms, where.terms(j, len(v.Terms), pools))
		}
	}
	if len(pools) > 0 {
		where.fill(pools, jobs)
		v.share(pools)
	}
	return v
}

// poolKey identifies one limit that jobs share.
type poolKey struct {
	of   group
	kind Kind
	tres string
}

// pool is the shared limit of a group on one TRES.
type pool struct {
	poolKey
	most    int64
	members []int // indices of the member jobs in Verdict.Terms, ascending
	others  usage // what running jobs outside the members hold
}

// usage sums what jobs hold of a TRES.
type usage struct {
	n  int64
	on map[string]bool // the nodes counted so far; as in Slurm, a node counts once
}

// terms returns what binds a job by itself, in whichever of its partitions it starts. It also adds the job, by its
// index number, to the pools that it shares with others.
func (p classCache) terms(j *Job, number int, pools map[poolKey]*pool) Terms {
	t := Terms{Job: j.ID, Tier: p.tier(j)}
	share := func(b binding) { join(pools, b, number) }
	if len(j.Choice) < 2 {
		p.bindAll(&t, j, share)
		return t
	}
	open, shut, never := p.choose(j)
	for _, part := range open {
		in := Terms{}
		p.bindAll(&in, j.inPartition(part), share)
		t.tighten(in)
	}
	t.Shut, t.Never = shut, never
	return t
}

// tier returns the highest PriorityTier of the partitions that a job may start in or runs in.
func (b *Book) tier(j *Job) (highest int) {
	if p := b.partitions[j.Partition]; p != nil {
		highest = p.Tier
	}
	for _, name := range j.Choice {
		if p := b.partitions[name]; p != nil {
			highest = max(highest, p.Tier)
		}
	}
	return highest
}

// bindAll applies all limits of a job in its partition to t, and calls share for each limit that is shared with other
// jobs. A job whose QOS has relative limits gets no more than its user's request, and no other limit is looked at.
func (p classCache) bindAll(t *Terms, j *Job, share func(binding)) {
	if p := p.partitions[j.Partition]; p != nil {
		t.lower(gres.Vector{CPUs: p.MaxCPUs, Memory: p.MaxMemory})
	}
	if !p.enforced {
		return
	}
	at := p.limitsOf(j)
	if at.relative {
		t.modest(j)
		return
	}
	for _, bound := range at.bindings {
		if !counts(bound.TRES, j) {
			continue
		}
		switch bound.Kind {
		case MaxTRESPerJob, MaxTRESPerNode, MaxTRESMinsPerJob, GrpTRESMins:
			t.bind(bound, j)
		default:
			share(bound)
		}
	}
}

// join adds a job to the members of a shared limit.
func join(pools map[poolKey]*pool, l binding, number int) {
	key := poolKey{l.of, l.Kind, l.TRES}
	p := pools[key]
	if p == nil {
		p = &pool{poolKey: key, most: l.Most}
		pools[key] = p
	}
	// A LimitFactor can give jobs of different QOS different numbers for one limit; the smallest counts.
	p.most = min(p.most, l.Most)
	if n := len(p.members); n == 0 || p.members[n-1] != number { // several partitions of a job may share it
		p.members = append(p.members, number)
	}
}

// bind applies a limit on the job alone. Where minutes count and cannot be divided by a time limit, a size above the
// user's request could use them up sooner, so cores and memory are bounded by the request; GPUs never change. If a
// limit has less than 1 for each node, the quotient is 0, which lower takes for no bound, but the job can never start
// then.
func (t *Terms) bind(l binding, j *Job) {
	n := int64(max(1, j.Nodes))
	switch {
	case l.Kind == GrpTRESMins, l.Kind == MaxTRESMinsPerJob && j.TimeLimit <= 0:
		if l.TRES == cores || l.TRES == memory {
			t.modest(j)
		}
		return
	case l.Kind == MaxTRESMinsPerJob:
		l.Most /= max(1, int64((j.TimeLimit+time.Minute-1)/time.Minute))
	case l.Kind == MaxTRESPerNode:
		l.Most *= n
	}
	switch l.TRES {
	case cores:
		t.lower(gres.Vector{CPUs: whole(l.Most / n)})
	case memory:
		t.lower(gres.Vector{Memory: gres.Memory(l.Most / n)})
	}
	if least := needs(l.TRES, j, n); l.Most < least {
		t.Never = cmp.Or(t.Never, fmt.Sprintf("%s of %s allows %s, it needs %s", l.Kind, l.of, amount(l.TRES, l.Most),
			amount(l.TRES, least)))
	}
}

// needs returns the smallest amount of a TRES with which a job of n nodes can run.
func needs(tres string, j *Job, n int64) int64 {
	switch {
	case tres == cores, tres == memory, tres == nodes:
		return n
	case tres == gpus, strings.HasPrefix(tres, ofType):
		return int64(j.GPUs)
	}
	return 0
}

// amount formats an amount of a TRES for messages.
func amount(tres string, n int64) string {
	switch {
	case tres == cores:
		return fmt.Sprintf("%d cores", n)
	case tres == memory:
		return fmt.Sprintf("%d MB", n)
	case tres == nodes:
		return fmt.Sprintf("%d nodes", n)
	case tres == gpus:
		return fmt.Sprintf("%d GPUs", n)
	}
	return fmt.Sprintf("%d of %s", n, tres)
}

// fill adds up what running jobs that are not members hold in the groups of the pools.
func (p classCache) fill(pools map[poolKey]*pool, jobs []Job) {
	of := map[group][]*pool{}
	for _, shared := range pools {
		of[shared.of] = append(of[shared.of], shared)
	}
	number := -1 // of the last managed job in Verdict.Terms, as pools count members
	for i := range jobs {
		j := &jobs[i]
		if j.Managed {
			number++
		}
		if !j.Running {
			continue
		}
		for _, g := range p.limitsOf(j).groups {
			for _, shared := range of[g] {
				if _, member := slices.BinarySearch(shared.members, number); !j.Managed || !member {
					shared.others.add(shared.tres, j)
				}
			}
		}
	}
}

// add adds what a job holds of a TRES.
func (u *usage) add(tres string, j *Job) {
	switch {
	case tres == running:
		u.n++
	case tres == cores:
		u.n += int64(j.Holds.CPUs)
	case tres == memory:
		u.n += int64(j.Holds.Memory)
	case tres == gpus, strings.HasPrefix(tres, ofType) && tres[len(ofType):] == j.Type:
		u.n += int64(j.Holds.GPUs)
	case tres == nodes:
		u.addNodes(j.On)
	}
}

// addNodes counts the nodes that a job is on; a node shared by several jobs counts once.
func (u *usage) addNodes(on []string) {
	if u.on == nil {
		u.on = map[string]bool{}
	}
	for _, node := range on {
		u.on[node] = true
	}
	u.n = int64(len(u.on))
}

// share turns pools into quotas. Pools of the same kind, group and members form one quota, but one for each GPU type.
func (v *Verdict) share(pools map[poolKey]*pool) {
	var last *pool
	for _, p := range sorted(pools) {
		if !p.counted() {
			continue
		}
		if last == nil || !last.together(p) {
			v.Quotas = append(v.Quotas, unboundedQuota(p))
			for _, number := range p.members {
				t := &v.Terms[number]
				t.Quotas = append(t.Quotas, len(v.Quotas)-1)
			}
		}
		last = p
		p.leave(&v.Quotas[len(v.Quotas)-1])
	}
}

// sorted orders pools so that those that form one quota are adjacent.
func sorted(pools map[poolKey]*pool) []*pool {
	list := make([]*pool, 0, len(pools))
	for _, p := range pools {
		list = append(list, p)
	}
	slices.SortFunc(list, func(x, y *pool) int {
		return cmp.Or(
			cmp.Compare(x.of.qos, y.of.qos), cmp.Compare(x.of.account, y.of.account), cmp.Compare(x.of.user, y.of.user),
			cmp.Compare(x.of.partition, y.of.partition), cmp.Compare(x.kind, y.kind),
			slices.Compare(x.members, y.members),
			cmp.Compare(x.tres, y.tres),
		)
	})
	return list
}

// counted says whether quotas can express the pool's TRES.
func (p *pool) counted() bool {
	switch p.tres {
	case running, cores, memory, nodes, gpus:
		return true
	}
	return p.typed()
}

func (p *pool) typed() bool { return strings.HasPrefix(p.tres, ofType) }

// together says whether two pools belong to one quota; p precedes q in the sorted order.
func (p *pool) together(q *pool) bool {
	return p.of == q.of && p.kind == q.kind && !p.typed() && !q.typed() && slices.Equal(p.members, q.members)
}

// unboundedQuota returns a quota for the pool's group without any bound yet.
func unboundedQuota(p *pool) policy.Quota {
	const none = policy.Unbounded
	name := fmt.Sprintf("%s of %s", p.kind, p.of)
	if p.typed() {
		name = fmt.Sprintf("%s=%s of %s", p.kind, p.tres, p.of)
	}
	return policy.Quota{Name: name, Jobs: none, Nodes: none, GPUs: none, CPUs: none, Memory: none}
}

// leave writes what the pool leaves to its members into a quota. That is never below 0, although jobs outside may hold
// more than the limit, which may have been lowered since.
func (p *pool) leave(q *policy.Quota) {
	left := max(0, p.most-p.others.n)
	switch p.tres {
	case running:
		q.Jobs = whole(left)
	case cores:
		q.CPUs = whole(left)
	case memory:
		q.Memory = gres.Memory(left)
	case nodes:
		q.Nodes = whole(left)
	default:
		q.GPUs = whole(left)
	}
}

// whole converts a count of Slurm's, which may exceed any real amount, to a bounded int.
func whole(n int64) int { return int(min(n, math.MaxInt32)) }
