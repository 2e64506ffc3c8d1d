package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// Limits of what may be asked.
const (
	mostNodes  = 10_000
	mostCores  = 1 << 16
	mostMemory = 1 << 32 // MiB
)

// AddNodes adds N free, open nodes like the named one. If Like is empty they are like the reference server.
type AddNodes struct {
	N    int
	Like string
}

// Apply adds the nodes under new names, as if they were just delivered: without jobs, not drained, not reserved.
func (a AddNodes) Apply(c *Case) error {
	if a.N < 1 || a.N > mostNodes {
		return fmt.Errorf("%d nodes: want 1 to %d", a.N, mostNodes)
	}
	reference := policy.Reference(c.Cluster.Nodes)
	k := slices.IndexFunc(c.Cluster.Nodes, func(n policy.Node) bool {
		return n.Name == a.Like || a.Like == "" && n.Total == reference
	})
	if k < 0 {
		return unknownNode(a.Like, c)
	}
	names := make(map[string]bool, len(c.Cluster.Nodes))
	for i := range c.Cluster.Nodes {
		names[c.Cluster.Nodes[i].Name] = true
	}
	like := c.Cluster.Nodes[k]
	// As new: no jobs, not drained, not reserved.
	like.Foreign, like.ForeignEnds, like.Closed, like.Reserved = gres.Vector{}, nil, "", nil
	like.Devices = slices.Clone(like.Devices)
	for i := range like.Devices {
		like.Devices[i].Foreign, like.Devices[i].Job = false, 0
	}
	for number, added := 1, 0; added < a.N; number++ {
		if like.Name = fmt.Sprintf("new%d", number); !names[like.Name] {
			c.Cluster.Nodes = append(c.Cluster.Nodes, like)
			added++
		}
	}
	return nil
}

func (a AddNodes) String() string {
	like := ""
	if a.Like != "" {
		like = " like " + a.Like
	}
	if a.N == 1 {
		return "with 1 more node" + like
	}
	return fmt.Sprintf("with %d more nodes%s", a.N, like)
}

func unknownNode(name string, c *Case) error {
	return fmt.Errorf("%.60q is no node of the cluster: want one of its %d, as %s", name, len(c.Cluster.Nodes),
		c.Cluster.Nodes[0].Name)
}

// Drain closes nodes: jobs there keep running, and none start.
type Drain struct{ Nodes []string }

// Apply closes the nodes; one that is closed already keeps its reason.
func (d Drain) Apply(c *Case) error {
	for _, name := range d.Nodes {
		k := slices.IndexFunc(c.Cluster.Nodes, func(n policy.Node) bool { return n.Name == name })
		if k < 0 {
			return unknownNode(name, c)
		}
		c.Cluster.Nodes[k].Closed = cmp.Or(c.Cluster.Nodes[k].Closed, "drained in this question")
	}
	return nil
}

func (d Drain) String() string {
	if len(d.Nodes) > 4 {
		return fmt.Sprintf("with %d nodes drained", len(d.Nodes))
	}
	return "with " + strings.Join(d.Nodes, ", ") + " drained"
}

// Cores changes the cores of each node that has GPUs: to an amount, by an amount, or to an amount per GPU.
type Cores struct {
	Amount int // with More it may be negative
	How    How
}

// How says how an amount is meant.
type How int

// The meanings of an amount.
const (
	Exactly How = iota
	More
	PerGPU
)

// Apply changes all nodes that have GPUs.
func (k Cores) Apply(c *Case) error {
	return resize(c, func(n *policy.Node) error {
		cores := k.How.amountOn(k.Amount, n.Total.CPUs, n.Total.GPUs)
		if cores < 1 || cores > mostCores {
			return fmt.Errorf("node %s would have %d cores: want 1 to %d", n.Name, cores, mostCores)
		}
		n.Total.CPUs = cores
		return nil
	})
}

func (k Cores) String() string {
	return "with " + k.How.amountText(fmt.Sprint(abs(k.Amount)), "cores", k.Amount < 0)
}

// Memory changes the memory of each node, as Cores does for cores.
type Memory struct {
	Amount gres.Memory // with More it may be negative
	How    How
}

// Apply changes all nodes that have GPUs.
func (m Memory) Apply(c *Case) error {
	return resize(c, func(n *policy.Node) error {
		memory := m.How.amountOn(int(m.Amount), int(n.Total.Memory), n.Total.GPUs)
		if memory < 1 || memory > mostMemory {
			return fmt.Errorf("node %s would have %s of memory: want some, and at most %s", n.Name,
				gres.Memory(memory), gres.Memory(mostMemory))
		}
		n.Total.Memory = gres.Memory(memory)
		return nil
	})
}

