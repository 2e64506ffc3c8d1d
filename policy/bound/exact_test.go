package bound_test

import (
	"cmp"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// The optimum is found by trying every placement and every size of every job, and asking policy.Check of each.
func TestNoPlanThatKeepsThePromisesIsWorthMoreThanTheBound(t *testing.T) {
	r := rand.New(rand.NewSource(7))
	cases, waiting, sum, worst, reached := 0, 0, 0.0, 1.0, 0.0
	for cases < 1000 {
		c := smallCluster(r)
		plan := policy.Decide(c, policy.FIFO(), policy.Tune())
		if err := policy.Check(c, plan); err != nil {
			t.Fatal(err)
		}
		plan = leaveOut(r, plan)
		cert := bound.Certify(&c, plan)
		best := optimum(c, plan)
		if best == 0 {
			continue
		}
		if cases++; len(grantedBy(plan)) < len(c.Jobs) {
			waiting++
		}
		if best > cert.Bound*(1+1e-9) {
			t.Fatalf("%d: a plan is worth %.6f, and the bound is %.6f (%s): %+v", cases, best, cert.Bound, cert.Method,
				c)
		}
		if own := value(c, plan); math.Abs(own-cert.Value) > 1e-8*own { // gains are rounded to a billionth
			t.Fatalf("the plan is worth %.9f, certified as %.9f", own, cert.Value)
		}
		sum, worst, reached = sum+cert.Bound/best, max(worst, cert.Bound/best), reached+cert.Value/best
	}
	n := float64(cases)
	t.Logf("%d cases: the bound is %.2f %% above the optimum in the mean, %.1f %% at most; "+
		"the plans reach %.1f %% of the optimum", cases, 100*(sum/n-1), 100*(worst-1), 100*reached/n)
	if sum/n > 1.1 || waiting < cases/4 {
		t.Errorf("the bound is %.3f of the optimum in the mean; somebody waits in %d of %d", sum/n, waiting, cases)
	}
}

// leaveOut has one of the jobs wait now and then, as an order does that has it wait for somebody else.
func leaveOut(r *rand.Rand, plan policy.Plan) policy.Plan {
	if k := r.Intn(2 * len(plan.Decisions)); k < len(plan.Decisions) && plan.Decisions[k].Grant != nil {
		plan.Decisions[k] = policy.Decision{
			Job:    plan.Decisions[k].Job,
			Reason: policy.HeldBack,
			Why:    "a test has it wait",
		}
	}
	return plan
}

// smallCluster has one to three nodes of one or two shapes, some in use by others or closed, and up to four jobs,
// gangs among them.
func smallCluster(r *rand.Rand) policy.Cluster {
	shapes := []gres.Vector{
		{GPUs: 2, CPUs: 6, Memory: 60 * gres.Gigabyte}, {GPUs: 2, CPUs: 9, Memory: 40 * gres.Gigabyte},
		{GPUs: 3, CPUs: 6, Memory: 90 * gres.Gigabyte},
	}
	c := policy.Cluster{Now: epoch}
	for i := range 1 + r.Intn(3) {
		n := policy.Node{Name: string(rune('a' + i)), Total: shapes[r.Intn(len(shapes))]}
		switch r.Intn(8) {
		case 0:
			n.Foreign = gres.Vector{GPUs: r.Intn(2), CPUs: r.Intn(3), Memory: gres.Memory(r.Intn(20)) * gres.Gigabyte}
		case 1:
			n.Closed = "drained"
		}
		c.Nodes = append(c.Nodes, n)
	}
	drawn := []*sensitivity.Profile{drawProfile(r), drawProfile(r), nil}
	for id := range 1 + r.Intn(4) {
		j := policy.Job{
			ID: id + 1, GPUs: 1 + r.Intn(2), Profile: drawn[r.Intn(3)], Arrival: epoch, Saves: true,
			Tasks: 1 + r.Intn(5)/4,
		}
		switch r.Intn(8) {
		case 0:
			j.GPUs, j.Nodes = 2, 2
		case 1:
			j.Floor = gres.Vector{CPUs: r.Intn(4), Memory: gres.Memory(r.Intn(30)) * gres.Gigabyte}
		case 2:
			j.Ceiling = gres.Vector{CPUs: 2 + r.Intn(3)}
		case 3:
			j.Pace = gres.Vector{CPUs: 1 + r.Intn(4)}
		case 4:
			if r.Intn(2) == 0 {
				j.Barred = "held"
			}
		}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}

func drawProfile(r *rand.Rand) *sensitivity.Profile {
	p := &sensitivity.Profile{
		Version: 1, Model: "drawn", CoresPerGPU: []float64{1, 2, 3, 5},
		MemoryPerGPU: []gres.Memory{10 * gres.Gigabyte, 20 * gres.Gigabyte, 35 * gres.Gigabyte},
	}
	for i := range p.CoresPerGPU {
		row := make([]float64, len(p.MemoryPerGPU))
		for k := range row {
			row[k] = 10 + float64(r.Intn(20))
			if i > 0 {
				row[k] = max(row[k], p.Throughput[i-1][k]+float64(r.Intn(4)))
			}
			if k > 0 {
				row[k] = max(row[k], row[k-1])
			}
		}
		p.Throughput = append(p.Throughput, row)
	}
	return p
}

// optimum is the most that a plan can be worth that runs the jobs of this one, and any of those that wait and are not
// barred; 0 where it grants none.
func optimum(c policy.Cluster, plan policy.Plan) float64 {
	s := search{
		c: c, plan: policy.Plan{Decisions: slices.Clone(plan.Decisions)}, free: map[string]gres.Vector{},
		grants: make([][]grant, len(c.Jobs)), rest: make([]float64, len(c.Jobs)+1), waits: make([]bool, len(c.Jobs)),
	}
	for _, n := range c.Nodes {
		if n.Closed == "" {
			s.free[n.Name] = n.Total.Minus(n.Foreign)
		}
	}
	for at := len(c.Jobs) - 1; at >= 0; at-- {
		s.rest[at] = s.rest[at+1]
		s.waits[at] = plan.Decisions[at].Grant == nil
		if s.waits[at] && c.Jobs[at].Barred != "" {
			continue
		}
		if s.grants[at] = s.grantsOf(at); s.grants[at] == nil && !s.waits[at] {
			return 0 // what the plan grants is not on any menu
		}
		if s.grants[at] != nil {
			s.rest[at] += s.grants[at][0].worth
		}
	}
	s.from(0, 0)
	return s.best
}

type search struct {
	c      policy.Cluster
	plan   policy.Plan
	free   map[string]gres.Vector
	grants [][]grant // of each job that is granted, the best first
	rest   []float64 // the most that the jobs from each on can be worth
	best   float64
	waits  []bool // under the plan that is measured
}

// grant is one that keeps the promises where no other job is granted anything.
type grant struct {
	*policy.Placement
	worth float64
}

func (s *search) from(at int, sum float64) {
	switch {
	case sum+s.rest[at] <= s.best:
		return
	case at == len(s.c.Jobs):
		if policy.Check(s.c, s.plan) == nil {
			s.best = sum
		}
		return
	case s.grants[at] == nil:
		s.from(at+1, sum)
		return
	}
	for _, g := range s.grants[at] {
		if s.take(g.Nodes, g.PerNode) {
			s.plan.Decisions[at].Grant = g.Placement
			s.from(at+1, sum+g.worth)
			s.take(g.Nodes, gres.Vector{}.Minus(g.PerNode))
		}
	}
	if s.waits[at] {
		s.plan.Decisions[at].Grant = nil
		s.from(at+1, sum)
	}
}

// grantsOf asks policy.Check of every place and every size.
func (s *search) grantsOf(at int) (all []grant) {
	j, c := &s.c.Jobs[at], s.c
	c.Jobs = c.Jobs[at : at+1]
	for _, nodes := range s.places(j) {
		for _, size := range s.sizes(j, j.GPUs/len(nodes), nodes) {
			g := &policy.Placement{Nodes: nodes, PerNode: size}
			d := s.plan.Decisions[at]
			d.Grant = g
			if policy.Check(c, policy.Plan{Decisions: []policy.Decision{d}}) == nil {
				all = append(all, grant{g, worth(s.c, j, g)})
			}
		}
	}
	slices.SortFunc(all, func(x, y grant) int { return cmp.Compare(y.worth, x.worth) })
	return all
}

func (s *search) places(j *policy.Job) (all [][]string) {
	for i, n := range s.c.Nodes {
		if j.Nodes <= 1 {
			all = append(all, []string{n.Name})
		}
		for _, m := range s.c.Nodes[i+1:] {
			if j.GPUs == 2 && j.Nodes == 2 {
				all = append(all, []string{n.Name, m.Name})
			}
		}
	}
	return all
}

// sizes are those of the package's range on each of the nodes.
func (s *search) sizes(j *policy.Job, gpus int, nodes []string) (all []gres.Vector) {
	amounts, same := map[gres.Memory]bool{j.Floor.Memory: true}, map[gres.Vector]bool{}
	for _, n := range s.c.Nodes {
		if slices.Contains(nodes, n.Name) {
			same[n.Total] = true
		}
	}
	for total := range same {
		if len(same) == 1 {
			amounts[total.Memory], amounts[gres.Proportional(total, gpus).Memory] = true, true
		}
	}
	if j.Profile != nil {
		for _, m := range j.Profile.MemoryPerGPU {
			amounts[m*gres.Memory(gpus)] = true
		}
	}
	for m := range amounts {
		for cores := 1; cores <= 9; cores++ {
			all = append(all, gres.Vector{GPUs: gpus, CPUs: cores, Memory: m})
		}
	}
	return all
}

func (s *search) take(nodes []string, size gres.Vector) bool {
	for _, n := range nodes {
		if !size.Fits(s.free[n]) {
			return false
		}
	}
	for _, n := range nodes {
		s.free[n] = s.free[n].Minus(size)
	}
	return true
}

// worth is what the package's comment says.
func worth(c policy.Cluster, j *policy.Job, g *policy.Placement) float64 {
	if j.Profile == nil {
		return float64(j.GPUs)
	}
	fair := gres.Proportional(policy.Reference(c.Nodes), g.PerNode.GPUs)
	return float64(j.GPUs) * j.Profile.Rate(sensitivity.ShareOf(g.PerNode)) / j.Profile.Rate(sensitivity.ShareOf(fair))
}

func value(c policy.Cluster, plan policy.Plan) (sum float64) {
	for i, d := range plan.Decisions {
		if d.Grant != nil {
			sum += worth(c, &c.Jobs[i], d.Grant)
		}
	}
	return sum
}
