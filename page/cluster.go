package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/bound"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// longest is how many rows a table has: nobody reads more, and a page stays small whatever the queue.
const longest = 250

// cluster is what the page of a round shows.
type cluster struct {
	Title   string
	Health  Health
	Round   int
	Began   time.Time
	Ago     time.Duration
	Shadow  bool
	GPUs    use
	Gain    float64 // mean over the granted GPUs; 0: none is granted
	Bound   *bound.Certificate
	Nodes   []node
	Jobs    []row
	Waiting []row
	Reasons []reason
	More    more // rows that the tables leave out
	Steps   []step
	Notes   []bridge.Note
	Outside []bridge.Outside
}

// more is how many rows of each table are not shown.
type more struct{ Jobs, Waiting, Notes, Outside int }

// Many says that there are too many nodes to say each amount in words: they are drawn, and told to screen readers.
func (c cluster) Many() bool { return len(c.Nodes) > 64 }

// use divides an amount by who has it: jobs of ours up to their share, beyond it, others, nobody.
type use struct{ Total, Share, Lent, Foreign, Closed, Free int }

// parts are where the segments of a bar of 1000 begin and how wide they are.
func (u use) parts() (all []part) {
	at := 0
	for _, p := range []part{{Kind: "share", N: u.Share}, {Kind: "lent", N: u.Lent}, {Kind: "foreign", N: u.Foreign},
		{Kind: "closed", N: u.Closed}} {
		if p.N > 0 && u.Total > 0 {
			p.At, p.Width = at, min(1000-at, p.N*1000/u.Total)
			at += p.Width
			all = append(all, p)
		}
	}
	return all
}

// Parts is for the template.
func (u use) Parts() []part { return u.parts() }

// part is one segment of a bar.
type part struct {
	Kind      string
	N         int
	At, Width int
}

// node is one node with its GPUs one by one.
type node struct {
	Name, Type, Closed  string
	Cells               []cell
	GPUs, Cores, Memory use
	jobs                []int
}

// cell is one GPU: whose it is.
type cell struct {
	Kind string // share, foreign, closed, free
	Job  int
}

// row is one job of a table.
type row struct {
	Job     policy.Job
	Grant   *policy.Placement
	Fair    gres.Vector
	Gain    float64
	Running bool // it holds its grant already
	Why     string
	Reason  policy.Reason
	Waits   time.Duration
}

// reason is how many jobs wait for it, and what it means.
type reason struct {
	Word  policy.Reason
	Means string
	Fault bool // of the request or of the configuration: waiting alone does not mend it
	N     int
}

// step is what a round did to one job.
type step struct {
	bridge.Step
	At time.Time
}

func clusterOf(report bridge.Report, health Health, now time.Time) cluster {
	c := cluster{
		Title: "synergy-slurmd", Health: health, Round: report.Round, Began: report.Began,
		Ago: now.Sub(report.Began), Shadow: report.Shadow, Bound: report.Certificate,
	}
	c.Jobs, c.Waiting = rowsOf(report)
	c.Gain = meanGain(c.Jobs)
	c.Reasons = reasonsOf(c.Waiting)
	c.Nodes = nodesOf(report.Snapshot, c.Jobs)
	for _, n := range c.Nodes {
		c.GPUs = c.GPUs.plus(n.GPUs)
	}
	for _, s := range report.Steps {
		if s.Verb != bridge.Renew {
			c.Steps = append(c.Steps, step{Step: s})
		}
	}
	c.Jobs, c.More.Jobs = first(c.Jobs)
	c.Waiting, c.More.Waiting = first(c.Waiting)
	c.Notes, c.More.Notes = first(report.Notes)
	c.Outside, c.More.Outside = first(report.Outside)
	c.Steps, _ = first(c.Steps)
	return c
}

func (u use) plus(v use) use {
	return use{u.Total + v.Total, u.Share + v.Share, u.Lent + v.Lent, u.Foreign + v.Foreign, u.Closed + v.Closed,
		u.Free + v.Free}
}

// first are the rows that a table shows, and how many it does not.
func first[T any](rows []T) ([]T, int) {
	if len(rows) <= longest {
		return rows, 0
	}
	return rows[:longest], len(rows) - longest
}

// rowsOf are the granted and the waiting jobs, in the order of the plan.
func rowsOf(report bridge.Report) (granted, waiting []row) {
	jobs := make(map[int]policy.Job, len(report.Snapshot.Jobs))
	for _, job := range report.Snapshot.Jobs {
		jobs[job.ID] = job
	}
	for _, d := range report.Plan.Decisions {
		job, known := jobs[d.Job]
		if !known {
			continue
		}
		r := row{Job: job, Grant: d.Grant, Fair: d.Fair, Gain: d.Gain, Why: d.Why, Reason: d.Reason,
			Waits: report.Snapshot.Now.Sub(job.Arrival)}
		if d.Grant == nil {
			waiting = append(waiting, r)
			continue
		}
		r.Running = job.Running != nil && job.Running.Equal(*d.Grant)
		granted = append(granted, r)
	}
	return granted, waiting
}

