package trace

import "io"

// phillyJob is the part of a job in Philly's cluster_job_log that is used. A JSON null leaves a text empty.
type phillyJob struct {
	ID        string          `json:"jobid"`
	Status    string          `json:"status"`
	Cluster   string          `json:"vc"`
	User      string          `json:"user"`
	Submitted string          `json:"submitted_time"`
	Attempts  []phillyAttempt `json:"attempts"`
}

// phillyAttempt is one run of a job; its detail lists the GPUs of each server.
type phillyAttempt struct {
	Start  string `json:"start_time"`
	End    string `json:"end_time"`
	Detail []struct {
		GPUs []string `json:"gpus"`
	} `json:"detail"`
}

// gpus is the number of GPUs of the attempt, over all servers.
func (a phillyAttempt) gpus() int {
	total := 0
	for _, server := range a.Detail {
		total += len(server.GPUs)
	}
	return total
}

// readPhilly reads the jobs one at a time. A job's duration is the sum of its valid attempts, and its GPUs are those of
// the last valid one; an attempt is valid if it has a GPU, a start, and an end after it. As in the paper's artifact,
// times count from the first submission of a job with attempts. Unlike there, a job whose last attempt is not valid is
// kept, and no job is left out for its length or number of GPUs.
func readPhilly(name string, r io.Reader) (*Trace, error) {
	jobs := newList(name, r)
	p := &phillyLog{log: newLog(), seen: map[string]int{}, begin: maxSeconds}
	for jobs.next() {
		var j phillyJob
		if err := jobs.decode(&j); err != nil {
			return nil, err
		}
		if err := p.take(jobs.place, j); err != nil {
			return nil, err
		}
	}
	return p.log.traceSince(p.begin), jobs.err
}

// phillyLog gathers the jobs of the log.
type phillyLog struct {
	log   *log
	seen  map[string]int // IDs with their lines
	begin float64        // the first submission of a job with attempts, in seconds of the clock
}

// take stores a job, or counts why it was left out, which is the reason of its last attempt. at is the job's line. A
// job with attempts and a known submission moves the beginning of the trace even if it is left out, as in the artifact.
func (p *phillyLog) take(at place, j phillyJob) error {
	if isBlankTime(j.Submitted) || len(j.Attempts) == 0 {
		p.log.dropped.add(noAttemptReason(j))
		return nil
	}
	e, err := p.entry(at, j)
	if err != nil {
		return err
	}
	p.begin = min(p.begin, e.Submitted)
	broken := ""
	for _, a := range j.Attempts {
		ran, why, err := p.attemptDuration(at, a)
		if err != nil {
			return err
		}
		if broken = why; why == "" {
			e.Duration, e.GPUs = e.Duration+ran, a.gpus()
		}
	}
	if e.Duration == 0 {
		p.log.dropped.add(broken)
	} else if p.log.store(e) && broken != "" {
		p.log.adjusted.add("counted without the last attempt: " + broken)
	}
	return nil
}

// noAttemptReason says why a job is left out before its attempts are read: it has none, or no time of submission.
func noAttemptReason(j phillyJob) string {
	if len(j.Attempts) == 0 {
		return "no attempt"
	}
	return "no time of submission"
}

// entry reads everything of a job except its attempts. A missing or repeated ID is an error of the file.
func (p *phillyLog) entry(at place, j phillyJob) (e Entry, err error) {
	if e.ID, err = at.label("jobid", j.ID); err != nil {
		return e, err
	}
	if e.ID == "" {
		return e, at.wrong("jobid", "", "a name")
	}
	if err = at.unique("jobid", e.ID, p.seen); err != nil {
		return e, err
	}
	for _, l := range []struct {
		to          *string
		field, text string
	}{{&e.User, "user", j.User}, {&e.Queue, "vc", j.Cluster}, {&e.State, "status", j.Status}} {
		if *l.to, err = at.label(l.field, p.log.names.intern(l.text)); err != nil {
			return e, err
		}
	}
	e.Submitted, err = p.log.clock.read(at, "submitted_time", j.Submitted)
	return e, err
}

// attemptDuration is the duration of an attempt in seconds. If the attempt is not valid, why says so, and the attempt
// is not counted; err is an unreadable time.
func (p *phillyLog) attemptDuration(at place, a phillyAttempt) (seconds float64, why string, err error) {
	switch {
	case isBlankTime(a.Start):
		return 0, neverStarted, nil
	case isBlankTime(a.End):
		return 0, "no end (still running, or not logged)", nil
	}
	start, err := p.log.clock.read(at, "start_time", a.Start)
	if err != nil {
		return 0, "", err
	}
	end, err := p.log.clock.read(at, "end_time", a.End)
	switch {
	case err != nil:
		return 0, "", err
	case a.gpus() == 0:
		return 0, noGPU, nil
	case end <= start:
		return 0, "an end that is not behind the start", nil
	}
	return end - start, "", nil
}

// isBlankTime says whether the log lacks a time.
func isBlankTime(text string) bool { return text == "" || text == "None" }
