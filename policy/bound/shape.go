package bound

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// shape is a set of nodes that are treated as equal, so that the cost of the bound does not grow with each node. Where
// they differ, each counts as a node with the maximum of each resource over all of them: that makes the bound looser,
// never wrong.
type shape struct {
	count int         // number of nodes
	most  gres.Vector // capacity of each for jobs of the instance
	sum   gres.Vector // capacity of all
	total gres.Vector // capacity of a node including what unmanaged jobs use
	// leanCores and leanMemory are the nodes with the fewest cores and the least memory per GPU.
	leanCores, leanMemory gres.Vector
	leanGang              gres.Vector // the same as leanMemory, for the share of gangs
	types                 []string    // GPU types, each once
	mask                  uint64      // a bit for each set of constraints that any of the nodes meets
}

// share is the smallest proportional share of that many GPUs on any node of the shape: no node of the shape entitles a
// job to less. Cores and memory may come from different nodes.
func (sh *shape) share(gpus int) gres.Vector {
	return gres.Vector{
		GPUs: gpus, CPUs: gres.Proportional(sh.leanCores, gpus).CPUs,
		Memory: gres.Proportional(sh.leanMemory, gpus).Memory,
	}
}

// forGangs is the shape for the parts of gangs, whose share is computed from less memory where nodes differ by a few
// MiB (policy.GangTotals).
func (sh *shape) forGangs() *shape {
	gang := *sh
	gang.leanMemory = sh.leanGang
	return &gang
}

// suits reports whether any node of the shape meets a set of constraints.
func (sh *shape) suits(constraint int) bool { return sh.mask&(1<<constraint) != 0 }

