package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
	"github.com/synergy-slurmd/synergy-slurmd/share"
)

// shapes are the servers of random clusters: the paper's, and some whose GPUs do not divide their cores.
var shapes = []Node{
	{Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}},
	{Total: gres.Vector{GPUs: 8, CPUs: 24, Memory: 500 * gres.Gigabyte}, GPUType: "v100"},
	{Total: gres.Vector{GPUs: 4, CPUs: 20, Memory: 400 * gres.Gigabyte}, GPUType: "a100", Features: []string{"ib"}},
	{Total: gres.Vector{GPUs: 4, CPUs: 20, Memory: 400 * gres.Gigabyte}, GPUType: "v100"},
	{Total: gres.Vector{GPUs: 6, CPUs: 25, Memory: 333 * gres.Gigabyte}, Features: []string{"ib", "nvme"}},
	{Total: gres.Vector{GPUs: 3, CPUs: 2, Memory: 10 * gres.Gigabyte}},
	{Total: gres.Vector{CPUs: 32, Memory: 128 * gres.Gigabyte}},
}

// wild draws a snapshot with everything in it that a site has: odd shapes, closed nodes, foreign jobs, constraints,
// gangs, jobs that Slurm started by itself with whatever they asked for, nodes that have gone.
func wild(t *rapid.T, profiles []*sensitivity.Profile) Cluster {
	c := Cluster{Now: epoch, Rules: wildRules(t)}
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		c.Nodes = append(c.Nodes, wildNode(t, i))
	}
	if rapid.Bool().Draw(t, "limits") {
		c.Quotas = []Quota{wildQuota(t, "one"), wildQuota(t, "two")}
	}
	if rapid.Bool().Draw(t, "reservations") {
		for i := range c.Nodes {
			c.Nodes[i].Reserved = wildReservations(t)
		}
	}
	free := freeOn(c.Nodes)
	for id := range rapid.IntRange(0, 20).Draw(t, "jobs") {
		j := wildJob(t, id+1, profiles)
		if c.Quotas != nil {
			j.Quotas = wildQuotas(t)
		}
		if rapid.Bool().Draw(t, "runs") {
			run(t, &j, c.Nodes, free, oddSize)
		}
		c.Jobs = append(c.Jobs, j)
	}
	c.UnmanagedGPUs = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "unmanaged GPUs")
	for i := range c.Nodes {
		if rapid.IntRange(0, 19).Draw(t, "overdrawn") == 0 {
			c.Nodes[i].Foreign = c.Nodes[i].Total.Plus(gres.Vector{GPUs: 1, CPUs: 2})
		}
	}
	return c
}

func wildRules(t *rapid.T) Rules {
	return Rules{
		MinRun:         rapid.SampledFrom([]time.Duration{0, 0, 10 * time.Minute}).Draw(t, "min run"),
		MaxPreemptions: rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "max preemptions"),
		MaxRestarts:    rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max restarts"),
		Patience:       rapid.SampledFrom([]time.Duration{0, time.Minute, 1000 * time.Hour}).Draw(t, "patience"),
		Round:          rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "round"),
		Stranded:       rapid.SampledFrom([]float64{0, 1}).Draw(t, "stranded"),
		CallableOnly:   rapid.Bool().Draw(t, "callable only"),
	}
}

func wildNode(t *rapid.T, i int) Node {
	n := rapid.SampledFrom(shapes).Draw(t, "shape")
	n.Name = fmt.Sprintf("n%d", i)
	n.Total.Memory += rapid.SampledFrom([]gres.Memory{0, 0, 0, 1, 100}).Draw(t, "more memory")
	switch rapid.IntRange(0, 7).Draw(t, "node") {
	case 0:
		n.Closed = "drained"
	case 1:
		n.Foreign = gres.Vector{
			GPUs:   rapid.IntRange(0, n.Total.GPUs).Draw(t, "foreign GPUs"),
			CPUs:   rapid.IntRange(0, n.Total.CPUs).Draw(t, "foreign cores"),
			Memory: gres.Memory(rapid.IntRange(0, int(n.Total.Memory)).Draw(t, "foreign memory")),
		}
	}
	return n
}

