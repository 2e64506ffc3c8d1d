package slurmrest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// Requeue asks slurmrestd, or runs scontrol where its API has no such verb, as before v0.0.45. Either touches no job
// that waits or is over, so it may be said twice.
func (c *Client) Requeue(ctx context.Context, job int) (failure error) {
	defer c.discreet(&failure)
	if err := c.requeue(ctx, job); err != nil {
		return fmt.Errorf("requeue job %d: %w", job, err)
	}
	return nil
}

// requeue reads the job first. One that waits already is where it should be, and one that is over must not be run
// again: Slurm would requeue a job that has completed.
func (c *Client) requeue(ctx context.Context, id int) error {
	job, err := c.job(ctx, id)
	if err != nil || job.State == bridge.Pending {
		return err
	}
	if job.State != bridge.Running {
		return fmt.Errorf("it is %s: %w", job.words, bridge.ErrNotRunning)
	}
	defer c.touch(id)
	if err := c.requeueable(ctx, job); err != nil {
		return err
	}
	if err := c.sendBack(ctx, job.address()); err != nil {
		return c.notRequeued(ctx, id, err)
	}
	return nil
}

// sendBack says the one verb, in the way that this version of Slurm has. Where scontrol says it, Incomplete has
// slurmctld look once more at what requeue has just looked at: the job may have ended in between.
func (c *Client) sendBack(ctx context.Context, job string) error {
	if c.api.Requeue == nil {
		return c.scontrol(ctx, "requeue", "Incomplete", job)
	}
	return c.act(ctx, c.api.Requeue(job))
}

// notRequeued tells a refusal from a job that left meanwhile.
func (c *Client) notRequeued(ctx context.Context, id int, refusal error) error {
	job, err := c.job(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("%v: then read it: %w", refusal, err)
	case job.State == bridge.Pending:
		return nil
	case job.State == bridge.Finished:
		return fmt.Errorf("%v: it is %s: %w", refusal, job.words, bridge.ErrNotRunning)
	}
	return refusal
}

// scontrol is scontrolSays where nothing is asked.
func (l *link) scontrol(ctx context.Context, arguments ...string) error {
	_, err := l.scontrolSays(ctx, arguments...)
	return err
}

// scontrolSays runs it without a shell, with nothing of our environment but what the options name.
func (l *link) scontrolSays(ctx context.Context, arguments ...string) (text string, err error) {
	within, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	argv := append(append([]string{}, l.options.Scontrol...), arguments...)
	command := exec.CommandContext(within, argv[0], argv[1:]...)
	command.Env, err = l.environment()
	if err != nil {
		return "", err
	}
	command.WaitDelay = time.Second // a child of its own that keeps the pipe open is not waited for
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err = command.Run()
	switch {
	case err == nil:
		return said.String(), nil
	case ctx.Err() != nil: // whoever asked gave up, which says nothing about Slurm
		return "", ctx.Err()
	case within.Err() != nil:
		return "", fmt.Errorf("scontrol: no end within %v: %w", l.options.Timeout, bridge.ErrUnreachable)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("scontrol: %s: %w", inLine(said.String(), exit.String()), bridge.ErrRefused)
	}
	return "", fmt.Errorf("scontrol: %w", err)
}

// environment is what scontrol is started with.
func (l *link) environment() ([]string, error) {
	environment := append([]string{}, l.options.Environ...)
	if !l.options.ScontrolByToken {
		return environment, nil
	}
	token, err := l.token.read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bridge.ErrDenied, err)
	}
	return append(environment, "SLURM_JWT="+token), nil
}

// scontrolEnvironment is the little of our environment that scontrol needs: no token, no secrets of the daemon.
func scontrolEnvironment() []string {
	environment := []string{"PATH=" + os.Getenv("PATH")}
	if conf, ok := os.LookupEnv("SLURM_CONF"); ok {
		environment = append(environment, "SLURM_CONF="+conf)
	}
	return environment
}
