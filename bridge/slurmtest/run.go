package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var zero time.Time

// later plans an action in this life of the job; a start or stop before that voids it.
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

// start runs the job on the nodes.
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

// revoked fails a job that is started in the second in which its last run was torn down: the node takes its credential
// for one of that run ("Job credential revoked"). This is why Slurm makes requeued jobs wait.
func (s *Slurm) revoked(j *job) { s.leave(j, Failed, s.options.Teardown) }

// book allocates the amount on each node and returns the GPUs on each.
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

// planEnd plans the time limit and, if the job makes progress, its own end.
func (s *Slurm) planEnd(j *job) {
	now, work := s.clock.Now(), j.spec.Work
	s.planLimit(j)
	if work.Length > 0 && j.run.rate > 0 {
		left := time.Duration(float64(work.Length-j.done)/j.run.rate) + 1 // rounded up: nothing is left at the end
		s.later(j.run.since.Add(left).Sub(now), j, (*Slurm).finish)
	}
}

func (s *Slurm) planLimit(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 {
		s.later(j.run.started.Add(limit).Sub(s.clock.Now()), j, (*Slurm).timeOut)
	}
}

// finish is the job's own end.
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

// progress counts the work done up to now, and how much of it is in a checkpoint.
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

// deliver delivers a signal to the batch script or the steps. If the steps die of it the script ends with srun's exit
// code for that, 128 + the signal.
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

// reaction is ready if the traps are set by now, else Dies.
func (j *job) reaction(ready Reaction, now time.Time) Reaction {
	if now.Sub(j.run.started) < j.spec.Work.Ready {
		return Dies
	}
	return ready
}

// save stops the work, writes a checkpoint, and then calls then.
func (s *Slurm) save(j *job, then func(*Slurm, *job)) {
	now := s.clock.Now()
	j.progress(now)
	j.run.rate = 0
	j.saves = now.Add(j.spec.Work.Save)
	j.generation++ // voids the planned end
	s.planEnd(j)
	s.later(j.spec.Work.Save, j, then)
}

// saved exits with the requeue code. Without the requeue flag that is an ordinary failure, and the job is lost.
func (s *Slurm) saved(j *job) {
	j.safe = j.done
	j.exit.code = requeueCode
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, Failed, s.options.Teardown)
	}
}

// requeuesItself is scontrol requeue by the job itself, which terminates it. If refused, the job continues.
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

// timeOut ends the job at its time limit, unless the limit was changed since.
func (s *Slurm) timeOut(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 && !s.clock.Now().Before(j.run.started.Add(limit)) {
		s.terminate(j, TimedOut)
	}
}

// terminate sends SIGTERM and, after KillWait, SIGKILL.
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

// lose ends a job whose node died, without a signal.
func (s *Slurm) lose(j *job) {
	j.progress(s.clock.Now())
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, NodeFail, s.options.Teardown)
	}
}

// leave ends the run: the job is COMPLETING during the teardown. Unsaved progress is lost.
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

// queueUp puts the job back into all of its partitions, the one in which it ran first.
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

// freed ends the teardown: the nodes are free, and a requeued job is back in the queue.
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

// requeued applies the penalty, unless an update during the teardown set a begin time in the future.
func (s *Slurm) requeued(j *job) {
	now := s.clock.Now()
	j.submitted = now
	if !j.begin.After(now) {
		j.begin = now.Add(s.options.Penalty)
	}
	s.consider(j)
}

// retire ends the job for good: its history remains, and jobs that depend on it may start.
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

// told is the history so far.
func (j *job) told() History {
	history := j.history
	history.Done, history.Restarts = j.done, j.restarts
	return history
}
