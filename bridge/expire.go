package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// A job whose time limit comes would be killed by Slurm with all that it has not saved. One that declared a checkpoint
// is asked shortly before, as a victim is, comes back with its user's own request, and goes on in a new run when its
// turn comes, with all of its limit. Users do that for themselves with sbatch --signal and a requeue.
//
// A plan knows nothing of it, and nobody waits for the place: no start, and where small rounds look every second no
// round either.

const (
	// limitMargin is what lies between the end of the grace and the limit at least: some small rounds, of which one may
	// be busy with a start.
	limitMargin = 15 * time.Second
	// lastMoment is how long before the limit one that was asked and still runs is stopped, whatever is left of its
	// grace.
	lastMoment = 5 * time.Second
)

// timeComes is why a job is asked before its time limit.
const timeComes = "its time limit comes"

// lead is how long before its time limit a job with that grace is asked.
func (s *Settings) lead(grace time.Duration) time.Duration {
	if s.Watched {
		return grace + limitMargin
	}
	return grace + limitMargin + s.Round
}

// outlives says that a job is asked before its time limit. One that cannot be is not, nor one that Slurm would not
// start again.
func (r *Runner) outlives(t *managedJob) bool {
	return r.Settings.SaveAtLimit && t.State == Running && t.TimeLimit > 0 && t.saves() && !r.cramped(t) && !t.lastRun()
}

// cramped says that the time limit of a job that saves is too short to be asked before it: it would save for most of
// its time.
func (r *Runner) cramped(t *managedJob) bool {
	return t.TimeLimit > 0 && t.TimeLimit < 2*r.Settings.lead(t.said.word.Grace)+deaf
}

// crampedNote is what its user should know.
func (r *Runner) crampedNote(t *managedJob) string {
	return fmt.Sprintf(
		"is not asked to save before its time limit: with a grace of %s that takes a limit of %s or more",
		t.said.word.Grace, 2*r.Settings.lead(t.said.word.Grace)+deaf)
}

// lastRun says that a run after this one could not end before the deadline: Slurm cancels a waiting job of which that
// is true.
func (t *managedJob) lastRun() bool {
	return !t.Deadline.IsZero() && t.limit().Add(t.TimeLimit).After(t.Deadline)
}

// limit is when Slurm ends the run, by its own clock: when that is set the limit comes sooner or later.
func (t *managedJob) limit() time.Time {
	if !t.Ends.IsZero() {
		return t.Ends
	}
	return t.Started.Add(t.TimeLimit)
}

// expires is when something has to be done next about a job's time limit: to ask it, or to stop it. Zero: nothing.
func (r *Runner) expires(t *managedJob) time.Time {
	if !r.outlives(t) {
		return time.Time{}
	}
	ask, asked := t.limit().Add(-r.Settings.lead(t.said.word.Grace)), t.record.Asked
	if asked.IsZero() || !r.Settings.Watched { // a round that is not watched over follows it to the end
		return ask
	}
	return later(ask, earlier(asked.Add(t.said.word.Grace), t.limit().Add(-lastMoment)))
}

// expiring are the jobs that a plan lets go on and about whose time limit something has to be done before so long has
// passed; most rounds have none.
func (r *Runner) expiring(s *scene, plan policy.Plan, within time.Duration) map[int]bool {
	var list map[int]bool
	for i, t := range s.managed {
		at := r.expires(t)
		if !at.IsZero() && !at.After(s.at.Add(within)) && unchanged(t, &plan.Decisions[i]) {
			if list == nil {
				list = map[int]bool{}
			}
			list[t.ID] = true
		}
	}
	return list
}

// nextExpiry is when something has to be done next about the time limit of a job for which it is not time yet; 0:
// never.
func (r *Runner) nextExpiry(s *scene) (alarm time.Duration) {
	for _, t := range s.managed {
		if at := r.expires(t); at.After(s.at) {
			if in := r.Clock.Elapsed() + at.Sub(s.at); alarm == 0 || in < alarm {
				alarm = in
			}
		}
	}
	return alarm
}

// isTime says that a victim is to be asked now. What a long round is to do before its end about the limits of jobs
// waits for its moment, or for a job that was asked before and has left meanwhile.
func (a *acting) isTime(s *step) bool {
	if !s.expires {
		return true
	}
	at := a.expires(s.job)
	return !at.After(a.now()) || !s.job.record.Asked.IsZero() && a.seenNow(s.Job).State != Running
}

// outOfTime says that a victim's run will not last as long as its grace.
func (a preempting) outOfTime(s *step) bool {
	return a.outlives(s.job) && !a.now().Before(s.job.limit().Add(-lastMoment))
}
