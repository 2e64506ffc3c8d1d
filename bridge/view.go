package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// scene is an observation sorted by whose business each job is.
type scene struct {
	at      time.Time
	nodes   []Node // as observed, ascending in name
	hall    *hall
	tenants []*tenant // managed, ascending in ID
	outside []Outside // with our word, but left to Slurm
	lost    []*tenant // pending, without our word now, though it once had it
}

// sort sorts an observation. known says of which jobs there is a record.
func (r *Runner) sort(seen Observed, known Records) scene {
	r.reader.sight++
	s := scene{at: seen.At, nodes: seen.Nodes, hall: r.enter(seen.Nodes), tenants: make([]*tenant, 0, len(seen.Jobs))}
	for _, t := range r.read(seen.Jobs) {
		switch {
		case !t.ours && t.mayBeLost():
			if t.record = known.Of(t.ID); t.record != nil {
				s.lost = append(s.lost, t)
			}
		case !t.ours:
		case t.alone != "":
			s.outside = append(s.outside, Outside{t.ID, t.alone})
		default:
			r.equip(t, known)
			s.tenants = append(s.tenants, t)
		}
	}
	return s
}

// mayBeLost says that a round could hand the job back to Slurm, if it ever had it.
func (t *tenant) mayBeLost() bool { return t.State == Pending && !t.Held && t.Shape == "" }

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

// gainNow is the speed of a running tenant relative to the proportional share of its first node.
func (t *tenant) gainNow() float64 {
	if t.profile == nil || len(t.on) == 0 || t.on[0] == elsewhere || t.Runs.PerNode.GPUs == 0 {
		return 1
	}
	return t.profile.Gain(t.Runs.PerNode, gres.Proportional(t.hall.total(t.on[0]), t.Runs.PerNode.GPUs))
}

// snapshot turns a scene into what the planner decides on.
func (r *Runner) snapshot(s *scene) policy.Cluster {
	c := policy.Cluster{
		Now: s.at, Rules: r.Settings.Rules,
		Jobs: blank(r.spare.Jobs, len(s.tenants)), Nodes: blank(r.spare.Nodes, len(s.hall.managed)),
	}
	r.spare = policy.Cluster{}
	for place, i := range s.hall.managed {
		n := &s.nodes[i]
		c.Nodes[place] = policy.Node{
			Name: n.Name, GPUType: n.GPUType, Features: n.Features, Total: n.Total, Closed: n.Closed, Foreign: n.Allocated,
		}
	}
	for i, t := range s.tenants {
		r.describe(t, s, &c.Jobs[i])
		if t.State == Running {
			t.takeOff(c.Nodes)
		}
	}
	for i := range c.Nodes {
		// Never negative: a tenant may have started between the reading of jobs and of nodes.
		c.Nodes[i].Foreign = c.Nodes[i].Foreign.Max(gres.Vector{})
	}
	return c
}

// blank is a list of so many zero values, in spare memory where there is enough.
func blank[T any](spare []T, n int) []T {
	if spare == nil || cap(spare) < n {
		return make([]T, n, n+cap(spare)/4)
	}
	clear(spare[:n])
	return spare[:n]
}

// takeOff takes what a tenant holds off what its nodes have given away.
func (t *tenant) takeOff(nodes []policy.Node) {
	for _, place := range t.on {
		if place != elsewhere {
			nodes[place].Foreign = nodes[place].Foreign.Minus(t.Runs.PerNode)
		}
	}
}

// describe tells the planner what it must know of a tenant.
func (r *Runner) describe(t *tenant, s *scene, j *policy.Job) {
	rec, own, word := t.record, &t.record.Own, &t.said.word
	j.ID, j.Name, j.User, j.Arrival, j.GPUs = t.ID, t.Name, t.User, rec.First, t.Request.GPUs
	j.Nodes, j.Tasks, j.GPUType = own.Nodes, tasksPerNode(own), own.GPUType
	j.Features, j.Only, j.Except = t.Features, s.only(t), t.Except
	j.Profile, j.ProfileName, j.Saves = t.profile, word.Profile, word.Saves
	j.Owed = t.profile == nil && rec.Audit.Found != nil && r.Settings.Audit > 0
	j.Attained, j.Done, j.Length, j.Restart = rec.Attained, rec.Done, t.length(s.at), r.restartCost(t)
	j.Restarts = t.Restarts
	if t.State != Running {
		j.Barred = r.barred(t, s.at)
		return
	}
	j.Running, j.Started, j.Fixed = t.holds, t.since, r.mustStay(t, s.at)
}

// mustStay says that a running job is not to be touched in this round: to stop it would lose it, or cannot be done.
func (r *Runner) mustStay(t *tenant, now time.Time) bool {
	lostWhenStopped := !t.said.word.Saves && !r.Settings.PreemptWithoutCheckpoint
	return lostWhenStopped || t.Completing || !t.even() || now.Sub(t.since) < deaf
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
	return s.hall.parts[t.Partition]
}

// length is what the user declared at the proportional share, or else what the time limit leaves: nobody runs longer, and a job
// that runs faster gets further until then. Slurm begins the limit anew in every run.
func (t *tenant) length(now time.Time) time.Duration {
	switch {
	case t.said.word.Length > 0:
		return t.said.word.Length
	case t.TimeLimit == 0:
		return 0
	case t.State != Running:
		return t.record.Done + t.TimeLimit
	}
	left := max(t.TimeLimit-now.Sub(t.Started), time.Second)
	return t.record.Done + sped(left, t.gain)
}

func (r *Runner) restartCost(t *tenant) time.Duration {
	if t.profile == nil {
		return r.Settings.RestartCost
	}
	return t.profile.RestartCost()
}

// maxBackOff bounds how many rounds a job sits out whose starts fail.
const maxBackOff = 12

// patient is how often in a row a job may come back unasked before it has to wait for its next start.
const patient = 3

// restless says how many rounds a job that came back again and again has to wait.
func (r *Record) restless() int { return min(max(r.Returned-patient, 0), maxBackOff) }

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
	case now.Before(rec.ReturnedAt.Add(time.Duration(rec.restless()) * r.Settings.Round)):
		return fmt.Sprintf("came back to the queue %d times in a row without being asked to leave, is started again later", rec.Returned)
	}
	return ""
}