func wildJob(t *rapid.T, id int, profiles []*sensitivity.Profile) Job {
	j := tameJob(t, id, profiles)
	j.Saves = rapid.IntRange(0, 3).Draw(t, "saves") > 0
	j.Nodes = rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "nodes asked")
	j.Tasks = rapid.SampledFrom([]int{0, 1, 1, 2, 4, 5}).Draw(t, "tasks")
	j.Fixed = !j.Saves && rapid.Bool().Draw(t, "fixed")
	j.Restarts = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "restarts")
	j.TimeLimit = time.Duration(rapid.SampledFrom([]int{0, 5, 30, 60, 61, 100}).Draw(t, "limit")) * time.Minute
	j.Reservation = rapid.SampledFrom([]string{"", "", "", "maint", "course", "other"}).Draw(t, "reservation")
	j.Priority = rapid.Int64Range(0, 3).Draw(t, "priority")
	j.PerCore = rapid.IntRange(0, 2).Draw(t, "memory by the core") == 0
	if rapid.IntRange(0, 2).Draw(t, "terms") == 0 {
		j.Floor, j.Pace, j.Ceiling = wildAmounts(t, "floor"), wildAmounts(t, "pace"), wildAmounts(t, "ceiling")
	}
	switch rapid.IntRange(0, 11).Draw(t, "constraint") {
	case 0:
		j.GPUType = rapid.SampledFrom([]string{"a100", "v100", "h100"}).Draw(t, "type")
	case 1:
		j.Features = []string{[]string{"ib", "nvme|ib"}[j.ID%2]}
	case 2:
		j.Only = []string{"n0", "n2"}
	case 3:
		j.Except = []string{"n1"}
	case 4:
		j.Barred = "it depends on another job"
	}
	return j
}

// wildSharing draws a wild snapshot whose nodes have devices, and some of whose jobs of one GPU share one: some run,
// alone on a device or beside others, also where nobody would have put them. Profiles say how busy the GPU is, or do
// not.
func wildSharing(t *rapid.T, profiles []*sensitivity.Profile) Cluster {
	c, easy := fewGPUs(t), rapid.IntRange(0, 2).Draw(t, "wild") > 0
	if !easy {
		c = wild(t, profiles)
	}
	for n := range c.Nodes {
		c.Nodes[n].Devices = wildDevices(t, &c.Nodes[n])
	}
	free := freeOn(c.Nodes)
	for _, j := range c.Jobs {
		if j.Running != nil {
			for _, name := range j.Running.Nodes {
				free[name] = free[name].Minus(j.Running.PerNode)
			}
		}
	}
	for id := range rapid.IntRange(1, 24).Draw(t, "sharers") {
		j := tameJob(t, 100+id, profiles)
		if !easy {
			j = wildJob(t, 100+id, profiles)
		}
		j.GPUs, j.Nodes, j.Share = 1, 0, wildShare(t)
		if easy && j.Profile == nil {
			j.Floor = gres.Vector{CPUs: 1, Memory: 1000}
		}
		if c.Quotas != nil {
			j.Quotas = wildQuotas(t)
		}
		if len(c.Nodes) > 0 && rapid.Bool().Draw(t, "sits") {
			sitDown(t, &j, &c.Nodes[rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "on node")], free)
		}
		c.Jobs = append(c.Jobs, j)
	}
	for i := range c.Jobs {
		if j := &c.Jobs[i]; j.hasSlot() && rapid.IntRange(0, 3).Draw(t, "measured") == 0 {
			j.Kept = wildKept(t, c.Jobs)
		}
		if j := &c.Jobs[i]; j.Share != nil && rapid.IntRange(0, 9).Draw(t, "unruly") == 0 {
			j.Unruly = true
		}
	}
	return c
}

// wildKept was measured beside any of these jobs, wherever they are now.
func wildKept(t *rapid.T, jobs []Job) *Kept {
	k := &Kept{Part: rapid.SampledFrom([]float64{0.2, 0.8, 0.84, 0.86, 0.89}).Draw(t, "kept")}
	for _, j := range jobs {
		if j.Share != nil && rapid.IntRange(0, 3).Draw(t, "beside") == 0 {
			k.Beside = append(k.Beside, j.ID)
		}
	}
	return k
}

