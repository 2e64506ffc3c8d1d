package conformance

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// observing lists the claims about Observe and slurm.Splitter.
func observing() []claim {
	return []claim{
		{"APendingJobCarriesWhatItsUserAskedFor", carriesItsRequest},
		{"AJobIsSeenAsItWasSubmitted", asSubmitted},
		{"WhatWasSeenOfAJobStaysAsItWas", observationsStay},
		{"ARunningJobShowsWhatItHolds", showsWhatItHolds},
		{"AForeignJobCountsOnItsNode", foreignCounts},
		{"AGPUCountsOnceOnItsNode", gpusCountOnce},
		{"WhatARoundMustNotTouchHasAShape", hasShape},
		{"AnInteractiveJobSaysSo", interactiveSaysSo},
		{"ATaskThatIsSplitOffItsArrayIsAJobOfItsOwn", splitOff},
		{"AHeldJobIsHeld", heldIsHeld},
		{"AJobThatWaitsForAnotherSaysSo", dependencyShows},
		{"AnExcludedNodeIsSeen", exceptIsSeen},
		{"ADrainedNodeIsClosed", drainedIsClosed},
		{"AFinishedJobIsNotSeen", finishedIsNotSeen},
		{"AJobWithOurWordIsSeenAfterItsEndAndTellsHowItEnded", endIsTold},
		{"WhatASiteGoesByInItsQueueIsTold", queueIsTold},
		{"AReservationIsToldAndSoIsWhoWasSubmittedToIt", reservationIsTold},
	}
}

// carriesItsRequest: an observation shows each kind of request in the fields in which it was submitted, with those that
// Slurm derives. Rounds restore requests from that.
func carriesItsRequest(b *bench) {
	pin := b.nodes(2)[1:]
	for _, c := range []struct {
		name       string
		asks, want slurm.Request
	}{
		{
			"CPUs and GPUs, memory by default",
			slurm.Request{CPUsPerTask: 3, GPUs: 2},
			slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 3, CPUs: 3, CPUsPerNode: 3, MemoryPerCPU: 1000,
				GRES: "gres/gpu:2", GPUs: 2},
		},
		{
			"memory per node",
			slurm.Request{CPUsPerTask: 2, Memory: 7000, GPUs: 1},
			slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 2, Memory: 7000,
				GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"memory per CPU",
			slurm.Request{CPUsPerTask: 2, MemoryPerCPU: 512, GPUs: 1},
			slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 2, CPUs: 2, CPUsPerNode: 2, MemoryPerCPU: 512,
				GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"amounts that follow the GPUs",
			slurm.Request{GPUs: 2, CPUsPerGPU: 3, MemoryPerGPU: 2000},
			slurm.Request{
				Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 6, CPUsPerNode: 1, CPUsPerGPU: 3, MemoryPerGPU: 2000,
				GRES: "gres/gpu:2", GPUs: 2,
			},
		},
		{
			"several tasks",
			slurm.Request{Tasks: 4, CPUsPerTask: 2, Memory: 4000, GPUs: 1},
			slurm.Request{Nodes: 1, Tasks: 4, CPUsPerTask: 2, CPUs: 8, CPUsPerNode: 2, Memory: 4000,
				GRES: "gres/gpu:1", GPUs: 1},
		},
		{
			"a gang",
			slurm.Request{Nodes: 2, Tasks: 2, CPUsPerTask: 2, Memory: 4000, GPUs: 4},
			slurm.Request{Nodes: 2, Tasks: 2, CPUsPerTask: 2, CPUs: 4, CPUsPerNode: 2, Memory: 4000,
				GRES: "gres/gpu:2", GPUs: 4},
		},
		{
			"a node by name",
			slurm.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 1, Pin: pin},
			slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, Memory: 1000,
				GRES: "gres/gpu:1", GPUs: 1, Pin: pin},
		},
	} {
		if job := b.submitWaiting(Job{Asks: c.asks}); !sameRequest(job.Request, c.want) || job.Odd != "" {
			b.Errorf("%s: got %+v, odd %q, want %+v", c.name, job.Request, job.Odd, c.want)
		}
	}
}

