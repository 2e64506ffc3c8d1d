package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var zero time.Time

// later plans an action on the job after d. It is not done if the job's run was started, stopped or planned anew
// meanwhile (job.generation), so an end that was planned for an earlier run cannot end the present one.
func (s *Slurm) later(d time.Duration, j *job, do func(*Slurm, *job)) {
	life := j.generation
	s.clock.At(s.clock.Now().Add(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.generation == life {
			do(s, j)
		}
	})
}

// start runs the job on the nodes, which choose has found to have room, and plans its end. If some of them have to boot
// first, the job is CONFIGURING until all are up.
func (s *Slurm) start(j *job, nodes []*node, perNode gres.Vector) {
	now, up := s.clock.Now(), s.boot(nodes)
	if j.spec.Exclusive && j.request.Shard == "" { // all CPUs and GPUs of the nodes, memory as requested
		perNode.CPUs, perNode.GPUs = nodes[0].fixed.Total.CPUs, nodes[0].fixed.Total.GPUs
	}
	work := &j.spec.Work
	j.run = &allocation{nodes: nodes, perNode: perNode, started: now, since: up.Add(work.Launch), before: j.done}
	j.run.seen.Shard = j.request.Shard
	devices := j.run.book(j)
	j.run.rate = rate(s, j)
	if j.restarts > 0 {
		j.run.since = j.run.since.Add(work.Restart)
	}
	j.state, j.blocked, j.exit = slurm.Running, "", exit{}
	j.generation++
	j.history.Runs = append(j.history.Runs, Run{Start: now, Nodes: j.run.seen.Nodes, Devices: devices,
		PerNode: perNode})
	s.consider(j)
	if j.restarts > 0 && now.Unix() <= j.freed.Unix() {
		s.revoked(j)
		return
	}
	if j.configuring = up.After(now); j.configuring {
		s.later(up.Sub(now), j, (*Slurm).configured)
	} else {
		s.planEnd(j)
	}
	crowd(s, j)
}

// revoked fails a job that is started in the same second in which its last run was torn down: the node takes its
// credential for one of that run ("Job credential revoked"). This is why Slurm makes requeued jobs wait, and why a
// round must not start them too early.
func (s *Slurm) revoked(j *job) { s.leave(j, Failed, s.options.Teardown) }

// book allocates the run's amount on each of its nodes and returns the indices of the GPUs on each, in the order of the
// nodes.
func (a *allocation) book(j *job) [][]int {
	a.seen.PerNode, a.seen.Nodes = a.perNode, make([]string, 0, len(a.nodes))
	devices := make([][]int, 0, len(a.nodes))
	for _, n := range a.nodes {
		given := n.give(j, a.perNode)
		devices = append(devices, given)
		a.seen.Nodes = append(a.seen.Nodes, n.fixed.Name)
		if len(given) > 0 {
			a.seen.Devices = append(a.seen.Devices, n.printed(j, given))
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
		s.later(j.run.since.Add(left).Sub(now), j, (*Slurm).finish)
	}
}

// planLimit plans the end at the time limit; a job without a limit has none.
func (s *Slurm) planLimit(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 {
		s.later(j.run.started.Add(limit).Sub(s.clock.Now()), j, (*Slurm).timeOut)
	}
}

// finish ends a job that has done all of its work, as COMPLETED, or as FAILED if Work.Fails says so.
func (s *Slurm) finish(j *job) {
	j.progress(s.clock.Now())
	j.done = j.spec.Work.Length
	j.safe = j.done
	if j.spec.Work.Fails {
		j.exit.code = 1
		s.leave(j, Failed, s.options.Teardown)
		return
	}
	s.leave(j, Completed, s.options.Teardown)
}

// progress adds the work done since the last call, and moves what is safe up to the job's last own checkpoint. It must
// be called before the speed changes and before the run ends. During the start-up of a run, before run.since, there is
// no progress.
func (j *job) progress(now time.Time) {
	if now.Before(j.run.since) {
		return
	}
	j.done += time.Duration(float64(now.Sub(j.run.since)) * j.run.rate)
	if length := j.spec.Work.Length; length > 0 {
		j.done = min(j.done, length)
	}
	if every := j.spec.Work.Checkpoint; every > 0 {
		j.safe += (j.done - j.safe) / every * every
	}
	j.run.since = now
}

// numbers are the numbers of the signals that the port sends.
var numbers = map[string]int{"HUP": 1, "INT": 2, "USR1": 10, "USR2": 12, "TERM": 15}

// deliver carries out what the job does on a signal to its batch script or its steps. If the steps die of it, the
// script ends with srun's exit code for that, 128 + the signal. A job that is booting, or is saving already, does not
// notice it.
func (s *Slurm) deliver(j *job, signal slurm.Signal) {
	reaction, number := j.spec.Work.OnSignal, numbers[strings.TrimPrefix(signal.Name, "SIG")]
	end := exit{signal: number}
	if signal.To == slurm.Steps {
		reaction, end = j.spec.Work.OnSteps, exit{code: 128 + number}
	}
	reaction = j.reaction(reaction, s.clock.Now())
	switch {
	case j.configuring: // no process is there to receive it
	case !j.saves.IsZero(), reaction == Hangs: // the trap runs already, or it is ignored
	case reaction == Saves:
		s.save(j, (*Slurm).saved)
	case reaction == Requeues:
		s.save(j, (*Slurm).requeuesItself)
	default:
		j.progress(s.clock.Now())
		j.exit = end
		s.leave(j, Failed, s.options.Teardown)
	}
}

// reaction is ready once the run's traps are set (Work.Ready after its start), and Dies before: a signal without a trap
// kills.
func (j *job) reaction(ready Reaction, now time.Time) Reaction {
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
	j.saves = now.Add(j.spec.Work.Save)
	j.generation++ // voids the planned end
	s.planEnd(j)
	s.later(j.spec.Work.Save, j, then)
}

// saved ends the run of a job that has written its checkpoint: the script exits with 98, for which Slurm requeues a job
// that has the requeue flag. Without the flag that is an ordinary failure, and the job is lost.
func (s *Slurm) saved(j *job) {
	j.safe = j.done
	j.exit.code = requeueCode
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, Failed, s.options.Teardown)
	}
}

