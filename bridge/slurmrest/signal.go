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

// signals are those that a script or a task can catch and answer by saving. KILL and STOP cannot be caught and are
// nobody's request to save.
var signals = []string{"USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "CONT"}

// Signal turns on the job's requeue flag first: a --no-requeue job that obeys and exits with the requeue code would be
// lost, and one that requeues itself would be refused.
func (c *Client) Signal(ctx context.Context, job int, signal bridge.Signal) (failure error) {
	defer c.discreet(&failure)
	if err := c.signal(ctx, job, signal); err != nil {
		return fmt.Errorf("signal job %d with %s: %w", job, inLine(signal.String(), "nothing"), err)
	}
	return nil
}

func (c *Client) signal(ctx context.Context, id int, signal bridge.Signal) error {
	if err := trappable(id, signal); err != nil {
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
	return c.act(ctx, c.api.Signal(job.address(), strings.TrimPrefix(signal.Name, "SIG"), targets[signal.To]))
}

// trappable refuses what is no request to save: without a signal, or with one that slurmrestd does not understand, a
// DELETE kills the job. No other place builds one, beside those that cancel a ticket and the job of a rehearsal.
func trappable(id int, signal bridge.Signal) error {
	_, known := targets[signal.To]
	switch {
	case !slices.Contains(signals, strings.TrimPrefix(signal.Name, "SIG")):
		return fmt.Errorf("want one of %s: %w", strings.Join(signals, " "), bridge.ErrRefused)
	case !known:
		return fmt.Errorf("want it for the batch script or for the steps: %w", bridge.ErrRefused)
	case id <= 0:
		return fmt.Errorf("want a job ID above 0: %w", bridge.ErrRefused)
	}
	return nil
}

// targets are whom the port may aim at. What is not here has no flag, and a signal without one reaches everybody.
var targets = map[bridge.Target]wire.Target{bridge.Script: wire.Script, bridge.Steps: wire.Steps}

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
	if job.Interactive {
		return fmt.Errorf("it is interactive: %w", bridge.ErrRefused)
	}
	if job.Job.Requeue {
		return nil
	}
	on := true
	if err := c.post(ctx, job.ID, wire.Change{Requeue: &on, Tasks: positive(job.tasks)}); err != nil {
		return fmt.Errorf("make it requeueable: %w", err)
	}
	return nil
}
