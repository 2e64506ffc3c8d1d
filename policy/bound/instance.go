package bound

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/columns"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// instance is the problem whose optimum is bounded: a number of jobs of each class, all of which run (but those of
// optional classes), on a number of nodes of each shape. Jobs that keep their placement are no part of it; their value
// is added.
type instance struct {
	cluster        *policy.Cluster
	eligible       eligibility // which jobs may be started on which nodes
	referenceTotal gres.Vector // policy.Reference: the server whose share is the unit of speeds
	value          float64     // of the plan
	settled        float64     // part of value: the jobs that keep their placement
	classes        []class
	demand         []int  // jobs of each class
	optional       []bool // by class: its jobs wait and may go on waiting; nil: no class is optional
	shapes         []shape
	options        [][]columns.Option // by shape
	patterns       []columns.Pattern  // fillings of nodes in the plan, each once

	units      map[unitKey]float64
	byKey      map[classKey]int
	byName     map[string]int // index of a node
	nodes      []nodeState
	gangTotals []gres.Vector // by node, see policy.GangTotals
	parts      []part        // of the jobs that may be placed anew
	partners   map[int]bool  // jobs that share a GPU with a counted job and are left out
}

// class is a set of jobs that can have the same sizes on the same nodes.
type class struct {
	job        *policy.Job // one of them
	constraint int         // number in eligibility.sets
	divisions  []int       // the numbers of nodes over which the job may be divided
}

// classKey has all that distinguishes jobs of one class from those of another.
type classKey struct {
	profile              *sensitivity.Profile
	gpus, nodes, tasks   int
	floor, pace, ceiling gres.Vector
	constraint           int
}

// nodeState is what a node has for the jobs of the instance, and what the plan's other jobs have of it beyond their
// share.
type nodeState struct {
	open  gres.Vector // capacity that jobs of the instance may use
	used  gres.Vector // by the plan's jobs of the instance
	lent  gres.Vector // to jobs that keep their placement, beyond their share
	shape int         // index in instance.shapes; -1: no GPUs for these jobs
}

// part is what the plan grants a job on one node.
type part struct {
	node, class, parts int // parts: on how many nodes the job is
	size               gres.Vector
	value              float64
}

// newInstance makes the instance of the jobs that the plan runs. formulate has to follow, after waiting jobs have been
// added (addQueue) if they are to count.
func newInstance(c *policy.Cluster, p policy.Plan) *instance {
	in := &instance{
		cluster: c, eligible: newEligibility(c), referenceTotal: policy.Reference(c.Nodes),
		units: map[unitKey]float64{},
		byKey: map[classKey]int{}, gangTotals: policy.GangTotals(c.Nodes), byName: make(map[string]int, len(c.Nodes)),
		nodes: make([]nodeState, len(c.Nodes)),
	}
	for n := range c.Nodes {
		in.byName[c.Nodes[n].Name] = n
		if node := &c.Nodes[n]; node.Closed == "" {
			in.nodes[n].open = node.Total.Minus(node.Foreign)
		}
	}
	in.addGrants(in.setPartnersAside(p))
	in.settleCapacities()
	return in
}

// formulate derives the numbers of the problem from the jobs and the nodes: shapes, options, and the plan's own
// patterns.
func (in *instance) formulate() {
	in.shapes = in.group(maxShapes(len(in.classes)))
	in.listOptions()
	in.listPatterns()
}

// unitKey is what a unit depends on besides the reference.
type unitKey struct {
	profile *sensitivity.Profile
	fair    gres.Vector
}

// unitOf is policy.Unit, computed once per profile and share.
func (in *instance) unitOf(p *sensitivity.Profile, fair gres.Vector) float64 {
	key := unitKey{p, fair}
	unit, known := in.units[key]
	if !known {
		unit = policy.Unit(p, fair, in.referenceTotal)
		in.units[key] = unit
	}
	return unit
}

