package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// wake plans a scheduler pass after SchedulerDelay, if none is planned: like slurmctld it combines all changes of that
// time.
func (s *Slurm) wake() {
	if s.awaited {
		return
	}
	s.awaited = true
	s.clock.At(s.clock.Now().Add(s.options.SchedulerDelay), s.look)
}

// touch is called after each update of a job, also after a refused one: it clears the job's reason until the next pass
// and checks anew whether the job may start.
func (s *Slurm) touch(j *job) {
	s.keepSilent(j)
	s.consider(j)
}

// keepSilent clears the job's reason until the next pass, as slurmctld does at a submission, a requeue and an update:
// only a pass finds out why a job waits.
func (s *Slurm) keepSilent(j *job) {
	j.touched = s.passes
	s.silent = append(s.silent, j)
}

// speak makes the cleared reasons visible again when a pass begins, by invalidating the cached observations of these
// jobs.
func (s *Slurm) speak() {
	for k, j := range s.silent {
		s.changed(j)
		s.silent[k] = nil
	}
	s.silent = s.silent[:0]
}

// block records as the job's reason why the pass does not start it.
func (s *Slurm) block(j *job, why string) {
	if j.blocked != why {
		j.blocked = why
		s.changed(j)
	}
}

// consider is called after each change of a job. It puts the job into the scheduler's queue if nothing but room keeps
// it from starting, and else takes it out; for one with a future begin time it plans to do so then.
func (s *Slurm) consider(j *job) {
	s.changed(j)
	s.wake()
	now := s.clock.Now()
	waiting := j.state == slurm.Pending && !j.completing && !j.held && !j.waits &&
		j.lease == 0
	if waiting && j.begin.After(now) {
		s.lookAtBegin(j)
		waiting = false
	}
	switch {
	case !waiting:
		s.leaveQueue(j)
	case !j.queued:
		j.queued = true
		at, _ := slices.BinarySearchFunc(s.queue, j, byTurn)
		s.queue = slices.Insert(s.queue, at, j)
	}
}

// leaveQueue takes the job out of the queue, if it is there.
func (s *Slurm) leaveQueue(j *job) {
	if !j.queued {
		return
	}
	j.queued = false
	at, _ := slices.BinarySearchFunc(s.queue, j, byTurn)
	s.queue = slices.Delete(s.queue, at, at+1)
}

// lookAtBegin plans to consider the job at its begin time. A lease that is renewed again and again leaves one planned
// event, not one for each renewal: an event that comes too early finds the later begin time and plans anew.
func (s *Slurm) lookAtBegin(j *job) {
	if j.wake != nil && !j.wake.at.After(j.begin) {
		return
	}
	s.clock.drop(j.wake)
	j.wake = s.clock.plan(j.begin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		j.wake = nil
		s.consider(j)
	})
}

// look is the planned event of a scheduler pass.
func (s *Slurm) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass is one pass of the scheduler: it tries all jobs of the queue in their order, and starts each that fits. A job
// that does not fit blocks no later one, as with backfill, but makes the reason of later jobs without a node list in
// its partition Priority.
func (s *Slurm) pass() {
	s.awaited = false
	s.passes++
	s.speak()
	var tooBig []shape // what did not fit will not fit later in this pass
	var blocked []string
	for _, j := range slices.Clone(s.queue) {
		asked, plain := s.shapeOf(j)
		if plain && slices.Contains(tooBig, asked) {
			s.block(j, "Priority")
			continue
		}
		why := s.try(j)
		for why == "" && j.state == slurm.Pending { // an array of which a task was started
			why = s.try(j)
		}
		if why == "" {
			continue
		}
		if plain {
			tooBig = append(tooBig, asked)
		}
		if why == "Resources" && slices.Contains(blocked, j.partition()) && len(j.request.Pin) == 0 {
			why = "Priority"
		}
		s.block(j, why)
		blocked = append(blocked, j.partition())
	}
}

// shape is all that decides whether a job without constraints on its nodes fits. A pass tries each shape only until it
// does not fit, which makes passes over thousands of equal jobs cheap.
type shape struct {
	partition string
	perNode   gres.Vector
	nodes     int
	gpuType   string
}

// shapeOf is the job's shape, and true if nothing else decides whether it fits: no node list, features, excluded nodes,
// reservations, whole nodes or shard.
func (s *Slurm) shapeOf(j *job) (shape, bool) {
	plain := len(j.request.Pin)+len(j.spec.Features)+len(j.spec.Except)+len(s.reservations) == 0 && !j.spec.Exclusive &&
		j.request.Shard == ""
	return shape{j.partition(), s.perNode(j.request), j.request.Nodes, j.request.GPUType}, plain
}

