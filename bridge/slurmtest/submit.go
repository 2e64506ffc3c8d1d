package slurmtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Submit is sbatch: it returns the job's ID, or says why Slurm would not take the job.
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
			bridge.ErrRefused, spec.Reservation)
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

func (s *Slurm) newJob(spec Spec) *job {
	now := s.clock.Now()
	id := len(s.jobs) + 1
	j := &job{
		id: id, spec: spec, own: spec.Request, request: spec.Request, extra: spec.Extra,
		state: bridge.Pending, held: spec.Held, priority: spec.Priority, requeue: !spec.NoRequeue && !spec.Interactive,
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

// annotation is what job_submit.lua leaves in extra: the begin time that the user asked for, if any.
func annotation(spec Spec) string {
	begin := int64(0)
	if !spec.Begin.IsZero() {
		begin = spec.Begin.Unix()
	}
	return fmt.Sprintf(`{"v":1,"lua":1,"begin":%d}`, begin)
}

// await makes the job wait for the one that it depends on, if that lives.
func (s *Slurm) await(j *job) {
	if j.spec.After < 1 || j.spec.After >= j.id || s.jobs[j.spec.After-1].over() {
		return
	}
	j.waits = true
	s.afters[j.spec.After] = append(s.afters[j.spec.After], j)
}

// Cancel is scancel: the job ends as one that is told to terminate.
func (s *Slurm) Cancel(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.known(id)
	if err != nil || j.gone() {
		return
	}
	switch {
	case j.completing:
		j.state, j.end = bridge.Finished, Cancelled
		s.changed(j)
	case j.state == bridge.Running:
		s.terminate(j, Cancelled)
	default:
		j.end = Cancelled
		s.retire(j)
	}
}

// Kill is scancel --signal by the user: unlike the port's Signal it leaves the requeue flag alone.
func (s *Slurm) Kill(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, err := s.known(id); err == nil && j.state == bridge.Running {
		s.deliver(j, bridge.Signal{Name: "USR1"})
	}
}

// Modify is scontrol update of what it says of a job's partition, time limit (0: none) and priority, and of what an
// administrator says of it. Other changes of the spec have no effect.
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
		if j.spec.TimeLimit = after.TimeLimit; after.TimeLimit != before.TimeLimit && j.state == bridge.Running {
			s.planLimit(j)
		}
	})
}

// Hold is scontrol hold.
func (s *Slurm) Hold(id int) { s.edit(id, func(j *job) { j.held = true }) }

// Release is scontrol release.
func (s *Slurm) Release(id int) { s.edit(id, func(j *job) { j.held = false }) }

// SetComment is scontrol update comment=, as the owner of a job may do where nothing vetoes it.
func (s *Slurm) SetComment(id int, comment string) {
	s.edit(id, func(j *job) { j.spec.Comment = comment })
}

// SetExtra is scontrol update extra=.
func (s *Slurm) SetExtra(id int, extra string) { s.edit(id, func(j *job) { j.extra = extra }) }

// edit changes a job that lives, and has the scheduler look at it.
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

// SetFeatures has a node have other features.
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

// set opens a node and puts words into its state. What its power is stays.
func (s *Slurm) set(name string, in ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, found := s.byName[name]; found {
		n := s.nodes[i]
		n.turns(slices.DeleteFunc(slices.Clone(n.state), func(word string) bool { return !n.keepsOff(word) }), in...)
		s.wake()
	}
}

// Down loses a node: its jobs go back to the queue with all that they carry, the pin to this node included, or end.
func (s *Slurm) Down(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.byName[name]
	if !found {
		return
	}
	s.nodes[i].state = []string{"DOWN"}
	for _, j := range slices.Clone(s.nodes[i].holders) {
		if j.state == bridge.Running {
			s.lose(j)
		}
	}
	s.wake()
}