// partValue is the value of the part of job j on node n under a grant: its GPUs times its speed, without a profile its
// GPUs.
func (in *instance) partValue(j *policy.Job, g *policy.Placement, n int) float64 {
	p := policy.ProfileOn(j.Profile, in.cluster.Nodes[n].GPUType)
	if p == nil {
		return float64(g.PerNode.GPUs)
	}
	fair := gres.Proportional(in.totalFor(g, n), g.PerNode.GPUs)
	return float64(g.PerNode.GPUs) * p.Gain(g.PerNode, fair) * in.unitOf(p, fair)
}

// addGrants adds every grant of a plan. Decisions are normally in the order of the jobs; an index by ID is built only
// if not. A decision on a job that is not in the snapshot is ignored.
func (in *instance) addGrants(p policy.Plan) {
	jobs := in.cluster.Jobs
	var byID map[int]int
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if d.Grant == nil {
			continue
		}
		at := i
		if at >= len(jobs) || jobs[at].ID != d.Job {
			if byID == nil {
				byID = indexOf(jobs)
			}
			known := false
			if at, known = byID[d.Job]; !known {
				continue
			}
		}
		in.addGrant(&jobs[at], d.Grant)
	}
}

// indexOf maps job IDs to indexes in the list.
func indexOf(jobs []policy.Job) map[int]int {
	byID := make(map[int]int, len(jobs))
	for i := range jobs {
		byID[jobs[i].ID] = i
	}
	return byID
}

// addGrant adds a job that the plan runs, in one of two ways. A job that keeps its placement (keepsPlacement) adds its
// value to that of any plan, and its capacity is taken off the nodes. What it holds beyond withoutLoan is noted as
// lent, for addQueue. A job that may be placed anew counts in its class.
func (in *instance) addGrant(j *policy.Job, g *policy.Placement) {
	stays := in.keepsPlacement(j, g) || !in.isPlaced(g) // a grant on unknown nodes can only be taken as it is
	for _, name := range g.Nodes {
		value := float64(g.PerNode.GPUs)
		n, known := in.byName[name]
		if known {
			value = in.partValue(j, g, n)
		}
		if in.value += value; stays {
			in.settled += value
		}
		if known && stays {
			in.nodes[n].open = in.nodes[n].open.Minus(g.PerNode)
			if in.cluster.Nodes[n].Total.GPUs > 0 && g.PerNode.GPUs > 0 {
				in.nodes[n].lent = in.nodes[n].lent.Plus(g.PerNode.Minus(in.withoutLoan(j, g, n)))
			}
		}
	}
	if stays {
		return
	}
	k := in.classOf(j, len(g.Nodes))
	in.demand[k]++
	for _, name := range g.Nodes {
		if n, known := in.byName[name]; known {
			in.nodes[n].used = in.nodes[n].used.Plus(g.PerNode)
			in.parts = append(in.parts, part{n, k, len(g.Nodes), g.PerNode, in.partValue(j, g, n)})
		}
	}
}

// isPlaced reports whether a grant is on nodes of the snapshot alone, all with GPUs. Other grants can only be taken as
// they are.
func (in *instance) isPlaced(g *policy.Placement) bool {
	for _, name := range g.Nodes {
		if n, known := in.byName[name]; !known || in.cluster.Nodes[n].Total.GPUs < 1 {
			return false
		}
	}
	return len(g.Nodes) > 0 && g.PerNode.GPUs > 0
}

// keepsPlacement reports whether job j keeps its placement in any plan that is compared: it must not be touched (it is
// fixed, started too recently, or was restarted too often), or it could not be started with that placement today, such
// as on a node that has been closed since.
func (in *instance) keepsPlacement(j *policy.Job, g *policy.Placement) bool {
	if j.Running == nil || g != j.Running && !g.Equal(*j.Running) {
		return false
	}
	rules := &in.cluster.Rules
	young, worn := in.cluster.Now.Sub(j.Started) < rules.MinRun,
		rules.MaxRestarts > 0 && j.Restarts >= rules.MaxRestarts
	if j.Fixed || young || worn || j.Barred != "" || len(g.Nodes) == 0 || g.PerNode.GPUs*len(g.Nodes) != j.GPUs ||
		j.Nodes > 0 && j.Nodes != len(g.Nodes) {
		return true
	}
	at := in.eligible.setOfJob(j)
	for i, name := range g.Nodes {
		n, known := in.byName[name]
		if !known || !in.eligible.mayStart(at, n) {
			return true
		}
		total := in.cluster.Nodes[n].Total
		if before := in.byName[g.Nodes[max(i-1, 0)]]; i > 0 && total == in.cluster.Nodes[before].Total &&
			in.cluster.Nodes[n].GPUType == in.cluster.Nodes[before].GPUType {
			continue // as the node before
		}
		p := policy.ProfileOn(j.Profile, in.cluster.Nodes[n].GPUType)
		if z := newSizer(j, p, g.PerNode.GPUs, &shape{total: total, leanCores: total,
			leanMemory: in.totalFor(g, n)}); !z.admits(g.PerNode) {
			return true
		}
	}
	return false
}

