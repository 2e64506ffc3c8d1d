package slurmtest

import (
	"context"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Deadlined is the end of a job whose deadline came before it ran.
const Deadlined End = "DEADLINE"

// Leases manages the lease job of the user Daemons.
type Leases struct{ slurm *Slurm }

var _ slurm.Leases = Leases{}

// Leases returns the leases of the user Daemons.
func (s *Slurm) Leases() Leases { return Leases{s} }

// Renew implements slurm.Leases. The lease job is held and asks for no GPU. If it is released it runs and ends at once.
func (l Leases) Renew(ctx context.Context, length time.Duration) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("renew the lease: %w", err)
	}
	id := l.slurm.leaseJob()
	if id == 0 {
		var err error
		id, err = l.slurm.Submit(Spec{Name: slurm.LeaseName, User: Daemons, Held: true, NoRequeue: true,
			Work: Work{Length: time.Millisecond}})
		if err != nil {
			return 0, fmt.Errorf("make the lease job: %w", err)
		}
	}
	l.slurm.setDeadline(id, length)
	return id, nil
}

// End implements slurm.Leases.
func (l Leases) End(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("end the lease: %w", err)
	}
	if id := l.slurm.leaseJob(); id != 0 {
		l.slurm.Cancel(id)
	}
	return nil
}

// leaseJob is the ID of the pending lease job; 0 if there is none, so that Renew has to make one.
func (s *Slurm) leaseJob() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.alive {
		if s.isLease(j.id) {
			return j.id
		}
	}
	return 0
}

// isLease reports whether the job is the pending lease job. Its user is compared, because any user may submit a job
// with that name.
func (s *Slurm) isLease(id int) bool {
	if id < 1 || id > len(s.jobs) {
		return false
	}
	j := s.jobs[id-1].job
	return j != nil && j.spec.Name == slurm.LeaseName && j.spec.User == Daemons && j.state == slurm.Pending
}

// setDeadline has Slurm end the pending job length from now. Each call plans an event of its own. If a later call has
// moved the deadline, the events of the earlier calls do nothing.
func (s *Slurm) setDeadline(id int, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[id-1].job
	j.spec.Deadline = s.clock.Now().Add(length)
	s.changed(j)
	s.clock.At(j.spec.Deadline, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j.state == slurm.Pending && !s.clock.Now().Before(j.spec.Deadline) {
			j.end = Deadlined
			s.endJob(j)
		}
	})
}

// releaseWaiting is called when a job ends. If it was the lease job, the jobs that waited for it may start now: this is
// how jobs get free when no daemon renews the lease.
func (s *Slurm) releaseWaiting(id int) {
	for _, j := range s.alive {
		if j.lease == id {
			j.lease = 0
			s.updateQueue(j)
		}
	}
}

// Leases returns the leases of the Slurm behind this line.
func (l *Line) Leases() slurm.Leases { return lineLeases{l} }

// lineLeases is slurm.Leases over a line, so that calls for the lease job are recorded and can fail, too.
type lineLeases struct{ line *Line }

func (l lineLeases) leases() slurm.Leases {
	return l.line.slurm.(interface{ Leases() Leases }).Leases()
}

func (l lineLeases) Renew(ctx context.Context, length time.Duration) (job int, err error) {
	err = l.line.call(Call{Verb: Renew}, func() error {
		job, err = l.leases().Renew(ctx, length)
		return err
	})
	return job, err
}

func (l lineLeases) End(ctx context.Context) error {
	return l.line.call(Call{Verb: Lapse}, func() error { return l.leases().End(ctx) })
}
