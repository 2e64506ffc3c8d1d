package policy

import (
	"fmt"
	"math"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// quotaBalance is a quota during the round, and what running and granted jobs leave of it.
type quotaBalance struct {
	*Quota
	left quotaUse // negative: overdrawn
}

// quotaUse is what jobs hold, or what is left to them, in the amounts that a quota limits.
type quotaUse struct {
	jobs, nodes int // nodes: summed over jobs
	amount      gres.Vector
}

// quotaUseFor is what one job holds with a size on each of so many nodes.
func quotaUseFor(nodes int, size gres.Vector) quotaUse { return quotaUse{1, nodes, size.Times(nodes)} }

// plusTimes adds y so many times; with negative times it takes it off.
func (x quotaUse) plusTimes(y quotaUse, times int) quotaUse {
	return quotaUse{x.jobs + times*y.jobs, x.nodes + times*y.nodes, x.amount.Plus(y.amount.Times(times))}
}

// withinQuota reports that nothing is overdrawn.
func (x quotaUse) withinQuota() bool {
	return x.jobs >= 0 && x.nodes >= 0 && (gres.Vector{}).Fits(x.amount)
}

// setUpQuotas sets each quota's balance to the whole of it, before running jobs are placed and charged.
func setUpQuotas(b *board) {
	b.balances = b.balances[:0]
	for i := range b.c.Quotas {
		q := &b.c.Quotas[i]
		b.balances = append(
			b.balances,
			quotaBalance{q, quotaUse{amountOrHuge(q.Jobs), amountOrHuge(q.Nodes), gres.Vector{
				GPUs: amountOrHuge(
					q.GPUs,
				), CPUs: amountOrHuge(q.CPUs), Memory: gres.Memory(amountOrHuge(int(q.Memory))),
			}}},
		)
	}
}

// amountOrHuge is an amount of a quota. Unbounded becomes so large a number that no use makes it negative, so that the
// arithmetic needs no exception for it.
func amountOrHuge(n int) int {
	if n == Unbounded {
		return math.MaxInt / 2
	}
	return n
}

// charge books what job i holds on each of its quotas; times is 1, or -1 to take that back. Quota numbers that the
// cluster does not have are ignored.
func (b *board) charge(i int, held quotaUse, times int) {
	for _, q := range b.states[i].class.quotas {
		if q < len(b.balances) {
			b.balances[q].left = b.balances[q].left.plusTimes(held, -times)
		}
	}
}

// shortQuota finds the first quota of jobs of class k that does not leave so much more; nil: all do, or there are none.
// It may be named as the reason why a job waits.
func shortQuota(b *board, k *jobClass, more quotaUse) *quotaBalance {
	for _, q := range k.quotas {
		if q < len(b.balances) && !b.balances[q].left.plusTimes(more, -1).withinQuota() {
			return &b.balances[q]
		}
	}
	return nil
}

// affords reports whether the quotas of jobs of class k leave one more of them its size on each of so many nodes.
func affords(b *board, k *jobClass, nodes int, size gres.Vector) bool {
	return len(k.quotas) == 0 || shortQuota(b, k, quotaUseFor(nodes, size)) == nil
}

// affordsMore reports whether its quotas let job i, which has a place, have more on each of its nodes. If others have
// overdrawn them it is false even for nothing more: a restart of the job with any size would not be allowed then.
func affordsMore(b *board, i int, more gres.Vector) bool {
	s := &b.states[i]
	return len(s.class.quotas) == 0 || shortQuota(b, s.class, quotaUse{amount: more.Times(len(s.servers))}) == nil
}

// quotasAllowReturn reports whether its quotas let stopped job i, which has no place now, go on as it was. Overdrawn
// quotas allow that, too, as long as no other job has been granted anything of them in this round: the job would only
// keep what it holds already.
func quotasAllowReturn(b *board, i int) bool {
	k, was := b.states[i].class, b.jobs[i].Running
	if affords(b, k, len(was.Nodes), was.PerNode) {
		return true
	}
	for v := range b.states {
		s := &b.states[v]
		anew := v != i && (s.status == statusStarting || s.status == statusKept && s.stopped)
		if anew && slices.ContainsFunc(s.class.quotas, func(q int) bool { return slices.Contains(k.quotas, q) }) {
			return false
		}
	}
	return true
}

// blockingQuota finds the quota that keeps jobs of class k waiting whatever servers have left, and what one such job
// needs of it at least. It is nil if on some server, with the least size there, the quotas leave enough, and also if no
// server has the GPUs. If a quota blocks, to stop jobs on servers would not help, and the quota is named as the reason.
func blockingQuota(b *board, k *jobClass) (*quotaBalance, quotaUse) {
	if len(k.quotas) == 0 || len(k.gangShapes) == 0 {
		return nil, quotaUse{}
	}
	var which *quotaBalance
	var needs quotaUse
	for _, w := range k.gangShapes {
		for n := range b.servers {
			if !k.eligible.servers.has(n) || b.servers[n].Total.GPUs < w.gpus {
				continue
			}
			least := quotaUseFor(w.nodes, b.leastOf(k, w, n).Size)
			p := shortQuota(b, k, least)
			if p == nil {
				return nil, quotaUse{}
			}
			if which == nil {
				which, needs = p, least
			}
		}
	}
	return which, needs
}

// placeWithinQuota places job i in shape w if it waits only for its quotas' cores or memory and servers have room.
// Other jobs of the same quotas give back what they hold beyond their least sizes, wherever they run. It reports
// whether it did. The jobs give back only by a restart, so a server that a reservation takes within a round does not
// do.
func placeWithinQuota(b *board, i int, w gangShape) bool {
	k := b.states[i].class
	servers := serversWithRoom(b, i, w, func(size gres.Vector) bool {
		due := quotaUseFor(w.nodes, size)
		// Cores and memory of the quotas do not count here: they are called back below.
		due.amount.CPUs, due.amount.Memory = math.MinInt/4, math.MinInt64/4
		return shortQuota(b, k, due) == nil
	})
	if servers == nil || slices.ContainsFunc(servers, k.isReservedSoon) {
		return false
	}
	least := leastSize(b, i, w, servers[0])
	plan := preemptionPlan{server: servers[0]}
	missing, lenders := quotaLack(b, k, quotaUseFor(w.nodes, least.Size))
	if !addGiveBackBy(b, lenders, &plan, missing, i) ||
		!worthStopping(b, []preemptionPlan{plan}, placeWorth(b, i), b.stops) {
		return false
	}
	carryOutPreemption(b, &plan, b.jobs[i].ID)
	b.placeOn(i, servers, least)
	return true
}

// quotaLack is how much more cores and memory one more job, with these needs, takes than its quotas leave, and which
// jobs can help by giving back (lenders). These are the jobs that count in all the quotas that are short: a job that
// counts in only some of them frees nothing in the others.
func quotaLack(b *board, k *jobClass, needs quotaUse) (missing gres.Vector, lenders []int) {
	var short []int
	for _, q := range k.quotas {
		if q >= len(b.balances) {
			continue
		}
		if left := b.balances[q].left.plusTimes(needs, -1); !left.withinQuota() {
			short, missing = append(short, q), missing.Max(gres.Vector{}.Minus(left.amount))
		}
	}
	missing.GPUs = 0 // no job gives back a GPU
	for v := range b.states {
		s := &b.states[v]
		shares := func(q int) bool { return slices.Contains(s.class.quotas, q) }
		if s.status != statusWaiting && s.status != statusFixed && !slices.ContainsFunc(short,
			func(q int) bool { return !shares(q) }) {
			lenders = append(lenders, v)
		}
	}
	return missing, lenders
}

// leavesQuotaShare reports whether job i, which cannot be asked to give back, may have more on each of its nodes. Each
// of its quotas must then still leave the share of cores and memory for the GPUs that other jobs can have under it, as
// far as GPUs are idle. Otherwise those jobs could not start before job i ends.
func leavesQuotaShare(b *board, i int, more gres.Vector) bool {
	s := &b.states[i]
	for _, q := range s.class.quotas {
		if q >= len(b.balances) {
			continue
		}
		left := b.balances[q].left
		rest := left.amount.Minus(more.Times(len(s.servers)))
		if gpus := min(left.amount.GPUs, b.idle); !b.clusterShare(gpus).Fits(gres.Vector{GPUs: gpus, CPUs: rest.CPUs,
			Memory: rest.Memory}) {
			return false
		}
	}
	return true
}

// clusterShare is the share of so many GPUs of the whole cluster, since quotas do not say on which servers jobs will
// run.
func (b *board) clusterShare(gpus int) gres.Vector {
	if gpus <= 0 {
		return gres.Vector{}
	}
	return gres.Proportional(b.total, gpus)
}

// hasQuotaJobs reports whether a job on server n has quotas. What they leave changes from round to round, so a search
// in vain on such a server is not remembered for the next round.
func hasQuotaJobs(b *board, n int) bool {
	return len(b.balances) > 0 && slices.ContainsFunc(b.servers[n].jobs,
		func(i int) bool { return len(b.states[i].class.quotas) > 0 })
}

// exhaustedText says, for the reason of a waiting job, which amount of the quota is less than the job needs, and how
// much of it is taken. Memory is not compared: the caller knows that something is too little, and it comes last.
func (p *quotaBalance) exhaustedText(needs quotaUse) string {
	left, most := p.left, p.Quota
	switch {
	case left.jobs < needs.jobs:
		return fmt.Sprintf("%s: %d of %d jobs run", p.Name, most.Jobs-left.jobs, most.Jobs)
	case left.nodes < needs.nodes:
		return quotaTakenText(p.Name, most.Nodes, left.nodes, needs.nodes, "node")
	case left.amount.GPUs < needs.amount.GPUs:
		return quotaTakenText(p.Name, most.GPUs, left.amount.GPUs, needs.amount.GPUs, "GPU")
	case left.amount.CPUs < needs.amount.CPUs:
		return quotaTakenText(p.Name, most.CPUs, left.amount.CPUs, needs.amount.CPUs, "core")
	}
	return fmt.Sprintf("%s: %s of %s of memory are taken, it needs %s", p.Name, most.Memory-left.amount.Memory,
		most.Memory, needs.amount.Memory)
}

// quotaTakenText says how much of a quota is taken: "GrpTRES of account ml: 6 of 8 GPUs are taken, it needs 4".
func quotaTakenText(name string, most, left, needs int, thing string) string {
	text := fmt.Sprintf("%s: %d of %d %ss are taken", name, most-left, most, thing)
	if left > 0 {
		text += fmt.Sprintf(", it needs %d", needs)
	}
	return text
}