// totalFor is the capacity of node n from which the share of a grant is computed: its own, or for a gang, which has one
// size on nodes that may differ by a few MiB, that of policy.GangTotals.
func (in *instance) totalFor(g *policy.Placement, n int) gres.Vector {
	if len(g.Nodes) == 1 {
		return in.cluster.Nodes[n].Total
	}
	return in.gangTotals[n]
}

// classOf finds or adds the class of a job, and adds the plan's number of nodes to the numbers over which its jobs may
// be divided, so that the plan itself is among those that the bound ranges over.
func (in *instance) classOf(j *policy.Job, nodes int) int {
	key := in.keyOf(j)
	at := key.constraint
	k, known := in.byKey[key]
	if !known {
		k = len(in.classes)
		in.byKey[key] = k
		in.classes = append(in.classes, class{j, at, in.divisions(j, at)})
		in.demand = append(in.demand, 0)
	}
	if c := &in.classes[k]; !slices.Contains(c.divisions, nodes) {
		c.divisions = append(c.divisions, nodes)
	}
	return k
}

func (in *instance) keyOf(j *policy.Job) classKey {
	return classKey{j.Profile, j.GPUs, j.Nodes, max(1, j.Tasks), j.Floor, j.Pace, j.Ceiling, in.eligible.setOfJob(j)}
}

// divisions are the numbers of nodes over which a job may be divided: the user's own, else one if one node can hold the
// job, as Slurm would do, else all into which its GPUs divide evenly. The list is empty if no node is large enough for
// a part.
func (in *instance) divisions(j *policy.Job, constraint int) []int {
	largest := in.eligible.largest[constraint]
	switch {
	case j.Nodes > 0:
		return []int{j.Nodes}
	case j.GPUs <= largest:
		return []int{1}
	}
	var all []int
	for n := 1; n <= min(j.GPUs, len(in.cluster.Nodes)); n++ {
		if j.GPUs%n == 0 && j.GPUs/n <= largest {
			all = append(all, n)
		}
	}
	return all
}

// settleCapacities raises the capacity of each node to at least what the plan uses there. On an overcommitted node the
// plan may continue with what it grants, so the bound must allow it, too.
func (in *instance) settleCapacities() {
	for n := range in.nodes {
		s := &in.nodes[n]
		s.open = s.open.Max(s.used).Max(gres.Vector{})
	}
}

// listOptions builds the options of each class on each shape, in the order of classes. The plan's own grant is added at
// the end where no listed option is as good, so that the bound is never below the plan.
func (in *instance) listOptions() {
	in.options = make([][]columns.Option, len(in.shapes))
	for s := range in.shapes {
		for k := range in.classes {
			in.options[s] = in.withOptions(in.options[s], k, &in.shapes[s])
		}
	}
	first := in.classOffsets()
	for i := range in.parts {
		p := &in.parts[i]
		s := in.nodes[p.node].shape
		own := columns.Option{Class: p.class, Parts: p.parts, Size: p.size, Value: p.value}
		better := func(o columns.Option) bool {
			return o.Class == own.Class && o.Parts == own.Parts && o.Size.Fits(own.Size) && o.Value >= own.Value
		}
		options, ends := in.options[s], first[s]
		listed, added := options[ends[p.class]:ends[p.class+1]], options[ends[len(in.classes)]:]
		if !slices.ContainsFunc(listed, better) && !slices.ContainsFunc(added, better) {
			in.options[s] = append(in.options[s], own)
		}
	}
}