// asSubmitted: an observation shows the other fields of a submission, and a plain batch job that waits has nothing for
// which a round would leave it alone.
func asSubmitted(b *bench) {
	before := b.observe().At
	job := b.submitWaiting(Job{Comment: "a user's words", NoRequeue: true})
	switch {
	case job.Comment != "a user's words", job.Partition != Plain, job.User == "", job.Requeue, job.Restarts != 0:
		b.Errorf("got %+v", job)
	case job.Shape != "" || job.Odd != "" || job.Held || job.Dependency || job.Completing || len(job.Runs.Nodes) > 0:
		b.Errorf("a plain batch job that waits is %+v", job)
	case job.Submitted.Before(before.Add(-2 * time.Second)), job.Submitted.After(b.observe().At):
		b.Errorf("submitted at %s, between %s and now", job.Submitted, before)
	}
	ahead := job.Begin.Sub(before)
	if ahead < farBegin-time.Minute || ahead > farBegin+time.Minute {
		b.Errorf("begins in %s, want %s", ahead, farBegin)
	}
}

// observationsStay: a job in an observation is never modified later; after an update there is a new one. Rounds compare
// jobs of different observations by pointer.
func observationsStay(b *bench) {
	id := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 1}}).ID
	seen := b.observe()
	first := jobPointer(seen, id)
	before, pin := *first, b.nodes(1)
	b.must(b.update(before, seen.At.Add(farBegin), func(r *slurm.Request) { setCPUs(r, 2); r.Pin = pin }))
	if now := jobPointer(b.observe(), id); now == first || now.Request.CPUsPerTask != 2 {
		b.Errorf("after an update it is seen as %+v", now)
	}
	if !reflect.DeepEqual(*first, before) {
		b.Errorf("what was seen as %+v became %+v", before, *first)
	}
}

// showsWhatItHolds: a running job shows its nodes, its amounts on each, and which GPUs by index.
func showsWhatItHolds(b *bench) {
	pin := b.nodes(1)
	job := b.submitRunning(Job{Asks: slurm.Request{CPUsPerTask: 3, Memory: 3000, GPUs: 2, Pin: pin}})
	if want := (gres.Vector{GPUs: 2, CPUs: 3, Memory: 3000}); job.Runs.PerNode != want ||
		!slices.Equal(job.Runs.Nodes, pin) {
		b.Errorf("holds %s on %v, want %s on %v", job.Runs.PerNode, job.Runs.Nodes, want, pin)
	}
	if len(job.Runs.Devices) != 1 {
		b.Fatalf("devices %q, want one entry for its one node", job.Runs.Devices)
	}
	counts, err := gres.ParseCounts(job.Runs.Devices[0])
	b.must(err)
	unsaid := func(c gres.Count) bool { return c.Count > 0 && c.Index == "" }
	if n, _ := gres.GPUs(counts); n != 2 || slices.ContainsFunc(counts, unsaid) {
		b.Errorf("devices %q, want which two they are", job.Runs.Devices)
	}
	if at := b.observe().At; job.Started.IsZero() || job.Started.After(at) {
		b.Errorf("started at %s, now is %s", job.Started, at)
	}
}

// foreignCounts: what a job without our directive holds is part of its node's allocation, so that no plan gives it
// away.
func foreignCounts(b *bench) {
	job := b.submitRunning(Job{Asks: slurm.Request{CPUsPerTask: 2, Memory: 2000, GPUs: 1}})
	node := b.node(job.Runs.Nodes[0])
	if !job.Runs.PerNode.Fits(node.Allocated) || !node.Allocated.Fits(node.Total) {
		b.Errorf("job %d holds %s of %s, node %s counts %s", job.ID, job.Runs.PerNode, node.Total, node.Name,
			node.Allocated)
	}
}