// fewGPUs is a cluster with few GPUs for many jobs, whose shares leave some cores.
func fewGPUs(t *rapid.T) Cluster {
	c := Cluster{Now: epoch, Rules: Rules{Patience: 1000 * time.Hour,
		MaxPreemptions: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max preemptions")}}
	if rapid.IntRange(0, 5).Draw(t, "limits") == 0 {
		c.Quotas = []Quota{wildQuota(t, "one"), wildQuota(t, "two")}
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		gpus := rapid.IntRange(1, 3).Draw(t, "GPUs")
		c.Nodes = append(c.Nodes, Node{Name: fmt.Sprintf("n%d", i), Total: gres.Vector{GPUs: gpus, CPUs: 7*gpus - 1,
			Memory: gres.Memory(gpus)*100000 + 5000}})
	}
	return c
}

func wildShare(t *rapid.T) *share.Request {
	if rapid.IntRange(0, 9).Draw(t, "does not share") == 0 {
		return nil
	}
	return &share.Request{
		Class: rapid.SampledFrom([]share.Class{share.High, share.Low, share.Low}).Draw(t, "class"),
		Memory: rapid.SampledFrom([]gres.Memory{0, 1000, 5000, 5000, 10000, 10000, 20000, 50000,
			90000}).Draw(t, "GPU memory"),
	}
}

// wildDevices are as many as the node has GPUs, most often, and say most often who uses them.
func wildDevices(t *rapid.T, n *Node) (devices []Device) {
	for i := range max(0, n.Total.GPUs-rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "devices less")) {
		devices = append(devices, Device{
			Name:    fmt.Sprintf("g%d", i),
			Memory:  rapid.SampledFrom([]gres.Memory{80000, 80000, 24000}).Draw(t, "memory of the device"),
			Slots:   rapid.SampledFrom([]int{4, 4, 4, 2, 1, 0}).Draw(t, "seats"),
			Foreign: i < n.Foreign.GPUs || rapid.IntRange(0, 19).Draw(t, "foreign") == 0,
			Mode:    rapid.SampledFrom([]share.Mode{"", share.Turns, share.Fill, share.Fill}).Draw(t, "mode"),
		})
	}
	return devices
}

// sitDown lets j run on a device of a node, or on a GPU of its own there, with an odd size.
func sitDown(t *rapid.T, j *Job, n *Node, free map[string]gres.Vector) {
	size := oddSize(t, j, 1, *n)
	if rapid.Bool().Draw(t, "small") {
		size = gres.Vector{GPUs: 1, CPUs: max(1, j.Tasks), Memory: 1000}
	}
	if n.Total.GPUs == 0 || !size.Fits(free[n.Name]) {
		return
	}
	j.Running = &Placement{Nodes: []string{n.Name}, PerNode: size}
	free[n.Name] = free[n.Name].Minus(size)
	if rapid.IntRange(0, 4).Draw(t, "whole") > 0 {
		j.Running.Device = fmt.Sprintf("g%d", rapid.IntRange(0, n.Total.GPUs).Draw(t, "which"))
		back := free[n.Name]
		back.GPUs++ // of those on one device all but one
		free[n.Name] = back
	}
}

// busyModels are the paper's models with figures of the GPU, beside those that have none.
func busyModels(t testing.TB) []*sensitivity.Profile {
	all := paperModels(t)
	for i, busy := range []float64{0.05, 0.2, 0.5, 0.8, 1} {
		p := *paperModel(t, []string{"res50", "gnmt", "lstm", "m5", "alexnet"}[i])
		p.GPUBusy, p.GPUMemory = busy, gres.Memory(8000*(i+1))
		all = append(all, &p)
	}
	return all
}

// wildReservations are past, under way, soon or later, ascending.
func wildReservations(t *rapid.T) []Reservation {
	maint := Reservation{"maint", epoch.Add(time.Duration(rapid.IntRange(-2, 12).Draw(t, "from")) * 10 * time.Minute),
		time.Time{}}
	if rapid.Bool().Draw(t, "ends") {
		maint.To = maint.From.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "for")) * 10 * time.Minute)
	}
	course := Reservation{"course", epoch.Add(time.Hour), epoch.Add(2 * time.Hour)}
	switch rapid.IntRange(0, 5).Draw(t, "reserved") {
	case 0, 1:
		return []Reservation{maint}
	case 2:
		return []Reservation{course}
	case 3:
		if maint.From.Before(course.From) {
			return []Reservation{maint, course}
		}
		return []Reservation{course, maint}
	}
	return nil
}

// wildQuota leaves little of one thing or several.
func wildQuota(t *rapid.T, name string) Quota {
	few := func(what string, most int) int {
		return max(Unbounded, rapid.IntRange(-2*most, most).Draw(t, what)) // most often none
	}
	q := Quota{name, few("jobs", 5), few("nodes", 6), few("GPUs", 10), few("cores", 40), Unbounded}
	if rapid.IntRange(0, 2).Draw(t, "little memory") == 0 {
		q.Memory = gres.Memory(rapid.IntRange(0, 600).Draw(t, "memory")) * gres.Gigabyte
	}
	return q
}

func wildQuotas(t *rapid.T) []int {
	return rapid.SampledFrom([][]int{nil, nil, {0}, {1}, {0, 1}}).Draw(t, "quotas")
}

// wildAmounts are cores and memory on a node, or nothing of one or both.
func wildAmounts(t *rapid.T, what string) gres.Vector {
	return gres.Vector{
		CPUs: rapid.SampledFrom([]int{0, 0, 0, 1, 3, 5, 9, 16, 30}).Draw(t, what+" cores"),
		Memory: rapid.SampledFrom([]gres.Memory{0, 0, 0, 10, 63, 100, 200, 600}).Draw(t,
			what+" memory") * gres.Gigabyte,
	}
}

