package bridge

import (
	"fmt"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity"
)

// tenant is a managed job with what its comment says.
type tenant struct {
	*Job
	text    *text
	word    Word
	record  *Record              // what is remembered of it, up to the observation; while the round acts, up to what it has seen since
	profile *sensitivity.Profile // nil: none that can be used
	gain    float64              // at which it runs; 0 while it waits
	note    string               // what its user should mend
}

// scene is an observation sorted by whose business each job is.
type scene struct {
	at      time.Time
	nodes   map[string]Node     // of the managed partitions
	names   []string            // of nodes, ascending
	parts   map[string][]string // names of the nodes of each managed partition that has not all of them
	tenants []tenant            // ascending in ID
	outside []Outside           // with our word, but left to Slurm
	lost    []tenant            // pending, without our word now, though it once had it
}

// sort sorts an observation. known says of which jobs there is a record.
func (r *Runner) sort(seen Observed, known Records) scene {
	r.texts = r.texts.keepFor(seen.Jobs)
	s := scene{
		at: seen.At, nodes: make(map[string]Node, len(seen.Nodes)), names: make([]string, 0, len(seen.Nodes)),
		tenants: make([]tenant, 0, len(seen.Jobs)),
	}
	for _, n := range seen.Nodes {
		if n.Total.GPUs > 0 && slices.ContainsFunc(n.Partitions, r.manages) {
			s.nodes[n.Name] = n
			s.names = append(s.names, n.Name)
		}
	}
	s.parts = r.split(s)
	for _, j := range seen.Jobs {
		if j.State == Finished {
			continue
		}
		text := r.texts.of(j)
		if !text.managed || !r.manages(j.Partition) {
			if was := known.Of(j.ID); was != nil && j.State == Pending && !j.Held && j.Shape == "" {
				s.lost = append(s.lost, tenant{Job: j, record: was})
			}
			continue
		}
		if why := leftAlone(j); why != "" {
			s.outside = append(s.outside, Outside{j.ID, why})
			continue
		}
		s.tenants = append(s.tenants, r.tenant(j, text, s.nodes))
	}
	return s
}

// split lists the nodes of the partitions that have only some of them.
func (r *Runner) split(s scene) map[string][]string {
	parts := map[string][]string{}
	for _, part := range r.Settings.Partitions {
		var in []string
		for _, name := range s.names {
			if slices.Contains(s.nodes[name].Partitions, part) {
				in = append(in, name)
			}
		}
		if len(in) < len(s.names) {
			parts[part] = in
		}
	}
	return parts
}

func (r *Runner) manages(partition string) bool {
	return slices.Contains(r.Settings.Partitions, partition)
}

// leftAlone says why a round does not touch a job that carries our word; empty when it does.
func leftAlone(j *Job) string {
	pin := len(j.Request.Pin)
	switch {
	case j.Shape != "":
		return j.Shape
	case j.Held:
		return "held"
	case j.Odd != "":
		return j.Odd
	case j.Request.GPUs < 1:
		return "asks for no GPU"
	case j.Request.Nodes < 1 || j.Request.GPUs%j.Request.Nodes != 0:
		return fmt.Sprintf("%d GPUs cannot be divided equally over %d nodes", j.Request.GPUs, j.Request.Nodes)
	case pin > 0 && pin != j.Request.Nodes && j.State == Pending:
		return fmt.Sprintf("names %d nodes and asks for %d", pin, j.Request.Nodes)
	}
	return ""
}

// tenant reads a managed job's word and looks its profile up. Whatever is wrong with either costs the job no more than its
// profile: it then gets the proportional share, and its user is told why.
func (r *Runner) tenant(j *Job, said *text, nodes map[string]Node) tenant {
	t := tenant{Job: j, text: said, word: said.word}
	err := said.wrong
	if err == nil && said.word.Profile != "" {
		t.profile, err = r.Profiles(said.word.Profile)
	}
	if err != nil {
		t.note = fmt.Sprintf("gets the proportional share: %v", err)
	}
	if j.State == Running {
		t.gain = t.gainOn(nodes)
	}
	return t
}

// gainOn is the speed of a running tenant relative to the proportional share of its first node.
func (t *tenant) gainOn(nodes map[string]Node) float64 {
	if t.profile == nil || len(t.Runs.Nodes) == 0 || t.Runs.PerNode.GPUs == 0 {
		return 1
	}
	n, known := nodes[t.Runs.Nodes[0]]
	if !known {
		return 1
	}
	return t.profile.Gain(t.Runs.PerNode, gres.Proportional(n.Total, t.Runs.PerNode.GPUs))
}