func (m Memory) String() string {
	return "with " + m.How.amountText(max(m.Amount, -m.Amount).String(), "of memory", m.Amount < 0)
}

func abs(n int) int { return max(n, -n) }

// amountOn is the resulting amount on a node that has so much of the resource, and so many GPUs, now.
func (h How) amountOn(amount, has, gpus int) int {
	switch h {
	case More:
		return has + amount
	case PerGPU:
		return amount * gpus
	}
	return amount
}

// amountText says what an amount means for each node: "24 cores a node more".
func (h How) amountText(amount, what string, fewer bool) string {
	switch {
	case h == PerGPU:
		return amount + " " + what + " a GPU"
	case h == More && fewer:
		return amount + " " + what + " a node less"
	case h == More:
		return amount + " " + what + " a node more"
	}
	return amount + " " + what + " a node"
}

// resize applies change to each node with GPUs, for Cores and Memory, and makes the jobs fit the new nodes. A running
// job that holds more than its node then has is planned as a waiting job. Jobs outside the snapshot go on, with at most
// what the node then has. An error of change ends it.
func resize(c *Case, change func(n *policy.Node) error) error {
	held := make(map[string]gres.Vector, len(c.Cluster.Nodes))
	for i := range c.Cluster.Nodes {
		n := &c.Cluster.Nodes[i]
		if n.Total.GPUs > 0 {
			if err := change(n); err != nil {
				return err
			}
		}
		n.Foreign.CPUs, n.Foreign.Memory = min(n.Foreign.CPUs, n.Total.CPUs), min(n.Foreign.Memory, n.Total.Memory)
		held[n.Name] = n.Total.Minus(n.Foreign)
	}
	for i := range c.Cluster.Jobs {
		if j := &c.Cluster.Jobs[i]; j.Running != nil {
			evictIfTooLarge(j, held)
		}
	}
	return nil
}

// evictIfTooLarge makes a running job wait if its placement does not fit in what is left of its nodes; else it takes
// the placement off what is left. It is called in the order of the snapshot, so the first jobs there keep their places.
func evictIfTooLarge(j *policy.Job, left map[string]gres.Vector) {
	for _, name := range j.Running.Nodes {
		if room, known := left[name]; known && !j.Running.PerNode.Fits(room) {
			j.Running, j.Fixed = nil, false
			return
		}
	}
	for _, name := range j.Running.Nodes {
		left[name] = left[name].Minus(j.Running.PerNode)
	}
}

// By changes the policy.
type By struct{ Policy policy.Policy }

// Apply sets the policy.
func (b By) Apply(c *Case) error { c.Policy = b.Policy; return nil }

func (b By) String() string { return "under the policy " + b.Policy.Name }

// Sized changes the allocator.
type Sized struct{ Allocator policy.Allocator }

// Apply sets the allocator.
func (s Sized) Apply(c *Case) error { c.Allocator = s.Allocator; return nil }

func (s Sized) String() string { return "under the allocator " + s.Allocator.Name }

// waiting returns the waiting job with an ID. The error, if there is no such job or it runs, is for the user; what
// names the change in it.
func waiting(c *Case, job int, what string) (*policy.Job, error) {
	switch j := jobOf(&c.Cluster, job); {
	case j == nil:
		return nil, fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", job)
	case j.Running != nil:
		return nil, fmt.Errorf("job %d runs already: %s is for a job that waits", job, what)
	default:
		return j, nil
	}
}

// Request changes the number of GPUs or nodes of a job; 0 keeps it. If only the GPUs change, a number of nodes named by
// the user is dropped and left to the planner.
type Request struct {
	Job, GPUs, Nodes int

	was policy.Job // the job as it is, for String
}

// NewRequest makes a Request for a job of the case and remembers the job for String.
func NewRequest(c *Case, job, gpus, nodes int) *Request {
	r := &Request{Job: job, GPUs: gpus, Nodes: nodes}
	if j := jobOf(&c.Cluster, job); j != nil {
		r.was = *j
	}
	return r
}

