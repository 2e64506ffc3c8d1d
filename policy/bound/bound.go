// Package bound measures how good a plan is: it computes the plan's value and a proven upper bound on the value of any
// plan that runs the same jobs. It is a pure function of the snapshot and the plan, takes a bounded number of steps,
// and shares only the solver (policy/columns) with the planner; the solver's bounds hold at any prices. No decision
// depends on it.
//
// The value is the sum over the granted jobs of GPUs × speed. Speed is in policy.Unit, the unit in which the planner
// compares: the gain over the share of as many GPUs of the reference server. A job without a profile for the GPUs it
// has counts its GPUs. Restarts are not counted: the value is of the state at the end of a round.
//
// The bound ranges over plans that run all jobs that this plan runs, and any of the waiting jobs that could start. So
// GPUs that idle because of the queue order, because nodes are reserved for a job, or because cores are lent count
// against the plan. A job that no plan could start (barred, quota used up, more GPUs than are idle) is named and does
// not count. Within that range all jobs may be placed and sized again at no cost, except jobs that must not be touched
// or that hold a placement that no job could be started with today. Sizes are whole cores and measured amounts of
// memory (also the share, all that may be had, and what the plan grants), and keep what policy.Check demands of a
// grant. A job that fits on one node is on one node unless the plan divides it. Of the jobs that share a GPU only one
// counts, at its speed alone.
//
// These constraints are relaxed, so the bound may be above what is possible: quotas; the parts of a gang, which may
// differ and share a node; fractions of nodes; and, where there are too many shapes, differences between nodes, which
// count as the largest of their shape.
//
// Both bounds are Lagrangian. The bound by prices of each resource of each shape (the dual of the first program of
// Synergy, OSDI'22) says what binds. The bound by configurations of a node (Gilmore and Gomory 1961) is nearly tight.
package bound

import (
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
)

// Budgets in elementary steps, of which a core does about a hundred million a second. Clusters with a few dozen classes
// need far less; the budgets limit all others. Beyond columns.MostClasses plans are bounded by prices, and by
// configurations at those prices.
const (
	stepsForPrices   = 12_000_000
	stepsForPatterns = 30_000_000
)

// Certify computes the value of plan p for snapshot c and the bound on any plan that runs the same jobs and any number
// of the waiting ones. Neither argument is changed. A plan that does not pass policy.Check has no meaningful
// certificate. Two bounds are computed: for the same jobs alone, and with the waiting ones that could start on idle
// GPUs.
func Certify(c *policy.Cluster, p policy.Plan) Certificate {
	in := newInstance(c, p)
	cert := Certificate{Value: in.value, Idle: in.idle()}
	cert.Stranded, cert.StrandedOn = in.stranded(p)
	cert.Lending = in.lending(p)
	q := in.waitingQueue(p, cert.Idle)
	cert.Waiting = in.waitingByReason(p, q)
	in.formulate()
	cert.prove(in)
	cert.Same = cert.Bound
	if len(q.classes) > 0 {
		wide := newInstance(c, p)
		wide.addQueue(q)
		wide.formulate()
		cert.prove(wide)
		// More jobs to choose from cannot be worth less. A bound that says so is below Same by rounding, or because the
		// search for Same ended at worse prices.
		cert.Bound, cert.Pooled = max(cert.Bound, cert.Same), max(cert.Pooled, cert.Bound, cert.Same)
	}
	return cert
}

// prove computes the bounds for an instance and sets Bound, Pooled, Method, Classes, Shapes and the prices. The solver
// knows only the jobs that may be placed anew, so the value of the others (settled) is added to its bounds. The bound
// by prices always exists; where the bound by configurations can be computed the lower of the two counts.
func (c *Certificate) prove(in *instance) {
	c.Classes, c.Shapes, c.Method = len(in.classes), len(in.shapes), ByPrices
	c.Prices, c.Core, c.Gigabyte = nil, 0, 0
	if len(in.classes) == 0 {
		c.Bound, c.Pooled, c.Method = in.value, in.value, Exact
		return
	}
	problem := in.problem()
	pooled := columns.NewPooled(problem)
	prices := pooled.Least(in.value-in.settled, in.planUses(), stepsForPrices)
	c.setPrices(in, prices)
	c.Bound, c.Pooled = prices.Value, prices.Value+in.settled
	if configured := columns.NewConfigured(problem); configured != nil {
		found := configured.Least(pooled.Best, in.patterns, stepsForPatterns)
		c.Bound = min(c.Bound, found.Value)
		if len(in.classes) <= columns.MostClasses {
			c.Method = ByConfigurations
		}
	}
	c.Bound = max(c.Bound, in.value-in.settled) + in.settled // sums are rounded: not below the plan itself
}
