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
	jobs  []*slurm.Job // of alive and retained; nil: some job is new, gone or changed since
	// the earliest begin time shown, or when the first job of retained is forgotten if that is earlier; zero: none
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
func (s *Slurm) changed(j *job) { j.lastObserved, s.cached.jobs = nil, nil }

// observedJobs are the observed jobs, ascending in ID. A job that has not changed keeps its pointer, by which rounds
// tell that nothing about it differs.
func (s *Slurm) observedJobs(now time.Time) []*slurm.Job {
	s.expire(now)
	if s.cached.jobs != nil {
		return s.cached.jobs
	}
	exhibited := s.observableJobs()
	jobs := make([]*slurm.Job, len(exhibited))
	for k, j := range exhibited {
		if j.lastObserved == nil {
			j.lastObserved = s.observeJob(j, now)
		}
		jobs[k] = j.lastObserved
	}
	s.cached.jobs = jobs
	return jobs
}

// observableJobs are the jobs that an observation shows, ascending in ID: living jobs, and for MinJobAge those finished
// ones that have our directive, so that a round learns how they ended.
func (s *Slurm) observableJobs() []*job {
	if len(s.retained) == 0 {
		return s.alive
	}
	return slices.SortedFunc(slices.Values(slices.Concat(s.alive, s.retained)), byID)
}

// retainManaged keeps a finished job with our directive observable until Slurm forgets it. If the history went to
// Options.Ended the job is dropped at once, to save memory.
func (s *Slurm) retainManaged(j *job) {
	if s.options.Ended == nil && directive.Parse(j.spec.Comment).Managed {
		s.retained = append(s.retained, j)
		s.cached.lastsUntil(s.forgetTime(j))
	}
}

// forgetTime is when Slurm forgets a finished job.
func (s *Slurm) forgetTime(j *job) time.Time { return j.history.Ended.Add(s.options.MinJobAge) }

// dropForgotten drops the jobs of retained that Slurm has forgotten. For the others it notes when they will be.
func (s *Slurm) dropForgotten(now time.Time) {
	s.retained = slices.DeleteFunc(s.retained, func(j *job) bool {
		left := now.Before(s.forgetTime(j))
		if left {
			s.cached.lastsUntil(s.forgetTime(j))
		} else {
			s.cached.jobs = nil
		}
		return !left
	})
}

// expire invalidates what time alone makes wrong in the cache: begin times that have passed, and finished jobs that
// Slurm has forgotten.
func (s *Slurm) expire(now time.Time) {
	if s.cached.until.IsZero() || now.Before(s.cached.until) {
		return
	}
	s.cached.until = time.Time{}
	s.dropForgotten(now)
	for _, j := range s.alive {
		switch {
		case j.lastObserved == nil || j.lastObserved.Begin.IsZero():
		case j.lastObserved.Begin.After(now):
			s.cached.lastsUntil(j.lastObserved.Begin)
		default:
			s.changed(j)
		}
	}
}

// observedNodes are the observed nodes, ascending in name: the last list if no node has changed, else a new one, since
// lists that were returned are never modified.
func (s *Slurm) observedNodes() []slurm.Node {
	for i := range s.cached.nodes {
		if !s.nodes[i].looksLike(&s.cached.nodes[i], s.closedReason(s.nodes[i])) {
			s.cached.nodes = nil
			break
		}
	}
	if s.cached.nodes == nil {
		s.cached.nodes = make([]slurm.Node, 0, len(s.nodes))
		for _, n := range s.nodes {
			s.cached.nodes = append(s.cached.nodes, n.observeNode(s.closedReason(n)))
		}
	}
	return s.cached.nodes
}
