package slurmrest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurmrest/internal/v0042"
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
	request, err := c.signalRequest(id, signal)
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
	body, err := c.call(ctx, "/job/{job_id}", request, nil)
	if err != nil {
		return err
	}
	return signalled(body)
}

// signalRequest is the only place, beside the one that cancels a ticket, that builds a DELETE. Without a signal, or with one that slurmrestd does not understand, that
// request kills the job.
func (c *Client) signalRequest(id int, signal string) (*http.Request, error) {
	signal = strings.TrimPrefix(signal, "SIG")
	if !slices.Contains(signals, signal) {
		return nil, fmt.Errorf("want one of %s: %w", strings.Join(signals, " "), bridge.ErrRefused)
	}
	if id <= 0 {
		return nil, fmt.Errorf("want a job ID above 0: %w", bridge.ErrRefused)
	}
	script := "BATCH_JOB"
	return v0042.NewSignalJobRequest(c.base, strconv.Itoa(id), &v0042.SignalJobParams{Signal: &signal, Flags: &script})
}

// signalled reads the answer to a signal: HTTP 200 and no errors, with the refusal in a status of its own.
func signalled(body []byte) error {
	var answer v0042.KillJobResp
	if err := decode(body, &answer); err != nil {
		return err
	}
	if err := (complaint{answer.Errors, answer.Warnings}).failed(http.StatusOK); err != nil {
		return err
	}
	for _, status := range answer.Status {
		if number := int(status.Error.Code); number != 0 {
			return &Failure{http.StatusOK, number, words(status.Error.String, status.Error.Message), kindOf(number)}
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
	if err := c.post(ctx, job.ID, v0042.JobDescMsg{Requeue: &on}); err != nil {
		return fmt.Errorf("make it requeueable: %w", err)
	}
	return nil
}
