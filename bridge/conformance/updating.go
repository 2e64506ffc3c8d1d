package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// updating lists the claims about Update.
func updating() []claim {
	return []claim{
		{"AnUpdateRunsTheJobWithExactlyThatThereAndAtOnce", runsWithExactlyThat},
		{"AGangRunsWithTheSameOnEachOfItsNodes", gangRuns},
		{"AmountsThatFollowTheGPUsAreGivenAndNeverChanged", perGPUIsKept},
		{"AJobSizedPerNodeCanHaveItsMemoryPerCPUBack", memoryPerCPUBack},
		{"WhatAnUpdateSaysIsRead", updateIsRead},
		{"AnEmptyPinClearsThePin", emptyPinClears},
		{"AJobOfSeveralPartitionsRunsInTheOneThatAnUpdateNames", runsInTheOneNamed},
		{"AnUpdateSaidTwiceChangesNothing", twiceIsOnce},
		{"ARunningJobIsNotUpdated", runningIsNotUpdated},
		{"AFinishedJobIsNotPending", finishedIsNotPending},
		{"AHeldJobIsNotUpdated", heldIsNotUpdated},
		{"AnUnknownJobIsGone", unknownIsGone},
		{"CPUsThatNoNodeHasAreRefusedAndTheOwnRequestHeals", impossibleCPUs},
		{"AnUnknownNodeIsRefused", unknownNode},
		{"MemoryThatNoNodeHasIsHealedByTheNextUpdate", impossibleMemory},
	}
}

// runsInTheOneNamed: an update that names one of the job's partitions has it run there, and a later one can give it all
// of them back. The test names the second partition, since Slurm would try the first one anyway.
func runsInTheOneNamed(b *bench) {
	pin := b.nodes(1)
	both := Plain + "," + Managed
	job := b.submitWaiting(Job{Partition: both, Asks: oneGPU(nil), Does: Saves})
	if !slurm.SamePartitions(job.Partition, both) || job.Request.Partition != job.Partition {
		b.Errorf("submitted to %s it is in %s and asks for %s", both, job.Partition, job.Request.Partition)
	}
	b.must(b.update(job, b.observe().At, func(r *slurm.Request) { r.Pin, r.Partition = pin, Managed }))
	if runs := b.waitFor(job.ID, "running", shortLimit, isRunning); runs.Partition != Managed ||
		runs.Request.Partition != "" {
		b.Errorf("it runs in %s and asks for %s, want %s", runs.Partition, runs.Request.Partition, Managed)
	}
	b.requeue(job.ID)
	b.waitFor(job.ID, "back", shortLimit, isBack)
	b.must(b.update(job, b.observe().At.Add(farBegin), func(r *slurm.Request) { r.Partition = both }))
	if again := b.waitFor(job.ID, "pending", shortLimit, isPending); !slurm.SamePartitions(again.Partition, both) {
		b.Errorf("it waits in %s, want %s", again.Partition, both)
	}
}

// heldIsNotUpdated: a held job refuses updates with ErrHeld and stays as it is. An update by an operator could
// otherwise lift the hold.
func heldIsNotUpdated(b *bench) {
	job := b.waitFor(b.lab.Submit(b, Job{Held: true}), "pending", shortLimit, isPending)
	err := b.update(job, b.observe().At, func(r *slurm.Request) { setCPUs(r, 2) })
	if !errors.Is(err, slurm.ErrHeld) {
		b.Errorf("%v: want held", err)
	}
	after := b.waitFor(job.ID, "pending", shortLimit, isPending)
	if after.Request.CPUs != job.Request.CPUs || after.Extra != job.Extra || !after.Held {
		b.Errorf("from %+v to %+v", job, after)
	}
}

