package slurmtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Invariants returns what is inconsistent now: a node over its capacity, a GPU or amount booked wrongly, a gang that is
// not whole, a job that runs twice, a cached observation of a job that has changed. It is always nil unless this
// package has a bug, or a job was started on fewer nodes than it asked for.
func (s *Slurm) Invariants() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := []error{s.checkCachedJobs()}
	for _, n := range s.nodes {
		broken = append(broken, n.checkBooking())
	}
	ended := 0
	for _, j := range s.alive {
		if j.isGone() {
			ended++
			continue
		}
		broken = append(broken, j.checkState())
	}
	if ended != s.ended {
		broken = append(broken, fmt.Errorf("%d jobs have ended, %d are counted", ended, s.ended))
	}
	return errors.Join(broken...)
}

// checkBooking returns an error if what is booked on the node differs from what the jobs on it hold, or exceeds the
// node.
func (n *node) checkBooking() error {
	var held gres.Vector
	completing := 0
	for _, j := range n.holders {
		if j.run == nil {
			return fmt.Errorf("node %s: held by job %d, which does not run", n.fixed.Name, j.id)
		}
		held = held.Plus(j.run.perNode)
		held.GPUs -= oneIf(j.run.asObserved.Shard != "") // several jobs may share one GPU; these are counted below
		if j.completing {
			completing++
		}
	}
	for _, sharing := range n.sharers {
		held.GPUs += oneIf(len(sharing) > 0)
	}
	switch {
	case !held.Fits(n.fixed.Total):
		return fmt.Errorf("node %s: %s held of %s", n.fixed.Name, held, n.fixed.Total)
	case held != n.allocated:
		return fmt.Errorf("node %s: %s held, %s booked", n.fixed.Name, held, n.allocated)
	case completing != n.completing:
		return fmt.Errorf("node %s: %d completing, %d counted", n.fixed.Name, completing, n.completing)
	}
	return n.checkDevices()
}

// checkDevices returns an error if a job on the node has another number of GPUs than it was given, or a GPU is given
// both whole and in shards, or to more jobs than it has shards.
func (n *node) checkDevices() error {
	for _, j := range n.holders {
		has := 0
		for _, holder := range n.gpus {
			has += oneIf(holder == j.id)
		}
		for _, sharing := range n.sharers {
			has += oneIf(slices.Contains(sharing, j))
		}
		if has != j.run.perNode.GPUs {
			return fmt.Errorf("node %s: job %d has %d devices of %d", n.fixed.Name, j.id, has, j.run.perNode.GPUs)
		}
	}
	for d, sharing := range n.sharers {
		switch {
		case len(sharing) > n.fixed.Devices[d].Shards:
			return fmt.Errorf("node %s: %d jobs on GPU %d, which has %d shards", n.fixed.Name, len(sharing), d,
				n.fixed.Devices[d].Shards)
		case len(sharing) > 0 && n.gpus[d] != 0:
			return fmt.Errorf("node %s: GPU %d is job %d's and that of %d others", n.fixed.Name, d, n.gpus[d],
				len(sharing))
		}
	}
	return nil
}

// checkState returns an error if the job's state contradicts its allocation: it must hold nodes exactly while it runs
// or is completing, as many as it asked for, and must not run before its begin time or under a lease.
func (j *job) checkState() error {
	holds := j.state == slurm.Running || j.completing
	switch {
	case holds != (j.run != nil):
		return fmt.Errorf("job %d: %s, completing %t, holds nodes %t", j.id, j.state, j.completing, j.run != nil)
	case j.run != nil && len(j.run.nodes) != len(slices.Compact(slices.Clone(j.run.asObserved.Nodes))):
		return fmt.Errorf("job %d: twice on one of %v", j.id, j.run.asObserved.Nodes)
	case j.state == slurm.Running && len(j.run.nodes) != j.request.Nodes:
		return fmt.Errorf("job %d: runs on %v of %d nodes", j.id, j.run.asObserved.Nodes, j.request.Nodes)
	case j.lease != 0 && j.state == slurm.Running:
		return fmt.Errorf("job %d: runs and waits for lease job %d", j.id, j.lease)
	case j.state == slurm.Running && j.begin.After(j.run.started):
		return fmt.Errorf("job %d: began at %s, not before %s", j.id, j.run.started, j.begin)
	}
	return nil
}

// checkCachedJobs returns an error if the cached observation differs from a new one. They differ when some code changes
// a job and does not call changed; a round would then act on an old state.
func (s *Slurm) checkCachedJobs() error {
	now := s.clock.Now()
	s.expire(now)
	exhibited := s.observableJobs()
	if listed := s.cached.jobs; listed != nil && len(listed) != len(exhibited) {
		return fmt.Errorf("%d jobs are shown of %d", len(listed), len(exhibited))
	}
	for k, j := range exhibited {
		if s.cached.jobs != nil && s.cached.jobs[k] != j.lastObserved {
			return fmt.Errorf("job %d: its picture is not the one that is shown", j.id)
		}
		if j.lastObserved == nil {
			continue
		}
		if is := s.observeJob(j, now); !reflect.DeepEqual(j.lastObserved, is) {
			return fmt.Errorf("job %d: shown as %+v, is %+v", j.id, *j.lastObserved, *is)
		}
	}
	return nil
}

// Altered are the IDs of waiting jobs whose request is not their user's own, ascending: if the daemon died now, Slurm
// would start them with another size or on named nodes. Between rounds there should be none.
func (s *Slurm) Altered() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var altered []int
	for _, j := range s.alive {
		if j.state == slurm.Pending && !j.completing && !sameRequest(j.request, j.userRequest) {
			altered = append(altered, j.id)
		}
	}
	return altered
}

// Owing are the living jobs that still have something from an update, ascending: another size or node list than their
// user's, a lease, or a future begin time. The daemon must have a record of each.
func (s *Slurm) Owing() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	var owing []int
	for _, j := range s.alive {
		if !j.isGone() &&
			(!sameRequest(j.request, j.userRequest) || j.lease != 0 || j.begin.After(now) &&
				j.begin.Equal(j.leaseBegin)) {
			owing = append(owing, j.id)
		}
	}
	return owing
}

// Leased are the IDs of the jobs in Owing whose request is their user's own, ascending: the lease or the begin time is
// all that is left of an update, and it ends by itself.
func (s *Slurm) Leased() []int {
	owing := s.Owing()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(
		owing,
		func(id int) bool { return !sameRequest(s.jobs[id-1].request, s.jobs[id-1].userRequest) },
	)
}

// sameRequest reports whether two requests are equal in every field. An empty node list equals nil.
func sameRequest(a, b slurm.Request) bool {
	return slices.Equal(a.Pin, b.Pin) && fmt.Sprintf("%+v", withoutPin(a)) == fmt.Sprintf("%+v", withoutPin(b))
}

func withoutPin(r slurm.Request) slurm.Request {
	r.Pin = nil
	return r
}

// History is the accounting record of a job, living or not; false for an ID that was never used. For a job that was
// passed to Options.Ended it has only how and when it ended.
func (s *Slurm) History(id int) (History, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id < 1 || id > len(s.jobs) {
		return History{}, false
	}
	e := &s.jobs[id-1]
	if e.job == nil {
		return History{Job: id, Ended: e.ended, End: e.end}, true
	}
	history := e.historySoFar()
	history.Runs = slices.Clone(history.Runs)
	return history, true
}
