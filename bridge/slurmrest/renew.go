package slurmrest

import (
	"context"
	"errors"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// renew says an update that moves nothing but the begin time and the annotation. That is what nearly all updates are,
// so it costs one request: no size and no node is sent, hence nothing that would mean something else if the job had
// started, nor anything that lifts a hold, and Slurm refuses to move the begin time of a job that waits no longer. (It
// takes the annotation of one that has just been started by somebody else all the same: that then tells of a wait that
// is over, and its user's request as before.) A refusal has its reason looked for in the way of any update.
func (c *Client) renew(ctx context.Context, update bridge.Update) (renewed bool, err error) {
	job := c.unchanged(update)
	if job == nil {
		return false, nil
	}
	begin := c.begin(update.Begin)
	err = c.post(ctx, update.Job, wire.Change{Begin: &begin, Extra: &update.Extra, Tasks: positive(job.tasks)})
	if err == nil {
		c.wrote(job, update, begin)
		return true, nil
	}
	c.touch(update.Job)
	unclear := errors.Is(err, bridge.ErrUnreachable) || errors.Is(err, bridge.ErrDenied) || ctx.Err() != nil
	return unclear, err
}

// unchanged is what is known of a job that waits, when it has the update's request already and is to go on waiting;
// otherwise nil. A job in teardown, one that somebody holds, one that Slurm has parked and one whose lease has lapsed
// are looked at anew.
func (c *Client) unchanged(update bridge.Update) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	job := c.jobs[update.Job]
	switch now := c.now(); {
	case job == nil, c.touched[update.Job], !update.Begin.After(now), !job.Begin.After(now):
		return nil
	case job.State != bridge.Pending, job.Completing, job.Held, job.Reason == "BadConstraints":
		return nil
	case differs(bridge.Update{Request: update.Request, Extra: job.Extra}, atOnce, job.listed) != nil:
		return nil
	}
	return job
}

// wrote notes what Slurm has taken over. A job that has been read since, or is being read, is read again.
func (m *memory) wrote(job *known, update bridge.Update, begin int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looking || m.jobs[update.Job] != job {
		m.touched[update.Job] = true
		return
	}
	after := *job // what was handed out stays as it is
	after.Begin, after.Extra = time.Unix(begin, 0), update.Extra
	m.jobs[update.Job] = &after
}
