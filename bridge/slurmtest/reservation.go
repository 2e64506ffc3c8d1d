package slurmtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Reserve is scontrol create reservation: from its beginning to its end only jobs that were submitted to it start on
// its nodes, and before that only jobs whose time limit is over by then. It ends no job.
func (s *Slurm) Reserve(r bridge.Reservation) {
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

// turnOver is a moment at which a reservation begins or ends.
func (s *Slurm) turnOver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.replace(slices.DeleteFunc(slices.Clone(s.reservations), func(r bridge.Reservation) bool { return ended(r, now) }))
}

func ended(r bridge.Reservation, now time.Time) bool { return !r.To.IsZero() && !r.To.After(now) }

func (s *Slurm) without(name string) []bridge.Reservation {
	return slices.DeleteFunc(slices.Clone(s.reservations), func(r bridge.Reservation) bool { return r.Name == name })
}

// replace has these reservations and no others, and the scheduler look at the queue.
func (s *Slurm) replace(reservations []bridge.Reservation) {
	slices.SortFunc(reservations, func(a, b bridge.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	s.reservations = reservations
	s.wake()
}

func holds(r bridge.Reservation, n *node) bool {
	_, has := slices.BinarySearch(r.Nodes, n.fixed.Name)
	return has
}

// reservation finds one by its name.
func (s *Slurm) reservation(name string) *bridge.Reservation {
	for i := range s.reservations {
		if s.reservations[i].Name == name {
			return &s.reservations[i]
		}
	}
	return nil
}

// reservedFor says whether reservations let the job start on the node now: its own has begun and has the node, and it
// is over before any other begins.
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