// gpusCountOnce: a node's allocated GPUs are as many as the jobs on it hold together, so that no plan counts a GPU
// twice. The test repeats the comparison for some seconds, since jobs and nodes are read one after the other and may
// differ for a moment.
func gpusCountOnce(b *bench) {
	name := b.submitRunning(Job{Asks: slurm.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 2}}).Runs.Nodes[0]
	counted, held := 0, -1
	for waited := time.Duration(0); counted != held && waited < shortLimit; waited += pollInterval {
		observed := b.observe()
		held = 0
		for _, job := range observed.Jobs {
			if slices.Contains(job.Runs.Nodes, name) {
				held += job.Runs.PerNode.GPUs
			}
		}
		at := slices.IndexFunc(observed.Nodes, func(n slurm.Node) bool { return n.Name == name })
		counted = observed.Nodes[at].Allocated.GPUs
		b.lab.Sleep(pollInterval)
	}
	if counted != held {
		b.Errorf("node %s counts %d GPUs, the jobs on it hold %d", name, counted, held)
	}
}

// hasShape: a het job has a Shape, by which rounds leave it alone, and an exclusive one is Whole, by which they give it
// whole nodes.
func hasShape(b *bench) {
	id := b.lab.Submit(b, Job{Form: Het, Begin: farBegin})
	if job := b.waitFor(id, "seen", shortLimit, isAlive); job.Shape == "" {
		b.Errorf("het: no shape: %+v", job)
	}
	id = b.lab.Submit(b, Job{Form: Exclusive, Begin: farBegin})
	if job := b.waitFor(id, "seen", shortLimit, isAlive); job.Shape != "" || !job.Whole {
		b.Errorf("exclusive: not seen to get whole nodes: %+v", job)
	}
}

// splitOff: Split gives a task a job of its own with the request, annotation and begin time of the array, and may be
// repeated. A manager that is no Splitter passes. So does a lab that has no scontrol, if its Split changes nothing.
func splitOff(b *bench) {
	array := b.lab.Submit(b, Job{Form: Array, Begin: farBegin, Asks: slurm.Request{GPUs: 1}})
	stands := func(job slurm.Job, _ time.Time) bool {
		return job.Array == array && slices.Equal(job.Tasks, []int{1, 2})
	}
	whole := b.waitFor(array, "an array of two tasks", shortLimit, stands)
	splits, can := b.slurm.(slurm.Splitter)
	if !can {
		return // rounds then leave arrays to Slurm
	}
	err := splits.Split(context.Background(), array, []int{1})
	// A lab without scontrol: nothing may have changed.
	if err != nil && strings.Contains(err.Error(), "/nonexistent/") {
		b.waitFor(array, "an array of two tasks as before", shortLimit, stands)
		return
	}
	b.must(err)
	b.must(splits.Split(context.Background(), array, []int{1})) // a repetition changes nothing
	rest := b.waitFor(
		array,
		"the last task",
		shortLimit,
		func(job slurm.Job, _ time.Time) bool { return len(job.Tasks) == 0 && job.Task == 2 },
	)
	var own []slurm.Job
	for _, job := range b.observe().Jobs {
		if job.Array == array && job.ID != array {
			own = append(own, *job)
		}
	}
	if len(own) != 1 || own[0].Task != 1 || len(own[0].Tasks) > 0 || own[0].State != slurm.Pending {
		b.Fatalf("split off: %+v", own)
	}
	for _, job := range []slurm.Job{own[0], rest} {
		if !reflect.DeepEqual(job.Request, whole.Request) || job.Extra != whole.Extra || !job.Begin.Equal(whole.Begin) {
			b.Errorf("task %d: got %+v, the array had %+v", job.Task, job, whole)
		}
	}
}

