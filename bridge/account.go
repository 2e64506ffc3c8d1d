package bridge

import "time"

// account brings the records up to the moment of the observation: a record for every managed job, service credited up to now. It
// returns new records and leaves the old ones as they are. Records of jobs that are over are gone.
func account(old map[int]Record, managed []tenant, now time.Time) map[int]Record {
	records := make(map[int]Record, len(managed))
	for i := range managed {
		t := &managed[i]
		r, known := old[t.ID]
		if !known {
			r = firstRecord(t, now)
		}
		records[t.ID] = credit(r, t, now)
	}
	return records
}

// firstRecord is the record of a job that the ledger does not know: a new one, or one whose ledger was lost.
func firstRecord(j *tenant, now time.Time) Record {
	s := j.text.stamp
	r := Record{
		Job: j.ID, First: j.Submitted, Until: now, Own: j.Request,
		Attained: s.Attained, Done: time.Duration(s.Done * float64(time.Second)),
	}
	if first := fromUnix(s.First); !first.IsZero() && first.Before(j.Submitted) {
		r.First = first
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
		r.Until = j.Started
	}
	return r
}

// credit adds the service since the record's last moment. A job that ran then and waits now ran until it was requeued, which is
// when Slurm says it was submitted.
func credit(r Record, t *tenant, now time.Time) Record {
	from, until, gain := r.Until, now, r.Gain
	switch {
	case t.State == Running:
		from, gain = later(from, t.Started), t.gain
	case r.Gain > 0:
		until = earlier(now, t.Submitted)
	default:
		until = from
	}
	if ran := until.Sub(from); ran > 0 {
		r.Attained += ran.Seconds() * float64(t.Request.GPUs)
		r.Done += time.Duration(float64(ran) * gain)
	}
	r.Until, r.Gain = now, gain
	if t.State != Running {
		r.Gain = 0
	}
	if t.State != Running || t.Started.After(r.Asked) {
		r.Asked = time.Time{} // the run that was asked to end has ended
	}
	return r
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
