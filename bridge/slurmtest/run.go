package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var zero time.Time

// planForRun plans an action on the job after d. It is not done if the job's run was started, stopped or planned anew
// meanwhile (job.generation), so an end that was planned for an earlier run cannot end the present one.
func (s *Slurm) planForRun(d time.Duration, j *job, do func(*Slurm, *job)) {
	life := j.generation
	s.clock.At(s.clock.Now().Add(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.generation == life {
			do(s, j)
		}
	})
}

// start runs the job on the nodes, which chooseNodes has found to have room, and plans its end. If some of them have to
// boot first, the job is CONFIGURING until all are up.
func (s *Slurm) start(j *job, nodes []*node, perNode gres.Vector) {
	now, up := s.clock.Now(), s.bootAll(nodes)
	if j.spec.Exclusive && j.request.Shard == "" { // all CPUs and GPUs of the nodes, memory as requested
		perNode.CPUs, perNode.GPUs = nodes[0].fixed.Total.CPUs, nodes[0].fixed.Total.GPUs
	}
	work := &j.spec.Work
	j.run = &allocation{nodes: nodes, perNode: perNode, started: now, since: up.Add(work.Launch), startProgress: j.done}
	j.run.asObserved.Shard = j.request.Shard
	devices := j.run.book(j)
	j.run.rate = jobRate(s, j)
	if j.restarts > 0 {
		j.run.since = j.run.since.Add(work.Restart)
	}
	j.state, j.blocked, j.exit = slurm.Running, "", exit{}
	j.generation++
	j.history.Runs = append(j.history.Runs, Run{Start: now, Nodes: j.run.asObserved.Nodes, Devices: devices,
		PerNode: perNode})
	s.updateQueue(j)
	if j.restarts > 0 && now.Unix() <= j.freed.Unix() {
		s.failRevoked(j)
		return
	}
	if j.configuring = up.After(now); j.configuring {
		s.planForRun(up.Sub(now), j, (*Slurm).endConfiguring)
	} else {
		s.planEnd(j)
	}
	updateSharers(s, j)
}

// failRevoked fails a job that is started in the same second in which its last run was torn down: the node takes its
// credential for one of that run ("Job credential revoked"). This is why Slurm makes requeued jobs wait, and why a
// round must not start them too early.
func (s *Slurm) failRevoked(j *job) { s.endRun(j, Failed, s.options.Teardown) }

// book allocates the run's amount on each of its nodes and sets what is observed of that (asObserved). It returns the
// indices of the GPUs on each node, in the order of the nodes.
func (a *allocation) book(j *job) [][]int {
	a.asObserved.PerNode, a.asObserved.Nodes = a.perNode, make([]string, 0, len(a.nodes))
	devices := make([][]int, 0, len(a.nodes))
	for _, n := range a.nodes {
		given := n.allocate(j, a.perNode)
		devices = append(devices, given)
		a.asObserved.Nodes = append(a.asObserved.Nodes, n.fixed.Name)
		if len(given) > 0 {
			a.asObserved.Devices = append(a.asObserved.Devices, n.gpuText(j, given))
		}
	}
	return devices
}

// planEnd plans the events that end the run by itself: the time limit, and the completion of the job's work at its
// present speed. It is called again, with a new generation, when the speed changes.
func (s *Slurm) planEnd(j *job) {
	now, work := s.clock.Now(), j.spec.Work
	s.planLimit(j)
	if work.Length > 0 && j.run.rate > 0 {
		left := time.Duration(float64(work.Length-j.done)/j.run.rate) + 1 // rounded up: nothing is left at the end
		s.planForRun(j.run.since.Add(left).Sub(now), j, (*Slurm).finish)
	}
}

// planLimit plans the end at the time limit; a job without a limit has none.
func (s *Slurm) planLimit(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 {
		s.planForRun(j.run.started.Add(limit).Sub(s.clock.Now()), j, (*Slurm).timeOut)
	}
}

// finish ends a job that has done all of its work, as COMPLETED, or as FAILED if Work.Fails says so.
func (s *Slurm) finish(j *job) {
	j.progress(s.clock.Now())
	j.done = j.spec.Work.Length
	j.savedProgress = j.done
	if j.spec.Work.Fails {
		j.exit.code = 1
		s.endRun(j, Failed, s.options.Teardown)
		return
	}
	s.endRun(j, Completed, s.options.Teardown)
}