func meanGain(granted []row) float64 {
	sum, gpus := 0.0, 0
	for _, r := range granted {
		sum += float64(r.Gain * float64(r.Grant.Total().GPUs))
		gpus += r.Grant.Total().GPUs
	}
	if gpus == 0 {
		return 0
	}
	return sum / float64(gpus)
}

// reasonsOf counts, the most frequent first.
func reasonsOf(waiting []row) (all []reason) {
	counts := map[policy.Reason]int{}
	for _, r := range waiting {
		counts[r.Reason]++
	}
	for word, n := range counts {
		all = append(all, reason{Word: word, Means: meanings[word], Fault: word == policy.Shape, N: n})
	}
	slices.SortFunc(all, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Word, b.Word))
	})
	return all
}

var meanings = map[policy.Reason]string{
	policy.Barred:        "may not start yet, whatever is free",
	policy.Shape:         "no node of the cluster could ever hold it",
	policy.Closed:        "the nodes that could hold it are drained or down",
	policy.Turn:          "jobs that go first hold the GPUs",
	policy.Gang:          "enough GPUs are free, but not together",
	policy.Cores:         "GPUs are free, but not the cores that go with them",
	policy.RAM:           "GPUs are free, but not the memory that goes with them",
	policy.HeldBack:      "what is free is kept for a job that has waited too long",
	policy.InReservation: "a reservation begins before its time limit ends",
	policy.InQuota:       "its account or QOS holds all that the site leaves it",
	policy.Limit:         "it could run if another were stopped, which the rules forbid now",
	policy.Clearing:      "its nodes are emptied for it",
	policy.GivesWay:      "it has just given way to a job that goes first",
	policy.Shrinks:       "it has just given back what it held beyond its share",
}

// nodesOf are the nodes with what the plan gives on them.
func nodesOf(snapshot policy.Cluster, granted []row) []node {
	all := make([]node, len(snapshot.Nodes))
	at := make(map[string]*node, len(all))
	for i, n := range snapshot.Nodes {
		all[i] = node{
			Name: n.Name, Type: n.GPUType, Closed: n.Closed,
			GPUs:   use{Total: n.Total.GPUs, Foreign: n.Foreign.GPUs},
			Cores:  use{Total: n.Total.CPUs, Foreign: n.Foreign.CPUs},
			Memory: use{Total: int(n.Total.Memory), Foreign: int(n.Foreign.Memory)},
		}
		at[n.Name] = &all[i]
	}
	for _, r := range granted {
		for _, name := range r.Grant.Nodes {
			if n := at[name]; n != nil {
				n.give(r)
			}
		}
	}
	for i := range all {
		all[i].settle()
	}
	return all
}

// give books what a job holds on the node.
func (n *node) give(r row) {
	has := r.Grant.PerNode
	n.GPUs.Share += has.GPUs
	n.Cores.book(has.CPUs, r.Fair.CPUs)
	n.Memory.book(int(has.Memory), int(r.Fair.Memory))
	for range has.GPUs {
		n.jobs = append(n.jobs, r.Job.ID)
	}
}

// book divides what a job has into its share and what lies beyond.
func (u *use) book(has, fair int) {
	u.Share += min(has, fair)
	u.Lent += max(0, has-fair)
}

// settle is called when all jobs are booked: what nobody has is free, or closed.
func (n *node) settle() {
	for _, u := range []*use{&n.GPUs, &n.Cores, &n.Memory} {
		rest := max(0, u.Total-u.Share-u.Lent-u.Foreign)
		if n.Closed != "" {
			u.Closed = rest
		} else {
			u.Free = rest
		}
	}
	for _, id := range n.jobs {
		n.Cells = append(n.Cells, cell{Kind: "share", Job: id})
	}
	for _, rest := range []struct {
		kind string
		n    int
	}{{"foreign", n.GPUs.Foreign}, {"closed", n.GPUs.Closed}, {"free", n.GPUs.Free}} {
		for range rest.n {
			n.Cells = append(n.Cells, cell{Kind: rest.kind})
		}
	}
}

// MemoryFree, MemoryTotal and MemoryLent are the memory in words; MemoryLent is empty for none.
func (n node) MemoryFree() string { return story.Gigabytes(gres.Memory(n.Memory.Free)) }

// MemoryTotal is all of it.
func (n node) MemoryTotal() string { return story.Gigabytes(gres.Memory(n.Memory.Total)) }

// MemoryLent is what jobs hold beyond their shares; empty: nothing.
func (n node) MemoryLent() string {
	if n.Memory.Lent == 0 {
		return ""
	}
	return story.Gigabytes(gres.Memory(n.Memory.Lent))
}

// Where names the nodes of a grant, or a few of them.
func (r row) Where() string { return story.Nodes(r.Grant.Nodes) }
