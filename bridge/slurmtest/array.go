package slurmtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// part is what a job has of an array.
type part struct {
	array  int // 0: it belongs to none
	task   int
	tasks  []int // that it stands for, ascending; empty: it is one task
	atOnce int   // of the array; 0: all
}

// partOf is that of a job when it is submitted, alone or with the tasks of an array.
func partOf(id int, spec *Spec) part {
	switch len(spec.Tasks) {
	case 0:
		return part{}
	case 1:
		return part{array: id, task: spec.Tasks[0], atOnce: spec.AtOnce}
	}
	return part{array: id, tasks: slices.Clone(spec.Tasks), atOnce: spec.AtOnce}
}

var (
	_ bridge.Splitter = (*Slurm)(nil)
	_ bridge.Splitter = (*Line)(nil)
)

// Split implements bridge.Splitter. The last task of an array keeps the array's job.
func (s *Slurm) Split(ctx context.Context, array int, tasks []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.split(ctx, array, tasks); err != nil {
		return fmt.Errorf("split %d tasks of array %d: %w", len(tasks), array, err)
	}
	return nil
}

func (s *Slurm) split(ctx context.Context, array int, tasks []int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := s.known(array)
	switch {
	case err != nil:
		return err
	case j.state != bridge.Pending:
		return bridge.ErrNotPending
	case j.held:
		return bridge.ErrHeld
	}
	for _, task := range tasks {
		if slices.Contains(j.tasks, task) {
			s.consider(s.splitOff(j, task))
		}
	}
	return nil
}

// splitOff gives a task that waits a job of its own.
func (s *Slurm) splitOff(j *job, task int) *job {
	own := *j
	own.id = len(s.jobs) + 1
	own.part = part{array: j.array, task: task, atOnce: j.atOnce}
	own.queued, own.wake, own.shown = false, nil, nil
	own.history = History{Job: own.id, Name: j.spec.Name, Submitted: j.history.Submitted}
	s.jobs = append(s.jobs, entry{job: &own})
	s.alive = append(s.alive, &own)
	s.keepSilent(&own)
	if own.waits {
		s.afters[own.spec.After] = append(s.afters[own.spec.After], &own)
	}
	if j.tasks = slices.DeleteFunc(slices.Clone(j.tasks), func(t int) bool { return t == task }); len(j.tasks) == 1 {
		j.task, j.tasks = j.tasks[0], nil
	}
	s.changed(j)
	return &own
}

// enough says that as many tasks of the job's array run as may at once.
func (s *Slurm) enough(j *job) bool {
	if j.atOnce == 0 {
		return false
	}
	running := 0
	for _, other := range s.alive {
		if other.array == j.array && (other.state == bridge.Running || other.completing) {
			running++
		}
	}
	return running >= j.atOnce
}

// Split implements bridge.Splitter.
func (l *Line) Split(ctx context.Context, array int, tasks []int) error {
	return l.say(Call{Verb: Split, Job: array},
		func() error { return l.slurm.(bridge.Splitter).Split(ctx, array, tasks) })
}