// progress adds the work done since the last call to done, and sets savedProgress to the job's last own checkpoint,
// since a kill loses only the work after that. It must be called before the speed changes and before the run ends.
// During the start-up of a run, before run.since, there is no progress.
func (j *job) progress(now time.Time) {
	if now.Before(j.run.since) {
		return
	}
	j.done += time.Duration(float64(now.Sub(j.run.since)) * j.run.rate)
	if length := j.spec.Work.Length; length > 0 {
		j.done = min(j.done, length)
	}
	if every := j.spec.Work.Checkpoint; every > 0 {
		j.savedProgress += (j.done - j.savedProgress) / every * every
	}
	j.run.since = now
}

// signalNumbers are the numbers of the signals that the port sends.
var signalNumbers = map[string]int{"HUP": 1, "INT": 2, "USR1": 10, "USR2": 12, "TERM": 15}

// deliver carries out what the job does on a signal to its batch script or its steps. If the steps die of it, the
// script ends with srun's exit code for that, 128 + the signal. A job that is booting, or is saving already, does not
// notice it.
func (s *Slurm) deliver(j *job, signal slurm.Signal) {
	reaction, number := j.spec.Work.OnSignal, signalNumbers[strings.TrimPrefix(signal.Name, "SIG")]
	end := exit{signal: number}
	if signal.To == slurm.Steps {
		reaction, end = j.spec.Work.OnSteps, exit{code: 128 + number}
	}
	reaction = j.presentReaction(reaction, s.clock.Now())
	switch {
	case j.configuring: // no process is there to receive it
	case !j.saveEnd.IsZero(), reaction == Hangs: // the trap runs already, or it is ignored
	case reaction == Saves:
		s.save(j, (*Slurm).exitAfterSave)
	case reaction == Requeues:
		s.save(j, (*Slurm).requeuesItself)
	default:
		j.progress(s.clock.Now())
		j.exit = end
		s.endRun(j, Failed, s.options.Teardown)
	}
}

// presentReaction is the reaction ready once the run's traps are set (Work.Ready after its start), and Dies before
// that, since a signal without a trap kills.
func (j *job) presentReaction(ready Reaction, now time.Time) Reaction {
	if now.Sub(j.run.started) < j.spec.Work.Ready {
		return Dies
	}
	return ready
}

// save begins to write a checkpoint, which takes Work.Save: the job makes no progress meanwhile, so its planned end is
// void, and its time limit goes on. then is called when the checkpoint is complete.
func (s *Slurm) save(j *job, then func(*Slurm, *job)) {
	now := s.clock.Now()
	j.progress(now)
	j.run.rate = 0
	j.saveEnd = now.Add(j.spec.Work.Save)
	j.generation++ // voids the planned end
	s.planEnd(j)
	s.planForRun(j.spec.Work.Save, j, then)
}

// exitAfterSave ends the run of a job that has written its checkpoint: the script exits with 98, for which Slurm
// requeues a job that has the requeue flag. Without the flag that is an ordinary failure, and the job is lost.
func (s *Slurm) exitAfterSave(j *job) {
	j.savedProgress = j.done
	j.exit.code = requeueCode
	if j.requeue {
		s.endRun(j, Requeued, s.options.Teardown)
	} else {
		s.endRun(j, Failed, s.options.Teardown)
	}
}

// requeuesItself is scontrol requeue by a job that has written its checkpoint. With the requeue flag the job is
// terminated and goes back to the queue; without it Slurm refuses, and the job continues.
func (s *Slurm) requeuesItself(j *job) {
	now := s.clock.Now()
	j.savedProgress = j.done
	if !j.requeue {
		j.saveEnd, j.run.since, j.run.rate = zero, now, jobRate(s, j)
		j.generation++
		s.planEnd(j)
		return
	}
	j.saveEnd = now // nothing is left to save
	s.terminate(j, Requeued)
}

// timeOut is the event of the time limit. If the limit was raised or removed after the event was planned, the job goes
// on.
func (s *Slurm) timeOut(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 && !s.clock.Now().Before(j.run.started.Add(limit)) {
		s.terminate(j, TimedOut)
	}
}