// profilesFor returns the profiles by which a job may be sized on nodes of the shape: its own, and nil if a node has
// GPUs that the profile is not for. A shape may have several GPU types, so there may be both.
func (sh *shape) profilesFor(j *policy.Job) (all []*sensitivity.Profile) {
	for _, gpuType := range sh.types {
		if p := policy.ProfileOn(j.Profile, gpuType); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// add adds a node to the shape: open is its capacity for jobs of the instance, total all that it has, gang the total
// for the share of gangs, and mask the sets of constraints that it meets. The lean totals become its own if it has less
// per GPU; ratios are compared by cross-multiplication.
func (sh *shape) add(open, total, gang gres.Vector, gpuType string, mask uint64) {
	if !slices.Contains(sh.types, gpuType) {
		sh.types = append(sh.types, gpuType)
	}
	if sh.count == 0 {
		sh.leanCores, sh.leanMemory, sh.leanGang = total, total, gang
	}
	sh.count++
	sh.most, sh.sum, sh.total = sh.most.Max(open), sh.sum.Plus(open), sh.total.Max(total)
	sh.mask |= mask
	if total.CPUs*sh.leanCores.GPUs < sh.leanCores.CPUs*total.GPUs {
		sh.leanCores = total
	}
	if float64(total.Memory)*float64(sh.leanMemory.GPUs) < float64(sh.leanMemory.Memory)*float64(total.GPUs) {
		sh.leanMemory = total
	}
	if float64(gang.Memory)*float64(sh.leanGang.GPUs) < float64(sh.leanGang.Memory)*float64(gang.GPUs) {
		sh.leanGang = gang
	}
}

// Limits of an instance, which keep its cost near linear in nodes and jobs.
const (
	mostShapes = 24
	mostPairs  = 3000 // classes × shapes for which sizes are listed
)

// maxShapes is how many shapes an instance with that many classes may have.
func maxShapes(classes int) int { return max(1, min(mostShapes, mostPairs/max(1, classes))) }

// shapeKey is what the nodes of a shape have in common.
type shapeKey struct {
	open, total gres.Vector
	gpuType     string
	mask        uint64
}

// group sorts nodes into at most that many shapes, and notes for each node which shape it is in. Nodes with exactly
// equal keys are in one shape, or, if these are too many shapes, nodes with roughly equal keys.
func (in *instance) group(most int) []shape {
	for coarseness := 0; ; coarseness++ {
		if shapes, fine := in.groupBy(coarseness, most); fine {
			return shapes
		}
	}
}

// groupBy sorts nodes into shapes by their rounded keys, and notes for each node which shape it is in. fine is false if
// there would be more than most shapes. Nodes without GPUs for the jobs of the instance are in no shape (-1).
func (in *instance) groupBy(coarseness, most int) (shapes []shape, fine bool) {
	index := make(map[shapeKey]int)
	for n := range in.nodes {
		s, total := &in.nodes[n], &in.cluster.Nodes[n].Total
		if s.shape = -1; s.open.GPUs == 0 || total.GPUs == 0 {
			continue
		}
		gpuType := in.cluster.Nodes[n].GPUType
		key := shapeKey{s.open, *total, gpuType, in.eligible.masks[n]}.rounded(coarseness)
		at, known := index[key]
		if !known {
			if at = len(shapes); at == most {
				return nil, false
			}
			index[key] = at
			shapes = append(shapes, shape{})
		}
		shapes[at].add(s.open, *total, in.gangTotals[n], gpuType, in.eligible.masks[n])
		s.shape = at
	}
	return shapes, true
}

// rounded rounds the key, so that more nodes are equal: only the leading binary digits of amounts are kept, fewer with
// each level of coarseness, and then fields are dropped. At level 10 all keys are equal, so group ends.
func (k shapeKey) rounded(coarseness int) shapeKey {
	if coarseness == 0 {
		return k
	}
	digits := max(0, 8-coarseness)
	k.open, k.total = roundUpAmounts(k.open, digits), roundUpAmounts(k.total, digits)
	if coarseness > 3 {
		k.mask = 0
	}
	if coarseness > 7 {
		k.gpuType = ""
	}
	if coarseness > 8 {
		k.total = gres.Vector{}
	}
	if coarseness > 9 {
		k.open = gres.Vector{}
	}
	return k
}

// roundUpAmounts rounds all amounts up to numbers of that many binary digits; GPUs keep at least three.
func roundUpAmounts(v gres.Vector, digits int) gres.Vector {
	return gres.Vector{
		GPUs: roundUpDigits(v.GPUs, max(digits, 3)), CPUs: roundUpDigits(v.CPUs, digits),
		Memory: gres.Memory(roundUpDigits(int(v.Memory), digits)),
	}
}

// roundUpDigits rounds n up to a number with at most that many binary digits before its trailing zeros.
func roundUpDigits(n, digits int) int {
	step := 1
	for n>>digits >= step && step < 1<<40 {
		step <<= 1
	}
	return (n + step - 1) / step * step
}

// eligibility says which jobs may be started on which nodes.
type eligibility struct {
	sets     map[constraintKey]int // number of each set of constraints; 0 has no constraints
	reserved bool                  // some node has a reservation
	largest  []int                 // by set: GPUs of the largest node that meets it, open or not
	masks    []uint64              // by node: a bit for each set that it meets
}

// constraintKey is what decides where a job may be started.
type constraintKey struct {
	gpuType, features, only, except, reservation string
	limit                                        time.Duration
}

// mostSets limits the sets of constraints that are distinguished, since a mask has 64 bits. Jobs with further
// constraints count as jobs without (set 0), which every open node meets: too many nodes are allowed rather than too
// few.
const mostSets = 64

// newEligibility finds, once for all jobs, the different sets of constraints and the nodes that meet each. Set 0 has no
// constraints: every open node meets it.
func newEligibility(c *policy.Cluster) eligibility {
	e := eligibility{sets: map[constraintKey]int{}, masks: make([]uint64, len(c.Nodes)),
		largest: make([]int, 1, mostSets)}
	e.reserved = slices.ContainsFunc(c.Nodes, func(n policy.Node) bool { return len(n.Reserved) > 0 })
	for n := range c.Nodes {
		if c.Nodes[n].Closed == "" {
			e.masks[n] = 1
		}
		e.largest[0] = max(e.largest[0], c.Nodes[n].Total.GPUs)
	}
	for i := range c.Jobs {
		j := &c.Jobs[i]
		key := e.keyOf(j)
		if _, known := e.sets[key]; !known && len(e.largest) < mostSets {
			e.sets[key] = len(e.largest)
			e.add(c, j)
		}
	}
	return e
}

// add adds the set of constraints of job j under the next number and finds the nodes that meet it. A node that is
// closed, or reserved for others, does not meet it, but its GPUs count for the largest node.
func (e *eligibility) add(c *policy.Cluster, j *policy.Job) {
	bit, largest := uint64(1)<<len(e.largest), 0
	only, except := setOf(j.Only), setOf(j.Except)
	for n := range c.Nodes {
		node := &c.Nodes[n]
		if j.GPUType != "" && j.GPUType != node.GPUType || except[node.Name] || only != nil && !only[node.Name] ||
			slices.ContainsFunc(j.Features, func(f string) bool { return !node.Has(f) }) {
			continue
		}
		largest = max(largest, node.Total.GPUs)
		if node.Closed == "" && !reservationBlocks(j, node, c.Now) {
			e.masks[n] |= bit
		}
	}
	e.largest = append(e.largest, largest)
}

// setOf makes a set of names; nil if there are none.
func setOf(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// reservationBlocks reports whether a reservation that is not its own keeps job j off a node: it has begun, or will
// begin before the time limit of the job ends if the job starts now. A job without time limit reaches every later one.
func reservationBlocks(j *policy.Job, n *policy.Node, now time.Time) bool {
	return slices.ContainsFunc(n.Reserved, func(r policy.Reservation) bool {
		over := !r.To.IsZero() && !now.Before(r.To)
		before := j.TimeLimit > 0 && !now.Add(j.TimeLimit).After(r.From)
		return !over && !before && (j.Reservation == "" || j.Reservation != r.Name)
	})
}

// keyOf is the job's constraintKey. Reservation and time limit count only if some node is reserved, so that they do not
// make more sets than needed.
func (e *eligibility) keyOf(j *policy.Job) constraintKey {
	key := constraintKey{gpuType: j.GPUType}
	if len(j.Features)+len(j.Only)+len(j.Except) > 0 {
		key.features, key.only, key.except = joined(j.Features), joined(j.Only), joined(j.Except)
	}
	if e.reserved {
		key.reservation, key.limit = j.Reservation, j.TimeLimit
	}
	return key
}

func joined(list []string) string { return strings.Join(list, "\x00") }

// setOfJob is the number of the job's set of constraints. It is 0, which every open node meets, for a job whose set was
// beyond mostSets.
func (e *eligibility) setOfJob(j *policy.Job) int { return cmp.Or(e.sets[e.keyOf(j)], 0) }

// mayStart reports whether jobs with a set of constraints may be started on node n.
func (e *eligibility) mayStart(set, n int) bool { return e.masks[n]&(1<<set) != 0 }
