package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// planPass plans a scheduler pass after SchedulerDelay, if none is planned: like slurmctld it combines all changes of
// that time.
func (s *Slurm) planPass() {
	if s.passPlanned {
		return
	}
	s.passPlanned = true
	s.clock.At(s.clock.Now().Add(s.options.SchedulerDelay), s.runPlannedPass)
}

// noteUpdate is called after each update of a job, also after a refused one: it clears the job's reason until the next
// pass and checks anew whether the job may start.
func (s *Slurm) noteUpdate(j *job) {
	s.hideReason(j)
	s.updateQueue(j)
}

// hideReason clears the job's reason until the next pass, as slurmctld does at a submission, a requeue and an update:
// only a pass finds out why a job waits.
func (s *Slurm) hideReason(j *job) {
	j.updatePass = s.passes
	s.hiddenReasons = append(s.hiddenReasons, j)
}

// showReasons makes the cleared reasons visible again when a pass begins, by invalidating the cached observations of
// these jobs.
func (s *Slurm) showReasons() {
	for k, j := range s.hiddenReasons {
		s.changed(j)
		s.hiddenReasons[k] = nil
	}
	s.hiddenReasons = s.hiddenReasons[:0]
}

// setReason records as the job's reason why the pass does not start it.
func (s *Slurm) setReason(j *job, why string) {
	if j.blocked != why {
		j.blocked = why
		s.changed(j)
	}
}

// updateQueue is called after each change of a job. It puts the job into the scheduler's queue if nothing but room
// keeps it from starting, and else takes it out; for one with a future begin time it plans to check again then. It also
// invalidates what is cached of the job and plans a pass.
func (s *Slurm) updateQueue(j *job) {
	s.changed(j)
	s.planPass()
	now := s.clock.Now()
	waiting := j.state == slurm.Pending && !j.completing && !j.held && !j.isDependent &&
		j.lease == 0
	if waiting && j.begin.After(now) {
		s.planBegin(j)
		waiting = false
	}
	switch {
	case !waiting:
		s.leaveQueue(j)
	case !j.queued:
		j.queued = true
		at, _ := slices.BinarySearchFunc(s.queue, j, byPriority)
		s.queue = slices.Insert(s.queue, at, j)
	}
}

// leaveQueue takes the job out of the queue, if it is there.
func (s *Slurm) leaveQueue(j *job) {
	if !j.queued {
		return
	}
	j.queued = false
	at, _ := slices.BinarySearchFunc(s.queue, j, byPriority)
	s.queue = slices.Delete(s.queue, at, at+1)
}

// planBegin plans to consider the job at its begin time. A lease that is renewed again and again leaves one planned
// event, not one for each renewal: an event that comes too early finds the later begin time and plans anew.
func (s *Slurm) planBegin(j *job) {
	if j.beginEvent != nil && !j.beginEvent.at.After(j.begin) {
		return
	}
	s.clock.cancelEvent(j.beginEvent)
	j.beginEvent = s.clock.plan(j.begin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		j.beginEvent = nil
		s.updateQueue(j)
	})
}

// runPlannedPass is the planned event of a scheduler pass.
func (s *Slurm) runPlannedPass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedulePass()
}

