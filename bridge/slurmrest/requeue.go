package slurmrest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
)

// Requeue uses slurmrestd, or scontrol for API versions without that verb (before v0.0.45). Neither touches a job that
// waits or is over, so it may be repeated.
func (c *Client) Requeue(ctx context.Context, job int) (failure error) {
	defer c.hideToken(&failure)
	if err := c.requeue(ctx, job); err != nil {
		return fmt.Errorf("requeue job %d: %w", job, err)
	}
	return nil
}

// requeue reads the job first and requeues it only if it runs. A waiting job is left alone, and a finished one must not
// be requeued: Slurm would run a completed job again.
func (c *Client) requeue(ctx context.Context, id int) error {
	job, err := c.job(ctx, id)
	if err != nil || job.State == slurm.Pending {
		return err
	}
	if job.State != slurm.Running {
		return fmt.Errorf("it is %s: %w", job.stateText, slurm.ErrNotRunning)
	}
	defer c.touch(id)
	if err := c.requeueable(ctx, job); err != nil {
		return err
	}
	if err := c.sendRequeue(ctx, job.address()); err != nil {
		return c.notRequeued(ctx, id, err)
	}
	return nil
}

// sendRequeue sends the requeue in the way that this API version has. With scontrol, Incomplete makes slurmctld check
// again that the job is not complete, since it may have ended after requeue read it.
func (c *Client) sendRequeue(ctx context.Context, job string) error {
	if c.api.Requeue == nil {
		return c.scontrol(ctx, "requeue", "Incomplete", job)
	}
	return c.act(ctx, c.api.Requeue(job))
}

// notRequeued handles a refusal of a requeue by reading the job again. If the job waits by now there is no error, since
// that was the purpose; if it has finished the error is ErrNotRunning; else it is the refusal.
func (c *Client) notRequeued(ctx context.Context, id int, refusal error) error {
	job, err := c.job(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("%v: then read it: %w", refusal, err)
	case job.State == slurm.Pending:
		return nil
	case job.State == slurm.Finished:
		return fmt.Errorf("%v: it is %s: %w", refusal, job.stateText, slurm.ErrNotRunning)
	}
	return refusal
}

// scontrol runs scontrol and ignores its output.
func (l *link) scontrol(ctx context.Context, arguments ...string) error {
	_, err := l.scontrolSays(ctx, arguments...)
	return err
}

// scontrolSays runs scontrol and returns its output. It uses no shell, and only the environment that the options name,
// so that no secret of the daemon gets there. An exit code counts as ErrRefused, a timeout as ErrUnreachable.
func (l *link) scontrolSays(ctx context.Context, arguments ...string) (text string, err error) {
	within, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	argv := append(append([]string{}, l.options.Scontrol...), arguments...)
	command := exec.CommandContext(within, argv[0], argv[1:]...)
	command.Env, err = l.environment()
	if err != nil {
		return "", err
	}
	command.WaitDelay = time.Second // do not wait for a child of scontrol that keeps the pipe open
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err = command.Run()
	switch {
	case err == nil:
		return said.String(), nil
	case ctx.Err() != nil: // the caller gave up, which says nothing about Slurm
		return "", ctx.Err()
	case within.Err() != nil:
		return "", fmt.Errorf("scontrol: no end within %v: %w", l.options.Timeout, slurm.ErrUnreachable)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("scontrol: %s: %w", inLine(said.String(), exit.String()), slurm.ErrRefused)
	}
	return "", fmt.Errorf("scontrol: %w", err)
}

// environment is the environment of scontrol; with ScontrolByToken it has the token as well. ErrDenied if the token
// cannot be read.
func (l *link) environment() ([]string, error) {
	environment := append([]string{}, l.options.Environ...)
	if !l.options.ScontrolByToken {
		return environment, nil
	}
	token, err := l.token.read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", slurm.ErrDenied, err)
	}
	return append(environment, "SLURM_JWT="+token), nil
}

// scontrolEnvironment is the part of our environment that scontrol needs, without tokens or secrets of the daemon.
func scontrolEnvironment() []string {
	environment := []string{"PATH=" + os.Getenv("PATH")}
	if conf, ok := os.LookupEnv("SLURM_CONF"); ok {
		environment = append(environment, "SLURM_CONF="+conf)
	}
	return environment
}
