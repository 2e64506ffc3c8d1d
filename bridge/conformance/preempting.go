package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// preempting lists the claims about Signal and Requeue.
func preempting() []claim {
	return []claim{
		{"ASignalledJobSavesAndIsBackInTheQueue", signalledComesBack},
		{"ASignalledJobWithoutRequeueComesBackAsWell", withoutRequeueComesBack},
		{"ASignalKillsAJobThatDoesNotExpectIt", signalKills},
		{"ASignalForTheStepsSparesTheScriptAndAJobThatRequeuesItselfIsBackOnce", stepsComeBack},
		{"ASignalForTheScriptDoesNotReachTheSteps", scriptAlone},
		{"AJobWithoutStepsDoesNotNoticeASignalForThem", withoutSteps},
		{"AWaitingJobIsNotSignalled", waitingIsNotSignalled},
		{"AnInteractiveJobIsNeitherSignalledNorRequeued", interactiveStays},
		{"ARequeuedJobWaitsOutThePenaltyIfLeftAlone", requeuedWaits},
		{"AJobWithoutRequeueIsRequeuedAllTheSame", requeuesWithout},
		{"RequeueingAWaitingJobIsNothing", requeueIsIdempotent},
		{"AfterARequeueAnUpdateStartsTheJobElsewhereWithinSeconds", startsElsewhere},
		{"ALeaseRenewedDuringTheTeardownIsKept", renewedDuringTeardown},
		{"ABeginTimeInThePastIsNotKeptDuringTheTeardown", pastDuringTeardown},
		{"NothingStartsBesideATeardown", nothingBesideTeardown},
	}
}

// oneGPU is the request of the jobs here: one GPU, two CPUs and 2000 MiB, on the named nodes; nil: on any.
func oneGPU(pin []string) slurm.Request {
	return slurm.Request{CPUsPerTask: 2, Memory: 2000, GPUs: 1, Pin: pin}
}

// waitForTraps waits three seconds, in which the script of a job that just started sets its traps: a signal before that
// kills it.
func (b *bench) waitForTraps() { b.lab.Sleep(3 * time.Second) }

// signal sends USR1 to the job's script.
func (b *bench) signal(id int) {
	b.Helper()
	b.must(b.slurm.Signal(context.Background(), id, usr1))
}

// The signals of the tests.
var (
	usr1    = slurm.Signal{Name: "USR1"}
	toSteps = slurm.Signal{Name: "USR1", To: slurm.Steps}
)

// requeue requeues the job; an error ends the test.
func (b *bench) requeue(id int) {
	b.Helper()
	b.must(b.slurm.Requeue(context.Background(), id))
}

// signalledComesBack: a job that saves on a signal is requeued once and keeps its request, comment and Extra, from
// which the next round learns what the job is and what it held.
func signalledComesBack(b *bench) {
	pin := b.nodes(1)
	job := b.submitWaiting(Job{Comment: "its comment", Asks: oneGPU(nil), Does: Saves})
	request := job.Request
	request.Pin = pin
	b.must(b.slurm.Update(context.Background(), slurm.Update{Job: job.ID, Begin: b.observe().At, Request: request,
		Extra: "its extra"}))
	first := b.waitFor(job.ID, "running", shortLimit, isRunning)
	b.waitForTraps()
	b.signal(job.ID)
	after := b.waitFor(job.ID, "back", shortLimit, isBack)
	if after.Restarts != 1 || after.Comment != "its comment" || after.Extra != "its extra" {
		b.Errorf("after its first run: %+v", after)
	}
	if !sameRequest(after.Request, request) {
		b.Errorf("its request is %+v, was %+v", after.Request, request)
	}
	if !after.Submitted.After(first.Submitted) {
		b.Errorf("submitted at %s, before its requeue at %s", after.Submitted, first.Submitted)
	}
}

// withoutRequeueComesBack: Signal turns on the requeue flag of a job that was submitted without it, or the job would be
// lost after it has saved.
func withoutRequeueComesBack(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), Does: Saves, NoRequeue: true})
	b.waitForTraps()
	b.signal(job.ID)
	if after := b.waitFor(job.ID, "back", shortLimit, isBack); after.Restarts != 1 || !after.Requeue {
		b.Errorf("got %+v", after)
	}
}

