package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// maxTableRows is the most rows of a table. It keeps a page small however long the queue is.
const maxTableRows = 250

// cluster is the data of a round's page.
type cluster struct {
	Health  Health
	Round   int
	Began   time.Time
	Ago     time.Duration
	Shadow  bool
	Has     []amount // GPUs, cores and memory: used by managed jobs, by other jobs, and idle
	GPUs    Use
	Idle    []stranded
	Gain    float64 // mean over the granted GPUs; 0: no GPU is granted
	Bound   *bound.Certificate
	Nodes   []node
	Jobs    []row
	Queue   queue
	More    more // counts of rows left out
	Steps   []bridge.Step
	Notes   []bridge.Note
	Outside []bridge.Outside
}

// more counts the rows of each table that are not shown.
type more struct{ Now, Jobs, Notes, Outside int }

// amount is one resource, divided by who has it.
type amount struct {
	What string
	Use
	Say func(int) string
}

// stranded is an idle amount that no job can use, and what is missing for that.
type stranded struct{ What, Want string }

// Many says that there are so many nodes that they are drawn smaller.
func (c cluster) Many() bool { return len(c.Nodes) > 64 }

// Use divides an amount of a node or of all nodes. Allocated are Share (to managed jobs, up to their shares), Lent (to
// managed jobs, beyond that) and Foreign (to other jobs). Idle are Closed (on closed nodes), Stranded (no job can use
// it) and Free.
type Use struct{ Total, Share, Lent, Foreign, Closed, Stranded, Free int }

// Idle is what is unused on open nodes.
func (u Use) Idle() int { return u.Stranded + u.Free }

// node is a node with each of its GPUs.
type node struct {
	Name, Type, Closed  string
	Cells               []cell
	GPUs, Cores, Memory Use
	Lacks               string // cores or memory: what its stranded GPUs lack; empty: none are stranded
	Rows                []row  // managed jobs that hold something of it
}

// cell is one GPU and the managed job that holds it; 0: none does.
type cell struct {
	Kind string // share, foreign, closed, stranded, free
	Job  int
}

// row is a job with a grant.
type row struct {
	Job     policy.Job
	Grant   *policy.Placement
	Fair    gres.Vector
	Gain    float64
	Running bool // it already runs with this grant
	Reason  policy.Reason
	gpus    int // on each node; 0 if a row above already counts them, since both jobs share the GPU
}

// clusterOf makes the data of a round's page. Renewed leases are not listed among the steps, since each round renews
// them all. Sums are made before tables are cut to their first rows.
func clusterOf(report bridge.Report, health Health, asked Asked, now time.Time) cluster {
	c := cluster{
		Health: health, Round: report.Round, Began: report.Began, Ago: now.Sub(report.Began), Shadow: report.Shadow,
		Bound: report.Certificate, Queue: queueOf(report, asked), Jobs: rowsOf(report),
	}
	c.Gain = meanGain(c.Jobs)
	c.Nodes = nodesOf(report, c.Jobs)
	c.account()
	for _, s := range report.Steps {
		if s.Verb != bridge.Renew {
			c.Steps = append(c.Steps, s)
		}
	}
	c.Jobs, c.More.Jobs = first(c.Jobs)
	c.Notes, c.More.Notes = first(report.Notes)
	c.Outside, c.More.Outside = first(report.Outside)
	c.Steps, _ = first(c.Steps)
	c.Health.Now, c.More.Now = first(health.Now)
	c.Health.Past, _ = first(health.Past)
	return c
}

// account sums the nodes' amounts, and lists idle amounts that cannot be used and what is missing for that.
func (c *cluster) account() {
	var cores, memory Use
	lacks := map[string]int{}
	for _, n := range c.Nodes {
		c.GPUs, cores, memory = c.GPUs.plus(n.GPUs), cores.plus(n.Cores), memory.plus(n.Memory)
		lacks[n.Lacks] += n.GPUs.Stranded
	}
	c.Has = amounts(c.GPUs, cores, memory)
	for _, s := range []struct {
		n    int
		what string
		want string
	}{
		{lacks["cores"], counted(lacks["cores"], "GPU"), "cores: jobs wait that could use them"},
		{lacks["memory"], counted(lacks["memory"], "GPU"), "memory: jobs wait that could use them"},
		{cores.Stranded, counted(cores.Stranded, "core"), "GPUs: on their nodes none is free"},
		{memory.Stranded, gigabytes(memory.Stranded) + " of memory", "GPUs: on their nodes none is free"},
	} {
		if s.n > 0 {
			c.Idle = append(c.Idle, stranded{s.what, s.want})
		}
	}
}

func amounts(gpus, cores, memory Use) []amount {
	return []amount{{"GPUs", gpus, strconv.Itoa}, {"Cores", cores, strconv.Itoa}, {"Memory", memory, gigabytes}}
}

func gigabytes(mib int) string { return story.Gigabytes(gres.Memory(mib)) }

func (u Use) plus(v Use) Use {
	return Use{u.Total + v.Total, u.Share + v.Share, u.Lent + v.Lent, u.Foreign + v.Foreign, u.Closed + v.Closed,
		u.Stranded + v.Stranded, u.Free + v.Free}
}

// first returns the rows that a table shows, and the number of those left out.
func first[T any](rows []T) ([]T, int) {
	if len(rows) <= maxTableRows {
		return rows, 0
	}
	return rows[:maxTableRows], len(rows) - maxTableRows
}

