// Package slurm asks Slurm for one job, as its user and by Slurm's own programs: to submit it, to look at it, to
// cancel it, and what nodes there are. It runs them without a shell, needs no right beyond a user's and no daemon,
// and gives what Slurm says back in Slurm's words. What the job does is not its business.
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
	GPUType   string // as the site's gres has it; empty: any
	Partition string // empty: the user's default
	Limit     time.Duration
	Folder    string   // where it runs
	Output    string   // file of what it prints
	Script    string   // file of the batch script
	Options   []string // of sbatch, by the user: from Options
}

// arguments are those of sbatch. What the user said comes last but for the script: of two that say the same sbatch
// believes the second, and those that would change what is measured never come this far.
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

// ID is a job's number.
type ID string

var jobNumber = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// ParseID reads a job's number.
func ParseID(text string) (ID, error) {
	if !jobNumber.MatchString(text) {
		return "", fmt.Errorf("%.40q is no number of a job", text)
	}
	return ID(text), nil
}

// Refusal is what sbatch said when it did not take a job.
type Refusal struct{ Words string }

// Error is a sentence with sbatch's own words.
func (r *Refusal) Error() string { return "sbatch refuses the job: " + r.Words }

// ErrNone says that there is no Slurm on this machine.
var ErrNone = errors.New("is not here")

// Submit submits a job.
func Submit(ctx context.Context, j Job) (ID, error) {
	said, err := program(ctx, submitting(os.Environ()), "sbatch", j.arguments()...)
	if errors.Is(err, ErrNone) {
		return "", err
	}
	if err != nil {
		return "", &Refusal{cmp.Or(said.errors, err.Error())}
	}
	number, _, _ := strings.Cut(said.output, ";") // the cluster's name comes behind it
	id, err := ParseID(strings.TrimSpace(number))
	if err != nil {
		return "", fmt.Errorf("sbatch: %w", err)
	}
	return id, nil
}

// submitting is the environment of sbatch: without what makes another job of it, which a shell inside a job has by
// itself, or whose owner meant it for his trainings.
func submitting(environment []string) (kept []string) {
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "SLURM_") && name != "SLURM_CONF" && name != "SLURM_CLUSTERS":
		case name == "SBATCH_ARRAY_INX", name == "SBATCH_WAIT", name == "SBATCH_GPUS", name == "SBATCH_GPUS_PER_NODE",
			name == "SBATCH_GPUS_PER_TASK",
			name == "SBATCH_MEM_PER_CPU", name == "SBATCH_MEM_PER_GPU", name == "SBATCH_CPUS_PER_GPU":
		case name == "SBATCH_COMMENT" && directive(value):
		default:
			kept = append(kept, entry)
		}
	}
	return kept
}

// directive says that a comment is one for the daemon.
func directive(comment string) bool { return strings.Contains(strings.ToLower(comment), "synergy-") }

// Cancel cancels a job. One that is over does not mind.
func Cancel(ctx context.Context, id ID) error {
	said, err := program(ctx, os.Environ(), "scancel", string(id))
	if err != nil {
		return fmt.Errorf("scancel %s: %w", id, said.or(err))
	}
	return nil
}

// words are what a program printed, each as one line that a terminal can be shown.
type words struct{ output, errors string }

// or is the error in the program's own words, where it had any.
func (w words) or(err error) error {
	if w.errors != "" && !errors.Is(err, ErrNone) {
		return errors.New(w.errors)
	}
	return err
}

const (
	answers  = time.Minute // Slurm's programs give up by themselves long before
	maxWords = 64 << 20    // of a listing: 10,000 nodes have 10 MB
	maxSaid  = 400         // of an error
)

// program runs one of Slurm's.
func program(ctx context.Context, environment []string, name string, args ...string) (words, error) {
	if _, err := exec.LookPath(name); err != nil {
		return words{}, fmt.Errorf("%s %w", name, ErrNone)
	}
	within, stop := context.WithTimeout(ctx, answers)
	defer stop()
	command := exec.CommandContext(within, name, args...)
	command.WaitDelay, command.Env = time.Second, environment
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's ^C is for us, who cancel the job
	var out, wrong limited
	out.room, wrong.room = maxWords, maxWords
	command.Stdout, command.Stderr = &out, &wrong
	err := command.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case within.Err() != nil:
		err = fmt.Errorf("no answer within %s", answers)
	}
	return words{out.text.String(), oneLine(wrong.text.String())}, err
}

// limited keeps the beginning.
type limited struct {
	text bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.room)]
	l.room -= len(kept)
	l.text.Write(kept)
	return len(p), nil
}

// oneLine is what a program says of an error: its lines without its name before each, and without what a terminal
// would obey.
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
