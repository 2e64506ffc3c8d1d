package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/bridge"
	"github.com/synergy-slurmd/synergy-slurmd/bridge/slurm"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// hook runs the site's own programs around a checkpoint: a program with its arguments each, or nothing. They learn of
// the job from their environment. There is no shell, and nothing that a user wrote becomes an argument.
type hook struct {
	before  []string
	after   []string
	timeout time.Duration
}

// orNone is the hook as rounds know it; nil if the site has none, so that rounds need not ask.
func (h hook) orNone() bridge.Hook {
	if len(h.before) == 0 && len(h.after) == 0 {
		return nil
	}
	return h
}

// Before runs before a job is asked to save.
func (h hook) Before(ctx context.Context, job slurm.Job, why string, within time.Duration) error {
	return h.run(ctx, h.before, job, why, within)
}

// After runs when the job has left its nodes.
func (h hook) After(ctx context.Context, job slurm.Job, why string, within time.Duration) error {
	return h.run(ctx, h.after, job, why, within)
}

// run runs one program, for the hook's time limit or within, whichever is shorter. The error has the end of its output.
func (h hook) run(ctx context.Context, argv []string, job slurm.Job, why string, within time.Duration) error {
	if len(argv) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(h.timeout, within))
	defer cancel()
	said := &tail{limit: 512}
	program := exec.CommandContext(ctx, argv[0], argv[1:]...)
	program.Env = hookEnvironment(job, why)
	program.Stdout, program.Stderr = said, said
	setProcessGroup(program)
	program.WaitDelay = time.Second // a child of the program that keeps the output open must not hold up the round
	if err := program.Run(); err != nil {
		return fmt.Errorf("run %s: %w: %s", argv[0], err, said)
	}
	return nil
}

// setProcessGroup gives the program a process group of its own, which is killed as a whole when its time is over.
// Otherwise its children would go on.
func setProcessGroup(program *exec.Cmd) {
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	program.Cancel = func() error { return syscall.Kill(-program.Process.Pid, syscall.SIGKILL) }
}

// hookEnvironment tells the program about the job. User texts are made single lines.
func hookEnvironment(job slurm.Job, why string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"SYNERGY_JOB_ID=" + strconv.Itoa(job.ID),
		"SYNERGY_JOB_USER=" + oneLine(job.User),
		"SYNERGY_JOB_PARTITION=" + oneLine(job.Partition),
		"SYNERGY_JOB_NODES=" + oneLine(strings.Join(job.Runs.Nodes, ",")),
		"SYNERGY_REASON=" + oneLine(why),
	}
}

// maxValue bounds a value: if one is too long for the kernel, no program starts.
const maxValue = 16 << 10

// oneLine makes a value a single line without NUL: a program reads its environment line by line, and the kernel ends a
// value at a NUL.
func oneLine(text string) string {
	text = printable.Blank(text)
	return strings.ToValidUTF8(text[:min(len(text), maxValue)], "")
}

// tail keeps the last bytes of what is written to it, since programs say at their end what went wrong.
type tail struct {
	limit int
	kept  bytes.Buffer
}

// Write takes all and fails never, so that the program is not ended by its own output.
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
