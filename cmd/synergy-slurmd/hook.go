package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
)

// hook runs the site's own programs around a checkpoint: a program and its arguments each, or nothing. They learn of the job
// through their environment; there is no shell, and nothing that a user wrote becomes an argument.
type hook struct {
	before  []string
	after   []string
	timeout time.Duration
}

// orNone is the hook as rounds know it; nil where the site has none.
func (h hook) orNone() bridge.Hook {
	if len(h.before) == 0 && len(h.after) == 0 {
		return nil
	}
	return h
}

// Before runs before a job is asked to save.
func (h hook) Before(ctx context.Context, job bridge.Job, why string) error {
	return h.run(ctx, h.before, job, why)
}

// After runs when the job has left its nodes.
func (h hook) After(ctx context.Context, job bridge.Job, why string) error {
	return h.run(ctx, h.after, job, why)
}

func (h hook) run(ctx context.Context, argv []string, job bridge.Job, why string) error {
	if len(argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	said := &tail{limit: 512}
	program := exec.CommandContext(ctx, argv[0], argv[1:]...)
	program.Env = hookEnvironment(job, why)
	program.Stdout, program.Stderr = said, said
	program.WaitDelay = time.Second // a child of the program that keeps the output open must not keep the round
	if err := program.Run(); err != nil {
		return fmt.Errorf("run %s: %w: %s", argv[0], err, said)
	}
	return nil
}

func hookEnvironment(job bridge.Job, why string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"SYNERGY_JOB_ID=" + strconv.Itoa(job.ID),
		"SYNERGY_JOB_USER=" + job.User,
		"SYNERGY_JOB_PARTITION=" + job.Partition,
		"SYNERGY_JOB_NODES=" + strings.Join(job.Runs.Nodes, ","),
		"SYNERGY_REASON=" + why,
	}
}

// tail keeps the last bytes of what is written to it: programs say at their end what went wrong.
type tail struct {
	limit int
	kept  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - t.limit; over > 0 {
		t.kept.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	if t.kept.Len() == 0 {
		return "it said nothing"
	}
	return strings.TrimSpace(strings.ToValidUTF8(t.kept.String(), "?"))
}
