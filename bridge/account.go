package bridge

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// updateRecords makes sure that every managed job has a record, and brings each up to now, the time of the observation.
// Plans may depend on the service and the progress in the records, so this comes before a plan is made.
func updateRecords(managed []*managedJob, now time.Time) {
	for _, t := range managed {
		if t.record == nil {
			t.record = firstRecord(t, now)
		}
		t.since = earlier(t.since, now) // Slurm's clock was set back after the run began
		t.record.correctFutureTimes(now)
		t.record.credit(t, now)
	}
}

// creditUnseen credits the end of a run that no round observed: the job ran when its record was last updated (Gain >
// 0), was requeued since, and runs again. That run ended when the job was requeued, which is its new time of
// submission. Without this, the time from the last update to the requeue would be missing from its service.
func (r *Record) creditUnseen(t *managedJob) {
	if t.State == slurm.Running && r.Gain > 0 && t.since.After(r.Until) {
		r.creditRunTime(t, earlier(t.Submitted, t.since).Sub(r.Until), r.Gain)
	}
}

// creditRunTime credits a part of a run that lasted ran: GPU-seconds of service (Attained), by which policies order
// jobs, and progress (Done). gain is the speed relative to that with the proportional share. Nothing is credited if ran
// is not positive, which times of a clock that was set can cause.
func (r *Record) creditRunTime(t *managedJob, ran time.Duration, gain float64) {
	if ran > 0 {
		r.Attained += float64(ran.Seconds() * float64(t.gpus()))
		r.Done = min(r.Done+progressMade(ran, gain), maxProgress)
	}
}

// correctFutureTimes corrects times that lie more than stableRun after now, because Slurm's clock was set back while no
// daemon observed it. Otherwise FailedAt, Refused.At and ReturnedAt would keep the job from starting until the clock
// reaches them, and Avoids would keep it from some of its partitions. Reports from before Beside.Since would not count.
// Asked is cleared, so that the job is asked again: otherwise the grace for saving would only begin when the clock
// reaches Asked.
func (r *Record) correctFutureTimes(now time.Time) {
	limit := now.Add(stableRun)
	if r.First.After(limit) {
		r.First = now
	}
	if r.FailedAt.After(limit) {
		r.FailedAt = now
	}
	if r.Refused.At.After(limit) {
		r.Refused.At = now
	}
	if r.ReturnedAt.After(limit) {
		r.ReturnedAt = now
	}
	if r.Beside.Since.After(limit) {
		r.Beside.Since = now
	}
	for k := range r.Avoids {
		if a := &r.Avoids[k]; a.Until.After(limit.Add(refusalLifetime)) {
			a.Until = now.Add(refusalLifetime)
		}
	}
	if r.Asked.After(limit) {
		r.Asked = time.Time{}
	}
}

// firstRecord is the record of a job that the ledger does not know: a new job, or one after the ledger was lost. What
// the job's annotation says is taken over, so that a lost ledger costs a job neither its user's own request nor its
// service. Without an annotation, the request that Slurm shows is taken for the user's own.
func firstRecord(j *managedJob, now time.Time) *Record {
	s := j.parsedAnnotation()
	r := &Record{
		Job: j.ID, First: j.Submitted, Until: now, Own: j.Request, Whole: j.Whole,
		Attained: s.Attained, Done: time.Duration(s.Done * float64(time.Second)),
		Audit: Audit{Found: s.Found}, Explicit: s.Explicit,
	}
	if first := fromUnix(s.First); j.Restarts > 0 && !first.IsZero() && first.Before(j.Submitted) {
		r.First = first // only a requeue moves the time of submission
	}
	if s.Own != nil {
		r.Own = *s.Own
	}
	switch {
	// The gate or a daemon has replaced the job's begin time, and its annotation has the user's own. Without an
	// annotation a begin time in the future is the user's.
	case s.V != 0:
		r.NotBefore = fromUnix(s.Begin)
	case j.State == slurm.Pending && j.Begin.After(now):
		r.NotBefore = j.Begin
	}
	if j.State == slurm.Running {
		r.Until = j.since // none of this run has been credited yet
	}
	return r
}

// credit adds the service since the record was last updated (Until), up to now, and sets Until and Gain for the next
// update. If the job ran then and waits now, it ran until it was requeued, which is its new time of submission. A
// request to leave is closed here, too, once the run that was asked is over. What leaving cost is noted, the next run
// is not counted as an unasked return, and Asked is cleared, so that the next run is not taken for one that was asked.
func (r *Record) credit(t *managedJob, now time.Time) {
	r.creditUnseen(t)
	from, until, gain := r.Until, now, r.Gain
	switch {
	case t.State == slurm.Running:
		from, gain = later(from, t.since), t.gain
		if t.Configuring {
			gain = 0 // it holds its GPUs and makes no progress yet
		}
	// while completing, the time of the requeue is not known yet, and the job still holds its GPUs
	case r.Gain > 0 && !t.Completing:
		until = earlier(now, t.Submitted)
	case r.Gain > 0:
	default:
		until = from
	}
	r.creditRunTime(t, until.Sub(from), gain)
	r.Until, r.Gain = now, gain
	if t.State != slurm.Running {
		r.Gain = 0
	}
	if t.State != slurm.Running || t.since.After(r.Asked) {
		if !r.Asked.IsZero() && r.Runs > 0 {
			r.Runs++ // the next run was asked for, so it is no unasked return
		}
		r.Cost.noteLeave(t, r.Asked, now)
		r.Asked = time.Time{} // the run that was asked to end has ended
	}
	r.countUnaskedRequeues(t, now)
}

// maxProgress bounds a job's progress: a profile may claim any gain, and no sum of durations may overflow.
const maxProgress = time.Duration(maxService) * time.Second

// progressMade is the progress made in d at the given gain, as time at the proportional share, at most maxProgress.
func progressMade(d time.Duration, gain float64) time.Duration {
	return time.Duration(min(float64(d)*gain, float64(maxProgress)))
}

// stableRun is how long a run must last before earlier unasked returns of the job to the queue are forgotten.
const stableRun = 10 * time.Minute

// countUnaskedRequeues counts in Returned how often in a row a job came back to the queue without being asked to leave:
// it exited with the requeue code by itself, its owner requeued it, or its nodes failed. A job that comes back too
// often is started later and later (returnBackOff). Each run that was asked to leave has raised Runs already (credit),
// so that it does not count here.
func (r *Record) countUnaskedRequeues(t *managedJob, now time.Time) {
	runs := t.Restarts + 1
	switch {
	case r.Runs == 0:
		r.Runs = runs
	case runs > r.Runs:
		r.Returned, r.ReturnedAt, r.Runs = r.Returned+runs-r.Runs, now, runs
	case t.State == slurm.Running && now.Sub(t.since) >= stableRun:
		r.Returned = 0
	}
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earlier is the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