// schedulePass is one pass of the scheduler: it tries all jobs of the queue in their order, and starts each that fits.
// A job that does not fit blocks no later one, as with backfill. But later jobs of its partition without a node list
// that lack room then have the reason Priority in place of Resources, as slurmctld shows it.
func (s *Slurm) schedulePass() {
	s.passPlanned = false
	s.passes++
	s.showReasons()
	var tooBig []fitKey // what did not fit will not fit later in this pass
	var blocked []string
	for _, j := range slices.Clone(s.queue) {
		asked, plain := s.fitKeyOf(j)
		if plain && slices.Contains(tooBig, asked) {
			s.setReason(j, "Priority")
			continue
		}
		why := s.tryStart(j)
		for why == "" && j.state == slurm.Pending { // an array of which a task was started
			why = s.tryStart(j)
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
		s.setReason(j, why)
		blocked = append(blocked, j.partition())
	}
}

// fitKey is all that decides whether a job without constraints on its nodes fits. A pass tries jobs of one key only
// until one of them does not fit, which makes passes over thousands of equal jobs cheap.
type fitKey struct {
	partition string
	perNode   gres.Vector
	nodes     int
	gpuType   string
}

// fitKeyOf is the job's key, and true if nothing else decides whether it fits: the job has no node list, features,
// excluded nodes or shard, gets no whole nodes, and the cluster has no reservations.
func (s *Slurm) fitKeyOf(j *job) (fitKey, bool) {
	plain := len(j.request.Pin)+len(j.spec.Features)+len(j.spec.Except)+len(s.reservations) == 0 && !j.spec.Exclusive &&
		j.request.Shard == ""
	return fitKey{j.partition(), s.perNode(j.request), j.request.Nodes, j.request.GPUType}, plain
}

// tryStart starts the job in the first of its partitions in which it fits; why is empty then, and else Slurm's reason.
// A job with a node list is tried in its first partition only: slurmctld's pass then keeps those nodes from all jobs,
// including this one in its next partition. What backfill might do later is not modelled.
func (s *Slurm) tryStart(j *job) (why string) {
	parts := j.startPartitions
	if len(j.request.Pin) > 0 {
		parts = parts[:1]
	}
	for _, j.currentPartition = range parts {
		if why = s.tryPartition(j); why == "" {
			return ""
		}
	}
	j.currentPartition = ""
	return why
}

// tryPartition starts the job in j.currentPartition, which the caller has set, or returns Slurm's reason why not. If
// the job is the record of an array, the first waiting task is split off and started.
func (s *Slurm) tryPartition(j *job) (why string) {
	perNode := s.perNode(j.request)
	if why := s.impossibleReason(j, perNode); why != "" {
		return why
	}
	if s.isArrayFull(j) {
		return "JobArrayTaskLimit"
	}
	nodes, why := s.chooseNodes(j, perNode)
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
// first, and other nodes only if it needs more than the list has. Among the other nodes, those that need no boot come
// first.
func (s *Slurm) candidates(j *job) []*node {
	var nodes []*node
	for _, name := range j.request.Pin {
		if n := s.nodes[s.byName[name]]; n.isEligible(j) {
			nodes = append(nodes, n)
		}
	}
	if len(j.request.Pin) >= j.request.Nodes {
		return nodes
	}
	named := len(nodes)
	for _, n := range s.nodes {
		if n.isEligible(j) && !slices.Contains(j.request.Pin, n.fixed.Name) {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes[named:], byBootRank)
	return nodes
}

// chooseNodes finds as many nodes as the job needs on which it can start now, ascending in name. If there are too few
// it returns nil and the reason that Slurm shows. If the job must have every node of its --nodelist, that is the reason
// of the first of them that cannot take it.
func (s *Slurm) chooseNodes(j *job, perNode gres.Vector) (chosen []*node, why string) {
	pinned, kept := min(len(j.request.Pin), j.request.Nodes), 0
	for i, n := range s.candidates(j) {
		if len(chosen) == j.request.Nodes {
			break
		}
		fits, free := canStartOn(n, j, perNode), s.reservationsAllow(n, j)
		switch {
		case fits && free:
			chosen = append(chosen, n)
		case i < pinned && len(j.request.Pin) <= j.request.Nodes:
			return nil, pinReason(n)
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

// canStartOn reports whether the job can start on the node now, apart from reservations. A job that gets whole nodes
// needs one without any job.
func canStartOn(n *node, j *job, perNode gres.Vector) bool {
	if j.spec.Exclusive && len(n.holders) > 0 {
		return false
	}
	return n.isOpen() && n.hasRoom(j, perNode)
}

// pinReason is Slurm's reason for a job when a node of its node list cannot take it.
func pinReason(n *node) string {
	if n.closingWords() != "" {
		return "ReqNodeNotAvail, UnavailableNodes:" + n.fixed.Name
	}
	return "Resources"
}

// checkPossible returns an error if the nodes could not hold the job even when empty, which Slurm refuses at
// submission; nil if they could. Updates are checked less strictly, by checkCPUs.
func (s *Slurm) checkPossible(j *job) error {
	perNode, able := s.perNode(j.request), 0
	for _, n := range s.nodes {
		if n.isEligible(j) && perNode.Fits(n.fixed.Total) {
			able++
		}
	}
	if able < j.request.Nodes {
		return fmt.Errorf("%w: %s on each of %d nodes: no partition has that", slurm.ErrRefused, perNode,
			j.request.Nodes)
	}
	return nil
}
