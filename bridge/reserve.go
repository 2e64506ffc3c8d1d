package bridge

import (
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// reserve sorts reservations by the nodes that they keep from the jobs of the queue.
func (s *scene) reserve(all []Reservation) {
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

// reservation finds one by its name.
func (s *scene) reservation(name string) (r *Reservation, found bool) {
	k, found := slices.BinarySearchFunc(s.reservations, name,
		func(r Reservation, name string) int { return strings.Compare(r.Name, name) })
	if !found {
		return nil, false
	}
	return &s.reservations[k], true
}

// hasBegun says that there is such a reservation, and that it is active.
func (s *scene) hasBegun(name string) bool {
	r, found := s.reservation(name)
	return found && !r.From.After(s.at)
}

// reservedFor lists the nodes of a reservation that are among these; in nil: any. One of licenses alone has no nodes,
// and its jobs run on these. Where none is, it lists them all, of which then none will do: an empty list would stand
// for any node.
func (s *scene) reservedFor(name string, in []string) []string {
	r, found := s.reservation(name)
	if !found || len(r.Nodes) == 0 {
		return in // where there is no such reservation the job is barred
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

// reservedFrom is the reservation for which Slurm does not start a job that was begun: one that keeps nodes of the
// grant for others now, or before the job would have ended. Empty: there is none. Slurm's reason is often Resources.
func (a *acting) reservedFrom(s *step) string {
	j := a.seenNow(s.Job)
	if s.stage != sent || s.since >= a.looked || j.State != Pending {
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
