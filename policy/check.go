package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Check refuses a plan that breaks a promise, whoever made it: it leaves a job without its one decision, splits a gang, starts
// something on a node that is closed or that the job cannot use, touches a job that must not be touched, puts a job below its
// proportional throughput, or gives away more than a node has. What runs already and stays as it is, is not the plan's doing
// and is only counted. The error names every breach.
func Check(c Cluster, p Plan) error {
	k := checker{c: &c, nodes: make(map[string]*tally, len(c.Nodes)), jobs: make(map[int]*Job, len(c.Jobs)), menus: menus{}}
	for i := range c.Nodes {
		k.nodes[c.Nodes[i].Name] = &tally{node: &c.Nodes[i], used: c.Nodes[i].Foreign}
	}
	for i := range c.Jobs {
		k.jobs[c.Jobs[i].ID] = &c.Jobs[i]
	}
	for _, d := range p.Decisions {
		k.decision(d)
	}
	for i := range c.Jobs {
		if _, left := k.jobs[c.Jobs[i].ID]; left {
			k.breach("job %d: no decision", c.Jobs[i].ID)
		}
	}
	for i := range c.Nodes {
		k.capacity(k.nodes[c.Nodes[i].Name])
	}
	return errors.Join(k.breaches...)
}

// checker walks a plan once. jobs holds those that still lack a decision.
type checker struct {
	c        *Cluster
	nodes    map[string]*tally
	jobs     map[int]*Job
	menus    menus
	breaches []error
}

// tally is what a node gives away under the plan.
type tally struct {
	node    *Node
	used    gres.Vector
	changed bool // the plan gives away something that was not held before
}

func (k *checker) breach(format string, args ...any) {
	k.breaches = append(k.breaches, fmt.Errorf(format, args...))
}

func (k *checker) decision(d Decision) {
	j, known := k.jobs[d.Job]
	if !known {
		k.breach("job %d: decided twice, or not in the snapshot", d.Job)
		return
	}
	delete(k.jobs, d.Job)
	switch {
	case d.Grant == nil:
		k.refusal(j, d)
	case j.Running != nil && d.Grant.Equal(*j.Running):
		k.count(*d.Grant, false)
	default:
		k.grant(j, *d.Grant)
	}
}

func (k *checker) refusal(j *Job, d Decision) {
	if d.Why == "" || d.Reason == "" {
		k.breach("job %d: waits without a reason", j.ID)
	}
	if j.Running != nil && j.Fixed {
		k.breach("job %d: stopped, and must not be touched", j.ID)
	}
}

// grant checks a placement that is new, in whole or in part.
func (k *checker) grant(j *Job, g Placement) {
	switch {
	case j.Fixed && j.Running != nil:
		k.breach("job %d: changed, and must not be touched", j.ID)
	case j.Barred != "":
		k.breach("job %d: started, but %s", j.ID, j.Barred)
	case len(g.Nodes) == 0 || g.PerNode.GPUs*len(g.Nodes) != j.GPUs:
		k.breach("job %d: %d GPUs on each of %d nodes, want %d in all", j.ID, g.PerNode.GPUs, len(g.Nodes), j.GPUs)
	case j.Nodes > 0 && len(g.Nodes) != j.Nodes:
		k.breach("job %d: %d nodes, want %d", j.ID, len(g.Nodes), j.Nodes)
	case g.PerNode.CPUs%max(1, j.Tasks) != 0:
		k.breach("job %d: %d cores cannot be divided over %d tasks", j.ID, g.PerNode.CPUs, j.Tasks)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(g.Nodes))) {
		k.grantOn(j, g, name)
	}
	k.count(g, true)
}

func (k *checker) grantOn(j *Job, g Placement, name string) {
	t, known := k.nodes[name]
	switch {
	case !known:
		k.breach("job %d: node %s is not in the snapshot", j.ID, name)
		return
	case t.node.Closed != "":
		k.breach("job %d: node %s is %s", j.ID, name, t.node.Closed)
	case !suits(j, t.node):
		k.breach("job %d: node %s is not one that it asked for", j.ID, name)
	}
	k.atLeastFair(j, g.PerNode, t.node)
}

// atLeastFair checks the promise: nobody is slower than under the proportional share. A job without profile must have the share
// itself, since nobody knows what less would do to it.
func (k *checker) atLeastFair(j *Job, size gres.Vector, n *Node) {
	m := k.menus.of(menuKey{j.Profile, size.GPUs, max(1, j.Tasks), n.Total})
	if j.Profile == nil {
		if !m.fair.Fits(size) {
			k.breach("job %d: %s on %s is less than the proportional share %s", j.ID, size, n.Name, m.fair)
		}
		return
	}
	if gain := m.gainOf(j.Profile, size); gain < 1-rounding {
		k.breach("job %d: %s on %s is %.3f of the proportional throughput", j.ID, size, n.Name, gain)
	}
}

// rounding is the relative error that interpolation may make.
const rounding = 1e-6

func (k *checker) count(g Placement, changed bool) {
	seen := map[string]bool{}
	for _, name := range g.Nodes {
		if seen[name] {
			k.breach("node %s: twice in one placement", name)
		}
		seen[name] = true
		if t, known := k.nodes[name]; known {
			t.used = t.used.Plus(g.PerNode)
			t.changed = t.changed || changed
		}
	}
}

func (k *checker) capacity(t *tally) {
	if t.changed && !t.used.Fits(t.node.Total) {
		k.breach("node %s: %s given away, it has %s", t.node.Name, t.used, t.node.Total)
	}
}

// Equal says whether two placements are the same nodes with the same amounts. Nodes are in ascending order in both.
func (p Placement) Equal(q Placement) bool {
	return p.PerNode == q.PerNode && slices.Equal(p.Nodes, q.Nodes)
}
