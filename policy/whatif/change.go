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

// Bounds of what may be asked.
const (
	mostNodes  = 10_000
	mostCores  = 1 << 16
	mostMemory = 1 << 32 // MiB
)

// AddNodes adds so many nodes, free and open, like one of the cluster; like the one that most GPUs are on, where Like
// is empty.
type AddNodes struct {
	N    int
	Like string
}

// Apply adds them.
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
	like.Foreign, like.ForeignEnds, like.Closed, like.Reserved = gres.Vector{}, nil, "", nil
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

// Drain closes nodes: what runs there goes on, and nothing starts.
type Drain struct{ Nodes []string }

// Apply closes them.
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

// Cores are those of each node: so many, so many more, or so many for each GPU.
type Cores struct {
	Amount int // of More it may be negative
	How    How
}

// How an amount is meant.
type How int

// The ways.
const (
	Exactly How = iota
	More
	PerGPU
)

// Apply changes all nodes that have GPUs.
func (k Cores) Apply(c *Case) error {
	return resize(c, func(n *policy.Node) error {
		cores := k.How.of(k.Amount, n.Total.CPUs, n.Total.GPUs)
		if cores < 1 || cores > mostCores {
			return fmt.Errorf("node %s would have %d cores: want 1 to %d", n.Name, cores, mostCores)
		}
		n.Total.CPUs = cores
		return nil
	})
}

func (k Cores) String() string {
	return "with " + k.How.words(fmt.Sprint(abs(k.Amount)), "cores", k.Amount < 0)
}

// Memory is that of each node: so much, or so much more.
type Memory struct {
	Amount gres.Memory // of More it may be negative
	How    How
}

// Apply changes all nodes that have GPUs.
func (m Memory) Apply(c *Case) error {
	return resize(c, func(n *policy.Node) error {
		memory := m.How.of(int(m.Amount), int(n.Total.Memory), n.Total.GPUs)
		if memory < 1 || memory > mostMemory {
			return fmt.Errorf("node %s would have %s of memory: want some, and at most %s", n.Name,
				gres.Memory(memory), gres.Memory(mostMemory))
		}
		n.Total.Memory = gres.Memory(memory)
		return nil
	})
}

func (m Memory) String() string {
	return "with " + m.How.words(max(m.Amount, -m.Amount).String(), "of memory", m.Amount < 0)
}

func abs(n int) int { return max(n, -n) }

func (h How) of(amount, has, gpus int) int {
	switch h {
	case More:
		return has + amount
	case PerGPU:
		return amount * gpus
	}
	return amount
}

func (h How) words(amount, what string, fewer bool) string {
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

// resize changes what nodes with GPUs have. Jobs that hold more than is then there are placed anew, as by a restart.
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
			evict(j, held)
		}
	}
	return nil
}

// evict has a running job wait where what it holds is no longer there.
func evict(j *policy.Job, left map[string]gres.Vector) {
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

// By is another policy.
type By struct{ Policy policy.Policy }

// Apply takes it.
func (b By) Apply(c *Case) error { c.Policy = b.Policy; return nil }

func (b By) String() string { return "under the policy " + b.Policy.Name }

// Sized is another allocator.
type Sized struct{ Allocator policy.Allocator }

// Apply takes it.
func (s Sized) Apply(c *Case) error { c.Allocator = s.Allocator; return nil }

func (s Sized) String() string { return "under the allocator " + s.Allocator.Name }

// waiting is a job of the case that waits; an error where there is none.
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

// Request is another number of GPUs, or of nodes; 0: as it is. Of a job whose user named a number of nodes and that
// asks for other GPUs only, that number is left to the planner.
type Request struct {
	Job, GPUs, Nodes int

	was policy.Job
}

// NewRequest is such a change of a job of the case.
func NewRequest(c *Case, job, gpus, nodes int) *Request {
	r := &Request{Job: job, GPUs: gpus, Nodes: nodes}
	if j := jobOf(&c.Cluster, job); j != nil {
		r.was = *j
	}
	return r
}

// Apply asks for that. Tasks follow the GPUs of a node where there was one for each.
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
		j.Tasks = gpus / max(1, nodes)
	}
	j.GPUs, j.Nodes = gpus, nodes
	return nil
}

func (r *Request) String() string {
	text := "if it asked for "
	switch {
	case r.GPUs == 0:
		return text + number(r.Nodes, "node") + r.instead(r.was.Nodes, r.Nodes)
	case r.Nodes == 0:
		return text + number(r.GPUs, "GPU") + r.instead(r.was.GPUs, r.GPUs)
	}
	return text + number(r.GPUs, "GPU") + " on " + number(r.Nodes, "node") + r.instead(r.was.GPUs, r.GPUs) + r.spread()
}

func (r *Request) instead(was, is int) string {
	if was == 0 || was == is {
		return ""
	}
	return " instead of " + fmt.Sprint(was)
}

// spread is over how many nodes the GPUs are now, where that would be otherwise.
func (r *Request) spread() string {
	if r.was.Nodes <= 1 || r.was.Nodes == r.Nodes {
		return ""
	}
	if r.was.GPUs == r.GPUs {
		return fmt.Sprintf(" instead of %d", r.was.Nodes)
	}
	return " on " + number(r.was.Nodes, "node")
}

func number(n int, what string) string {
	switch n {
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Checkpoint has a job declare a checkpoint.
type Checkpoint struct{ Job int }

// Apply declares it.
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

// First has one job go before all others.
type First struct{ Job int }

// Apply puts it there.
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

// Apply gives it.
func (p Profiled) Apply(c *Case) error {
	j := jobOf(&c.Cluster, p.Job)
	if j == nil {
		return fmt.Errorf("job %d is not in the snapshot: want one that waits or runs", p.Job)
	}
	j.Profile, j.ProfileName, j.Owed = p.Profile, p.Name, false
	return nil
}

func (p Profiled) String() string { return "with the profile " + p.Name }

// Free drops what keeps a job from nodes: the type of GPU, features, and the nodes that it names.
type Free struct{ Job int }

// Apply drops it.
func (f Free) Apply(c *Case) error {
	j, err := waiting(c, f.Job, "to suit any node")
	if err != nil {
		return err
	}
	j.GPUType, j.Features, j.Only, j.Except = "", nil, nil, nil
	return nil
}

func (f Free) String() string { return "if it suited any node" }

// Modest drops what a job's user asked for of cores and memory in so many words.
type Modest struct{ Job int }

// Apply drops it.
func (m Modest) Apply(c *Case) error {
	j, err := waiting(c, m.Job, "to ask for no cores and memory")
	if err != nil {
		return err
	}
	j.Floor, j.Pace = gres.Vector{}, gres.Vector{}
	return nil
}

func (m Modest) String() string { return "if it named no cores and no memory" }
