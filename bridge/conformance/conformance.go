// Package conformance is what every bridge.Slurm promises, as tests. A fake that passes them may stand in for a Slurm,
// and an adapter that passes them on a live cluster may drive one: the package holds both to the same sentences. It
// asks nothing of how a Slurm schedules beyond that it starts what fits soon, and it needs no empty cluster: some free
// GPUs and CPUs on the first nodes will do.
package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Lab is a cluster under test: at least two nodes of 24 CPUs and 8 GPUs in both partitions, RequeueExit=98, KillWait of
// a few seconds, DefMemPerCPU=1000.
type Lab interface {
	Slurm() bridge.Slurm
	// Tickets are those of the user as whom Slurm is driven.
	Tickets() leader.Tickets
	// Submit returns the ID of the job, which is cancelled when the test ends.
	Submit(t testing.TB, job Job) int
	// Reserve keeps a node for a while for the jobs that are submitted to the reservation, which is gone when the test
	// ends and the jobs are.
	Reserve(t testing.TB, reservation Reservation)
	// Drain closes a node to new jobs until the test ends.
	Drain(t testing.TB, node string)
	// Release lets a held job go, as scontrol release does.
	Release(t testing.TB, job int)
	// Administer says something of a job where its user cannot write, as scontrol update AdminComment= does.
	Administer(t testing.TB, job int, says string)
	// Sleep lets the time of the cluster pass.
	Sleep(d time.Duration)
}

// The partitions of a lab. In the managed one job_submit.lua gives jobs with our directive a lease.
const (
	Managed = "synergy"
	Plain   = "plain"
)

// Word is the comment with which a user opts in.
const Word = "synergy-profile=res18.json"

// Job is a submission. What it asks for says Nodes, Tasks, CPUsPerTask, Memory or MemoryPerCPU, GPUs and Pin; the rest
// follows.
type Job struct {
	Name      string // empty: any
	Partition string // empty: Plain
	Comment   string
	Asks      bridge.Request
	Begin     time.Duration // from now; 0: at once
	Lasts     time.Duration // 0: until it is cancelled
	Does      Behaviour
	Form      Form
	NoRequeue bool
	Held      bool
	After     int // a job that must end first; 0: none
	Except    []string

	Limit       time.Duration // whole minutes; 0: none
	Deadline    time.Duration // from now; 0: none
	Priority    int64         // as an operator sets it; 0: as the site likes
	QOS         string        // empty: the default
	Account     string
	Reservation string
}

// A user's account and quality of service in a lab.
const (
	Account = "users"
	QOS     = "normal"
)

// Reservation is one of a single node.
type Reservation struct {
	Name  string
	Node  string
	In    time.Duration // until it begins
	Lasts time.Duration // whole minutes
}

// Behaviour is what a job does about signals.
type Behaviour string

// What the jobs of a lab can do.
const (
	Obeys Behaviour = ""      // dies of any signal
	Saves Behaviour = "saves" // exits with the requeue code a second after USR1
	Hangs Behaviour = "hangs" // ignores SIGTERM
	// its batch script dies of any signal; the only task of its step requeues the job a second after USR1
	Steps Behaviour = "steps"
)

// Form is the way in which a job is submitted.
type Form string

// The forms. An interactive job is marked as one, all others but a plain batch job with a Shape. Only a batch job need
// obey Begin, Lasts and Does.
const (
	Batch       Form = ""
	Array       Form = "array" // of the tasks 1 and 2
	Het         Form = "het"
	Exclusive   Form = "exclusive"
	Interactive Form = "interactive"
)

// claim is one promise.
type claim struct {
	name string
	test func(*bench)
}

// Run holds a Slurm to every promise. The labs may all be the same cluster.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	for _, claim := range slices.Concat(observing(), updating(), leasing(), preempting(), leading()) {
		t.Run(claim.name, func(t *testing.T) {
			t.Parallel()
			claim.test(newBench(t, open(t)))
		})
	}
}

// RunDivided holds a Slurm whose nodes have a type and shards for each GPU, four or more of either, to what it promises
// of them besides.
func RunDivided(t *testing.T, open func(t *testing.T) Lab) {
	for _, claim := range sharing() {
		t.Run(claim.name, func(t *testing.T) {
			t.Parallel()
			claim.test(newBench(t, open(t)))
		})
	}
}

// bench is a lab in the hands of one test.
type bench struct {
	*testing.T
	lab   Lab
	slurm bridge.Slurm
}

func newBench(t *testing.T, lab Lab) *bench { return &bench{T: t, lab: lab, slurm: lab.Slurm()} }

const (
	patience = time.Minute // for what is sure to come
	soon     = 20 * time.Second
	step     = 200 * time.Millisecond
	later    = time.Hour // a begin time that no test lives to see
)