// classOffsets returns, by shape, the index at which the options of each class begin, and as last entry the end of the
// list, so that an option is compared with those of its class alone.
func (in *instance) classOffsets() [][]int {
	all := make([][]int, len(in.options))
	for s, options := range in.options {
		all[s] = make([]int, len(in.classes)+1)
		at := 0
		for k := range in.classes {
			for at < len(options) && options[at].Class < k {
				at++
			}
			all[s][k] = at
		}
		all[s][len(in.classes)] = len(options)
	}
	return all
}

// withOptions appends to the list the options of class k on shape sh: every size with which policy.Check would let one
// part of such a job start on any node of the shape, and its value there. If the smallest share of the shape lacks
// cores or memory, the value comes from the reference server's share, too (see value): other nodes of the shape may
// have a share.
func (in *instance) withOptions(list []columns.Option, k int, sh *shape) []columns.Option {
	c := &in.classes[k]
	if !sh.suits(c.constraint) {
		return list
	}
	for _, nodes := range c.divisions {
		gpus := c.job.GPUs / nodes
		if c.job.GPUs%nodes != 0 || gpus > sh.most.GPUs {
			continue
		}
		from := sh
		if nodes > 1 {
			from = sh.forGangs()
		}
		for _, p := range sh.profilesFor(c.job) {
			z := newSizer(c.job, p, gpus, from)
			unit, rate := in.unitOf(p, z.fair), 0.0
			if p != nil && (z.fair.CPUs == 0 || z.fair.Memory == 0) { // other nodes of the shape may have a share
				rate = p.Rate(sensitivity.ShareOf(gres.Proportional(in.referenceTotal, gpus)))
			}
			for _, size := range z.sizes() {
				list = append(list, columns.Option{Class: k, Parts: nodes, Size: size,
					Value: z.value(size, unit, rate)})
			}
		}
	}
	return list
}

// problem returns the instance as numbers for the solver.
func (in *instance) problem() *columns.Problem {
	p := &columns.Problem{Demand: in.demand, Options: in.options, Optional: in.optional}
	for s := range in.shapes {
		sh := &in.shapes[s]
		p.Shapes = append(p.Shapes, columns.Shape{Count: sh.count, Most: sh.most, Sum: sh.sum})
	}
	return p
}

// planUses is how much of each resource of each shape the plan uses, in the order of columns.Resources. The solver
// begins with the plan, which saves it steps.
func (in *instance) planUses() []float64 {
	uses := make([]float64, columns.Resources*len(in.shapes))
	for i := range in.parts {
		p := &in.parts[i]
		s := columns.Resources * in.nodes[p.node].shape
		uses[s] += float64(p.size.GPUs)
		uses[s+1] += float64(p.size.CPUs)
		uses[s+2] += float64(p.size.Memory) / float64(gres.Gigabyte)
	}
	return uses
}

// listPatterns collects the patterns in which the plan fills nodes, each once (word identifies one). The solver begins
// with them, which saves it steps. It sorts in.parts by node.
func (in *instance) listPatterns() {
	parts := in.parts
	slices.SortFunc(parts, func(x, y part) int {
		return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.class, y.class), cmp.Compare(x.parts, y.parts),
			cmp.Compare(x.size.CPUs, y.size.CPUs))
	})
	seen := map[string]bool{}
	for i := 0; i < len(parts) && len(in.patterns) < mostPatterns; {
		p := columns.Pattern{Shape: in.nodes[parts[i].node].shape}
		word := fmt.Append(nil, p.Shape)
		for at := parts[i].node; i < len(parts) && parts[i].node == at; i++ {
			x := &parts[i]
			p.Add(x.class, x.parts, x.value)
			word = fmt.Appendf(word, ",%d/%d:%d:%d", x.class, x.parts, x.size.CPUs, x.size.Memory)
		}
		if !seen[string(word)] {
			seen[string(word)] = true
			in.patterns = append(in.patterns, p)
		}
	}
}

// mostPatterns limits how many of the plan's own patterns are given to the solver. They only save steps.
const mostPatterns = 1000