// runsWithExactlyThat: after an update a job runs within seconds with exactly the given size on the given node,
// whatever the kinds of amounts it was submitted with. All grants rely on that.
func runsWithExactlyThat(b *bench) {
	pin := b.nodes(1)
	for _, c := range []struct {
		name   string
		asks   slurm.Request
		change func(*slurm.Request)
		want   gres.Vector
	}{
		{
			"fewer CPUs", slurm.Request{CPUsPerTask: 6, Memory: 2000, GPUs: 1},
			func(r *slurm.Request) { setCPUs(r, 2) },
			gres.Vector{GPUs: 1, CPUs: 2, Memory: 2000},
		},
		{
			"more CPUs and less memory", slurm.Request{CPUsPerTask: 1, Memory: 9000, GPUs: 1},
			func(r *slurm.Request) { setCPUs(r, 5); setMemory(r, 3000) },
			gres.Vector{GPUs: 1, CPUs: 5, Memory: 3000},
		},
		{
			"several tasks", slurm.Request{Tasks: 2, CPUsPerTask: 1, Memory: 2000, GPUs: 1},
			func(r *slurm.Request) { setCPUs(r, 3) },
			gres.Vector{GPUs: 1, CPUs: 6, Memory: 2000},
		},
		{
			"memory per node instead of per CPU", slurm.Request{CPUsPerTask: 2, MemoryPerCPU: 2000, GPUs: 1},
			func(r *slurm.Request) { setCPUs(r, 3); setMemory(r, 5000) },
			gres.Vector{GPUs: 1, CPUs: 3, Memory: 5000},
		},
		{
			"a node instead of another's name", slurm.Request{CPUsPerTask: 1, Memory: 1000, GPUs: 1,
				Pin: b.nodes(2)[1:]},
			func(*slurm.Request) {},
			gres.Vector{GPUs: 1, CPUs: 1, Memory: 1000},
		},
	} {
		job := b.submitWaiting(Job{Asks: c.asks, Lasts: 2 * time.Second})
		b.must(b.update(job, b.observe().At, func(r *slurm.Request) { c.change(r); r.Pin = pin }))
		runs := b.waitFor(job.ID, "running "+c.name, shortLimit, isRunning).Runs
		if runs.PerNode != c.want || !slices.Equal(runs.Nodes, pin) {
			b.Errorf("%s: %s on %v, want %s on %v", c.name, runs.PerNode, runs.Nodes, c.want, pin)
		}
	}
}

// perGPUIsKept: a job with amounts per GPU runs with these, and an update that changes them is refused, so a round
// places such jobs and never sizes them.
func perGPUIsKept(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{GPUs: 2, CPUsPerGPU: 3, MemoryPerGPU: 2000}})
	for what, change := range map[string]func(*slurm.Request){
		"CPUs for each GPU":   func(r *slurm.Request) { r.CPUsPerGPU = 4 },
		"memory for each GPU": func(r *slurm.Request) { r.MemoryPerGPU = 0; r.Memory = 1000 },
	} {
		if err := b.update(job, b.beginIn(farBegin), change); !errors.Is(err, slurm.ErrRefused) {
			b.Errorf("other %s: got %v, want ErrRefused", what, err)
		}
	}
	pin := b.nodes(2)[1:]
	b.must(b.update(job, b.observe().At, func(r *slurm.Request) { r.Pin = pin }))
	runs := b.waitFor(job.ID, "running", shortLimit, isRunning).Runs
	if want := (gres.Vector{GPUs: 2, CPUs: 6, Memory: 4000}); runs.PerNode != want || !slices.Equal(runs.Nodes, pin) {
		b.Errorf("%s on %v, want %s on %v", runs.PerNode, runs.Nodes, want, pin)
	}
}

// gangRuns: a job on two nodes gets the same size on both, and one entry of Devices for each.
func gangRuns(b *bench) {
	pin := b.nodes(2)
	job := b.submitWaiting(Job{Asks: slurm.Request{Nodes: 2, Tasks: 2, CPUsPerTask: 1, Memory: 1000, GPUs: 2}})
	b.must(b.update(job, b.observe().At, func(r *slurm.Request) { setCPUs(r, 3); setMemory(r, 2500); r.Pin = pin }))
	runs := b.waitFor(job.ID, "running", shortLimit, isRunning).Runs
	if want := (gres.Vector{GPUs: 1, CPUs: 3, Memory: 2500}); runs.PerNode != want || !slices.Equal(runs.Nodes, pin) {
		b.Errorf("%s on %v, want %s on each of %v", runs.PerNode, runs.Nodes, want, pin)
	}
	if len(runs.Devices) != 2 {
		b.Errorf("devices %q, want one entry a node", runs.Devices)
	}
}

