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

// shape is nodes that are taken for equal. Where they are not, each is taken for one that has as much of everything
// as any of them.
type shape struct {
	count int
	most  gres.Vector // capacity of each
	sum   gres.Vector // capacity of all
	total gres.Vector // of a node, whatever of it others use
	// leanCores and leanMemory are nodes with the least cores and the least memory a GPU.
	leanCores, leanMemory gres.Vector
	leanGang              gres.Vector // the same in memory, as the share of gangs is reckoned
	types                 []string    // of the GPUs, each once
	mask                  uint64      // a bit for each set of constraints that is met by any of them
}

// share is the smallest proportional share of so many GPUs.
func (sh *shape) share(gpus int) gres.Vector {
	return gres.Vector{
		GPUs: gpus, CPUs: gres.Proportional(sh.leanCores, gpus).CPUs,
		Memory: gres.Proportional(sh.leanMemory, gpus).Memory,
	}
}

// forGangs is the shape as the share of gangs is reckoned.
func (sh *shape) forGangs() *shape {
	gang := *sh
	gang.leanMemory = sh.leanGang
	return &gang
}

func (sh *shape) suits(constraint int) bool { return sh.mask&(1<<constraint) != 0 }

// profilesFor are those by which a job may have to be sized on one of the nodes: its own, and none where a node has
// other GPUs.
func (sh *shape) profilesFor(j *policy.Job) (all []*sensitivity.Profile) {
	for _, gpuType := range sh.types {
		if p := policy.ProfileOn(j.Profile, gpuType); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// add takes in a node with that capacity and GPUs of a type.
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

// Bounds of an instance, which keep its cost near linear in nodes and jobs.
const (
	mostShapes = 24
	mostPairs  = 3000 // classes × shapes, whose sizes are listed
)

func maxShapes(classes int) int { return max(1, min(mostShapes, mostPairs/max(1, classes))) }

// shapeKey is what nodes of a shape have in common.
type shapeKey struct {
	open, total gres.Vector
	gpuType     string
	mask        uint64
}

// group sorts nodes into shapes, by what they have exactly if that makes no more than most shapes, and otherwise by
// what they have roughly.
func (in *instance) group(most int) []shape {
	for coarseness := 0; ; coarseness++ {
		if shapes, fine := in.groupBy(coarseness, most); fine {
			return shapes
		}
	}
}

func (in *instance) groupBy(coarseness, most int) (shapes []shape, fine bool) {
	index := make(map[shapeKey]int)
	for n := range in.nodes {
		s, total := &in.nodes[n], &in.cluster.Nodes[n].Total
		if s.shape = -1; s.open.GPUs == 0 || total.GPUs == 0 {
			continue
		}
		gpuType := in.cluster.Nodes[n].GPUType
		key := shapeKey{s.open, *total, gpuType, in.rules.masks[n]}.rough(coarseness)
		at, known := index[key]
		if !known {
			if at = len(shapes); at == most {
				return nil, false
			}
			index[key] = at
			shapes = append(shapes, shape{})
		}
		shapes[at].add(s.open, *total, in.gangTotals[n], gpuType, in.rules.masks[n])
		s.shape = at
	}
	return shapes, true
}

// rough is the key with amounts of which only the leading binary digits are kept, the fewer the coarser. At last all
// keys are one.
func (k shapeKey) rough(coarseness int) shapeKey {
	if coarseness == 0 {
		return k
	}
	digits := max(0, 8-coarseness)
	k.open, k.total = leading(k.open, digits), leading(k.total, digits)
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

func leading(v gres.Vector, digits int) gres.Vector {
	return gres.Vector{
		GPUs: lead(v.GPUs, max(digits, 3)), CPUs: lead(v.CPUs, digits),
		Memory: gres.Memory(lead(int(v.Memory), digits)),
	}
}

// lead rounds n up to a number with so many binary digits before its zeros.
func lead(n, digits int) int {
	step := 1
	for n>>digits >= step && step < 1<<40 {
		step <<= 1
	}
	return (n + step - 1) / step * step
}

// eligibility is which jobs may be started on which nodes.
type eligibility struct {
	sets     map[constraintKey]int
	reserved bool     // some node is or will be reserved
	largest  []int    // by set: GPUs of the largest node that suits, open or not
	masks    []uint64 // by node: a bit for each set that it meets
}

// constraintKey is what decides where a job may be started.
type constraintKey struct {
	gpuType, features, only, except, reservation string
	limit                                        time.Duration
}

// mostSets is how many sets of constraints are told apart. Jobs with others are taken to suit everywhere: set 0.
const mostSets = 64

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

// add finds the nodes that meet a new set of constraints, which job j has.
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
		if node.Closed == "" && !kept(j, node, c.Now) {
			e.masks[n] |= bit
		}
	}
	e.largest = append(e.largest, largest)
}

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

// kept says whether a reservation keeps job j from a node: it has begun, or would before the job ends that is started
// now.
func kept(j *policy.Job, n *policy.Node, now time.Time) bool {
	return slices.ContainsFunc(n.Reserved, func(r policy.Reservation) bool {
		over := !r.To.IsZero() && !now.Before(r.To)
		before := j.TimeLimit > 0 && !now.Add(j.TimeLimit).After(r.From)
		return !over && !before && (j.Reservation == "" || j.Reservation != r.Name)
	})
}

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

// of is the number of the job's set of constraints; 0 is suited everywhere.
func (e *eligibility) of(j *policy.Job) int { return cmp.Or(e.sets[e.keyOf(j)], 0) }

// may says whether jobs with such constraints may be started on node n.
func (e *eligibility) may(set, n int) bool { return e.masks[n]&(1<<set) != 0 }
