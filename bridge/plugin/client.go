package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	_ slurm.Manager  = (*Client)(nil)
	_ leader.Tickets = (*Client)(nil)
)

// Observe implements slurm.Manager. It asks for the differences to the last observation.
func (c *Client) Observe(ctx context.Context) (slurm.Observed, error) {
	if err := acquire(ctx, c.observeLock); err != nil {
		return slurm.Observed{}, withVerb("observe", err)
	}
	defer func() { <-c.observeLock }()
	var sent *slurmpb.ObserveResponse
	err := c.ask(ctx, "observe", 4*c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = manager.Observe(ctx, &slurmpb.ObserveRequest{Version: c.sight.version})
		return sent, err
	})
	if err != nil {
		return slurm.Observed{}, withVerb("observe", err)
	}
	seen, err := c.sight.take(sent)
	if err != nil {
		return slurm.Observed{}, withVerb("observe", c.rejectAnswer(err))
	}
	c.guest.Well()
	return seen, nil
}

// rejectAnswer ends a program whose answer is impossible: whatever it says next is not to be believed either. The error
// that it returns counts as an unreachable Slurm.
func (c *Client) rejectAnswer(err error) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	c.guest.Drop(conn)
	return noAnswerError{err}
}

// Update implements slurm.Manager.
func (c *Client) Update(ctx context.Context, update slurm.Update) error {
	err := c.ask(ctx, "update", c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (answer,
		error) {
		return manager.Update(ctx, updateOut(&update))
	})
	return withVerb(fmt.Sprintf("update job %d", update.Job), err)
}

// Signal implements slurm.Manager. It refuses a target other than the script if the program does not declare that it
// knows targets: it would signal the batch script and might kill it.
func (c *Client) Signal(ctx context.Context, job int, signal slurm.Signal) error {
	err := c.ask(ctx, "signal", c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (answer,
		error) {
		if signal.To != slurm.Script && !c.knowsTargets() {
			return &slurmpb.DoneResponse{Failure: failureOut(errCannotAim)}, nil
		}
		return manager.Signal(
			ctx,
			&slurmpb.SignalRequest{Job: int64(job), Signal: signal.Name, To: targetOut(signal.To)},
		)
	})
	return withVerb(fmt.Sprintf("signal job %d with %s", job, signal), err)
}

var errCannotAim = fmt.Errorf("the plugin cannot signal the steps of a job and spare its batch script: %w",
	slurm.ErrRefused)

// knowsTargets reports whether the program has declared that it knows targets of signals. An older one would send every
// signal to the batch script.
func (c *Client) knowsTargets() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.intro.GetAims()
}

// Requeue implements slurm.Manager.
func (c *Client) Requeue(ctx context.Context, job int) error {
	err := c.ask(ctx, "requeue", c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (answer,
		error) {
		return manager.Requeue(ctx, &slurmpb.RequeueRequest{Job: int64(job)})
	})
	return withVerb(fmt.Sprintf("requeue job %d", job), err)
}

// Split implements slurm.Splitter. A program without Split counts as refusing.
func (c *Client) Split(ctx context.Context, array int, tasks []int) error {
	err := c.ask(
		ctx,
		"split",
		c.options.Timeout,
		func(ctx context.Context, manager slurmpb.SlurmClient) (answer, error) {
			done, err := manager.Split(ctx, &slurmpb.SplitRequest{Array: int64(array), Tasks: wide(tasks)})
			if status.Code(err) == codes.Unimplemented {
				return &slurmpb.DoneResponse{Failure: failureOut(errNoSplits)}, nil
			}
			return done, err
		},
	)
	return withVerb(fmt.Sprintf("split array %d", array), err)
}

var errNoSplits = fmt.Errorf("it gives tasks of arrays no jobs of their own: %w", slurm.ErrRefused)

