package slurmtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// arrayFields is a job's array fields.
type arrayFields struct {
	array  int // 0: none
	task   int
	tasks  []int // for which it stands, ascending; empty: it is one task
	atOnce int   // limit of running tasks of the array; 0: all
}

// arrayFieldsOf is the array fields of a newly submitted job: none, those of an array's only task, or those of the
// common record of all its tasks.
func arrayFieldsOf(id int, spec *Spec) arrayFields {
	switch len(spec.Tasks) {
	case 0:
		return arrayFields{}
	case 1:
		return arrayFields{array: id, task: spec.Tasks[0], atOnce: spec.AtOnce}
	}
	return arrayFields{array: id, tasks: slices.Clone(spec.Tasks), atOnce: spec.AtOnce}
}

var (
	_ slurm.Splitter = (*Slurm)(nil)
	_ slurm.Splitter = (*Line)(nil)
)

// Split implements slurm.Splitter. The last task keeps the array's job.
func (s *Slurm) Split(ctx context.Context, array int, tasks []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.split(ctx, array, tasks); err != nil {
		return fmt.Errorf("split %d tasks of array %d: %w", len(tasks), array, err)
	}
	return nil
}

// split gives each named task that still waits in the array's common record a job of its own. Other tasks are left
// alone, so that the call can be repeated.
func (s *Slurm) split(ctx context.Context, array int, tasks []int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j, err := s.known(array)
	switch {
	case err != nil:
		return err
	case j.state != slurm.Pending:
		return slurm.ErrNotPending
	case j.held:
		return slurm.ErrHeld
	}
	for _, task := range tasks {
		if slices.Contains(j.tasks, task) {
			s.updateQueue(s.splitOff(j, task))
		}
	}
	return nil
}

// splitOff makes a new job for one waiting task of the array's common record j, with all that the array has, and
// returns it. The caller puts it into the queue or starts it. If the record then stands for a single task, it becomes
// the job of that task.
func (s *Slurm) splitOff(j *job, task int) *job {
	own := *j
	own.id = len(s.jobs) + 1
	own.arrayFields = arrayFields{array: j.array, task: task, atOnce: j.atOnce}
	own.queued, own.beginEvent, own.lastObserved = false, nil, nil
	own.history = History{Job: own.id, Name: j.spec.Name, Submitted: j.history.Submitted}
	s.jobs = append(s.jobs, entry{job: &own})
	s.alive = append(s.alive, &own)
	s.hideReason(&own)
	if own.isDependent {
		s.dependents[own.spec.After] = append(s.dependents[own.spec.After], &own)
	}
	if j.tasks = slices.DeleteFunc(slices.Clone(j.tasks), func(t int) bool { return t == task }); len(j.tasks) == 1 {
		j.task, j.tasks = j.tasks[0], nil
	}
	s.changed(j)
	return &own
}

// isArrayFull reports whether as many tasks of the job's array run as its limit (%) allows. Tasks that are completing
// count, and a job without a limit is never full.
func (s *Slurm) isArrayFull(j *job) bool {
	if j.atOnce == 0 {
		return false
	}
	running := 0
	for _, other := range s.alive {
		if other.array == j.array && (other.state == slurm.Running || other.completing) {
			running++
		}
	}
	return running >= j.atOnce
}

// Split implements slurm.Splitter.
func (l *Line) Split(ctx context.Context, array int, tasks []int) error {
	return l.call(Call{Verb: Split, Job: array},
		func() error { return l.slurm.(slurm.Splitter).Split(ctx, array, tasks) })
}
