package exam

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Snapshot draws cluster number n of a seed, which is always the same. It has what a site has: different kinds of
// servers, drained and removed ones, unmanaged jobs, gangs, and waiting and running jobs with and without profile,
// length, checkpoint and constraints. Small clusters come first, since their breaches are easy to read.
func Snapshot(seed uint64, n int) policy.Cluster {
	d := &draw{rand.New(rand.NewPCG(seed, uint64(n)))}
	nodes, jobs := 1+d.IntN(3+min(n/4, 60)), 1+d.IntN(4+min(n, 400))
	c := policy.Cluster{Now: epoch, Rules: d.rules()}
	for i := range nodes {
		c.Nodes = append(c.Nodes, d.node(i))
	}
	for _, name := range []string{"GrpTRES of account ml", "MaxTRESPerUser of QOS small"} {
		c.Quotas = append(c.Quotas, d.quota(name))
	}
	profiles, free := d.profiles(), map[string]gres.Vector{}
	for _, n := range c.Nodes {
		free[n.Name] = n.Total.Minus(n.Foreign)
	}
	for id := 1; id <= jobs; id++ {
		j := d.job(id, profiles)
		if d.onceIn(2) {
			d.run(&j, c.Nodes, free)
		}
		c.Jobs = append(c.Jobs, j)
	}
	if len(c.Nodes) > 1 && d.onceIn(10) { // a removed node; jobs that run there may go on
		c.Nodes = c.Nodes[:len(c.Nodes)-1]
	}
	return c
}

var epoch = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// draw is a random source.
type draw struct{ *rand.Rand }

// onceIn is true once in n times on average.
func (d *draw) onceIn(n int) bool { return d.IntN(n) == 0 }

// drawOne draws one of the arguments, each as likely.
func drawOne[T any](d *draw, of ...T) T { return of[d.IntN(len(of))] }

// rules draws rules. A value that is listed twice is twice as likely, here and below.
func (d *draw) rules() policy.Rules {
	return policy.Rules{
		MinRun:         drawOne(d, 0, 10*time.Minute),
		MaxPreemptions: drawOne(d, 0, 1, 3, 20),
		MaxRestarts:    drawOne(d, 0, 0, 2, 50),
		Patience:       drawOne(d, 0, time.Minute, 100*time.Hour),
	}
}

// node draws a node with number i: one of five kinds, sometimes reserved, closed, or used by foreign jobs.
func (d *draw) node(i int) policy.Node {
	n := drawOne(d,
		policy.Node{Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}},
		policy.Node{Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, GPUType: "v100"},
		policy.Node{Total: gres.Vector{GPUs: 4, CPUs: 20, Memory: 400 * gres.Gigabyte}, GPUType: "a100",
			Features: []string{"ib"}},
		policy.Node{Total: gres.Vector{GPUs: 6, CPUs: 25, Memory: 333 * gres.Gigabyte},
			Features: []string{"ib", "nvme"}},
		policy.Node{Total: gres.Vector{CPUs: 32, Memory: 128 * gres.Gigabyte}},
	)
	n.Name = fmt.Sprintf("n%03d", i)
	if d.onceIn(3) {
		from := epoch.Add(time.Duration(d.IntN(14)-2) * 10 * time.Minute)
		n.Reserved = []policy.Reservation{{Name: drawOne(d, "maint", "course"), From: from, To: from.Add(time.Hour)}}
	}
	switch d.IntN(8) {
	case 0:
		n.Closed = "drained: a fan"
	case 1:
		n.Foreign = gres.Vector{
			GPUs: d.IntN(n.Total.GPUs + 1), CPUs: d.IntN(n.Total.CPUs + 1),
			Memory: gres.Memory(d.Int64N(int64(n.Total.Memory) + 1)),
		}
	}
	return n
}

// profiles draws models: some need many cores, some much memory, some neither. The first is nil, for jobs without
// profile.
func (d *draw) profiles() []*sensitivity.Profile {
	list := []*sensitivity.Profile{nil}
	for i := range 6 {
		p := &sensitivity.Profile{
			Version: sensitivity.Version, Model: fmt.Sprintf("model-%d", i), Task: "image", GPUType: "v100",
			Batch:       1 + d.IntN(256),
			CoresPerGPU: []float64{1, 3, 6, 9, 12, 24}, MemoryPerGPU: []gres.Memory{20000, 62500, 125000, 250000},
			CheckpointSeconds: float64(d.IntN(60)), StartSeconds: float64(d.IntN(120)),
		}
		cores, memory, full := float64(1+d.IntN(24)), float64(20000+d.IntN(180000)), float64(50+d.IntN(1000))
		for _, c := range p.CoresPerGPU {
			var row []float64
			for _, m := range p.MemoryPerGPU {
				row = append(row, full*min(1, c/cores)*(1+min(1, float64(m)/memory))/2)
			}
			p.Throughput = append(p.Throughput, row)
		}
		list = append(list, p)
	}
	return list
}