// Apply changes the request. If the job has one task per GPU, the tasks follow the GPUs. Task counts are per node, so
// whether it has is known only if its user named the number of nodes. If the planner chooses how many nodes the new
// GPUs are on, as many tasks as before are assumed on each, as far as there are GPUs.
func (r *Request) Apply(c *Case) error {
	j, err := waiting(c, r.Job, "another number of GPUs or nodes")
	if err != nil {
		return err
	}
	gpus, nodes := cmp.Or(r.GPUs, j.GPUs), r.Nodes
	switch {
	case gpus < 1 || gpus > mostCores:
		return fmt.Errorf("%d GPUs for job %d: want at least 1", gpus, r.Job)
	case nodes < 0 || nodes > mostNodes:
		return fmt.Errorf("%d nodes for job %d: want 1 to %d", nodes, r.Job, mostNodes)
	case nodes > 0 && gpus%nodes != 0:
		return fmt.Errorf("%d GPUs for job %d cannot be divided equally over %d nodes", gpus, r.Job, nodes)
	}
	if j.Nodes > 0 && j.Tasks > 1 && j.Tasks == j.GPUs/j.Nodes {
		j.Tasks = min(j.Tasks, gpus)
		if nodes > 0 {
			j.Tasks = gpus / nodes
		}
	}
	j.GPUs, j.Nodes = gpus, nodes
	return nil
}

func (r *Request) String() string {
	text := "if it asked for "
	switch {
	case r.GPUs == 0:
		return text + countedNoun(r.Nodes, "node") + r.insteadText(r.was.Nodes, r.Nodes)
	case r.Nodes == 0:
		return text + countedNoun(r.GPUs, "GPU") + r.insteadText(r.was.GPUs, r.GPUs)
	}
	return text + countedNoun(
		r.GPUs,
		"GPU",
	) + " on " + countedNoun(
		r.Nodes,
		"node",
	) + r.insteadText(
		r.was.GPUs,
		r.GPUs,
	) + r.spreadText()
}

// insteadText names the former number, if there was another one.
func (r *Request) insteadText(was, is int) string {
	if was == 0 || was == is {
		return ""
	}
	return " instead of " + fmt.Sprint(was)
}

// spreadText names the former number of nodes, if there were several and not as many as are asked for now.
func (r *Request) spreadText() string {
	if r.was.Nodes <= 1 || r.was.Nodes == r.Nodes {
		return ""
	}
	if r.was.GPUs == r.GPUs {
		return fmt.Sprintf(" instead of %d", r.was.Nodes)
	}
	return " on " + countedNoun(r.was.Nodes, "node")
}

// countedNoun is a count with its noun: "one core", "4 cores".
func countedNoun(n int, what string) string {
	switch n {
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Checkpoint makes a job declare a checkpoint.
type Checkpoint struct{ Job int }

// Apply declares the checkpoint. A running job that was fixed for want of one may be stopped then.
func (k Checkpoint) Apply(c *Case) error {
	j := jobOf(&c.Cluster, k.Job)
	switch {
	case j == nil:
		return fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", k.Job)
	case j.Saves:
		return fmt.Errorf("job %d has declared a checkpoint already", k.Job)
	}
	j.Saves, j.Fixed = true, false
	return nil
}

func (k Checkpoint) String() string { return "if it declared a checkpoint" }

// First puts one job ahead of all others.
type First struct{ Job int }

// Apply puts the job first in the policy's order.
func (f First) Apply(c *Case) error {
	if _, err := waiting(c, f.Job, "to go first"); err != nil {
		return err
	}
	c.Policy = c.Policy.First(f.Job)
	return nil
}

func (f First) String() string { return "if it went first" }

// Profiled gives a job a profile.
type Profiled struct {
	Job     int
	Name    string
	Profile *sensitivity.Profile
}

// Apply sets the profile. The job is no longer held to its share because another profile was wrong (Job.Owed).
func (p Profiled) Apply(c *Case) error {
	j := jobOf(&c.Cluster, p.Job)
	if j == nil {
		return fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", p.Job)
	}
	j.Profile, j.ProfileName, j.Owed = p.Profile, p.Name, false
	return nil
}

func (p Profiled) String() string { return "with the profile " + p.Name }

// Free drops all restrictions to nodes: GPU type, features, and included and excluded nodes.
type Free struct{ Job int }

// Apply drops the restrictions.
func (f Free) Apply(c *Case) error {
	j, err := waiting(c, f.Job, "to suit any node")
	if err != nil {
		return err
	}
	j.GPUType, j.Features, j.Only, j.Except = "", nil, nil, nil
	return nil
}

func (f Free) String() string { return "if it suited any node" }

// Modest drops the cores and memory that a job's user asked for.
type Modest struct{ Job int }

// Apply drops what the job must have (Floor) and what its length was estimated from (Pace).
func (m Modest) Apply(c *Case) error {
	j, err := waiting(c, m.Job, "to ask for no cores and memory")
	if err != nil {
		return err
	}
	j.Floor, j.Pace = gres.Vector{}, gres.Vector{}
	return nil
}

func (m Modest) String() string { return "if it named no cores and no memory" }