// rowsOf returns the jobs with a grant, in the order of the plan. A decision about a job that the snapshot does not
// have is left out.
func rowsOf(report bridge.Report) (granted []row) {
	jobs := make(map[int]policy.Job, len(report.Snapshot.Jobs))
	for _, job := range report.Snapshot.Jobs {
		jobs[job.ID] = job
	}
	for _, d := range report.Plan.Decisions {
		job, known := jobs[d.Job]
		if !known || d.Grant == nil {
			continue
		}
		granted = append(granted, row{Job: job, Grant: d.Grant, Fair: d.Fair, Gain: d.Gain, Reason: d.Reason,
			Running: job.Running != nil && job.Running.Equal(*d.Grant)})
	}
	return granted
}

// meanGain is the mean gain over the granted GPUs, where a GPU shared by several jobs counts once; 0 without grants.
func meanGain(granted []row) float64 {
	sum, gpus := 0.0, 0
	var held policy.GPUCount
	for _, r := range granted {
		sum += float64(r.Gain * float64(r.Grant.Total().GPUs))
		gpus += held.More(*r.Grant) * len(r.Grant.Nodes)
	}
	if gpus == 0 {
		return 0
	}
	return sum / float64(gpus)
}

// nodesOf returns the nodes with what the plan grants on them.
func nodesOf(report bridge.Report, granted []row) []node {
	all := make([]node, len(report.Snapshot.Nodes))
	at := make(map[string]*node, len(all))
	for i, n := range report.Snapshot.Nodes {
		all[i] = node{
			Name: n.Name, Type: n.GPUType, Closed: n.Closed,
			GPUs:   Use{Total: n.Total.GPUs, Foreign: n.Foreign.GPUs},
			Cores:  Use{Total: n.Total.CPUs, Foreign: n.Foreign.CPUs},
			Memory: Use{Total: int(n.Total.Memory), Foreign: int(n.Foreign.Memory)},
		}
		at[n.Name] = &all[i]
	}
	var held policy.GPUCount
	for _, r := range granted {
		r.gpus = held.More(*r.Grant)
		for _, name := range r.Grant.Nodes {
			if n := at[name]; n != nil {
				n.give(r)
			}
		}
	}
	if report.Certificate != nil {
		for _, s := range report.Certificate.StrandedOn {
			if n := at[s.Node]; n != nil {
				n.Lacks = s.Lacks
			}
		}
	}
	for i := range all {
		all[i].settle()
	}
	return all
}

// give adds a job's grant to the node.
func (n *node) give(r row) {
	has := r.Grant.PerNode
	n.GPUs.Share += r.gpus
	n.Cores.book(has.CPUs, r.Fair.CPUs)
	n.Memory.book(int(has.Memory), int(r.Fair.Memory))
	n.Rows = append(n.Rows, r)
}

// book divides what a job has into its share and the part beyond it.
func (u *Use) book(has, fair int) {
	u.Share += min(has, fair)
	u.Lent += max(0, has-fair)
}

// settle is called after all grants are added: it classifies the rest as closed, stranded or free. Cores and memory are
// stranded if no GPU of the node is free. GPUs are stranded if the round's certificate found that jobs wait which could
// use them with more cores or memory.
func (n *node) settle() {
	for _, u := range []*Use{&n.GPUs, &n.Cores, &n.Memory} {
		rest := max(0, u.Total-u.Share-u.Lent-u.Foreign)
		switch {
		case n.Closed != "":
			u.Closed = rest
		case u == &n.GPUs && n.Lacks != "", u != &n.GPUs && n.GPUs.Idle() == 0:
			u.Stranded = rest
		default:
			u.Free = rest
		}
	}
	for _, r := range n.Rows {
		n.paint(cell{Kind: "share", Job: r.Job.ID}, r.gpus)
	}
	n.paint(cell{Kind: "foreign"}, n.GPUs.Foreign)
	n.paint(cell{Kind: "closed"}, n.GPUs.Closed)
	n.paint(cell{Kind: "stranded"}, n.GPUs.Stranded)
	n.paint(cell{Kind: "free"}, n.GPUs.Free)
}

// paint adds a cell a number of times, at most mostCells: no node has more GPUs, and a wrong amount in a report must
// not make the page endless.
func (n *node) paint(c cell, times int) {
	n.Cells = append(n.Cells, slices.Repeat([]cell{c}, min(mostCells, max(0, times)))...)
}

const mostCells = 256

// Amounts says in a line for each resource what the node has and which jobs hold it, in the words of Use. Parts that
// are nothing are left out.
func (n node) Amounts() (lines []string) {
	for _, a := range amounts(n.GPUs, n.Cores, n.Memory) {
		stranded := "idle without a GPU"
		if a.What == "GPUs" {
			stranded = "idle for want of " + n.Lacks
		}
		var parts []string
		for _, p := range []struct {
			n    int
			said string
		}{{a.Share, "share"}, {a.Lent, "lent"}, {a.Foreign, "others'"}, {a.Closed, "closed"}, {a.Stranded, stranded},
			{a.Free, "idle"}} {
			if p.n > 0 {
				parts = append(parts, a.Say(p.n)+" "+p.said)
			}
		}
		lines = append(lines, fmt.Sprintf("%s, %s: %s", a.What, a.Say(a.Total), strings.Join(parts, ", ")))
	}
	return lines
}

// Told describes a kind of GPU cell for screen readers.
func (n node) Told(kind string) string {
	switch kind {
	case "foreign":
		return "other people's"
	case "stranded":
		return "idle for want of " + n.Lacks
	case "free":
		return "idle"
	}
	return kind
}

// Where lists the nodes of a grant, or the first of them.
func (r row) Where() string { return story.Nodes(r.Grant.Nodes) }
