package story

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// Amount divides an amount by who has it: managed jobs up to their shares (Share) and beyond (Lent), jobs that no round
// plans (Foreign), unused on closed nodes (Closed), and unused on open nodes (Idle). Memory is in MiB.
type Amount struct {
	Total   int `json:"total"`
	Share   int `json:"share"`
	Lent    int `json:"lent"`
	Foreign int `json:"foreign"`
	Closed  int `json:"closed"`
	Idle    int `json:"idle"`
}

// Given is what managed jobs have.
func (a Amount) Given() int { return a.Share + a.Lent }

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Total + b.Total, a.Share + b.Share, a.Lent + b.Lent, a.Foreign + b.Foreign, a.Closed + b.Closed,
		a.Idle + b.Idle}
}

// addHeld adds what a job has, divided into the part up to its share and the part beyond it, which is lent.
func (a *Amount) addHeld(has, fair int) {
	a.Share += min(has, fair)
	a.Lent += max(0, has-fair)
}

// addRest counts what is left of the total as idle, or as closed if the node is closed. It is called after all jobs
// were added.
func (a *Amount) addRest(closed bool) {
	rest := max(0, a.Total-a.Share-a.Lent-a.Foreign)
	if closed {
		a.Closed = rest
	} else {
		a.Idle = rest
	}
}

// OnNode is a node and who has what of it by the plan.
type OnNode struct {
	Name   string `json:"name"`
	Type   string `json:"gpu_type,omitempty"`
	Closed string `json:"closed,omitempty"` // why it is closed
	Jobs   int    `json:"jobs"`             // managed jobs
	GPUs   Amount `json:"gpus"`
	Cores  Amount `json:"cores"`
	Memory Amount `json:"memory_mib"`
}

// Runs is a job that runs after a round, or would by its plan.
type Runs struct {
	Job     int              `json:"job"`
	Name    string           `json:"name,omitempty"`
	User    string           `json:"user,omitempty"`
	Profile string           `json:"profile,omitempty"`
	GPUs    int              `json:"gpus"`
	Has     policy.Placement `json:"has"`
	Fair    gres.Vector      `json:"fair"` // the proportional share on one node
	Gain    float64          `json:"gain"` // its speed relative to that with the share
	Since   time.Time        `json:"since,omitzero"`
	New     bool             `json:"new,omitempty"` // started by the round, or restarted with another grant
}

// Top is what runs after a round.
type Top struct {
	Round int       `json:"round"`
	Began time.Time `json:"began"`
	// Shadow: nothing was changed; the figures are those of the plan.
	Shadow bool     `json:"shadow"`
	GPUs   Amount   `json:"gpus"`
	Cores  Amount   `json:"cores"`
	Memory Amount   `json:"memory_mib"`
	Gain   float64  `json:"gain"` // mean over the granted GPUs; 0: no GPU is granted
	Jobs   []Runs   `json:"jobs"`
	Nodes  []OnNode `json:"nodes"`
}

// TopOf extracts what runs from a report: jobs with the largest gain first, then those with more GPUs. A job that the
// plan starts and that does not run yet holds its grant on the nodes and counts in the gain, but is not listed among
// the jobs, since Queue lists it. A GPU that several jobs share counts once.
func TopOf(report *bridge.Report) Top {
	t := Top{Round: report.Round, Began: report.Began, Shadow: report.Shadow, Jobs: []Runs{}, Nodes: []OnNode{}}
	jobs, starts := jobsByID(report), startedJobs(report)
	at := t.addNodes(report.Snapshot.Nodes)
	var held policy.GPUCount
	gpus := 0
	for i := range report.Plan.Decisions {
		d := &report.Plan.Decisions[i]
		job := jobs[d.Job]
		if d.Grant == nil || job == nil {
			continue
		}
		runs := Runs{Job: d.Job, Name: job.Name, User: job.User, Profile: job.ProfileName, GPUs: d.Grant.Total().GPUs,
			Has: *d.Grant, Fair: d.Fair, Gain: d.Gain, Since: job.Started}
		if job.Running == nil || !job.Running.Equal(*d.Grant) {
			runs.New, runs.Since = true, report.Began
		}
		more := held.More(*d.Grant)
		t.addHolder(&runs, more, at)
		t.Gain += float64(runs.Gain * float64(runs.GPUs))
		gpus += more * len(d.Grant.Nodes)
		if runs.New && job.Running == nil && !report.Shadow && !starts[d.Job] {
			continue // its place is taken, and it does not run: the queue has it
		}
		t.Jobs = append(t.Jobs, runs)
	}
	if gpus > 0 {
		t.Gain /= float64(gpus)
	}
	t.sumNodes()
	slices.SortStableFunc(t.Jobs, func(a, b Runs) int {
		return cmp.Or(cmp.Compare(b.Gain, a.Gain), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Job, b.Job))
	})
	return t
}

// startedJobs returns the jobs for which a round sent a start: true if it succeeded, false if it failed or was put off.
func startedJobs(report *bridge.Report) map[int]bool {
	started := map[int]bool{}
	for i := range report.Steps {
		if s := &report.Steps[i]; s.Verb == bridge.Start {
			started[s.Job] = s.Error == "" && !s.PutOff
		}
	}
	return started
}

// addNodes adds the nodes with their capacity and what unmanaged jobs hold, and returns the index of each in t.Nodes by
// name.
func (t *Top) addNodes(nodes []policy.Node) map[string]int {
	at := make(map[string]int, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		at[n.Name] = i
		t.Nodes = append(t.Nodes, OnNode{Name: n.Name, Type: n.GPUType, Closed: n.Closed,
			GPUs:   Amount{Total: n.Total.GPUs, Foreign: n.Foreign.GPUs},
			Cores:  Amount{Total: n.Total.CPUs, Foreign: n.Foreign.CPUs},
			Memory: Amount{Total: int(n.Total.Memory), Foreign: int(n.Foreign.Memory)}})
	}
	return at
}

// addHolder adds what a job holds to the amounts of its nodes. at has the index of each node in t.Nodes, by name. gpus
// is how many GPUs the job adds on each node: a GPU that an earlier job shares with it was counted there and is left
// out. All GPUs count as share, since a job has no more GPUs than it asked for.
func (t *Top) addHolder(runs *Runs, gpus int, at map[string]int) {
	for _, name := range runs.Has.Nodes {
		i, known := at[name]
		if !known {
			continue
		}
		n, has := &t.Nodes[i], runs.Has.PerNode
		n.Jobs++
		n.GPUs.Share += gpus
		n.Cores.addHeld(has.CPUs, runs.Fair.CPUs)
		n.Memory.addHeld(int(has.Memory), int(runs.Fair.Memory))
	}
}

// sumNodes classifies what is left on each node, and sums the amounts of all nodes.
func (t *Top) sumNodes() {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		for _, a := range []*Amount{&n.GPUs, &n.Cores, &n.Memory} {
			a.addRest(n.Closed != "")
		}
		t.GPUs, t.Cores, t.Memory = t.GPUs.plus(n.GPUs), t.Cores.plus(n.Cores), t.Memory.plus(n.Memory)
	}
}
