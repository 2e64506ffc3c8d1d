package slurmrest

import (
	"context"
	"errors"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// renew sends an update that changes nothing but lease and annotation, as nearly all updates do; renewed is false if
// the update is of another kind or a full update should find out why Slurm refused. If renewed is true, err is the
// outcome and no full update is tried: without an answer or permission it would fail as well. It costs one request,
// and a read before it where what is known of the job is old. It sends no
// size and no node, so nothing would have another meaning if the job had started, it lifts no hold, and Slurm refuses
// to change the begin time of a job that no longer waits. (Slurm does take the annotation of a job that another party
// has just started. It then describes a wait that is over, with the user's request still right.)
func (c *Client) renew(ctx context.Context, update slurm.Update) (renewed bool, err error) {
	job := c.renewableJob(update)
	if job == nil && c.isOld(update) {
		if err := c.readEach(ctx, []int{update.Job}, c.now()); err != nil {
			return true, err
		}
		job = c.renewableJob(update)
	}
	if job == nil {
		return false, nil
	}
	begin := c.begin(update.Begin)
	change := wire.Change{Begin: &begin, Extra: &update.Extra, Tasks: positive(job.tasks)} // Tasks: see tasksToSay
	if update.Lease != job.Lease {
		change.Dependency = dependencyWith(job.parsedJob, update.Lease)
	}
	err = c.post(ctx, update.Job, change)
	if err == nil {
		c.wrote(job, update, begin)
		return true, nil
	}
	c.touch(update.Job) // Slurm may have applied a part before the error
	unclear := errors.Is(err, slurm.ErrUnreachable) || errors.Is(err, slurm.ErrDenied) || ctx.Err() != nil
	return unclear, err
}

// maxDependencyAge is the maximum age of what is known of a job when its dependencies are written.
const maxDependencyAge = time.Minute

// isOld reports whether a job that is to go on waiting may have changed since it was read, so that reading it before
// the renewal pays: read and renewal are two requests, and a full update is three and makes another read necessary. A
// job that may start at once gets a full update in any case.
func (c *Client) isOld(update slurm.Update) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	job, now := c.jobs[update.Job], c.now()
	return job != nil && (update.Lease != 0 || update.Begin.After(now)) &&
		(c.touched[update.Job] || update.Lease != job.Lease && elapsed(job.readAt, now, maxDependencyAge))
}

// renewableJob returns what is known of a waiting job if the update changes at most its lease and annotation, so that
// one request without a read is enough; otherwise nil, and the job gets a full update. A full update is for jobs that
// were written to since they were read (touched), are completing or held, whose nodes Slurm does not have
// (BadConstraints), or that may start at once, now or by the update. It is also for a changed lease if what is known of
// the job's dependencies is older than maxDependencyAge, or if any one of them is enough (Either). The annotation is
// not compared: it is to change.
func (c *Client) renewableJob(update slurm.Update) *knownJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[update.Job]
	switch now := c.now(); {
	case job == nil, c.touched[update.Job], update.Lease == 0 && !update.Begin.After(now),
		job.Lease == 0 && !job.Begin.After(now):
		return nil
	case update.Lease != job.Lease && (job.Either || elapsed(job.readAt, now, maxDependencyAge)):
		return nil // its user may have changed the dependency since
	case job.State != slurm.Pending, job.Completing, job.Held, job.Reason == "BadConstraints":
		return nil
	// Compared is only the request: Extra and Lease are the job's own here, and atOnce stands for any begin time.
	case checkWritten(slurm.Update{Request: update.Request, Extra: job.Extra, Lease: job.Lease}, atOnce,
		job.parsedJob) != nil:
		return nil
	}
	return job
}

// wrote records what Slurm has accepted: begin time, annotation and lease. If the job was read since, or an observation
// is under way, it is not clear which came first, so the job is marked to be read again.
func (m *jobCache) wrote(job *knownJob, update slurm.Update, begin int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isObserving || m.jobs[update.Job] != job {
		m.touched[update.Job] = true
		return
	}
	after := *job // jobs that were handed out are never modified
	after.Begin, after.Extra, after.Lease = time.Unix(begin, 0), update.Extra, update.Lease
	m.jobs[update.Job] = &after
}
