package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Submit is sbatch: it returns the job's ID, or why Slurm refuses the job (ErrRefused). A submission that is refused
// uses no ID.
func (s *Slurm) Submit(spec Spec) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spec.Partition == "" && len(s.nodes) > 0 {
		spec.Partition = s.nodes[0].fixed.Partitions[0]
	}
	request, err := s.fillRequest(spec.Request)
	if err != nil {
		return 0, fmt.Errorf("submit %q: %w", spec.Name, err)
	}
	spec.Request = request
	if spec.Reservation != "" && s.reservation(spec.Reservation) == nil {
		return 0, fmt.Errorf("submit %q: %w: reservation %q: requested reservation is invalid", spec.Name,
			slurm.ErrRefused, spec.Reservation)
	}
	j := s.newJob(spec)
	if err := s.checkPossible(j); err != nil {
		return 0, fmt.Errorf("submit %q: %w", spec.Name, err)
	}
	s.jobs = append(s.jobs, entry{job: j})
	s.alive = append(s.alive, j)
	s.hideReason(j)
	s.awaitDependency(j)
	s.updateQueue(j)
	return j.id, nil
}

// newJob makes a job from a submission. For a job with a lease it does what job_submit.lua does: the begin time is the
// end of the lease, unless the user's own is later, and the annotation keeps the user's.
func (s *Slurm) newJob(spec Spec) *job {
	now := s.clock.Now()
	id := len(s.jobs) + 1
	j := &job{
		id: id, spec: spec, userRequest: spec.Request, request: spec.Request, extra: spec.Extra,
		state: slurm.Pending, held: spec.Held, priority: spec.Priority, requeue: !spec.NoRequeue && !spec.Interactive,
		begin: spec.Begin, submitted: now, startPartitions: strings.Split(spec.Partition, ","),
		history:     History{Job: id, Name: spec.Name, Submitted: now},
		arrayFields: arrayFieldsOf(id, &spec),
	}
	if spec.Lease > 0 {
		j.extra = annotation(spec)
		if lapses := now.Add(spec.Lease); lapses.After(j.begin) {
			j.begin = lapses
		}
	}
	return j
}

// annotation is what job_submit.lua writes into extra: the begin time that the user asked for in Unix seconds, or 0, so
// that the daemon can restore it.
func annotation(spec Spec) string {
	begin := int64(0)
	if !spec.Begin.IsZero() {
		begin = spec.Begin.Unix()
	}
	return fmt.Sprintf(`{"v":1,"lua":1,"begin":%d}`, begin)
}

// awaitDependency makes the job wait for the end of the job that it depends on (Spec.After). It does not wait if the
// other job has ended or does not exist.
func (s *Slurm) awaitDependency(j *job) {
	if j.spec.After < 1 || j.spec.After >= j.id || s.jobs[j.spec.After-1].isOver() {
		return
	}
	j.isDependent = true
	s.dependents[j.spec.After] = append(s.dependents[j.spec.After], j)
}

// Cancel is scancel: a running job is terminated, a waiting one ends at once, and one that is being cleaned up,
// requeued or not, ends as CANCELLED with the teardown. For a job that is over or unknown it does nothing.
func (s *Slurm) Cancel(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.known(id)
	if err != nil || j.isGone() {
		return
	}
	switch {
	case j.completing:
		j.state, j.end = slurm.Finished, Cancelled
		s.changed(j)
	case j.state == slurm.Running:
		s.terminate(j, Cancelled)
	default:
		j.end = Cancelled
		s.endJob(j)
	}
}

// Kill is scancel --signal by the user: unlike the port's Signal it does not set the requeue flag.
func (s *Slurm) Kill(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, err := s.known(id); err == nil && j.state == slurm.Running {
		s.deliver(j, slurm.Signal{Name: "USR1"})
	}
}

// Modify is scontrol update of a job's partition, time limit (0: none), priority and AdminComment. change gets a Spec
// with only these fields, and other changes have no effect.
func (s *Slurm) Modify(id int, change func(*Spec)) {
	s.editJob(id, func(j *job) {
		before := Spec{
			Partition: strings.Join(j.startPartitions, ","),
			TimeLimit: j.spec.TimeLimit,
			Priority:  j.priority,
			Admin:     j.spec.Admin,
		}
		after := before
		change(&after)
		j.startPartitions, j.spec.Admin = strings.Split(after.Partition, ","), after.Admin
		if after.Priority != before.Priority {
			s.leaveQueue(j)
			j.priority = after.Priority
		}
		if j.spec.TimeLimit = after.TimeLimit; after.TimeLimit != before.TimeLimit && j.state == slurm.Running {
			s.planLimit(j)
		}
	})
}

// Hold is scontrol hold.
func (s *Slurm) Hold(id int) { s.editJob(id, func(j *job) { j.held = true }) }

// Release is scontrol release.
func (s *Slurm) Release(id int) { s.editJob(id, func(j *job) { j.held = false }) }

// SetComment is scontrol update comment=, which a job's owner may do unless a lua script vetoes it.
func (s *Slurm) SetComment(id int, comment string) {
	s.editJob(id, func(j *job) { j.spec.Comment = comment })
}

// SetExtra is scontrol update extra=.
func (s *Slurm) SetExtra(id int, extra string) { s.editJob(id, func(j *job) { j.extra = extra }) }

// editJob changes a job for a user's or administrator's command and has the scheduler consider it. A job that has ended
// or is unknown is left alone, without an error.
func (s *Slurm) editJob(id int, change func(*job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.known(id)
	if err != nil || j.isGone() {
		return
	}
	change(j)
	s.noteUpdate(j)
}

// Drain closes a node to new jobs.
func (s *Slurm) Drain(name string) { s.replaceClosing(name, "DRAIN") }

// SetFeatures replaces a node's features, as scontrol update does; the next pass uses them.
func SetFeatures(s *Slurm, name string, features ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		s.nodes[i].fixed.Features = features
		s.planPass()
	}
}

// Resume opens a node again.
func (s *Slurm) Resume(name string) { s.replaceClosing(name) }

// replaceClosing replaces those state words that close the node by the given ones; none opens it. The words about power
// stay, since scontrol's state=drain or resume does not change whether a node is powered.
func (s *Slurm) replaceClosing(name string, in ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		n := s.nodes[i]
		n.replaceState(
			slices.DeleteFunc(slices.Clone(n.state), func(word string) bool { return !n.closesNode(word) }),
			in...)
		s.planPass()
	}
}

// Down loses a node as when it does not respond: its jobs are requeued at once, or end if they may not be requeued. As
// in slurmctld a requeued job keeps its present request, including a node list that names the lost node.
func (s *Slurm) Down(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.byName[name]
	if !found {
		return
	}
	s.nodes[i].state = []string{"DOWN"}
	for _, j := range slices.Clone(s.nodes[i].holders) {
		if j.state == slurm.Running {
			s.loseNode(j)
		}
	}
	s.planPass()
}
