package bridge

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// setReservations stores the reservations, and for each node those that keep it from other jobs, in the order of their
// starts. The planner gets them with the nodes.
func (s *sortedObservation) setReservations(all []slurm.Reservation) {
	s.reservations = all
	if len(all) == 0 {
		return
	}
	s.reserved = map[string][]policy.Reservation{}
	for _, r := range all {
		for _, n := range r.Nodes {
			s.reserved[n] = append(s.reserved[n], policy.Reservation{Name: r.Name, From: r.From, To: r.To})
		}
	}
	for _, list := range s.reserved {
		slices.SortStableFunc(list, func(a, b policy.Reservation) int { return a.From.Compare(b.From) })
	}
}

// reservation finds a reservation by its name.
func (s *sortedObservation) reservation(name string) (r *slurm.Reservation, found bool) {
	k, found := slices.BinarySearchFunc(s.reservations, name,
		func(r slurm.Reservation, name string) int { return strings.Compare(r.Name, name) })
	if !found {
		return nil, false
	}
	return &s.reservations[k], true
}

// hasBegun says that there is such a reservation and that it has begun. A job that was submitted to it may not start
// before.
func (s *sortedObservation) hasBegun(name string) bool {
	r, found := s.reservation(name)
	return found && !r.From.After(s.at)
}

// reservedFor lists the nodes on which a job of the reservation of this name may start: those of the list in that the
// reservation has. If in is nil, all nodes are meant. If there is no such reservation, or it has no nodes but licenses
// alone, in is returned as it is. If no node is left, the reservation's own nodes are returned, on none of which the
// job can start: an empty list would mean any node.
func (s *sortedObservation) reservedFor(name string, in []string) []string {
	r, found := s.reservation(name)
	if !found || len(r.Nodes) == 0 {
		return in // without such a reservation the job is barred
	}
	var only []string
	for _, n := range r.Nodes {
		if in == nil || slices.Contains(in, n) {
			only = append(only, n)
		}
	}
	if only == nil {
		return r.Nodes
	}
	return only
}

// reservedFrom is the name of the reservation for which Slurm does not start a job: it keeps nodes of the grant for
// others now, or before the job's time limit. Empty: there is none, or no observation has begun since the start was
// sent. Slurm often gives Resources as the reason, which may also mean that the start only takes its time. Therefore
// the reservations themselves are looked at.
func (a *executor) reservedFrom(s *step) string {
	j := a.seenNow(s.Job)
	if s.stage != sent || s.since >= a.looked || j.State != slurm.Pending {
		return ""
	}
	for _, r := range a.reservations {
		if r.Name == j.Reservation || !r.To.IsZero() && !r.To.After(a.at) ||
			j.TimeLimit > 0 && !r.From.Before(a.at.Add(j.TimeLimit)) {
			continue
		}
		if slices.ContainsFunc(s.Grant.Nodes, func(n string) bool { return slices.Contains(r.Nodes, n) }) {
			return r.Name
		}
	}
	return ""
}
