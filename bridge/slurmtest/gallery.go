package slurmtest

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// gallery is what was observed last. It is shown again as long as it is right; what has been handed out is never
// changed.
type gallery struct {
	nodes []bridge.Node
	jobs  []*bridge.Job // of alive and past; nil: at least one is there, is gone or looks different since
	// when the first begin time that is shown has come, or the first job of past is forgotten; zero: there is none
	until time.Time
}

func (g *gallery) lastsUntil(begin time.Time) {
	if g.until.IsZero() || begin.Before(g.until) {
		g.until = begin
	}
}

// changed says that the job looks different from now on.
func (s *Slurm) changed(j *job) { j.shown, s.gallery.jobs = nil, nil }

// pictures are the jobs as the port shows them: each the same as last time as long as nothing about it is different.
func (s *Slurm) pictures(now time.Time) []*bridge.Job {
	s.expire(now)
	if s.gallery.jobs != nil {
		return s.gallery.jobs
	}
	exhibited := s.exhibited()
	jobs := make([]*bridge.Job, len(exhibited))
	for k, j := range exhibited {
		if j.shown == nil {
			j.shown = s.show(j, now)
		}
		jobs[k] = j.shown
	}
	s.gallery.jobs = jobs
	return jobs
}

// exhibited are the jobs that are shown, ascending in ID: those that live, and those with our directive that are over.
func (s *Slurm) exhibited() []*job {
	if len(s.past) == 0 {
		return s.alive
	}
	return slices.SortedFunc(slices.Values(slices.Concat(s.alive, s.past)), byID)
}

// remember keeps a job that is over and carries our directive in sight, for as long as Slurm knows it.
func (s *Slurm) remember(j *job) {
	if s.options.Ended == nil && bridge.Managed(j.spec.Comment) {
		s.past = append(s.past, j)
		s.gallery.lastsUntil(s.forgotten(j))
	}
}

// forgotten is when Slurm knows nothing any more of a job that is over.
func (s *Slurm) forgotten(j *job) time.Time { return j.history.Ended.Add(s.options.MinJobAge) }

// forget drops the jobs of past whose time has come.
func (s *Slurm) forget(now time.Time) {
	s.past = slices.DeleteFunc(s.past, func(j *job) bool {
		left := now.Before(s.forgotten(j))
		if left {
			s.gallery.lastsUntil(s.forgotten(j))
		} else {
			s.gallery.jobs = nil
		}
		return !left
	})
}

// expire takes the pictures down of jobs whose begin time has come, and those of jobs that Slurm has forgotten.
func (s *Slurm) expire(now time.Time) {
	if s.gallery.until.IsZero() || now.Before(s.gallery.until) {
		return
	}
	s.gallery.until = time.Time{}
	s.forget(now)
	for _, j := range s.alive {
		switch {
		case j.shown == nil || j.shown.Begin.IsZero():
		case j.shown.Begin.After(now):
			s.gallery.lastsUntil(j.shown.Begin)
		default:
			s.changed(j)
		}
	}
}

// servers are the nodes as the port shows them.
func (s *Slurm) servers() []bridge.Node {
	for i := range s.gallery.nodes {
		if !s.nodes[i].looksLike(&s.gallery.nodes[i], s.told(s.nodes[i])) {
			s.gallery.nodes = nil
			break
		}
	}
	if s.gallery.nodes == nil {
		s.gallery.nodes = make([]bridge.Node, 0, len(s.nodes))
		for _, n := range s.nodes {
			s.gallery.nodes = append(s.gallery.nodes, n.seen(s.told(n)))
		}
	}
	return s.gallery.nodes
}