// terminate is SIGTERM and, KillWait later, SIGKILL; end is how the run then counts as ended. The progress since the
// last checkpoint is kept only if the job saves on SIGTERM, or was saving already, and that is complete within
// KillWait. Then the job leaves as soon as it is complete. A job that dies of SIGTERM leaves at once, and one that
// ignores it or saves too slowly leaves at SIGKILL.
func (s *Slurm) terminate(j *job, end End) {
	now, grace := s.clock.Now(), s.options.KillWait
	j.progress(now)
	saves, reaction := j.saveEnd, j.presentReaction(j.spec.Work.OnTerm, now)
	if saves.IsZero() && reaction == Saves {
		saves = now.Add(j.spec.Work.Save)
	}
	stays := time.Duration(0)
	switch {
	case !saves.IsZero() && saves.Sub(now) <= grace:
		stays = saves.Sub(now)
		j.savedProgress = j.done
	case !saves.IsZero(), reaction == Hangs:
		stays = grace
	}
	s.endRun(j, end, stays+s.options.Teardown)
}

// loseNode ends the run of a job whose node died: it gets no signal, so its progress since the last checkpoint is lost.
// It is requeued, or ends if it may not be.
func (s *Slurm) loseNode(j *job) {
	j.progress(s.clock.Now())
	if j.requeue {
		s.endRun(j, Requeued, s.options.Teardown)
	} else {
		s.endRun(j, NodeFail, s.options.Teardown)
	}
}

// endRun ends the run in the way end says. Requeued makes the job pending again and counts a restart; any other end is
// final. The job is COMPLETING and holds its nodes until the teardown is over. Its unsaved progress is lost now, its
// planned events are void, and the other jobs on a GPU that it shared run at another speed from now on.
func (s *Slurm) endRun(j *job, end End, teardown time.Duration) {
	s.changed(j)
	run := &j.history.Runs[len(j.history.Runs)-1]
	run.Stop = s.clock.Now()
	run.Progress, run.Lost = j.done-j.run.startProgress, j.done-j.savedProgress
	j.done = j.savedProgress
	j.end, j.saveEnd, j.completing, j.configuring = end, zero, true, false
	j.state = slurm.Finished
	if end == Requeued {
		j.state = slurm.Pending
		j.resetPartitions()
		j.restarts++
		s.hideReason(j)
	}
	for _, n := range j.run.nodes {
		n.completing++
	}
	updateSharers(s, j)
	j.generation++
	s.planForRun(teardown, j, (*Slurm).endTeardown)
}

// resetPartitions makes a requeued job wait in all of its partitions again, the one in which it ran first, as slurmctld
// orders them.
func (j *job) resetPartitions() {
	slices.SortStableFunc(j.startPartitions, func(a, b string) int {
		switch j.currentPartition {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	j.currentPartition = ""
}

// endTeardown is the end of the teardown: the nodes are free for other jobs, and the job is over or back in the queue.
func (s *Slurm) endTeardown(j *job) {
	for _, n := range j.run.nodes {
		n.deallocate(j, j.run.perNode)
		n.completing--
		s.powerDownIfIdle(n)
	}
	j.freed = s.clock.Now()
	j.history.Runs[len(j.history.Runs)-1].Freed = j.freed
	j.run, j.completing = nil, false
	if j.state == slurm.Finished {
		s.endJob(j)
		return
	}
	s.applyPenalty(j)
}

// applyPenalty sets when a requeued job may begin: after Slurm's penalty (Options.Penalty), unless an update during the
// teardown set a begin time in the future. The daemon avoids the penalty that way.
func (s *Slurm) applyPenalty(j *job) {
	now := s.clock.Now()
	j.submitted = now
	if !j.begin.After(now) {
		j.begin = now.Add(s.options.Penalty)
	}
	s.updateQueue(j)
}

// endJob ends the job for good. Jobs that depend on it may start, Options.Ended gets its history, and a job with our
// directive stays observable for MinJobAge.
func (s *Slurm) endJob(j *job) {
	j.state = slurm.Finished
	s.updateQueue(j)
	s.clock.cancelEvent(j.beginEvent)
	j.history.Ended, j.history.End = s.clock.Now(), j.end
	if s.ended++; s.ended > len(s.alive)/2 { // also if nothing observes
		s.sweep()
	}
	for _, next := range s.dependents[j.id] {
		next.isDependent = false
		s.updateQueue(next)
	}
	delete(s.dependents, j.id)
	s.releaseWaiting(j.id)
	j.spec.Work.Rate = nil // it may hold a profile in memory
	s.retainManaged(j)
	if s.options.Ended != nil {
		s.jobs[j.id-1] = entry{ended: j.history.Ended, end: j.end}
		s.options.Ended(j.historySoFar())
	}
}

// historySoFar is the job's history up to now, with the numbers that are kept in the job while it lives.
func (j *job) historySoFar() History {
	history := j.history
	history.Done, history.Restarts = j.done, j.restarts
	return history
}