// tameJob draws a job without constraints that saves.
func tameJob(t *rapid.T, id int, profiles []*sensitivity.Profile) Job {
	j := Job{
		ID: id, Saves: true,
		User:     rapid.SampledFrom([]string{"", "ann", "ann", "bob"}).Draw(t, "user"),
		GPUs:     rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 4, 8, 16}).Draw(t, "GPUs"),
		Profile:  rapid.SampledFrom(profiles).Draw(t, "profile"),
		Arrival:  epoch.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "age")) * 10 * time.Minute),
		Started:  epoch.Add(-time.Duration(rapid.IntRange(0, 4).Draw(t, "started")) * 5 * time.Minute),
		Attained: float64(rapid.IntRange(0, 10).Draw(t, "attained") * 900),
		Done:     time.Duration(rapid.IntRange(0, 3).Draw(t, "done")) * time.Hour,
		Length:   time.Duration(rapid.IntRange(0, 4).Draw(t, "length")) * time.Hour,
		Restart:  rapid.SampledFrom([]time.Duration{0, 30 * time.Second, 10 * time.Minute}).Draw(t, "restart"),
	}
	if j.Profile != nil {
		j.ProfileName = j.Profile.Model
	}
	return j
}

func freeOn(nodes []Node) map[string]gres.Vector {
	free := map[string]gres.Vector{}
	for _, n := range nodes {
		free[n.Name] = n.Total.Minus(n.Foreign)
	}
	return free
}

// drawnSize draws what a job with so many GPUs on a node holds there.
type drawnSize func(t *rapid.T, j *Job, gpus int, n Node) gres.Vector

// run lets j hold a place, if there is one.
func run(t *rapid.T, j *Job, nodes []Node, free map[string]gres.Vector, sized drawnSize) {
	if rapid.IntRange(0, 29).Draw(t, "vanished") == 0 {
		j.Running = &Placement{Nodes: []string{"gone"}, PerNode: gres.Vector{GPUs: j.GPUs, CPUs: 3, Memory: 1000}}
		return
	}
	parts := rapid.SampledFrom(divisors(j.GPUs, 8)).Draw(t, "parts")
	var at []string
	var size gres.Vector
	for _, n := range rapid.Permutation(nodes).Draw(t, "order") {
		if len(at) == 0 {
			size = sized(t, j, j.GPUs/parts, n)
		}
		if len(at) < parts && size.Fits(free[n.Name]) && n.Total.GPUs > 0 {
			at = append(at, n.Name)
		}
	}
	if len(at) < parts {
		return
	}
	slices.Sort(at)
	for _, name := range at {
		free[name] = free[name].Minus(size)
	}
	j.Running = &Placement{Nodes: at, PerNode: size}
}

// oddSize is now and then what no planner would have given.
func oddSize(t *rapid.T, j *Job, gpus int, n Node) gres.Vector {
	if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		return gres.Vector{
			GPUs: gpus, CPUs: rapid.IntRange(1, 24).Draw(t, "cores"),
			Memory: gres.Memory(rapid.IntRange(1, 500).Draw(t, "memory")) * gres.Gigabyte,
		}
	}
	return fineSize(t, j, gpus, n)
}

// fineSize is one that Tune may have given.
func fineSize(t *rapid.T, j *Job, gpus int, n Node) gres.Vector {
	return rapid.SampledFrom(menus{}.menuOf(menuKey{ProfileOn(j.Profile, n.GPUType), gpus, max(1, j.Tasks), n.Total,
		termsOf(j), n.Total, false}).options).Draw(t, "size").Size
}

// shareSize is the proportional one.
func shareSize(_ *rapid.T, _ *Job, gpus int, n Node) gres.Vector {
	return gres.Proportional(n.Total, gpus)
}

// tame draws a snapshot in which everybody saves and nobody else uses the nodes.
func tame(t *rapid.T, profiles []*sensitivity.Profile, sized drawnSize) Cluster {
	c := Cluster{Now: epoch, Rules: Rules{Patience: 1000 * time.Hour}}
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := shapes[0]
		n.Name = fmt.Sprintf("n%d", i)
		c.Nodes = append(c.Nodes, n)
	}
	free := freeOn(c.Nodes)
	for id := range rapid.IntRange(1, 30).Draw(t, "jobs") {
		j := tameJob(t, id+1, profiles)
		if rapid.Bool().Draw(t, "runs") {
			run(t, &j, c.Nodes, free, sized)
		}
		c.Jobs = append(c.Jobs, j)
	}
	return c
}
