package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Submit is sbatch: it returns the job's ID, or why Slurm refuses the job.
func (s *Slurm) Submit(spec Spec) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if spec.Partition == "" && len(s.nodes) > 0 {
		spec.Partition = s.nodes[0].fixed.Partitions[0]
	}
	request, err := s.complete(spec.Request)
	if err != nil {
		return 0, fmt.Errorf("submit %q: %w", spec.Name, err)
	}
	spec.Request = request
	if spec.Reservation != "" && s.reservation(spec.Reservation) == nil {
		return 0, fmt.Errorf("submit %q: %w: reservation %q: requested reservation is invalid", spec.Name,
			slurm.ErrRefused, spec.Reservation)
	}
	j := s.newJob(spec)
	if err := s.possible(j); err != nil {
		return 0, fmt.Errorf("submit %q: %w", spec.Name, err)
	}
	s.jobs = append(s.jobs, entry{job: j})
	s.alive = append(s.alive, j)
	s.keepSilent(j)
	s.await(j)
	s.consider(j)
	return j.id, nil
}

// newJob makes a job from a submission, with its lease if it has one.
func (s *Slurm) newJob(spec Spec) *job {
	now := s.clock.Now()
	id := len(s.jobs) + 1
	j := &job{
		id: id, spec: spec, own: spec.Request, request: spec.Request, extra: spec.Extra,
		state: slurm.Pending, held: spec.Held, priority: spec.Priority, requeue: !spec.NoRequeue && !spec.Interactive,
		begin: spec.Begin, submitted: now, parts: strings.Split(spec.Partition, ","),
		history: History{Job: id, Name: spec.Name, Submitted: now},
		part:    partOf(id, &spec),
	}
	if spec.Lease > 0 {
		j.extra = annotation(spec)
		if lapses := now.Add(spec.Lease); lapses.After(j.begin) {
			j.begin = lapses
		}
	}
	return j
}

// annotation is what job_submit.lua writes into extra: the user's begin time, or 0.
func annotation(spec Spec) string {
	begin := int64(0)
	if !spec.Begin.IsZero() {
		begin = spec.Begin.Unix()
	}
	return fmt.Sprintf(`{"v":1,"lua":1,"begin":%d}`, begin)
}

// await makes the job wait for the one that it depends on, unless that has ended.
func (s *Slurm) await(j *job) {
	if j.spec.After < 1 || j.spec.After >= j.id || s.jobs[j.spec.After-1].over() {
		return
	}
	j.waits = true
	s.afters[j.spec.After] = append(s.afters[j.spec.After], j)
}

// Cancel is scancel: a running job is terminated, a waiting one ends at once.
func (s *Slurm) Cancel(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.known(id)
	if err != nil || j.gone() {
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
		s.retire(j)
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

// Modify is scontrol update of a job's partition, time limit (0: none), priority and AdminComment. Other changes of the
// spec have no effect.
func (s *Slurm) Modify(id int, change func(*Spec)) {
	s.edit(id, func(j *job) {
		before := Spec{Partition: strings.Join(j.parts, ","), TimeLimit: j.spec.TimeLimit, Priority: j.priority,
			Admin: j.spec.Admin}
		after := before
		change(&after)
		j.parts, j.spec.Admin = strings.Split(after.Partition, ","), after.Admin
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
func (s *Slurm) Hold(id int) { s.edit(id, func(j *job) { j.held = true }) }

// Release is scontrol release.
func (s *Slurm) Release(id int) { s.edit(id, func(j *job) { j.held = false }) }

// SetComment is scontrol update comment=, which a job's owner may do unless a lua script vetoes it.
func (s *Slurm) SetComment(id int, comment string) {
	s.edit(id, func(j *job) { j.spec.Comment = comment })
}

// SetExtra is scontrol update extra=.
func (s *Slurm) SetExtra(id int, extra string) { s.edit(id, func(j *job) { j.extra = extra }) }

// edit changes a living job and has the scheduler consider it.
func (s *Slurm) edit(id int, change func(*job)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.known(id)
	if err != nil || j.gone() {
		return
	}
	change(j)
	s.touch(j)
}

// Drain closes a node to new jobs.
func (s *Slurm) Drain(name string) { s.set(name, "DRAIN") }

// SetFeatures sets a node's features.
func SetFeatures(s *Slurm, name string, features ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		s.nodes[i].fixed.Features = features
		s.wake()
	}
}

// Resume opens a node again.
func (s *Slurm) Resume(name string) { s.set(name) }

// set removes the words that close a node and adds others. Its power state stays.
func (s *Slurm) set(name string, in ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		n := s.nodes[i]
		n.turns(slices.DeleteFunc(slices.Clone(n.state), func(word string) bool { return !n.keepsOff(word) }), in...)
		s.wake()
	}
}

// Down loses a node: its jobs are requeued with their present request, including a node list that names the node, or
// end.
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
			s.lose(j)
		}
	}
	s.wake()
}