// interactiveSaysSo: interactive and batch jobs are distinguished, because a round must not preempt an interactive job.
func interactiveSaysSo(b *bench) {
	id := b.lab.Submit(b, Job{Form: Interactive})
	if job := b.waitFor(id, "running", shortLimit, isRunning); !job.Interactive || job.Shape != "" {
		b.Errorf("got %+v", job)
	}
	if job := b.submitRunning(Job{}); job.Interactive {
		b.Errorf("a batch job is taken for an interactive one: %+v", job)
	}
}

// isAlive is the condition that a job waits or runs.
func isAlive(job slurm.Job, _ time.Time) bool { return job.State != slurm.Finished }

// heldIsHeld: a held job is distinguished from one that waits for its begin time, since a round must not start a held
// job.
func heldIsHeld(b *bench) {
	id := b.lab.Submit(b, Job{Held: true})
	if job := b.waitFor(id, "pending", shortLimit, isPending); !job.Held {
		b.Errorf("got %+v", job)
	}
	if job := b.submitWaiting(Job{}); job.Held {
		b.Errorf("a job that waits for its begin time is held: %+v", job)
	}
}

// dependencyShows: a dependency of the user shows until it is fulfilled, so that no round plans room for a job that
// Slurm would not start.
func dependencyShows(b *bench) {
	first := b.submitRunning(Job{Lasts: 10 * time.Second}) // it must still run when the second one is submitted
	second := b.lab.Submit(b, Job{After: first.ID})
	if job := b.waitFor(second, "pending", shortLimit, isPending); !job.Dependency {
		b.Errorf("got %+v", job)
	}
	if job := b.waitFor(second, "running", longLimit, isRunning); job.Dependency {
		b.Errorf("it runs and waits for another: %+v", job)
	}
}

// exceptIsSeen: excluded nodes are in Except and not in the request.
func exceptIsSeen(b *bench) {
	except := b.nodes(2)
	if job := b.submitWaiting(Job{Except: except}); !slices.Equal(job.Except, except) || len(job.Request.Pin) != 0 {
		b.Errorf("excludes %v and names %v, want %v and none", job.Except, job.Request.Pin, except)
	}
}

// drainedIsClosed: a node is closed while it is drained, and open before and after. Lab.Drain ends with the test that
// it is given, hence the subtest.
func drainedIsClosed(b *bench) {
	nodes := b.observe().Nodes
	name := nodes[len(nodes)-1].Name
	b.waitForNode(name, "open", isOpen)
	b.Run("drained", func(t *testing.T) {
		b.lab.Drain(t, name)
		newBench(t, b.lab).waitForNode(name, "closed", isClosed)
	})
	b.waitForNode(name, "open again", isOpen)
}

func isOpen(node slurm.Node) bool   { return node.Closed == "" }
func isClosed(node slurm.Node) bool { return node.Closed != "" }

// observableLength is the length of a job that must be seen running before it ends, even if an observation takes
// seconds.
const observableLength = 5 * time.Second

// finishedIsNotSeen: finished jobs without our directive are not observed; no round needs them, and there may be
// thousands.
func finishedIsNotSeen(b *bench) {
	job := b.submitRunning(Job{Lasts: observableLength})
	b.waitFor(job.ID, "over", longLimit, isOver)
	for _, other := range b.observe().Jobs {
		if other.State == slurm.Finished && !other.Completing && !directive.Parse(other.Comment).Managed {
			b.Errorf("job %d is over and seen", other.ID)
		}
	}
}

