package slurmrest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/wire"
)

// signals are those that a script or task can catch in order to save. KILL and STOP cannot be caught.
var signals = []string{"USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "CONT"}

// Signal first turns on the job's requeue flag: otherwise a --no-requeue job that obeys and exits with the requeue code
// would be lost, and one that requeues itself would be refused.
func (c *Client) Signal(ctx context.Context, job int, signal slurm.Signal) (failure error) {
	defer c.hideToken(&failure)
	if err := c.signal(ctx, job, signal); err != nil {
		return fmt.Errorf("signal job %d with %s: %w", job, inLine(signal.String(), "nothing"), err)
	}
	return nil
}

// signal verifies that the job runs, makes it requeueable, and sends the signal.
func (c *Client) signal(ctx context.Context, id int, signal slurm.Signal) error {
	if err := checkSignal(id, signal); err != nil {
		return err
	}
	job, err := c.job(ctx, id)
	if err != nil {
		return err
	}
	if job.State != slurm.Running || job.Completing || job.isSuspended {
		return fmt.Errorf("it is %s: %w", job.stateText, slurm.ErrNotRunning)
	}
	defer c.touch(id)
	if err := c.requeueable(ctx, job); err != nil {
		return err
	}
	return c.act(ctx, c.api.Signal(job.address(), strings.TrimPrefix(signal.Name, "SIG"), targets[signal.To]))
}

// checkSignal refuses what is no request to save: a DELETE without a signal, or with one that slurmrestd does not know,
// kills the job. Only ticket cancellation and rehearsals build such requests elsewhere.
func checkSignal(id int, signal slurm.Signal) error {
	_, known := targets[signal.To]
	switch {
	case !slices.Contains(signals, strings.TrimPrefix(signal.Name, "SIG")):
		return fmt.Errorf("want one of %s: %w", strings.Join(signals, " "), slurm.ErrRefused)
	case !known:
		return fmt.Errorf("want it for the batch script or for the steps: %w", slurm.ErrRefused)
	case id <= 0:
		return fmt.Errorf("want a job ID above 0: %w", slurm.ErrRefused)
	}
	return nil
}

// targets maps the targets of the port. An unknown target has no flag, and a signal without a flag reaches all
// processes.
var targets = map[slurm.Target]wire.Target{slurm.Script: wire.Script, slurm.Steps: wire.Steps}

// act sends a request whose answer has an outcome for each job: with HTTP 200 and no errors, an outcome may be a
// refusal.
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

// requeueable makes sure that Slurm requeues the job after its exit with the requeue code or when asked to.
func (c *Client) requeueable(ctx context.Context, job parsedJob) error {
	if job.Interactive {
		return fmt.Errorf("it is interactive: %w", slurm.ErrRefused)
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