// requeuesItself is scontrol requeue by a job that has written its checkpoint. With the requeue flag the job is
// terminated and goes back to the queue; without it Slurm refuses, and the job continues.
func (s *Slurm) requeuesItself(j *job) {
	now := s.clock.Now()
	j.safe = j.done
	if !j.requeue {
		j.saves, j.run.since, j.run.rate = zero, now, rate(s, j)
		j.generation++
		s.planEnd(j)
		return
	}
	j.saves = now // nothing is left to save
	s.terminate(j, Requeued)
}

// timeOut is the event of the time limit. If the limit was raised or removed since it was planned, the job goes on.
func (s *Slurm) timeOut(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 && !s.clock.Now().Before(j.run.started.Add(limit)) {
		s.terminate(j, TimedOut)
	}
}

// terminate is SIGTERM and, KillWait later, SIGKILL. The progress since the last checkpoint is kept only if the job
// saves on SIGTERM, or was saving already, and is done within KillWait; then it also leaves that early.
func (s *Slurm) terminate(j *job, end End) {
	now, grace := s.clock.Now(), s.options.KillWait
	j.progress(now)
	saves, reaction := j.saves, j.reaction(j.spec.Work.OnTerm, now)
	if saves.IsZero() && reaction == Saves {
		saves = now.Add(j.spec.Work.Save)
	}
	stays := time.Duration(0)
	switch {
	case !saves.IsZero() && saves.Sub(now) <= grace:
		stays = saves.Sub(now)
		j.safe = j.done
	case !saves.IsZero(), reaction == Hangs:
		stays = grace
	}
	s.leave(j, end, stays+s.options.Teardown)
}

// lose ends the run of a job whose node died: it gets no signal, so its progress since the last checkpoint is lost. It
// is requeued, or ends if it may not be.
func (s *Slurm) lose(j *job) {
	j.progress(s.clock.Now())
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, NodeFail, s.options.Teardown)
	}
}

// leave ends the run in the way end says; Requeued makes the job pending again, any other end is final. The job is
// COMPLETING and holds its nodes until the teardown is over, and its unsaved progress is lost now.
func (s *Slurm) leave(j *job, end End, teardown time.Duration) {
	s.changed(j)
	run := &j.history.Runs[len(j.history.Runs)-1]
	run.Stop = s.clock.Now()
	run.Progress, run.Lost = j.done-j.run.before, j.done-j.safe
	j.done = j.safe
	j.end, j.saves, j.completing, j.configuring = end, zero, true, false
	j.state = slurm.Finished
	if end == Requeued {
		j.state = slurm.Pending
		j.queueUp()
		j.restarts++
		s.keepSilent(j)
	}
	for _, n := range j.run.nodes {
		n.completing++
	}
	crowd(s, j)
	j.generation++
	s.later(teardown, j, (*Slurm).freed)
}

// queueUp makes a requeued job wait in all of its partitions again, the one in which it ran first, as slurmctld orders
// them.
func (j *job) queueUp() {
	slices.SortStableFunc(j.parts, func(a, b string) int {
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

// freed is the end of the teardown: the nodes are free for other jobs, and the job is over or back in the queue.
func (s *Slurm) freed(j *job) {
	for _, n := range j.run.nodes {
		n.take(j, j.run.perNode)
		n.completing--
		s.goesIdle(n)
	}
	j.freed = s.clock.Now()
	j.history.Runs[len(j.history.Runs)-1].Freed = j.freed
	j.run, j.completing = nil, false
	if j.state == slurm.Finished {
		s.retire(j)
		return
	}
	s.requeued(j)
}

// requeued sets when a requeued job may begin: after Slurm's penalty (Options.Penalty), unless an update during the
// teardown set a begin time in the future. The daemon avoids the penalty that way.
func (s *Slurm) requeued(j *job) {
	now := s.clock.Now()
	j.submitted = now
	if !j.begin.After(now) {
		j.begin = now.Add(s.options.Penalty)
	}
	s.consider(j)
}

// retire ends the job for good. Jobs that depend on it may start, Options.Ended gets its history, and a job with our
// directive stays observable for MinJobAge.
func (s *Slurm) retire(j *job) {
	j.state = slurm.Finished
	s.consider(j)
	s.clock.drop(j.wake)
	j.history.Ended, j.history.End = s.clock.Now(), j.end
	if s.ended++; s.ended > len(s.alive)/2 { // also if nothing observes
		s.sweep()
	}
	for _, next := range s.afters[j.id] {
		next.waits = false
		s.consider(next)
	}
	delete(s.afters, j.id)
	s.letGo(j.id)
	j.spec.Work.Rate = nil // it may hold a profile in memory
	s.remember(j)
	if s.options.Ended != nil {
		s.jobs[j.id-1] = entry{ended: j.history.Ended, end: j.end}
		s.options.Ended(j.told())
	}
}

// told is the job's history up to now, with the numbers that are kept in the job while it lives.
func (j *job) told() History {
	history := j.history
	history.Done, history.Restarts = j.done, j.restarts
	return history
}
