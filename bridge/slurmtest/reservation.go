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
	s.setReservations(append(s.reservationsWithout(r.Name), r))
	for _, moment := range []time.Time{r.From, r.To} {
		if !moment.IsZero() {
			s.clock.At(moment, s.dropEnded)
		}
	}
}

// Unreserve is scontrol delete reservation.
func (s *Slurm) Unreserve(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setReservations(s.reservationsWithout(name))
}

// dropEnded is the event at the beginning and the end of a reservation: it drops those that have ended, and has the
// scheduler try all jobs again.
func (s *Slurm) dropEnded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.setReservations(
		slices.DeleteFunc(
			slices.Clone(s.reservations),
			func(r slurm.Reservation) bool { return reservationEnded(r, now) },
		),
	)
}

// reservationEnded reports whether the reservation is over; one with a zero To never is.
func reservationEnded(r slurm.Reservation, now time.Time) bool {
	return !r.To.IsZero() && !r.To.After(now)
}

// reservationsWithout is a new list of all reservations but the one of that name.
func (s *Slurm) reservationsWithout(name string) []slurm.Reservation {
	return slices.DeleteFunc(slices.Clone(s.reservations), func(r slurm.Reservation) bool { return r.Name == name })
}

// setReservations sets the list of reservations and plans a pass, since other jobs may start now. The argument must be
// a new list: the old one may have been returned by Observe.
func (s *Slurm) setReservations(reservations []slurm.Reservation) {
	slices.SortFunc(reservations, func(a, b slurm.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	s.reservations = reservations
	s.planPass()
}

// reservesNode reports whether the reservation has the node.
func reservesNode(r slurm.Reservation, n *node) bool {
	_, has := slices.BinarySearch(r.Nodes, n.fixed.Name)
	return has
}

// reservation is the active or future reservation of that name; nil if there is none.
func (s *Slurm) reservation(name string) *slurm.Reservation {
	for i := range s.reservations {
		if s.reservations[i].Name == name {
			return &s.reservations[i]
		}
	}
	return nil
}

// reservationsAllow reports whether reservations let the job start on the node now. A job that was submitted to a
// reservation needs it to have begun and to have the node. Any other job must end by its time limit before a
// reservation begins there, so one without a limit never may.
func (s *Slurm) reservationsAllow(n *node, j *job) bool {
	now, own := s.clock.Now(), j.spec.Reservation
	if own != "" {
		r := s.reservation(own)
		return r != nil && !r.From.After(now) && (len(r.Nodes) == 0 || reservesNode(*r, n))
	}
	for _, r := range s.reservations {
		over := j.spec.TimeLimit > 0 && !now.Add(j.spec.TimeLimit).After(r.From)
		if reservesNode(r, n) && !over {
			return false
		}
	}
	return true
}