// endIsTold: a managed job is observed for some time after its end, with how it ended, so that a round learns what
// became of a job that it asked to leave. Its pointer stays the same, since nothing changes any more.
func endIsTold(b *bench) {
	for _, c := range []struct {
		name string
		job  Job
		ends func(id int) error
		want slurm.End
	}{
		{"by itself", Job{Lasts: observableLength}, func(int) error { return nil }, slurm.End{State: "COMPLETED"}},
		{"of a signal that it has no trap for", Job{}, b.signalLater, slurm.End{State: "FAILED", Signal: 10}},
	} {
		c.job.Comment = Directive // in the plain partition, where it has no effect
		id := b.submitRunning(c.job).ID
		b.must(c.ends(id))
		job := b.waitFor(id, "over "+c.name, longLimit, isOverWithEnd)
		if job.End != c.want || job.Comment != Directive {
			b.Errorf("%s: %+v, want the end %+v", c.name, job, c.want)
		}
		first := jobPointer(b.observe(), id)
		b.lab.Sleep(4 * time.Second)
		if jobPointer(b.observe(), id) != first {
			b.Errorf("%s: nothing happens to it any more, and it is told of anew", c.name)
		}
	}
}

// isOverWithEnd is the condition that a job is over and still observed. A job that is missing counts as over, too, but
// has no End.
func isOverWithEnd(job slurm.Job, at time.Time) bool { return isOver(job, at) && job.End.State != "" }

// signalLater sends USR1 to the job's script, two seconds after its start.
func (b *bench) signalLater(id int) error {
	b.lab.Sleep(2 * time.Second)
	return b.slurm.Signal(context.Background(), id, usr1)
}

// queueIsTold: priority, QOS, account, time limit and deadline are observed: the policies order jobs by them, and the
// site's limits apply by them.
func queueIsTold(b *bench) {
	at := b.observe().At
	job := b.submitWaiting(
		Job{Priority: 12345, QOS: QOS, Account: Account, Limit: 30 * time.Minute, Deadline: 5 * time.Hour},
	)
	if job.Priority != 12345 || job.QOS != QOS || job.Account != Account || job.TimeLimit != 30*time.Minute ||
		job.Reservation != "" {
		b.Errorf("got %+v", job)
	}
	if off := job.Deadline.Sub(at) - 5*time.Hour; off < -time.Minute || off > time.Minute {
		b.Errorf("must have ended by %s, want five hours after %s", job.Deadline, at)
	}
	if job := b.submitWaiting(Job{}); job.TimeLimit != 0 || !job.Deadline.IsZero() {
		b.Errorf("a job without a limit has %s until %s", job.TimeLimit, job.Deadline)
	}
}

// reservationIsTold: a reservation is observed, and for a job the one that it was submitted to. The reservation begins
// only in 400 days, since it would keep its nodes from the jobs of other tests.
func reservationIsTold(b *bench) {
	nodes, at := b.nodes(2), b.observe().At
	want := Reservation{Name: fmt.Sprintf("conformance%d", at.UnixNano()), Node: nodes[1], In: 400 * 24 * time.Hour,
		Lasts: time.Hour}
	b.lab.Reserve(b, want)
	job := b.waitFor(b.lab.Submit(b, Job{Reservation: want.Name, Limit: time.Minute}), "pending", shortLimit, isPending)
	if job.Reservation != want.Name || job.Odd != "" {
		b.Errorf("it was submitted to %s: %+v", want.Name, job)
	}
	got := b.reservation(want.Name)
	if off := got.From.Sub(at) - want.In; off.Abs() > time.Minute || got.To.Sub(got.From) != want.Lasts ||
		!slices.Equal(got.Nodes, nodes[1:]) {
		b.Errorf("got %+v, want %+v at %s", got, want, at)
	}
}

// reservation waits for at most a minute until a reservation is observed, and returns it: an adapter may read
// reservations less often than jobs.
func (b *bench) reservation(name string) slurm.Reservation {
	b.Helper()
	for waited := time.Duration(0); waited < longLimit; waited += time.Second {
		for _, r := range b.observe().Reservations {
			if r.Name == name {
				return r
			}
		}
		b.lab.Sleep(time.Second)
	}
	b.Fatalf("reservation %s is not told after %s", name, longLimit)
	return slurm.Reservation{}
}
