package slurmtest

import (
	"slices"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/directive"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// observationCache caches the last observation, which is handed out again while nothing has changed. What was handed
// out is never modified.
type observationCache struct {
	nodes []slurm.Node
	jobs  []*slurm.Job // of alive and past; nil: some job is new, gone or changed since
	// time of the first begin time shown, or when the first job of past is forgotten; zero: none
	until time.Time
}

// lastsUntil says that the cached list of jobs will be wrong from this time on, even if nothing is changed until then;
// the earliest such time counts.
func (g *observationCache) lastsUntil(begin time.Time) {
	if g.until.IsZero() || begin.Before(g.until) {
		g.until = begin
	}
}

// changed must be called whenever something observable of a job changes: it invalidates the job's cached observation
// and the list of all.
func (s *Slurm) changed(j *job) { j.shown, s.gallery.jobs = nil, nil }

// observedJobs are the observed jobs, ascending in ID. A job that has not changed keeps its pointer, by which rounds
// tell that nothing about it differs.
func (s *Slurm) observedJobs(now time.Time) []*slurm.Job {
	s.expire(now)
	if s.gallery.jobs != nil {
		return s.gallery.jobs
	}
	exhibited := s.observableJobs()
	jobs := make([]*slurm.Job, len(exhibited))
	for k, j := range exhibited {
		if j.shown == nil {
			j.shown = s.show(j, now)
		}
		jobs[k] = j.shown
	}
	s.gallery.jobs = jobs
	return jobs
}

// observableJobs are the jobs that an observation shows, ascending in ID: living jobs, and for MinJobAge those finished
// ones that have our directive, so that a round learns how they ended.
func (s *Slurm) observableJobs() []*job {
	if len(s.past) == 0 {
		return s.alive
	}
	return slices.SortedFunc(slices.Values(slices.Concat(s.alive, s.past)), byID)
}

// remember keeps a finished job with our directive observable until Slurm forgets it. If the history went to
// Options.Ended the job is dropped at once, to save memory.
func (s *Slurm) remember(j *job) {
	if s.options.Ended == nil && directive.Parse(j.spec.Comment).Managed {
		s.past = append(s.past, j)
		s.gallery.lastsUntil(s.forgotten(j))
	}
}

// forgotten is when Slurm forgets a finished job.
func (s *Slurm) forgotten(j *job) time.Time { return j.history.Ended.Add(s.options.MinJobAge) }

// forget drops the jobs of past that Slurm has forgotten.
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

// expire invalidates what time alone makes wrong in the cache: begin times that have passed, and finished jobs that
// Slurm has forgotten.
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

// servers are the observed nodes, ascending in name: the last list if no node has changed, else a new one, since lists
// that were returned are never modified.
func (s *Slurm) servers() []slurm.Node {
	for i := range s.gallery.nodes {
		if !s.nodes[i].looksLike(&s.gallery.nodes[i], s.told(s.nodes[i])) {
			s.gallery.nodes = nil
			break
		}
	}
	if s.gallery.nodes == nil {
		s.gallery.nodes = make([]slurm.Node, 0, len(s.nodes))
		for _, n := range s.nodes {
			s.gallery.nodes = append(s.gallery.nodes, n.seen(s.told(n)))
		}
	}
	return s.gallery.nodes
}