// interactiveStays: Signal and Requeue refuse an interactive job and leave it running: Slurm cannot requeue such a job,
// so it would be lost.
func interactiveStays(b *bench) {
	job := b.waitFor(b.lab.Submit(b, Job{Form: Interactive}), "running", shortLimit, isRunning)
	for what, err := range map[string]error{
		"a signal":  b.slurm.Signal(context.Background(), job.ID, slurm.Signal{Name: "USR1"}),
		"a requeue": b.slurm.Requeue(context.Background(), job.ID),
	} {
		if !errors.Is(err, slurm.ErrRefused) {
			b.Errorf("%s: %v, want refused", what, err)
		}
	}
	b.lab.Sleep(2 * time.Second)
	if now := b.job(job.ID); now.State != slurm.Running || now.Restarts != 0 {
		b.Errorf("afterwards it is %+v", now)
	}
}

// signalKills: a job without a trap dies of the signal and is not requeued. A round therefore signals only jobs whose
// directives declare a checkpoint.
func signalKills(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil)})
	b.waitForTraps()
	b.signal(job.ID)
	b.waitFor(job.ID, "over", shortLimit, isOver)
}

// stepsComeBack: a signal to the steps does not reach the script, and a job whose step then requeues itself is
// restarted once, even if the round requeues it as well. The job is submitted without the requeue flag, which Signal
// must set: otherwise it could not even requeue itself.
func stepsComeBack(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), Does: Steps, NoRequeue: true})
	b.waitForTraps()
	b.must(b.slurm.Signal(context.Background(), job.ID, toSteps))
	b.waitFor(
		job.ID,
		"on its way back",
		shortLimit,
		func(j slurm.Job, _ time.Time) bool { return j.State == slurm.Pending },
	)
	b.requeue(job.ID) // as a round does when the grace has ended
	if after := b.waitFor(job.ID, "back", longLimit, isBack); after.Restarts != 1 {
		b.Errorf("it has been restarted %d times, want once", after.Restarts)
	}
}

// scriptAlone: a signal for the script does not reach the steps. Here the script dies of it, and the step, which would
// requeue the job, does nothing.
func scriptAlone(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), Does: Steps})
	b.waitForTraps()
	b.signal(job.ID)
	b.waitFor(job.ID, "over", shortLimit, isOver)
}

// withoutSteps: a signal for the steps does nothing to a job that has none, so it is not killed; the round requeues it
// when its grace ends.
func withoutSteps(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil)})
	b.waitForTraps()
	b.must(b.slurm.Signal(context.Background(), job.ID, toSteps))
	b.lab.Sleep(3 * time.Second)
	if state := b.job(job.ID).State; state != slurm.Running {
		b.Errorf("it is %s", state)
	}
}

// waitingIsNotSignalled: Signal returns ErrNotRunning for a waiting job, by which a round notices that the job has left
// by itself.
func waitingIsNotSignalled(b *bench) {
	job := b.submitWaiting(Job{Does: Saves})
	if err := b.slurm.Signal(context.Background(), job.ID, usr1); !errors.Is(err, slurm.ErrNotRunning) {
		b.Errorf("got %v, want ErrNotRunning", err)
	}
}

// requeuedWaits: a requeued job to which nothing is done may begin only two minutes after its teardown. The daemon's
// updates exist to avoid that penalty.
func requeuedWaits(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil)})
	b.requeue(job.ID)
	after := b.waitFor(job.ID, "back", longLimit, isBack)
	if wait := after.Begin.Sub(after.Submitted); wait < 100*time.Second || wait > 150*time.Second {
		b.Errorf("begins %s after its teardown, want two minutes", wait)
	}
	if after.Restarts != 1 || len(after.Runs.Nodes) != 0 {
		b.Errorf("got %+v", after)
	}
}

// requeuesWithout: Requeue turns on the requeue flag of a job that was submitted without it, and requeues it: without
// the flag Slurm would refuse.
func requeuesWithout(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), NoRequeue: true})
	b.requeue(job.ID)
	if after := b.waitFor(job.ID, "back", longLimit, isBack); after.Restarts != 1 || !after.Requeue {
		b.Errorf("got %+v", after)
	}
}

// requeueIsIdempotent: Requeue leaves a waiting job as it is, and is no error, so a round need not know whether the job
// has left already.
func requeueIsIdempotent(b *bench) {
	job := b.submitWaiting(Job{})
	b.requeue(job.ID)
	after := b.job(job.ID)
	if after.State != slurm.Pending || after.Restarts != 0 || after.Held || !after.Begin.Equal(job.Begin) {
		b.Errorf("was %+v, is %+v", job, after)
	}
}