// job draws a waiting job, of which every attribute is sometimes set. Its ID rises with id.
func (d *draw) job(id int, profiles []*sensitivity.Profile) policy.Job {
	j := policy.Job{
		ID: 10*id + d.IntN(10), Name: drawOne(d, "train", "", "sweep \u2603"), User: drawOne(d, "ann", "bob", "cem"),
		Arrival: epoch.Add(-time.Duration(d.IntN(200)) * time.Minute),
		GPUs: drawOne(
			d,
			1,
			1,
			1,
			2,
			2,
			4,
			8,
			16,
		), Tasks: drawOne(d, 0, 1, 1, 2, 4), Nodes: drawOne(d, 0, 0, 0, 1, 2),
		Profile: drawOne(d, profiles...), Saves: !d.onceIn(4), Restarts: d.IntN(3),
		Attained: float64(d.IntN(100)) * 900, Done: time.Duration(d.IntN(300)) * time.Minute,
		Length: drawOne(d, 0, time.Hour, 10*time.Hour), Restart: drawOne(d, 30*time.Second, 5*time.Minute),
	}
	if j.Profile != nil {
		j.ProfileName = j.Profile.Model + ".json"
	}
	j.TimeLimit, j.Reservation = drawOne(d, 0, 10*time.Minute, time.Hour, 2*time.Hour), drawOne(d, "", "", "", "maint")
	j.Priority, j.Quotas = d.Int64N(4), drawOne(d, nil, nil, []int{0}, []int{1}, []int{0, 1})
	if d.onceIn(3) {
		j.Floor, j.Pace, j.Ceiling = d.amounts(1, 4, 9, 30), d.amounts(2, 6, 12), d.amounts(2, 5, 10, 24)
	}
	switch d.IntN(16) {
	case 0:
		j.GPUType = drawOne(d, "a100", "v100", "h100")
	case 1:
		j.Features = []string{"ib"}
	case 2:
		j.Only = []string{"n000", "n002"}
	case 3:
		j.Except = []string{"n001"}
	case 4:
		j.Barred = "it depends on job 7"
	case 5:
		j.Profile, j.ProfileName, j.Owed = nil, "", true
	}
	return j
}

// quota draws a quota that is small in some resources and unbounded in others.
func (d *draw) quota(name string) policy.Quota {
	q := policy.Quota{
		Name: name, Jobs: drawOne(d, policy.Unbounded, policy.Unbounded, d.IntN(9)),
		Nodes: drawOne(d, policy.Unbounded, policy.Unbounded, d.IntN(9)),
		GPUs:  drawOne(d, policy.Unbounded, d.IntN(30)), CPUs: drawOne(d, policy.Unbounded, d.IntN(90)),
		Memory: policy.Unbounded,
	}
	if d.onceIn(4) {
		q.Memory = gres.Memory(d.IntN(900)) * gres.Gigabyte
	}
	return q
}

// amounts draws some of these cores, or some memory, or both, or neither.
func (d *draw) amounts(cores ...int) gres.Vector {
	var v gres.Vector
	if d.onceIn(2) {
		v.CPUs = drawOne(d, cores...)
	}
	if d.onceIn(3) {
		v.Memory = drawOne(d, gres.Memory(20), 80, 200, 450) * gres.Gigabyte
	}
	return v
}

// run lets the job run on nodes where its proportional share, or slightly more, is free, and takes that off free; where
// there are too few such nodes the job waits.
func (d *draw) run(j *policy.Job, nodes []policy.Node, free map[string]gres.Vector) {
	width := max(1, j.Nodes, (j.GPUs+7)/8) // no drawn node has more than 8 GPUs
	if j.Barred != "" || j.GPUs%width != 0 {
		return
	}
	kind := nodes[d.IntN(len(nodes))].Total
	if kind.GPUs == 0 {
		return
	}
	size := gres.Proportional(kind, j.GPUs/width)
	// In whole cores for each task: the remainder is raised, and half of the jobs have more.
	size.CPUs += (size.CPUs%max(1, j.Tasks) + d.IntN(2)) * max(1, j.Tasks)
	size.CPUs -= size.CPUs % max(1, j.Tasks)
	var on []string
	for i := range nodes {
		if nodes[i].Total == kind && nodes[i].Closed == "" && size.Fits(free[nodes[i].Name]) && len(on) < width {
			on = append(on, nodes[i].Name)
		}
	}
	if len(on) < width || size.CPUs < 1 {
		return
	}
	for _, name := range on {
		free[name] = free[name].Minus(size)
	}
	slices.Sort(on)
	j.Running = &policy.Placement{Nodes: on, PerNode: size}
	j.Started = epoch.Add(-time.Duration(d.IntN(120)) * time.Minute)
	j.Fixed = !j.Saves && d.onceIn(2)
}
