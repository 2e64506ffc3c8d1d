// Package trace holds workloads as data: the jobs that a simulation runs, what sites' logs say of theirs, and the formats of both.
// It draws nothing at random and knows no policy, engine or cluster.
package trace

// Job is one training job of a workload that can be simulated.
type Job struct {
	ID         int
	Model      string  // the name of a profile
	User       string  // empty where nobody says
	GPUs       int     // ≥ 1
	Arrival    float64 // seconds since the beginning of the trace, ≥ 0
	Iterations int64   // ≥ 1, each of the model's iteration time at the proportional share
}

// Entry is one job as a site's log has it: how long it ran, and nothing of its model.
type Entry struct {
	ID        string  // the site's own
	User      string  // empty where the log does not say
	Submitted float64 // seconds since the first submission of the log
	Duration  float64 // seconds that it ran, all attempts together
	GPUs      int
	State     string // as the log says it; empty where it does not
}

// Source hands out jobs one after the other, in the order of their arrival. The second result is false when there are no more; a
// source that draws jobs at random may go on for ever.
type Source interface {
	Next() (Job, bool)
}

// Of is a source of given jobs, in the order in which they stand.
func Of(jobs []Job) Source { return &list{jobs} }

type list struct{ left []Job }

func (l *list) Next() (Job, bool) {
	if len(l.left) == 0 {
		return Job{}, false
	}
	first := l.left[0]
	l.left = l.left[1:]
	return first, true
}