// memoryPerCPUBack: a job that was given an amount of memory per node can have its user's memory per CPU back; Slurm
// keeps both in one field.
func memoryPerCPUBack(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, MemoryPerCPU: 700, GPUs: 1}})
	b.must(
		b.update(
			job,
			b.beginIn(farBegin),
			func(r *slurm.Request) { setCPUs(r, 4); setMemory(r, 5000); r.Pin = b.nodes(1) },
		),
	)
	b.must(b.update(job, b.beginIn(farBegin), func(*slurm.Request) {}))
	if got := b.job(job.ID).Request; !sameRequest(got, job.Request) {
		b.Errorf("restored to %+v, was %+v", got, job.Request)
	}
	b.must(b.update(job, b.observe().At, func(*slurm.Request) {}))
	if got := b.waitFor(job.ID, "running", shortLimit, isRunning).Runs.PerNode; got.Memory != 1400 || got.CPUs != 2 {
		b.Errorf("runs with %s, want two CPUs of 700 MiB", got)
	}
}

// updateIsRead: an observation shows exactly what an update wrote, and comment and submission time are as before.
// Rounds compare the two to see whether an update is still needed.
func updateIsRead(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, GPUs: 1}})
	begin := b.beginIn(farBegin / 2)
	want := job.Request
	setCPUs(&want, 4)
	setMemory(&want, 5000)
	want.Pin = b.nodes(1)
	b.must(b.slurm.Update(context.Background(), slurm.Update{Job: job.ID, Begin: begin, Request: want,
		Extra: `{"v":1}`}))
	got := b.job(job.ID)
	if !sameRequest(got.Request, want) || got.Extra != `{"v":1}` || !got.Begin.Equal(begin) ||
		got.State != slurm.Pending {
		b.Errorf("got %+v, want %+v from %s", got, want, begin)
	}
	if got.Comment != job.Comment || !got.Submitted.Equal(job.Submitted) {
		b.Errorf("comment and submission are %q, %s; were %q, %s", got.Comment, got.Submitted, job.Comment,
			job.Submitted)
	}
}

// emptyPinClears: an update without nodes clears the node list; if it did not, a job handed back to Slurm could start
// only on the old node.
func emptyPinClears(b *bench) {
	job := b.submitWaiting(Job{})
	b.must(b.update(job, b.beginIn(farBegin), func(r *slurm.Request) { r.Pin = b.nodes(1) }))
	if got := b.job(job.ID).Request.Pin; !slices.Equal(got, b.nodes(1)) {
		b.Errorf("pinned to %v, want %v", got, b.nodes(1))
	}
	b.must(b.update(job, b.beginIn(farBegin), func(r *slurm.Request) { r.Pin = nil }))
	if got := b.job(job.ID).Request.Pin; len(got) != 0 {
		b.Errorf("pinned to %v, want none", got)
	}
}

// twiceIsOnce: an update that is sent again changes nothing, so a round may repeat one whose answer was lost.
func twiceIsOnce(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, GPUs: 1}})
	begin := b.beginIn(farBegin)
	say := func() slurm.Job {
		b.must(b.update(job, begin, func(r *slurm.Request) { setCPUs(r, 3); setMemory(r, 4000) }))
		return b.job(job.ID)
	}
	once, twice := say(), say()
	if !sameRequest(once.Request, twice.Request) || !once.Begin.Equal(twice.Begin) || once.Restarts != twice.Restarts {
		b.Errorf("once %+v, twice %+v", once, twice)
	}
}

// runningIsNotUpdated: a running job refuses updates with ErrNotPending and stays as it is. It is tried without nodes,
// with its own node and with another one, since Slurm would take a node list for a running job as a wish to shrink.
func runningIsNotUpdated(b *bench) {
	pin := b.nodes(2)
	for _, where := range [][]string{nil, pin[:1], pin[1:]} {
		job := b.submitRunning(Job{Asks: slurm.Request{CPUsPerTask: 2, Memory: 2000, GPUs: 1, Pin: pin[:1]}})
		err := b.slurm.Update(context.Background(), slurm.Update{
			Job: job.ID, Begin: b.beginIn(farBegin), Extra: "not applied",
			Request: slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, Memory: 1000,
				GRES: job.Request.GRES, GPUs: 1, Pin: where},
		})
		if !errors.Is(err, slurm.ErrNotPending) {
			b.Errorf("pin %v: got %v, want ErrNotPending", where, err)
		}
		after := b.job(job.ID)
		if after.State != slurm.Running || after.Extra != job.Extra || after.Runs.PerNode != job.Runs.PerNode ||
			!sameRequest(after.Request, job.Request) {
			b.Errorf("pin %v: was %+v, is %+v", where, job, after)
		}
	}
}

