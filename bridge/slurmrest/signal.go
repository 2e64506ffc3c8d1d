package slurmrest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// signals are those that a script can trap and answer by saving. KILL and STOP cannot be trapped and are nobody's request to
// save.
var signals = []string{"USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "CONT"}

// Signal turns on the job's requeue flag first: a --no-requeue job that obeys and exits with the requeue code would be lost.
func (c *Client) Signal(ctx context.Context, job int, signal string) (failure error) {
	defer c.discreet(&failure)
	if err := c.signal(ctx, job, signal); err != nil {
		return fmt.Errorf("signal job %d with %s: %w", job, words(signal, "nothing"), err)
	}
	return nil
}

func (c *Client) signal(ctx context.Context, id int, signal string) error {
	call, err := c.signalCall(id, signal)
	if err != nil {
		return err
	}
	job, err := c.job(ctx, id)
	if err != nil {
		return err
	}
	if job.State != bridge.Running || job.Completing || job.idle {
		return fmt.Errorf("it is %s: %w", job.words, bridge.ErrNotRunning)
	}
	defer c.touch(id)
	if err := c.requeueable(ctx, job); err != nil {
		return err
	}
	return c.act(ctx, call)
}

// signalCall is the only place, beside those that cancel a ticket and the job of a rehearsal, that builds a DELETE. Without a signal, or with one
// that slurmrestd does not understand, that request kills the job.
func (c *Client) signalCall(id int, signal string) (wire.Call[[]wire.Error], error) {
	signal = strings.TrimPrefix(signal, "SIG")
	if !slices.Contains(signals, signal) {
		return wire.Call[[]wire.Error]{}, fmt.Errorf("want one of %s: %w", strings.Join(signals, " "), bridge.ErrRefused)
	}
	if id <= 0 {
		return wire.Call[[]wire.Error]{}, fmt.Errorf("want a job ID above 0: %w", bridge.ErrRefused)
	}
	return c.api.Signal(id, signal, wire.Script), nil
}

// act does what has an outcome for each job: HTTP 200 and no errors, with a refusal in a status of its own.
func (l *link) act(ctx context.Context, call wire.Call[[]wire.Error]) error {
	outcomes, err := ask(ctx, l, call)
	if err != nil {
		return err
	}
	for _, outcome := range outcomes {
		if outcome.Number != 0 {
			return refusal(http.StatusOK, outcome)
		}
	}
	return nil
}

// requeueable makes sure that Slurm puts the job back into the queue after a requeue exit, or when asked to.
func (c *Client) requeueable(ctx context.Context, job listed) error {
	if job.Job.Requeue {
		return nil
	}
	on := true
	if err := c.post(ctx, job.ID, wire.Change{Requeue: &on}); err != nil {
		return fmt.Errorf("make it requeueable: %w", err)
	}
	return nil
}
