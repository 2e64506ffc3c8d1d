// Package slurm runs one job through Slurm, as its user and by Slurm's own programs: it submits the job, shows its
// status, cancels it, and lists the nodes. It runs the programs without a shell, needs no right beyond a user's and no
// daemon, and returns Slurm's messages unchanged. It does not know what the job does.
package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Job is what is submitted.
type Job struct {
	Name      string
	Size      gres.Vector
	GPUType   string // as in the site's gres; empty: any
	Partition string // empty: the user's default
	Limit     time.Duration
	Folder    string   // its working directory
	Output    string   // file for its output
	Script    string   // path of the batch script
	Options   []string // the user's options for sbatch, as Options returns them
}

// arguments returns the arguments of sbatch. The user's options come last before the script: of two equal options
// sbatch uses the second, and Options has refused those that would change what is measured.
func (j Job) arguments() []string {
	gpus := fmt.Sprintf("gpu:%d", j.Size.GPUs)
	if j.GPUType != "" {
		gpus = fmt.Sprintf("gpu:%s:%d", j.GPUType, j.Size.GPUs)
	}
	minutes := max(1, int((j.Limit+time.Minute-1)/time.Minute))
	args := []string{
		"--parsable", "--job-name=" + j.Name, "--nodes=1", "--ntasks=1", fmt.Sprintf("--cpus-per-task=%d", j.Size.CPUs),
		"--gres=" + gpus, fmt.Sprintf("--mem=%dM", int64(j.Size.Memory)), fmt.Sprintf("--time=%d",
			minutes), "--no-requeue",
		"--chdir=" + j.Folder, "--output=" + j.Output, "--open-mode=truncate",
	}
	if j.Partition != "" {
		args = append(args, "--partition="+j.Partition)
	}
	return append(append(args, j.Options...), j.Script)
}

// ID is a job ID.
type ID string

var jobNumber = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// ParseID parses a job ID.
func ParseID(text string) (ID, error) {
	if !jobNumber.MatchString(text) {
		return "", fmt.Errorf("%.40q is no number of a job", text)
	}
	return ID(text), nil
}

// Refusal is what sbatch said when it refused a job.
type Refusal struct{ Words string }

// Error is a sentence with sbatch's own words.
func (r *Refusal) Error() string { return "sbatch refuses the job: " + r.Words }

// ErrNone means that Slurm's program is not on this machine.
var ErrNone = errors.New("is not here")

// Submit submits a job. The error is a *Refusal with what sbatch said, except if there is no sbatch.
func Submit(ctx context.Context, j Job) (ID, error) {
	said, err := program(ctx, sbatchEnvironment(os.Environ()), "sbatch", j.arguments()...)
	if errors.Is(err, ErrNone) {
		return "", err
	}
	if err != nil {
		return "", &Refusal{cmp.Or(said.errors, err.Error())}
	}
	number, _, _ := strings.Cut(said.output, ";") // the name of the cluster may follow
	id, err := ParseID(strings.TrimSpace(number))
	if err != nil {
		return "", fmt.Errorf("sbatch: %w", err)
	}
	return id, nil
}

// sbatchEnvironment returns the environment for sbatch. It leaves out variables that would change the job, which a
// shell inside a job has or which the user meant for his trainings. Others, such as SBATCH_ACCOUNT, stay.
func sbatchEnvironment(environment []string) (kept []string) {
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "SLURM_") && name != "SLURM_CONF" && name != "SLURM_CLUSTERS":
		case name == "SBATCH_ARRAY_INX", name == "SBATCH_WAIT", name == "SBATCH_GPUS", name == "SBATCH_GPUS_PER_NODE",
			name == "SBATCH_GPUS_PER_TASK",
			name == "SBATCH_CLUSTERS", // the job is looked for in this cluster
			name == "SBATCH_MEM_PER_CPU", name == "SBATCH_MEM_PER_GPU", name == "SBATCH_CPUS_PER_GPU":
		case name == "SBATCH_COMMENT" && hasDirectives(value):
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}

// hasDirectives reports whether a comment has directives for the daemon.
func hasDirectives(comment string) bool {
	return strings.Contains(strings.ToLower(comment), "synergy-")
}

// Cancel cancels a job; for a job that has ended that is no error.
func Cancel(ctx context.Context, id ID) error {
	said, err := program(ctx, os.Environ(), "scancel", string(id))
	if err != nil {
		return fmt.Errorf("scancel %s: %w", id, said.errorOr(err))
	}
	return nil
}

// programOutput is what a program printed, the errors as one line that is safe for a terminal.
type programOutput struct{ output, errors string }

// errorOr returns the program's own error message, if it printed one, and else err.
func (w programOutput) errorOr(err error) error {
	if w.errors != "" && !errors.Is(err, ErrNone) {
		return errors.New(w.errors)
	}
	return err
}

const (
	programTimeout = time.Minute // Slurm's programs give up by themselves long before
	maxWords       = 64 << 20    // bytes of a listing: 10,000 nodes have 10 MB
	maxSaid        = 400         // bytes of an error
)

// program runs one of Slurm's programs.
func program(ctx context.Context, environment []string, name string, args ...string) (programOutput, error) {
	if _, err := exec.LookPath(name); err != nil {
		return programOutput{}, fmt.Errorf("%s %w", name, ErrNone)
	}
	within, stop := context.WithTimeout(ctx, programTimeout)
	defer stop()
	command := exec.CommandContext(within, name, args...)
	command.WaitDelay, command.Env = time.Second, environment
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's ^C is for us only; we cancel the job
	var out, wrong limited
	out.room, wrong.room = maxWords, maxWords
	command.Stdout, command.Stderr = &out, &wrong
	err := command.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil:
		err = fmt.Errorf("no answer within %s", programTimeout)
	}
	return programOutput{out.text.String(), oneLine(wrong.text.String())}, err
}

// limited keeps the beginning of what is written to it.
type limited struct {
	text bytes.Buffer
	room int
}

// Write never fails or falls short, since the program would then be ended by its own output.
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.room)]
	l.room -= len(kept)
	l.text.Write(kept)
	return len(p), nil
}

// oneLine returns a program's error messages as one line, without the program's name before each and without characters
// that a terminal would obey.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(strings.ToValidUTF8(text, "?")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return -1
			}
			return r
		}, line))
		for _, noise := range []string{"sbatch: ", "scontrol: ", "scancel: ", "error: ", "fatal: "} {
			line = strings.TrimPrefix(line, noise)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	said := strings.Join(lines, "; ")
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + "…"
	}
	return said
}
