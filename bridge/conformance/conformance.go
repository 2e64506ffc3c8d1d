// Package conformance tests the promises of every slurm.Manager. A fake that passes may stand in for a Slurm, and an
// adapter that passes on a live cluster may drive one. The suite assumes nothing about how a Slurm schedules, except
// that it soon starts what fits. It needs no empty cluster: some free GPUs and CPUs on the first nodes are enough.
package conformance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Lab is a cluster under test: at least two nodes of 24 CPUs and 8 GPUs in both partitions, RequeueExit=98, KillWait of
// a few seconds, DefMemPerCPU=1000.
type Lab interface {
	Slurm() slurm.Manager
	// Tickets are those of the user whose identity drives Slurm.
	Tickets() leader.Tickets
	// Submit returns the ID of the job, which is cancelled when the test ends.
	Submit(t testing.TB, job Job) int
	// Reserve reserves a node for jobs that are submitted to the reservation. It is deleted when the test and its jobs
	// have ended.
	Reserve(t testing.TB, reservation Reservation)
	// Drain closes a node to new jobs until the test ends.
	Drain(t testing.TB, node string)
	// Release releases a held job, as scontrol release does.
	Release(t testing.TB, job int)
	// Administer sets a job's AdminComment, which its user cannot write.
	Administer(t testing.TB, job int, says string)
	// Sleep lets time pass in the cluster.
	Sleep(d time.Duration)
}

// The partitions of a lab. In Managed, job_submit.lua gives jobs with our directive a lease.
const (
	Managed = "synergy"
	Plain   = "plain"
)

// Directive is the comment with which a user opts in.
const Directive = "synergy-profile=res18.json"

// Job is a submission. Of Asks only Nodes, Tasks, CPUsPerTask, Memory or MemoryPerCPU, CPUsPerGPU, MemoryPerGPU, GPUs
// and Pin are used; the rest follows.
type Job struct {
	Name      string // empty: any
	Partition string // empty: Plain
	Comment   string
	Asks      slurm.Request
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
	Priority    int64         // as set by an operator; 0: the site's default
	QOS         string        // empty: the default
	Account     string
	Reservation string
}

// A user's account and QOS in a lab.
const (
	Account = "users"
	QOS     = "normal"
)

// Reservation is a reservation of one node.
type Reservation struct {
	Name  string
	Node  string
	In    time.Duration // until it begins
	Lasts time.Duration // whole minutes
}

// Behaviour is a job's reaction to signals.
type Behaviour string

// The reactions that jobs of a lab can have.
const (
	Obeys Behaviour = ""      // dies of any signal
	Saves Behaviour = "saves" // exits with the requeue code a second after USR1
	Hangs Behaviour = "hangs" // ignores SIGTERM
	// the batch script dies of any signal; the only task of its step requeues the job a second after USR1
	Steps Behaviour = "steps"
)

// Form is the kind of submission.
type Form string

// The forms. An interactive job is marked as such, and all others but a plain batch job have a Shape, are Whole, or
// have an Array. Only a batch job needs to obey Begin, Lasts and Does.
const (
	Batch       Form = ""
	Array       Form = "array" // with the tasks 1 and 2
	Het         Form = "het"
	Exclusive   Form = "exclusive"
	Interactive Form = "interactive"
)

// claim is one promise of the port, as the name of its test, and the function that tests it.
type claim struct {
	name string
	test func(*bench)
}

// Run tests all promises of a manager without shared GPUs, in parallel. open returns a lab for each test; all may be
// the same cluster.
func Run(t *testing.T, open func(t *testing.T) Lab) {
	for _, claim := range slices.Concat(observing(), updating(), leasing(), preempting(), leading()) {
		t.Run(claim.name, func(t *testing.T) {
			t.Parallel()
			claim.test(newBench(t, open(t)))
		})
	}
}

// RunDivided tests the additional promises of a Slurm with shared GPUs: its nodes have at least four GPUs, each with a
// type of its own and at least four shards.
func RunDivided(t *testing.T, open func(t *testing.T) Lab) {
	for _, claim := range sharing() {
		t.Run(claim.name, func(t *testing.T) {
			t.Parallel()
			claim.test(newBench(t, open(t)))
		})
	}
}

// bench is a lab in use by one test, with the calls that most tests need. Its methods end the test on an unexpected
// error.
type bench struct {
	*testing.T
	lab   Lab
	slurm slurm.Manager
}

func newBench(t *testing.T, lab Lab) *bench { return &bench{T: t, lab: lab, slurm: lab.Slurm()} }

const (
	longLimit    = time.Minute            // limit for what must happen
	shortLimit   = 20 * time.Second       // limit where nothing else must happen first
	pollInterval = 200 * time.Millisecond // between two observations
	farBegin     = time.Hour              // a begin time after the end of any test
)

