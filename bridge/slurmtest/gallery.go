package slurmtest

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// gallery is what was observed last. It is shown again as long as it is right; what has been handed out is never changed.
type gallery struct {
	nodes []bridge.Node
	jobs  []*bridge.Job // of alive; nil: at least one is there, is gone or looks different since
	until time.Time     // when the first begin time that is shown has come; zero: none is shown
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
	jobs := make([]*bridge.Job, len(s.alive))
	for k, j := range s.alive {
		if j.shown == nil {
			j.shown = s.show(j, now)
		}
		jobs[k] = j.shown
	}
	s.gallery.jobs = jobs
	return jobs
}

// expire takes the pictures down of jobs whose begin time has come.
func (s *Slurm) expire(now time.Time) {
	if s.gallery.until.IsZero() || now.Before(s.gallery.until) {
		return
	}
	s.gallery.until = time.Time{}
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
		if !s.nodes[i].looksLike(&s.gallery.nodes[i]) {
			s.gallery.nodes = nil
			break
		}
	}
	if s.gallery.nodes == nil {
		s.gallery.nodes = make([]bridge.Node, 0, len(s.nodes))
		for _, n := range s.nodes {
			s.gallery.nodes = append(s.gallery.nodes, n.seen())
		}
	}
	return s.gallery.nodes
}