func (b *bench) observe() bridge.Observed {
	b.Helper()
	observed, err := b.slurm.Observe(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return observed
}

// seen is a job in an observation; one that is not there is over.
func seen(observed bridge.Observed, id int) bridge.Job {
	if job := handedOut(observed, id); job != nil {
		return *job
	}
	return bridge.Job{ID: id, State: bridge.Finished}
}

// handedOut is a job as it was handed out, or nil.
func handedOut(observed bridge.Observed, id int) *bridge.Job {
	for _, job := range observed.Jobs {
		if job.ID == id {
			return job
		}
	}
	return nil
}

func (b *bench) job(id int) bridge.Job {
	b.Helper()
	return seen(b.observe(), id)
}

// sight is a condition on a job at a moment.
type sight func(job bridge.Job, at time.Time) bool

func pending(job bridge.Job, _ time.Time) bool { return job.State == bridge.Pending }
func running(job bridge.Job, _ time.Time) bool { return job.State == bridge.Running }
func over(job bridge.Job, _ time.Time) bool    { return job.State == bridge.Finished && !job.Completing }
func leaving(job bridge.Job, _ time.Time) bool { return job.State == bridge.Pending && job.Completing }

// back is a requeued job that may be started again: its teardown is over, and so is the second in which it ended. A job
// that is started in that very second is lost ("Job credential revoked").
func back(job bridge.Job, at time.Time) bool {
	return job.State == bridge.Pending && !job.Completing && at.Unix() > job.Submitted.Unix()
}

// until waits for a sight of the job, as long as limit.
func (b *bench) until(id int, what string, limit time.Duration, holds sight) bridge.Job {
	b.Helper()
	for waited := time.Duration(0); ; waited += step {
		observed := b.observe()
		job := seen(observed, id)
		if holds(job, observed.At) {
			return job
		}
		if waited >= limit {
			b.Fatalf("job %d is not %s after %s: %+v", id, what, limit, job)
		}
		b.lab.Sleep(step)
	}
}

// runs submits a job and waits until it runs.
func (b *bench) runs(job Job) bridge.Job {
	b.Helper()
	return b.until(b.lab.Submit(b, job), "running", patience, running)
}

// waits submits a job that may not begin yet.
func (b *bench) waits(job Job) bridge.Job {
	b.Helper()
	job.Begin = later
	return b.until(b.lab.Submit(b, job), "pending", soon, pending)
}

// update makes the job's request what change makes of it.
func (b *bench) update(job bridge.Job, begin time.Time, change func(*bridge.Request)) error {
	b.Helper()
	request := job.Request
	request.Pin = slices.Clone(request.Pin)
	change(&request)
	return b.slurm.Update(context.Background(), bridge.Update{Job: job.ID, Begin: begin, Request: request,
		Extra: job.Extra})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// in is a begin time that far ahead, in whole seconds as Slurm keeps it.
func (b *bench) in(d time.Duration) time.Time {
	b.Helper()
	return b.observe().At.Add(d).Truncate(time.Second)
}

// nodes are the names of the first n open nodes.
func (b *bench) nodes(n int) []string {
	b.Helper()
	var names []string
	for _, node := range b.observe().Nodes {
		if node.Closed == "" && slices.Contains(node.Partitions, Plain) && len(names) < n {
			names = append(names, node.Name)
		}
	}
	if len(names) < n {
		b.Fatalf("only %v are open: want %d nodes", names, n)
	}
	return names
}

func (b *bench) node(name string) bridge.Node {
	b.Helper()
	for _, node := range b.observe().Nodes {
		if node.Name == name {
			return node
		}
	}
	b.Fatalf("node %s is gone", name)
	return bridge.Node{}
}

// untilNode waits for a node to become something.
func (b *bench) untilNode(name, what string, is func(bridge.Node) bool) {
	b.Helper()
	for waited := time.Duration(0); !is(b.node(name)); waited += step {
		if waited >= patience {
			b.Fatalf("node %s is not %s after %s: %q", name, what, patience, b.node(name).Closed)
		}
		b.lab.Sleep(step)
	}
}

// cpus sets the CPUs of each task, and what follows from it.
func cpus(r *bridge.Request, each int) {
	r.CPUsPerTask, r.CPUs = each, each*r.Tasks
	r.CPUsPerNode = each * ((r.Tasks + r.Nodes - 1) / r.Nodes)
}

// perNode sets the memory on each node.
func perNode(r *bridge.Request, memory gres.Memory) { r.Memory, r.MemoryPerCPU = memory, 0 }

// same compares two requests; no pin is no pin.
func same(a, b bridge.Request) bool {
	if len(a.Pin)+len(b.Pin) == 0 {
		a.Pin, b.Pin = nil, nil
	}
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}
