package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/leader"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/plugin/slurmpb"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	_ bridge.Slurm   = (*Client)(nil)
	_ leader.Tickets = (*Client)(nil)
)

// Observe implements bridge.Slurm. It asks for what is different from the last time.
func (c *Client) Observe(ctx context.Context) (bridge.Observed, error) {
	if err := enter(ctx, c.looking); err != nil {
		return bridge.Observed{}, doing("observe", err)
	}
	defer func() { <-c.looking }()
	var sent *slurmpb.ObserveResponse
	err := c.ask(ctx, "observe", 4*c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = slurm.Observe(ctx, &slurmpb.ObserveRequest{Version: c.sight.version})
		return sent, err
	})
	if err != nil {
		return bridge.Observed{}, doing("observe", err)
	}
	seen, err := c.sight.take(sent)
	if err != nil {
		return bridge.Observed{}, doing("observe", c.absurd(err))
	}
	c.guest.Well()
	return seen, nil
}

// absurd is the end of a program that has said what cannot be.
func (c *Client) absurd(err error) error {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	c.guest.Drop(conn)
	return unheard{err}
}

// Update implements bridge.Slurm.
func (c *Client) Update(ctx context.Context, update bridge.Update) error {
	err := c.ask(ctx, "update", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer,
		error) {
		return slurm.Update(ctx, updateOut(&update))
	})
	return doing(fmt.Sprintf("update job %d", update.Job), err)
}

// Signal implements bridge.Slurm. A program that says of itself that it knows no targets would signal the batch script,
// and perhaps kill it.
func (c *Client) Signal(ctx context.Context, job int, signal bridge.Signal) error {
	err := c.ask(ctx, "signal", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer,
		error) {
		if signal.To != bridge.Script && !c.aims() {
			return &slurmpb.DoneResponse{Failure: failureOut(errCannotAim)}, nil
		}
		return slurm.Signal(ctx, &slurmpb.SignalRequest{Job: int64(job), Signal: signal.Name, To: targetOut(signal.To)})
	})
	return doing(fmt.Sprintf("signal job %d with %s", job, signal), err)
}

var errCannotAim = fmt.Errorf("the plugin cannot signal the steps of a job and spare its batch script: %w",
	bridge.ErrRefused)

// aims says that the program that was configured last knows whom a signal is to reach.
func (c *Client) aims() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.intro.GetAims()
}

// Requeue implements bridge.Slurm.
func (c *Client) Requeue(ctx context.Context, job int) error {
	err := c.ask(ctx, "requeue", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer,
		error) {
		return slurm.Requeue(ctx, &slurmpb.RequeueRequest{Job: int64(job)})
	})
	return doing(fmt.Sprintf("requeue job %d", job), err)
}

// Split implements bridge.Splitter. A program that does not is one that refuses it.
func (c *Client) Split(ctx context.Context, array int, tasks []int) error {
	err := c.ask(ctx, "split", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer, error) {
		done, err := slurm.Split(ctx, &slurmpb.SplitRequest{Array: int64(array), Tasks: wide(tasks)})
		if status.Code(err) == codes.Unimplemented {
			return &slurmpb.DoneResponse{Failure: failureOut(errNoSplits)}, nil
		}
		return done, err
	})
	return doing(fmt.Sprintf("split array %d", array), err)
}

var errNoSplits = fmt.Errorf("it gives tasks of arrays no jobs of their own: %w", bridge.ErrRefused)

// Take implements leader.Tickets.
func (c *Client) Take(ctx context.Context, words leader.Words) (int, error) {
	var sent *slurmpb.TakeResponse
	err := c.ask(ctx, "take", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = slurm.Take(ctx, &slurmpb.TakeRequest{Words: wordsOut(words)})
		return sent, err
	})
	if err == nil {
		if err = number(sent.GetId()); err != nil {
			err = c.absurd(fmt.Errorf("ticket %d: %w", sent.GetId(), err))
		}
	}
	if err != nil {
		return 0, doing("take a ticket", err)
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
	err := c.ask(ctx, "list", 4*c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (_ answer,
		err error) {
		sent, err = slurm.List(ctx, request)
		return sent, err
	})
	if err != nil {
		return nil, doing("list tickets", err)
	}
	tickets, err := ticketsIn(sent.GetTickets())
	if err != nil {
		return nil, doing("list tickets", c.absurd(err))
	}
	c.guest.Well()
	return tickets, nil
}

// Beat implements leader.Tickets.
func (c *Client) Beat(ctx context.Context, id int, words leader.Words) error {
	err := c.ask(ctx, "beat", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer, error) {
		return slurm.Beat(ctx, &slurmpb.BeatRequest{Id: int64(id), Words: wordsOut(words)})
	})
	return doing(fmt.Sprintf("renew ticket %d", id), err)
}

// Tear implements leader.Tickets.
func (c *Client) Tear(ctx context.Context, id int) error {
	err := c.ask(ctx, "tear", c.options.Timeout, func(ctx context.Context, slurm slurmpb.SlurmClient) (answer, error) {
		return slurm.Tear(ctx, &slurmpb.TearRequest{Id: int64(id)})
	})
	return doing(fmt.Sprintf("cancel ticket %d", id), err)
}

// doing says what was being done when an error came up. The plugin's own words say it already.
func doing(what string, err error) error {
	if failure := (*Failure)(nil); err == nil || errors.As(err, &failure) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