// startsElsewhere: after a preemption an update starts the job within seconds, on another node with another size:
// neither the penalty nor the old node list is left.
func startsElsewhere(b *bench) {
	nodes := b.nodes(2)
	job := b.submitRunning(Job{Asks: oneGPU(nodes[:1]), Does: Saves})
	b.waitForTraps()
	b.signal(job.ID)
	after := b.waitFor(job.ID, "back", shortLimit, isBack)
	b.must(
		b.update(
			after,
			b.observe().At,
			func(r *slurm.Request) { setCPUs(r, 3); setMemory(r, 3000); r.Pin = nodes[1:] },
		),
	)
	again := b.waitFor(job.ID, "running", shortLimit, isRunning)
	if want := (gres.Vector{GPUs: 1, CPUs: 3, Memory: 3000}); again.Runs.PerNode != want ||
		!slices.Equal(again.Runs.Nodes, nodes[1:]) {
		b.Errorf("%s on %v, want %s on %v", again.Runs.PerNode, again.Runs.Nodes, want, nodes[1:])
	}
	b.lab.Sleep(3 * time.Second)
	if state := b.job(job.ID).State; state != slurm.Running {
		b.Errorf("its second run is %s", state)
	}
}

// renewedDuringTeardown: a future begin time that is set during the teardown is kept in place of the penalty. A round
// that then moves it to now can start the job at once.
func renewedDuringTeardown(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), Does: Hangs})
	b.waitForTraps()
	b.requeue(job.ID)
	b.waitFor(job.ID, "leaving", shortLimit, isTearingDown)
	begin := b.beginIn(farBegin)
	b.must(b.update(job, begin, func(r *slurm.Request) { setCPUs(r, 4) }))
	after := b.waitFor(job.ID, "back", longLimit, isBack)
	if !after.Begin.Equal(begin) || after.Request.CPUs != 4 {
		b.Errorf("begins at %s with %d CPUs, want %s with 4", after.Begin, after.Request.CPUs, begin)
	}
}

// pastDuringTeardown: if an update during the teardown sets a begin time that is not in the future, Slurm replaces it
// by its penalty of two minutes. This is why a round sets a lease then, and not the start.
func pastDuringTeardown(b *bench) {
	job := b.submitRunning(Job{Asks: oneGPU(nil), Does: Hangs})
	b.waitForTraps()
	b.requeue(job.ID)
	b.waitFor(job.ID, "leaving", shortLimit, isTearingDown)
	b.must(b.update(job, b.observe().At, func(*slurm.Request) {}))
	after := b.waitFor(job.ID, "back", longLimit, isBack)
	if wait := after.Begin.Sub(after.Submitted); wait < 100*time.Second {
		b.Errorf("begins %s after its teardown, want the penalty", wait)
	}
}

// nothingBesideTeardown: a completing job still counts on its node, and no other job starts there before its end. So a
// round sends starts only when the teardown is over.
func nothingBesideTeardown(b *bench) {
	pin := b.nodes(1)
	victim := b.submitRunning(Job{Asks: oneGPU(pin), Does: Hangs})
	b.waitForTraps()
	b.requeue(victim.ID)
	last := b.waitFor(victim.ID, "leaving", shortLimit, isTearingDown)
	if !slices.Equal(last.Runs.Nodes, pin) || last.Runs.PerNode != victim.Runs.PerNode {
		b.Errorf("during its teardown it shows %s on %v, held %s on %v", last.Runs.PerNode, last.Runs.Nodes,
			victim.Runs.PerNode, pin)
	}
	node := b.node(pin[0])
	if !node.Completing || !victim.Runs.PerNode.Fits(node.Allocated) {
		b.Errorf("completing %t, allocated %s while %s is torn down", node.Completing, node.Allocated,
			victim.Runs.PerNode)
	}
	next := b.submitWaiting(Job{Asks: oneGPU(nil)})
	b.must(b.update(next, b.observe().At, func(r *slurm.Request) { r.Pin = pin }))
	started := b.waitFor(next.ID, "running", longLimit, isRunning).Started
	if freed := b.job(victim.ID).Submitted; started.Before(freed) {
		b.Errorf("started at %s, its node was free at %s", started, freed)
	}
}