// observe is the present observation; an error ends the test.
func (b *bench) observe() slurm.Observed {
	b.Helper()
	observed, err := b.slurm.Observe(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return observed
}

// jobIn is a job in an observation. A job that is missing there is returned as finished, since observations leave out
// most finished jobs.
func jobIn(observed slurm.Observed, id int) slurm.Job {
	if job := jobPointer(observed, id); job != nil {
		return *job
	}
	return slurm.Job{ID: id, State: slurm.Finished}
}

// jobPointer is the pointer to a job in an observation, nil if the job is not in it. Tests compare pointers of two
// observations: the same pointer promises that nothing has changed.
func jobPointer(observed slurm.Observed, id int) *slurm.Job {
	for _, job := range observed.Jobs {
		if job.ID == id {
			return job
		}
	}
	return nil
}

// job observes, and returns the job as it is now; a job that is missing in the observation is finished.
func (b *bench) job(id int) slurm.Job {
	b.Helper()
	return jobIn(b.observe(), id)
}

// jobCondition is a condition on an observed job; at is the time of the observation by Slurm's clock. Tests wait for it
// with bench.until.
type jobCondition func(job slurm.Job, at time.Time) bool

// isPending and the next three are conditions on the state of a job. isOver includes jobs that are no longer observed.
// isTearingDown is for a requeued job whose last run is still being cleaned up.
func isPending(job slurm.Job, _ time.Time) bool { return job.State == slurm.Pending }
func isRunning(job slurm.Job, _ time.Time) bool { return job.State == slurm.Running }
func isOver(job slurm.Job, _ time.Time) bool    { return job.State == slurm.Finished && !job.Completing }
func isTearingDown(job slurm.Job, _ time.Time) bool {
	return job.State == slurm.Pending && job.Completing
}

// isBack is the condition that a requeued job can be started again: its teardown is over, and so is the second in which
// it ended. A job that is started in that second is lost ("Job credential revoked").
func isBack(job slurm.Job, at time.Time) bool {
	return job.State == slurm.Pending && !job.Completing && at.Unix() > job.Submitted.Unix()
}

// waitFor observes until a condition on the job holds, and returns the job as it is then. After limit the test ends as
// failed; what describes the condition in its message.
func (b *bench) waitFor(id int, what string, limit time.Duration, holds jobCondition) slurm.Job {
	b.Helper()
	for waited := time.Duration(0); ; waited += pollInterval {
		observed := b.observe()
		job := jobIn(observed, id)
		if holds(job, observed.At) {
			return job
		}
		if waited >= limit {
			b.Fatalf("job %d is not %s after %s: %+v", id, what, limit, job)
		}
		b.lab.Sleep(pollInterval)
	}
}

// submitRunning submits a job, waits until it runs, and returns it.
func (b *bench) submitRunning(job Job) slurm.Job {
	b.Helper()
	return b.waitFor(b.lab.Submit(b, job), "running", longLimit, isRunning)
}

// submitWaiting submits a job with a begin time after the end of the test, and returns it. Such a job cannot start
// before an update of the test lets it.
func (b *bench) submitWaiting(job Job) slurm.Job {
	b.Helper()
	job.Begin = farBegin
	return b.waitFor(b.lab.Submit(b, job), "pending", shortLimit, isPending)
}

// update sends an update with the job's request as modified by change, and without a lease; the annotation stays. The
// job that is passed keeps its request, so a later call with it restores that.
func (b *bench) update(job slurm.Job, begin time.Time, change func(*slurm.Request)) error {
	b.Helper()
	request := job.Request
	request.Pin = slices.Clone(request.Pin)
	change(&request)
	return b.slurm.Update(context.Background(), slurm.Update{Job: job.ID, Begin: begin, Request: request,
		Extra: job.Extra})
}

// must ends the test if there is an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// beginIn is the time d from now by Slurm's clock, in whole seconds, to which Slurm truncates begin times: tests
// compare what they read with what they wrote.
func (b *bench) beginIn(d time.Duration) time.Time {
	b.Helper()
	return b.observe().At.Add(d).Truncate(time.Second)
}

// nodes are the names of the first n open nodes of the plain partition, ascending. With fewer the test ends, because it
// cannot show anything.
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

// node is the node as it is observed now; a missing one ends the test.
func (b *bench) node(name string) slurm.Node {
	b.Helper()
	for _, node := range b.observe().Nodes {
		if node.Name == name {
			return node
		}
	}
	b.Fatalf("node %s is gone", name)
	return slurm.Node{}
}

// waitForNode observes until a condition on a node holds, for at most a minute; what describes the condition when the
// test fails.
func (b *bench) waitForNode(name, what string, is func(slurm.Node) bool) {
	b.Helper()
	for waited := time.Duration(0); !is(b.node(name)); waited += pollInterval {
		if waited >= longLimit {
			b.Fatalf("node %s is not %s after %s: %q", name, what, longLimit, b.node(name).Closed)
		}
		b.lab.Sleep(pollInterval)
	}
}

// setCPUs sets the CPUs of each task, and the totals that Slurm derives from it.
func setCPUs(r *slurm.Request, each int) {
	r.CPUsPerTask, r.CPUs = each, each*r.Tasks
	r.CPUsPerNode = each * ((r.Tasks + r.Nodes - 1) / r.Nodes)
}

// setMemory sets the memory on each node, in MiB, in place of memory per CPU.
func setMemory(r *slurm.Request, memory gres.Memory) { r.Memory, r.MemoryPerCPU = memory, 0 }

// sameRequest reports whether two requests are equal in every field. A nil and an empty node list are the same.
func sameRequest(a, b slurm.Request) bool {
	if len(a.Pin)+len(b.Pin) == 0 {
		a.Pin, b.Pin = nil, nil
	}
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
}
