package bridge

import (
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
)

// At its time limit Slurm kills a job with all that it has not saved. A job that declared a checkpoint is asked to save
// shortly before, like a preempted job. It returns to the queue with its user's own request, and later goes on in a new
// run with its full limit. Users can do the same with sbatch --signal and a requeue.
//
// Plans do not take this into account, and nothing waits for the place: no start, and, if small rounds look every
// second, no round either.

// Margins before a time limit.
const (
	// limitMargin is the least time between the end of the grace and the limit: some small rounds, of which one may be
	// busy with a start.
	limitMargin = 15 * time.Second
	// stopMargin is how long before the limit a job that was asked and still runs is stopped, whatever is left of its
	// grace.
	stopMargin = 5 * time.Second
)

// timeLimitReason is the reason of a preemption before a time limit, in the report and for the hook.
const timeLimitReason = "its time limit comes"

// saveLeadTime is how long before its time limit a job with this grace is asked to save. Without small rounds it is a
// round longer, since the next look comes only then.
func (s *Settings) saveLeadTime(grace time.Duration) time.Duration {
	if s.Watched {
		return grace + limitMargin
	}
	return grace + limitMargin + s.Round
}

// askedBeforeLimit says whether a running job is asked to save before its time limit. Excluded are jobs that cannot be
// asked, and jobs that Slurm would not start again, which lose nothing by running on.
func (r *Runner) askedBeforeLimit(t *managedJob) bool {
	return r.Settings.SaveAtLimit && t.State == slurm.Running && t.TimeLimit > 0 && t.canSave() &&
		!r.limitTooShortToAsk(t) &&
		!t.isLastRun()
}

// limitTooShortToAsk says whether a job's time limit is too short to ask it before: it would spend most of its time on
// saving. The job's user is told (shortLimitNote).
func (r *Runner) limitTooShortToAsk(t *managedJob) bool {
	return t.TimeLimit > 0 && t.TimeLimit < 2*r.Settings.saveLeadTime(t.directives.Grace)+trapSetupTime
}

// shortLimitNote tells the user of a job with limitTooShortToAsk that the job is not asked, and which limit would do.
func (r *Runner) shortLimitNote(t *managedJob) string {
	return fmt.Sprintf(
		"is not asked to save before its time limit: with a grace of %s that takes a limit of %s or more",
		t.directives.Grace, 2*r.Settings.saveLeadTime(t.directives.Grace)+trapSetupTime)
}

// isLastRun says whether another run after this one could not end before the job's deadline (sbatch --deadline). Slurm
// cancels such a job when it waits, so asking it to save and leave would be its end.
func (t *managedJob) isLastRun() bool {
	return !t.Deadline.IsZero() && t.endTime().Add(t.TimeLimit).After(t.Deadline)
}

// endTime is when Slurm ends the run because of its time limit, by Slurm's clock. The job must be running and have a
// limit.
func (t *managedJob) endTime() time.Time {
	if !t.Ends.IsZero() {
		return t.Ends
	}
	return t.Started.Add(t.TimeLimit)
}

// limitActionTime is when the next action about a job's time limit is due, by Slurm's clock. Zero: the job is not to be
// asked before its limit. A job that was not asked yet is due to be asked. One that was asked is due to be stopped, if
// small rounds are held. Without them, the round that asks a job also follows it to its end, so the time of asking
// stays.
func (r *Runner) limitActionTime(t *managedJob) time.Time {
	if !r.askedBeforeLimit(t) {
		return time.Time{}
	}
	ask, asked := t.endTime().Add(-r.Settings.saveLeadTime(t.directives.Grace)), t.record.Asked
	if asked.IsZero() || !r.Settings.Watched { // without small rounds, one round asks the job and follows it to the end
		return ask
	}
	// A job that was asked is due again when it is to be stopped: at the end of its grace, or just before the limit.
	return later(ask, earlier(asked.Add(t.directives.Grace), t.endTime().Add(-stopMargin)))
}

// expiring are the jobs that the plan leaves running and whose time limit needs action within the given time from the
// observation; nil: there are none. A preemption is added to the steps for each, although the plan did not choose it,
// so that the job saves before Slurm kills it.
func (r *Runner) expiring(s *sortedObservation, plan policy.Plan, within time.Duration) map[int]bool {
	var list map[int]bool
	for i, t := range s.managed {
		at := r.limitActionTime(t)
		if !at.IsZero() && !at.After(s.at.Add(within)) && isUnchanged(t, &plan.Decisions[i]) {
			if list == nil {
				list = map[int]bool{}
			}
			list[t.ID] = true
		}
	}
	return list
}

// nextExpiry is when the next action about a time limit comes that is not due yet, on the host's monotonic clock; 0:
// none is to come. The small round at that time then observes even if the watcher has seen no change, since a time
// limit changes nothing that a watcher sees.
func (r *Runner) nextExpiry(s *sortedObservation) (alarm time.Duration) {
	for _, t := range s.managed {
		if at := r.limitActionTime(t); at.After(s.at) {
			if in := r.Clock.Elapsed() + at.Sub(s.at); alarm == 0 || in < alarm {
				alarm = in
			}
		}
	}
	return alarm
}

// isDue says whether a preemption is to be begun now. A full round lists preemptions before time limits ahead, until
// its own end, and each waits for its moment (limitActionTime). If the job was asked before, the moment also comes when
// the job no longer runs. Any other preemption is due at once.
func (a *executor) isDue(s *step) bool {
	if !s.expires {
		return true
	}
	at := a.runner.limitActionTime(s.job)
	return !at.After(a.round.now()) || !s.job.record.Asked.IsZero() && a.seenNow(s.Job).State != slurm.Running
}

// limitBeforeGrace says whether the step's job, which was asked to save, must be stopped now, although its grace may
// not be over: otherwise Slurm would kill it at its time limit, and not requeue it.
func limitBeforeGrace(a *executor, s *step) bool {
	return a.runner.askedBeforeLimit(s.job) && !a.round.now().Before(s.job.endTime().Add(-stopMargin))
}
