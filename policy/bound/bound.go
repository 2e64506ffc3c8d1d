// Package bound says how good a plan is: what it is worth, and a proven upper bound on what any plan could be worth
// that runs the same jobs. It is a pure function of the snapshot and the plan, takes a bounded number of steps, and
// shares no line with the planner.
//
// Value. A plan is worth the sum over the granted jobs of GPUs × rate ÷ reference: the rate is the profile's with
// what the job is granted, the reference its rate with a GPU's share of all cores and all memory of the nodes that
// have GPUs, closed ones included. So all gains are over one reference, whatever node a job is on; where all nodes
// are equal it is the gain over the proportional share, and a plan that gives everybody that share is worth its GPUs.
// A job without a profile is worth its GPUs wherever it runs. Restarts are not in it: the value is of a round's end
// state.
//
// Range. The bound holds for every plan of this snapshot that runs just the jobs that the plan runs, since only such
// plans can be compared: to leave out a job that the policy's order owes a turn may be worth more. Within that,
// everything may be placed and sized anew as from empty, running jobs included, at no cost and without a limit on how
// many are stopped, but for jobs that stay where they are in the plan and have to: they must not be touched, or hold
// what nobody could be started with today. Sizes are whole cores, and memory at the measured amounts, the share, all
// that may be had, and what the plan itself grants; a job that one node can hold is on one node, unless the plan
// itself divides it. What policy.Check asks of a grant on a node holds for every size: share, floor, pace, ceiling,
// whole tasks, constraints, reservations.
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
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Budgets, in elementary steps, of which a core does some hundred million a second. They are far above what clusters
// with a few dozen classes need, and bound what any other takes.
const (
	stepsForPrices   = 12_000_000
	stepsForPatterns = 30_000_000
	mostClasses      = 200 // more are bounded by prices, and by configurations at those prices
)

// Certify says what plan p for snapshot c is worth, and how much any plan could be that runs the same jobs. Neither
// is changed. A plan that does not pass policy.Check has no meaningful certificate.
func Certify(c *policy.Cluster, p policy.Plan) Certificate {
	in := newInstance(c, p)
	cert := Certificate{Value: in.value, Classes: len(in.classes), Shapes: len(in.shapes), Method: ByPrices}
	cert.Stranded = in.stranded(p)
	if len(in.classes) == 0 {
		cert.Bound, cert.Pooled, cert.Method = in.value, in.value, Exact
		return cert
	}
	pooled := newPooled(in)
	prices := pooled.least()
	cert.priced(in, prices)
	cert.Bound, cert.Pooled = prices.bound, prices.bound+in.settled
	if configured := newConfigured(in); configured != nil {
		found := configured.least(pooled.best)
		cert.Bound = min(cert.Bound, found.bound)
		if len(in.classes) <= mostClasses {
			cert.Method = ByConfigurations
		}
	}
	cert.Bound = max(cert.Bound, in.value-in.settled) + in.settled // sums are rounded
	return cert
}

// least finds the best prices of resources.
func (p *pooled) least() generated {
	limits := p.limits()
	penalties := make([]float64, len(limits))
	penalties[len(limits)-1] = 1e6 + float64(10*p.in.value)
	m := newMaster(limits, penalties)
	m.add(p.present())
	found := generated{prices: make([]float64, len(limits))}
	bound, columns := p.at(found.prices)
	found.bound = bound
	for _, c := range columns {
		m.add(c)
	}
	found = generate(m, p, found, func(row int) bool { return row == len(limits)-1 }, stepsForPrices)
	p.at(found.prices) // leaves p.best at them
	return found
}

// least finds the best costs of jobs. It begins with what a job is worth beyond the best prices of resources, at
// which the bound is no more than by those.
func (c *configured) least(costs []float64) generated {
	limits := c.limits()
	found := generated{prices: append(slices.Clone(costs), make([]float64, len(c.in.shapes))...)}
	bound, columns := c.at(found.prices)
	if found.bound = bound; len(c.in.classes) > mostClasses {
		return found
	}
	m := newMaster(limits, c.penalties())
	for _, column := range columns {
		m.add(column)
	}
	for i := range c.in.patterns {
		m.add(c.column(&c.in.patterns[i]))
	}
	return generate(m, c, found, func(row int) bool { return row < len(c.in.classes) }, stepsForPatterns)
}

// penalties are for a job that does not run: more than it could be worth, and a multiple of that, since it takes room
// from others.
func (c *configured) penalties() []float64 {
	penalties := make([]float64, len(c.in.classes)+len(c.in.shapes))
	for _, options := range c.in.options {
		for i := range options {
			o := &options[i]
			penalties[o.class] = max(penalties[o.class], 5*o.value*float64(o.parts))
		}
	}
	return penalties
}
