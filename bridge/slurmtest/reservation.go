package slurmtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Reserve is scontrol create reservation: while it lasts only jobs that were submitted to it start on its nodes, and
// before that only jobs whose time limit ends by then. It ends no job.
func (s *Slurm) Reserve(r slurm.Reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Nodes = slices.Sorted(slices.Values(r.Nodes))
	s.replace(append(s.without(r.Name), r))
	for _, moment := range []time.Time{r.From, r.To} {
		if !moment.IsZero() {
			s.clock.At(moment, s.turnOver)
		}
	}
}

// Unreserve is scontrol delete reservation.
func (s *Slurm) Unreserve(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(s.without(name))
}

// turnOver handles the beginning or end of a reservation.
func (s *Slurm) turnOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.replace(slices.DeleteFunc(slices.Clone(s.reservations), func(r slurm.Reservation) bool { return ended(r, now) }))
}

func ended(r slurm.Reservation, now time.Time) bool { return !r.To.IsZero() && !r.To.After(now) }

func (s *Slurm) without(name string) []slurm.Reservation {
	return slices.DeleteFunc(slices.Clone(s.reservations), func(r slurm.Reservation) bool { return r.Name == name })
}

// replace sets the list of reservations and wakes the scheduler.
func (s *Slurm) replace(reservations []slurm.Reservation) {
	slices.SortFunc(reservations, func(a, b slurm.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	s.reservations = reservations
	s.wake()
}

func holds(r slurm.Reservation, n *node) bool {
	_, has := slices.BinarySearch(r.Nodes, n.fixed.Name)
	return has
}

// reservation finds a reservation by name; nil if there is none.
func (s *Slurm) reservation(name string) *slurm.Reservation {
	for i := range s.reservations {
		if s.reservations[i].Name == name {
			return &s.reservations[i]
		}
	}
	return nil
}

// reservedFor reports whether reservations let the job start on the node now. A job with a reservation needs it to have
// begun and to have the node; a job without one must end by its time limit before any begins on the node.
func (s *Slurm) reservedFor(n *node, j *job) bool {
	now, own := s.clock.Now(), j.spec.Reservation
	if own != "" {
		r := s.reservation(own)
		return r != nil && !r.From.After(now) && (len(r.Nodes) == 0 || holds(*r, n))
	}
	for _, r := range s.reservations {
		over := j.spec.TimeLimit > 0 && !now.Add(j.spec.TimeLimit).After(r.From)
		if holds(r, n) && !over {
			return false
		}
	}
	return true
}