// try starts the job in the first of its partitions in which it fits; why is empty then, and else Slurm's reason. A job
// with a node list is tried in its first partition only: slurmctld's pass then keeps those nodes from all jobs,
// including this one in its next partition. What backfill might do later is not modelled.
func (s *Slurm) try(j *job) (why string) {
	parts := j.parts
	if len(j.request.Pin) > 0 {
		parts = parts[:1]
	}
	for _, j.currentPartition = range parts {
		if why = s.tryIn(j); why == "" {
			return ""
		}
	}
	j.currentPartition = ""
	return why
}

// tryIn starts the job in j.currentPartition, which the caller has set, or returns Slurm's reason why not. Of an
// array's common record it starts the first waiting task, as a job of its own.
func (s *Slurm) tryIn(j *job) (why string) {
	perNode := s.perNode(j.request)
	if why := s.impossibleReason(j, perNode); why != "" {
		return why
	}
	if s.isArrayFull(j) {
		return "JobArrayTaskLimit"
	}
	nodes, why := s.choose(j, perNode)
	if why == "" {
		if len(j.tasks) > 0 {
			j = s.splitOff(j, j.tasks[0])
		}
		s.start(j, nodes, perNode)
	}
	return why
}

// impossibleReason is Slurm's reason if the job could not run even on empty nodes, else empty. Slurm accepts such an
// update and notices only now. If no node has that much memory or that many GPUs it parks the job at priority 0 and
// tries again after the next update; here it is tried in vain, which has the same effect.
func (s *Slurm) impossibleReason(j *job, perNode gres.Vector) string {
	candidates := s.candidates(j)
	room, cpus := 0, 0
	for _, n := range candidates {
		total := n.fixed.Total
		if perNode.GPUs <= total.GPUs && perNode.Memory <= total.Memory {
			room++
		}
		if perNode.CPUs <= total.CPUs {
			cpus++
		}
	}
	switch {
	case len(candidates) < j.request.Nodes:
		return "PartitionNodeLimit"
	case cpus < j.request.Nodes:
		return "PartitionConfig"
	case room < j.request.Nodes:
		return "BadConstraints"
	}
	return ""
}

// candidates are the nodes on which the job may run, in the order in which they are tried: those of its node list
// first, and others only if it needs more nodes than the list has. Of the others, those that need no boot come first.
func (s *Slurm) candidates(j *job) []*node {
	var nodes []*node
	for _, name := range j.request.Pin {
		if n := s.nodes[s.byName[name]]; n.serves(j) {
			nodes = append(nodes, n)
		}
	}
	if len(j.request.Pin) >= j.request.Nodes {
		return nodes
	}
	named := len(nodes)
	for _, n := range s.nodes {
		if n.serves(j) && !slices.Contains(j.request.Pin, n.fixed.Name) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes[named:], upFirst)
	return nodes
}

// choose finds as many nodes as the job needs on which it can start now, ascending in name. If there are too few it
// returns none and Slurm's reason; a node of the job's list that cannot take it decides alone, since Slurm then needs
// all of that list.
func (s *Slurm) choose(j *job, perNode gres.Vector) (chosen []*node, why string) {
	pinned, kept := min(len(j.request.Pin), j.request.Nodes), 0
	for i, n := range s.candidates(j) {
		if len(chosen) == j.request.Nodes {
			break
		}
		fits, free := ready(n, j, perNode), s.reservedFor(n, j)
		switch {
		case fits && free:
			chosen = append(chosen, n)
		case i < pinned && len(j.request.Pin) <= j.request.Nodes:
			return nil, refusal(n)
		case fits:
			kept++
		}
	}
	switch {
	case len(chosen) == j.request.Nodes:
	case j.spec.Reservation != "":
		return nil, "Reservation"
	case len(chosen)+kept >= j.request.Nodes:
		return nil, "ReqNodeNotAvail, Reserved for maintenance"
	default:
		return nil, "Resources"
	}
	slices.SortFunc(chosen, func(a, b *node) int { return strings.Compare(a.fixed.Name, b.fixed.Name) })
	return chosen, ""
}

// ready reports whether the job can start on the node now, apart from reservations. A job that gets whole nodes needs
// one without any job.
func ready(n *node, j *job, perNode gres.Vector) bool {
	if j.spec.Exclusive && len(n.holders) > 0 {
		return false
	}
	return n.open() && n.hasRoom(j, perNode)
}

// refusal is Slurm's reason for a job when a node of its node list cannot take it.
func refusal(n *node) string {
	if n.closed() != "" {
		return "ReqNodeNotAvail, UnavailableNodes:" + n.fixed.Name
	}
	return "Resources"
}

// possible returns an error if the nodes could not hold the job even when empty, which Slurm refuses at submission; nil
// if they could. Updates are checked less strictly, by servable.
func (s *Slurm) possible(j *job) error {
	perNode, able := s.perNode(j.request), 0
	for _, n := range s.nodes {
		if n.serves(j) && perNode.Fits(n.fixed.Total) {
			able++
		}
	}
	if able < j.request.Nodes {
		return fmt.Errorf("%w: %s on each of %d nodes: no partition has that", slurm.ErrRefused, perNode,
			j.request.Nodes)
	}
	return nil
}