// snapshot turns a scene into what the planner decides on.
func (r *Runner) snapshot(s scene) policy.Cluster {
	c := policy.Cluster{
		Now: s.at, Rules: r.Settings.Rules,
		Jobs: make([]policy.Job, len(s.tenants)), Nodes: make([]policy.Node, 0, len(s.names)),
	}
	held := make(map[string]gres.Vector, len(s.names))
	for i := range s.tenants {
		t := &s.tenants[i]
		c.Jobs[i] = r.policyJob(t, &s)
		for _, name := range t.Runs.Nodes {
			if t.State == Running {
				held[name] = held[name].Plus(t.Runs.PerNode)
			}
		}
	}
	for _, name := range s.names {
		n := s.nodes[name]
		c.Nodes = append(c.Nodes, policy.Node{
			Name: name, GPUType: n.GPUType, Features: n.Features, Total: n.Total, Closed: n.Closed,
			// Never negative: a tenant may have started between the reading of jobs and of nodes.
			Foreign: n.Allocated.Minus(held[name]).Max(gres.Vector{}),
		})
	}
	return c
}

func (r *Runner) policyJob(t *tenant, s *scene) policy.Job {
	rec, own := t.record, &t.record.Own
	j := policy.Job{
		ID: t.ID, Name: t.Name, User: t.User, Arrival: rec.First, GPUs: t.Request.GPUs,
		Nodes: own.Nodes, Tasks: tasksPerNode(own), GPUType: own.GPUType,
		Features: t.Features, Only: s.only(t), Except: t.Except,
		Profile: t.profile, ProfileName: t.word.Profile, Saves: t.word.Saves,
		Attained: rec.Attained, Done: rec.Done, Length: t.length(s.at), Restart: r.restartCost(t),
		Barred: r.barred(t, s.at),
	}
	if t.State == Running {
		j.Running = &policy.Placement{Nodes: t.Runs.Nodes, PerNode: t.Runs.PerNode}
		j.Started = t.Started
		j.Fixed = t.Completing || !t.word.Saves && !r.Settings.PreemptWithoutCheckpoint || !t.even() || s.at.Sub(t.Started) < deaf
		j.Barred = ""
	}
	return j
}

// deaf is how long a job may need from its start until its traps are set. A signal before that would end it.
const deaf = 5 * time.Second

// even says that a running job holds GPUs on all its nodes, the same number on each, as those that we started do.
func (t *tenant) even() bool {
	return len(t.Runs.Nodes) > 0 && t.Runs.PerNode.GPUs*len(t.Runs.Nodes) == t.Request.GPUs
}

func tasksPerNode(own *Request) int {
	if own.Nodes < 1 {
		return max(1, own.Tasks)
	}
	return max(1, (own.Tasks+own.Nodes-1)/own.Nodes)
}

// only lists the nodes that a job can use at all: those that its user named, or those of its partition where there are others.
func (s *scene) only(t *tenant) []string {
	if pin := t.record.Own.Pin; len(pin) > 0 {
		return pin
	}
	return s.parts[t.Partition]
}

// length is what the user declared at the proportional share, or else what the time limit leaves: nobody runs longer, and a job
// that runs faster gets further until then. Slurm begins the limit anew in every run.
func (t *tenant) length(now time.Time) time.Duration {
	switch {
	case t.word.Length > 0:
		return t.word.Length
	case t.TimeLimit == 0:
		return 0
	case t.State != Running:
		return t.record.Done + t.TimeLimit
	}
	left := max(t.TimeLimit-now.Sub(t.Started), time.Second)
	return t.record.Done + time.Duration(float64(left)*t.gain)
}

func (r *Runner) restartCost(t *tenant) time.Duration {
	if t.profile == nil {
		return r.Settings.RestartCost
	}
	return t.profile.RestartCost()
}

// maxBackOff bounds how many rounds a job sits out whose starts fail.
const maxBackOff = 12

// barred says why a waiting job may not start now; empty when it may.
func (r *Runner) barred(t *tenant, now time.Time) string {
	rec := t.record
	rounds := min(rec.Failed-1, maxBackOff)
	again := rec.FailedAt.Add(time.Duration(max(rounds, 0)) * r.Settings.Round)
	switch {
	case t.Dependency:
		return "waits for another job"
	case t.Completing:
		return "its last run is still being cleaned up"
	case rec.NotBefore.After(now):
		return "its user wants it to begin later"
	case rec.Failed > 1 && now.Before(again):
		return fmt.Sprintf("did not start %d times in a row, is tried again later", rec.Failed)
	}
	return ""
}