// Renew implements slurm.Leases. A program without leases counts as refusing.
func (c *Client) Renew(ctx context.Context, length time.Duration) (int, error) {
	var sent *slurmpb.RenewLeaseResponse
	err := c.ask(
		ctx,
		"renew lease",
		c.options.Timeout,
		func(ctx context.Context, manager slurmpb.SlurmClient) (_ answer,
			err error) {
			sent, err = manager.RenewLease(ctx, &slurmpb.RenewLeaseRequest{LengthNs: int64(length)})
			if status.Code(err) == codes.Unimplemented {
				sent, err = &slurmpb.RenewLeaseResponse{Failure: failureOut(errNoLease)}, nil
			}
			return sent, err
		},
	)
	if err == nil {
		if err = checkJobID(sent.GetJob()); err != nil {
			err = c.rejectAnswer(fmt.Errorf("lease job %d: %w", sent.GetJob(), err))
		}
	}
	if err != nil {
		return 0, withVerb("renew the lease", err)
	}
	return int(sent.GetJob()), nil
}

// End implements slurm.Leases.
func (c *Client) End(ctx context.Context) error {
	err := c.ask(ctx, "end lease", c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (answer,
		error) {
		done, err := manager.EndLease(ctx, &slurmpb.EndLeaseRequest{})
		if status.Code(err) == codes.Unimplemented {
			return &slurmpb.DoneResponse{}, nil // there is no lease to end
		}
		return done, err
	})
	return withVerb("end the lease", err)
}

var errNoLease = fmt.Errorf("it has no lease for all jobs: %w", slurm.ErrRefused)

// Take implements leader.Tickets.
func (c *Client) Take(ctx context.Context, words leader.Words) (int, error) {
	var sent *slurmpb.TakeResponse
	err := c.ask(ctx, "take", c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = manager.Take(ctx, &slurmpb.TakeRequest{Words: wordsOut(words)})
		return sent, err
	})
	if err == nil {
		if err = checkJobID(sent.GetId()); err != nil {
			err = c.rejectAnswer(fmt.Errorf("ticket %d: %w", sent.GetId(), err))
		}
	}
	if err != nil {
		return 0, withVerb("take a ticket", err)
	}
	return int(sent.GetId()), nil
}

// List implements leader.Tickets.
func (c *Client) List(ctx context.Context, ids ...int) ([]leader.Ticket, error) {
	request := &slurmpb.ListRequest{}
	for _, id := range ids {
		request.Ids = append(request.Ids, int64(id))
	}
	var sent *slurmpb.ListResponse
	err := c.ask(ctx, "list", 4*c.options.Timeout, func(ctx context.Context, manager slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = manager.List(ctx, request)
		return sent, err
	})
	if err != nil {
		return nil, withVerb("list tickets", err)
	}
	tickets, err := ticketsIn(sent.GetTickets())
	if err != nil {
		return nil, withVerb("list tickets", c.rejectAnswer(err))
	}
	c.guest.Well()
	return tickets, nil
}

// Beat implements leader.Tickets.
func (c *Client) Beat(ctx context.Context, id int, words leader.Words) error {
	err := c.ask(
		ctx,
		"beat",
		c.options.Timeout,
		func(ctx context.Context, manager slurmpb.SlurmClient) (answer, error) {
			return manager.Beat(ctx, &slurmpb.BeatRequest{Id: int64(id), Words: wordsOut(words)})
		},
	)
	return withVerb(fmt.Sprintf("renew ticket %d", id), err)
}

// Tear implements leader.Tickets.
func (c *Client) Tear(ctx context.Context, id int) error {
	err := c.ask(
		ctx,
		"tear",
		c.options.Timeout,
		func(ctx context.Context, manager slurmpb.SlurmClient) (answer, error) {
			return manager.Tear(ctx, &slurmpb.TearRequest{Id: int64(id)})
		},
	)
	return withVerb(fmt.Sprintf("cancel ticket %d", id), err)
}

// withVerb adds what was being done to an error, unless it is a Failure, whose text says so itself.
func withVerb(what string, err error) error {
	if failure := (*Failure)(nil); err == nil || errors.As(err, &failure) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
