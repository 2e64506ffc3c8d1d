// Package bound says how good a plan is: what it is worth, and a proven upper bound on what any plan could be worth
// that runs the same jobs. It is a pure function of the snapshot and the plan, takes a bounded number of steps, and
// shares nothing with the planner but the solver (policy/columns), whose bounds hold at whatever prices: which jobs may
// be where with what, and what that is worth, it works out by itself.
//
// Value. A plan is worth the sum over the granted jobs of GPUs × speed. The speed is in the unit in which the planner
// compares, policy.Unit: the gain over the share of as many GPUs of the reference server, whatever node a job is on.
// Where all nodes are equal it is the gain over the proportional share, and a plan that gives everybody that share is
// worth its GPUs. A job without a profile, or on a node with other GPUs than its profile is of, is worth its GPUs.
// Restarts are not in it: the value is of a round's end state.
//
// Range. The bound holds for every plan of this snapshot that runs all the jobs that the plan runs, since only such
// plans can be compared: to leave out a job that the policy's order owes a turn may be worth more. Beside them it may
// run any that wait and could start: so GPUs that are idle for the sake of the order, of a job for which nodes are
// kept, or for want of cores that were lent to others, are held against the plan. Who may not start whatever the plan
// (barred, under a quota that is used up, with more GPUs than are idle) is named and does not count. Within that,
// everything may be placed and sized anew as from empty, running jobs included, at no cost and without a limit on how
// many are stopped, but for jobs that stay where they are in the plan and have to: they must not be touched, or hold
// what nobody could be started with today. Sizes are whole cores, and memory at the measured amounts, the share, all
// that may be had, and what the plan itself grants; a job that one node can hold is on one node, unless the plan itself
// divides it. What policy.Check asks of a grant on a node holds for every size: share, floor, pace, ceiling, whole
// tasks, constraints, reservations.
//
// Of jobs that share a GPU one counts, at its speed alone: the plan's value and its bound are of the GPUs, and what the
// others train on top of that is in neither. What those hold of cores and memory is not there to be had.
//
// Relaxed are, so that the bound may be above what is possible: quotas; the parts of a gang, which may have different
// sizes and meet on a node; fractions of nodes. Nodes that differ are taken for equal, as large as the largest of
// them, where there are too many shapes.
//
// Two bounds are computed by Lagrangian relaxation, and both hold at whatever prices they are evaluated: that by
// prices of each resource of each shape (the dual of the first program of Synergy, OSDI'22, for each shape), which
// also says what binds, and that by configurations of a node (Gilmore and Gomory 1961), which is nearly tight.
package bound

import (
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// Budgets, in elementary steps, of which a core does some hundred million a second. They are far above what clusters
// with a few dozen classes need, and bound what any other takes. Beyond columns.MostClasses plans are
// bounded by prices, and by configurations at those prices.
const (
	stepsForPrices   = 12_000_000
	stepsForPatterns = 30_000_000
)

// Certify says what plan p for snapshot c is worth, and how much any plan could be that runs the same jobs, and of
// those that wait as many as it likes. Neither is changed. A plan that does not pass policy.Check has no meaningful
// certificate.
func Certify(c *policy.Cluster, p policy.Plan) Certificate {
	in := newInstance(c, p)
	cert := Certificate{Value: in.value, Idle: in.idle()}
	cert.Stranded, cert.StrandedOn = in.stranded(p)
	cert.Lending = in.lending(p)
	q := in.queued(p, cert.Idle)
	cert.Waiting = in.waits(p, q)
	in.formulate()
	cert.prove(in)
	cert.Same = cert.Bound
	if len(q.classes) > 0 {
		wide := newInstance(c, p)
		wide.admit(q)
		wide.formulate()
		cert.prove(wide)
		cert.Bound, cert.Pooled = max(cert.Bound, cert.Same), max(cert.Pooled, cert.Bound, cert.Same)
	}
	return cert
}

// prove bounds what the plans of an instance are worth.
func (c *Certificate) prove(in *instance) {
	c.Classes, c.Shapes, c.Method = len(in.classes), len(in.shapes), ByPrices
	c.Prices, c.Core, c.Gigabyte = nil, 0, 0
	if len(in.classes) == 0 {
		c.Bound, c.Pooled, c.Method = in.value, in.value, Exact
		return
	}
	problem := in.problem()
	pooled := columns.NewPooled(problem)
	prices := pooled.Least(in.value-in.settled, in.uses(), stepsForPrices)
	c.priced(in, prices)
	c.Bound, c.Pooled = prices.Value, prices.Value+in.settled
	if configured := columns.NewConfigured(problem); configured != nil {
		found := configured.Least(pooled.Best, in.patterns, stepsForPatterns)
		c.Bound = min(c.Bound, found.Value)
		if len(in.classes) <= columns.MostClasses {
			c.Method = ByConfigurations
		}
	}
	c.Bound = max(c.Bound, in.value-in.settled) + in.settled // sums are rounded
}
