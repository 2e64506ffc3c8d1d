package bridge

import "time"

// account gives every managed job its record, the one that is known or a first one, and brings it up to the moment of
// the observation: service is credited up to now.
func account(managed []*managedJob, now time.Time) {
	for _, t := range managed {
		if t.record == nil {
			t.record = firstRecord(t, now)
		}
		t.since = earlier(t.since, now) // no run begins later; Slurm's clock was set back since it did
		t.record.notAfter(now)
		t.record.credit(t, now)
	}
}

// creditUnseen adds the end of a run that nobody lived to see: the job ran then, was requeued and runs again.
func (r *Record) creditUnseen(t *managedJob) {
	if t.State == Running && r.Gain > 0 && t.since.After(r.Until) {
		r.add(t, earlier(t.Submitted, t.since).Sub(r.Until), r.Gain)
	}
}

// add adds the service of so long.
func (r *Record) add(t *managedJob, ran time.Duration, gain float64) {
	if ran > 0 {
		r.Attained += float64(ran.Seconds() * float64(t.gpus()))
		r.Done = min(r.Done+sped(ran, gain), mostDone)
	}
}

// notAfter corrects what cannot be: Slurm's clock was set back while no daemon looked. A victim that was asked some
// time is asked again.
func (r *Record) notAfter(now time.Time) {
	limit := now.Add(lasting)
	if r.First.After(limit) {
		r.First = now
	}
	if r.FailedAt.After(limit) {
		r.FailedAt = now
	}
	if r.Refused.At.After(limit) {
		r.Refused.At = now
	}
	if r.Asked.After(limit) {
		r.Asked = time.Time{}
	}
}

// firstRecord is the record of a job that the ledger does not know: a new one, or one whose ledger was lost.
func firstRecord(j *managedJob, now time.Time) *Record {
	s := j.annotated()
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
	case s.V != 0:
		r.NotBefore = fromUnix(s.Begin)
	case j.State == Pending && j.Begin.After(now):
		r.NotBefore = j.Begin
	}
	if j.State == Running {
		r.Until = j.since
	}
	return r
}

// credit adds the service since the record's last moment. A job that ran then and waits now ran until it was requeued,
// which is when Slurm says it was submitted.
func (r *Record) credit(t *managedJob, now time.Time) {
	r.creditUnseen(t)
	from, until, gain := r.Until, now, r.Gain
	switch {
	case t.State == Running:
		from, gain = later(from, t.since), t.gain
		if t.Configuring {
			gain = 0 // it holds its GPUs, and nothing is done
		}
	case r.Gain > 0 && !t.Completing: // while it is, nobody has said when it was requeued, and it holds what it held
		until = earlier(now, t.Submitted)
	case r.Gain > 0:
	default:
		until = from
	}
	r.add(t, until.Sub(from), gain)
	r.Until, r.Gain = now, gain
	if t.State != Running {
		r.Gain = 0
	}
	if t.State != Running || t.since.After(r.Asked) {
		if !r.Asked.IsZero() && r.Runs > 0 {
			r.Runs++ // the one that comes was asked for
		}
		r.Cost.hasLeft(t, r.Asked, now)
		r.Asked = time.Time{} // the run that was asked to end has ended
	}
	r.countReturns(t, now)
}

// mostDone bounds what is done: a profile may claim any gain, and no sum of times may overflow by it.
const mostDone = time.Duration(maxService) * time.Second

// sped is d at the given gain.
func sped(d time.Duration, gain float64) time.Duration {
	return time.Duration(min(float64(d)*gain, float64(mostDone)))
}

// lasting is how long a run must last for the job to count as one that stays.
const lasting = 10 * time.Minute

// countReturns counts how often in a row a job came back to the queue although nobody had asked it to leave: it exits
// with the requeue code by itself, its owner requeues it, or its nodes die.
func (r *Record) countReturns(t *managedJob, now time.Time) {
	runs := t.Restarts + 1
	switch {
	case r.Runs == 0:
		r.Runs = runs
	case runs > r.Runs:
		r.Returned, r.ReturnedAt, r.Runs = r.Returned+runs-r.Runs, now, runs
	case t.State == Running && now.Sub(t.since) >= lasting:
		r.Returned = 0
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
