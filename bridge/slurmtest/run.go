package slurmtest

import (
	"slices"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

var zero time.Time

// later plans something in this life of the job; a start or stop before that voids it.
func (s *Slurm) later(d time.Duration, j *job, do func(*Slurm, *job)) {
	life := j.life
	s.clock.At(s.clock.Now().Add(d), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.life == life {
			do(s, j)
		}
	})
}

// start runs the job on the nodes.
func (s *Slurm) start(j *job, nodes []*node, perNode gres.Vector) {
	now, up := s.clock.Now(), s.boot(nodes)
	if j.spec.Exclusive && j.request.Shard == "" { // CPUs and GPUs of the whole node, memory as asked
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
	j.state, j.blocked, j.exit = bridge.Running, "", exit{}
	j.life++
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

// revoked is what becomes of a job that is started in the very second in which its last run was torn down: the node
// still takes its credential for one of that run ("Job credential revoked"), and the job has failed. It is against this
// that Slurm makes requeued jobs wait.
func (s *Slurm) revoked(j *job) { s.leave(j, Failed, s.options.Teardown) }

// book takes the amount from each node for the job, and returns which GPUs of each it has got.
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

// planEnd plans the time limit and, where the job makes progress, its own end.
func (s *Slurm) planEnd(j *job) {
	now, work := s.clock.Now(), j.spec.Work
	s.planLimit(j)
	if work.Length > 0 && j.run.rate > 0 {
		left := time.Duration(float64(work.Length-j.done)/j.run.rate) + 1 // rounded up: at the end nothing is left
		s.later(j.run.since.Add(left).Sub(now), j, (*Slurm).finish)
	}
}

func (s *Slurm) planLimit(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 {
		s.later(j.run.started.Add(limit).Sub(s.clock.Now()), j, (*Slurm).timeOut)
	}
}

// finish is the natural end.
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

// progress counts what was done up to now, and what of it is in a checkpoint.
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

// numbers are those of the signals that the port sends.
var numbers = map[string]int{"HUP": 1, "INT": 2, "USR1": 10, "USR2": 12, "TERM": 15}

// deliver is a signal that reaches the batch script, or the steps. Whose steps die of it ends with what srun makes of
// that.
func (s *Slurm) deliver(j *job, signal bridge.Signal) {
	reaction, number := j.spec.Work.OnSignal, numbers[strings.TrimPrefix(signal.Name, "SIG")]
	end := exit{signal: number}
	if signal.To == bridge.Steps {
		reaction, end = j.spec.Work.OnSteps, exit{code: 128 + number}
	}
	reaction = j.reaction(reaction, s.clock.Now())
	switch {
	case j.configuring: // nobody is there to hear it
	case !j.saves.IsZero(), reaction == Hangs: // the trap runs already, or it does nothing
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

// reaction is what the job does about a signal now, if it would do that once it is ready.
func (j *job) reaction(ready Reaction, now time.Time) Reaction {
	if now.Sub(j.run.started) < j.spec.Work.Ready {
		return Dies
	}
	return ready
}

// save stops the work and writes a checkpoint, after which the job does something.
func (s *Slurm) save(j *job, then func(*Slurm, *job)) {
	now := s.clock.Now()
	j.progress(now)
	j.run.rate = 0
	j.saves = now.Add(j.spec.Work.Save)
	j.life++ // its planned end is void
	s.planEnd(j)
	s.later(j.spec.Work.Save, j, then)
}

// saved is the exit with the requeue code: without the requeue flag it is an ordinary failure, and the job is lost.
func (s *Slurm) saved(j *job) {
	j.safe = j.done
	j.exit.code = requeueCode
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, Failed, s.options.Teardown)
	}
}

// requeuesItself is scontrol requeue by the job, which is told to terminate then. Refused it goes on where it was.
func (s *Slurm) requeuesItself(j *job) {
	now := s.clock.Now()
	j.safe = j.done
	if !j.requeue {
		j.saves, j.run.since, j.run.rate = zero, now, rate(s, j)
		j.life++
		s.planEnd(j)
		return
	}
	j.saves = now // there is nothing more to save
	s.terminate(j, Requeued)
}

// timeOut is the end of the time limit, unless that was changed since.
func (s *Slurm) timeOut(j *job) {
	if limit := j.spec.TimeLimit; limit > 0 && !s.clock.Now().Before(j.run.started.Add(limit)) {
		s.terminate(j, TimedOut)
	}
}

// terminate is SIGTERM and, after KillWait, SIGKILL.
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

// lose is what a dead node does to its jobs: nobody is asked.
func (s *Slurm) lose(j *job) {
	j.progress(s.clock.Now())
	if j.requeue {
		s.leave(j, Requeued, s.options.Teardown)
	} else {
		s.leave(j, NodeFail, s.options.Teardown)
	}
}

// leave ends the run: the job is COMPLETING for as long as the teardown takes. What was not safe is lost.
func (s *Slurm) leave(j *job, end End, teardown time.Duration) {
	s.changed(j)
	run := &j.history.Runs[len(j.history.Runs)-1]
	run.Stop = s.clock.Now()
	run.Progress, run.Lost = j.done-j.run.before, j.done-j.safe
	j.done = j.safe
	j.end, j.saves, j.completing, j.configuring = end, zero, true, false
	j.state = bridge.Finished
	if end == Requeued {
		j.state = bridge.Pending
		j.queueUp()
		j.restarts++
		s.keepSilent(j)
	}
	for _, n := range j.run.nodes {
		n.completing++
	}
	crowd(s, j)
	j.life++
	s.later(teardown, j, (*Slurm).freed)
}

// queueUp puts the job back into all of its partitions, the one that it was in first.
func (j *job) queueUp() {
	slices.SortStableFunc(j.parts, func(a, b string) int {
		switch j.in {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	j.in = ""
}

// freed is the end of the teardown: the nodes are free, and a requeued job is back in the queue.
func (s *Slurm) freed(j *job) {
	for _, n := range j.run.nodes {
		n.take(j, j.run.perNode)
		n.completing--
		s.goesIdle(n)
	}
	j.freed = s.clock.Now()
	j.history.Runs[len(j.history.Runs)-1].Freed = j.freed
	j.run, j.completing = nil, false
	if j.state == bridge.Finished {
		s.retire(j)
		return
	}
	s.requeued(j)
}

// requeued makes the job wait out the penalty, unless it was told meanwhile to wait for something later than now.
func (s *Slurm) requeued(j *job) {
	now := s.clock.Now()
	j.submitted = now
	if !j.begin.After(now) {
		j.begin = now.Add(s.options.Penalty)
	}
	s.consider(j)
}

// retire ends the job for good: its history remains, and who waited for it goes on.
func (s *Slurm) retire(j *job) {
	j.state = bridge.Finished
	s.consider(j)
	s.clock.drop(j.wake)
	j.history.Ended, j.history.End = s.clock.Now(), j.end
	if s.ended++; s.ended > len(s.alive)/2 { // also where nobody observes
		s.sweep()
	}
	for _, next := range s.afters[j.id] {
		next.waits = false
		s.consider(next)
	}
	delete(s.afters, j.id)
	j.spec.Work.Rate = nil // it may hold on to a profile
	s.remember(j)
	if s.options.Ended != nil {
		s.jobs[j.id-1] = entry{ended: j.history.Ended, end: j.end}
		s.options.Ended(j.told())
	}
}

// told is the history as far as it goes.
func (j *job) told() History {
	history := j.history
	history.Done, history.Restarts = j.done, j.restarts
	return history
}