// finishedIsNotPending: a finished job refuses updates with ErrNotPending and signals with ErrNotRunning, by which a
// round tells a job that has just ended from a real failure.
func finishedIsNotPending(b *bench) {
	job := b.submitRunning(Job{Lasts: observableLength})
	b.waitFor(job.ID, "over", longLimit, isOver)
	if err := b.update(job, b.beginIn(farBegin), func(*slurm.Request) {}); !errors.Is(err, slurm.ErrNotPending) {
		b.Errorf("update: got %v, want ErrNotPending", err)
	}
	if err := b.slurm.Signal(context.Background(), job.ID, usr1); !errors.Is(err, slurm.ErrNotRunning) {
		b.Errorf("signal: got %v, want ErrNotRunning", err)
	}
}

// unknownIsGone: all calls for an ID that Slurm does not know return ErrGone, as for a job that was purged after its
// end.
func unknownIsGone(b *bench) {
	const nobody = 60_000_000 // an ID that no lab reaches
	ctx := context.Background()
	request := slurm.Request{Nodes: 1, Tasks: 1, CPUsPerTask: 1, CPUs: 1, CPUsPerNode: 1, Memory: 1000}
	for _, err := range []error{
		b.slurm.Update(ctx, slurm.Update{Job: nobody, Begin: b.beginIn(farBegin), Request: request}),
		b.slurm.Signal(ctx, nobody, usr1),
		b.slurm.Requeue(ctx, nobody),
	} {
		if !errors.Is(err, slurm.ErrGone) {
			b.Errorf("got %v, want ErrGone", err)
		}
	}
}

// impossibleCPUs: more CPUs than any node has are refused. Slurm keeps a part of such an update, so the next one must
// be able to restore the job's own request.
func impossibleCPUs(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, GPUs: 1}})
	err := b.update(job, b.beginIn(farBegin), func(r *slurm.Request) { setCPUs(r, 1000); r.Pin = b.nodes(1) })
	if !errors.Is(err, slurm.ErrRefused) {
		b.Errorf("got %v, want ErrRefused", err)
	}
	b.must(b.update(job, b.observe().At, func(*slurm.Request) {}))
	if got := b.waitFor(job.ID, "running", shortLimit, isRunning).Runs.PerNode.CPUs; got != 2 {
		b.Errorf("runs with %d CPUs, want its own 2", got)
	}
}

// unknownNode: an update with a node that does not exist is refused, and the request stays as it is.
func unknownNode(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, GPUs: 1}})
	err := b.update(job, b.observe().At, func(r *slurm.Request) { r.Pin = []string{"nosuchnode"} })
	if !errors.Is(err, slurm.ErrRefused) {
		b.Errorf("got %v, want ErrRefused", err)
	}
	if after := b.job(job.ID); after.State != slurm.Pending || !sameRequest(after.Request, job.Request) {
		b.Errorf("was %+v, is %+v", job, after)
	}
}

// impossibleMemory: Slurm accepts more memory than any node has, and later shows the reason BadConstraints without
// holding the job. The next update, with the job's own request, lets it start.
func impossibleMemory(b *bench) {
	job := b.submitWaiting(Job{Asks: slurm.Request{CPUsPerTask: 2, Memory: 2000, GPUs: 1}})
	b.must(
		b.update(job, b.observe().At, func(r *slurm.Request) { setMemory(r, 900*gres.Gigabyte); r.Pin = b.nodes(1) }),
	)
	parked := func(job slurm.Job, _ time.Time) bool { return job.Reason == "BadConstraints" }
	if parked := b.waitFor(job.ID, "parked", longLimit, parked); parked.State != slurm.Pending || parked.Held {
		b.Errorf("nobody holds it, and it is %+v", parked)
	}
	b.must(b.update(job, b.observe().At, func(*slurm.Request) {}))
	b.waitFor(job.ID, "running", shortLimit, isRunning)
}
