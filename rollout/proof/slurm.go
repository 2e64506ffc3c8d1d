package proof

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Programs is Slurm by its own programs: sbatch, scontrol, scancel, without a shell.
type Programs struct {
	User      string // as whom they run, which takes root; empty: as whoever runs this
	Partition string // empty: the user's default
	Account   string // empty: the user's default
	GPUs      int
	// Hold is the begin time that the job itself asks for, from now on. It keeps the daemon from starting it before it
	// is seen to be leased.
	Hold time.Duration
}

// directive is how the job opts in: with whatever its owner's jobs of its name have taught, which is nothing.
const directive = "synergy-profile=auto"

// script ends at once: that it starts is all that is asked of it.
const script = "#!/bin/sh\nexit 0\n"

// Submit submits the job.
func (p Programs) Submit(ctx context.Context) (int, error) {
	args := []string{"--parsable", "--job-name=synergy-proof", "--comment=" + directive, "--nodes=1", "--ntasks=1",
		"--cpus-per-task=1", "--mem=64M", fmt.Sprintf("--gres=gpu:%d", p.GPUs), "--time=1", "--no-requeue",
		"--chdir=/", "--output=/dev/null", fmt.Sprintf("--begin=now+%d", int(p.Hold.Seconds()))}
	if p.Partition != "" {
		args = append(args, "--partition="+p.Partition)
	}
	if p.Account != "" {
		args = append(args, "--account="+p.Account)
	}
	out, err := run(ctx, script, p.as("sbatch", args...)...)
	if err != nil {
		return 0, fmt.Errorf("submit the job: %w", err)
	}
	number, _, _ := strings.Cut(strings.TrimSpace(out), ";") // the cluster's name comes behind it
	job, err := strconv.Atoi(number)
	if err != nil || job < 1 {
		return 0, fmt.Errorf("submit the job: sbatch answers %.40q: want a number", out)
	}
	return job, nil
}

// as is a command line of the user's.
func (p Programs) as(program string, args ...string) []string {
	line := append([]string{program}, args...)
	if p.User == "" {
		return line
	}
	return append([]string{"runuser", "-u", p.User, "--"}, line...)
}

// Cancel cancels the job.
func (p Programs) Cancel(ctx context.Context, job int) error {
	if _, err := run(ctx, "", p.as("scancel", "--quiet", strconv.Itoa(job))...); err != nil {
		return fmt.Errorf("cancel job %d: %w", job, err)
	}
	return nil
}

// Look asks scontrol.
func (p Programs) Look(ctx context.Context, job int) (Job, error) {
	out, err := run(ctx, "", p.as("scontrol", "--oneliner", "show", "job", strconv.Itoa(job))...)
	if err != nil {
		return Job{}, fmt.Errorf("look at job %d: %w", job, err)
	}
	seen, err := ParseJob(out, job)
	if err != nil {
		return Job{}, fmt.Errorf("look at job %d: %w", job, err)
	}
	return seen, nil
}

// asked are the keys of scontrol under which a job's request stands. The number of nodes is written in another way once
// a job has run, 1 for 1-1.
var asked = []string{"NumTasks", "CPUs/Task", "ReqTRES", "MinCPUsNode", "MinMemoryNode", "TresPerNode",
	"Partition", "TimeLimit", "ReqNodeList"}

// states are those of a job that has run.
var states = map[string]bool{"RUNNING": true, "COMPLETING": true, "COMPLETED": true, "FAILED": true, "TIMEOUT": true}

// ParseJob reads what scontrol --oneliner show job prints of a job, with times as seconds since the epoch. Of a key
// that stands there twice the first counts: what a user has written comes behind all that Slurm says.
func ParseJob(text string, job int) (Job, error) {
	if field(text, "JobId") != strconv.Itoa(job) {
		return Job{}, fmt.Errorf("scontrol tells of %.20q: want the job", field(text, "JobId"))
	}
	seen := Job{State: word(text, "JobState"), Reason: word(text, "Reason"), Asks: map[string]string{}}
	if seen.State == "" {
		return Job{}, fmt.Errorf("scontrol tells no JobState")
	}
	for _, key := range asked {
		if value := word(text, key); value != "" {
			seen.Asks[key] = value
		}
	}
	seen.Begin = moment(field(text, "EligibleTime"))
	if states[seen.State] {
		seen.Started = moment(field(text, "StartTime"))
	}
	_, extra, _ := strings.Cut(text, " Extra=")
	var annotation struct {
		V, Job int
		Begin  int64
	}
	// what cannot be read is none of the daemon's
	if json.NewDecoder(strings.NewReader(extra)).Decode(&annotation) == nil && annotation.V == 1 &&
		annotation.Job == job {
		seen.Leased = true
		if annotation.Begin > 0 {
			seen.Own = time.Unix(annotation.Begin, 0)
		}
	}
	return seen, nil
}

// word is a value that can be shown and kept.
func word(text, key string) string {
	const longest = 200
	return printable.Line(field(text, key), longest)
}

// field is the value of the first of these keys.
func field(text, key string) string {
	_, rest, found := strings.Cut(" "+text, " "+key+"=")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(value)
}

// moment is a time in seconds since the epoch; zero where there is none.
func moment(text string) time.Time {
	const most = 1 << 40
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 || seconds > most {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// Limits on a program.
const (
	patience = time.Minute
	mostSaid = 1 << 20
)

// run runs a program, and gives what it prints. Its error is in its own words, on one line.
func run(ctx context.Context, input string, argv ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, said bytes.Buffer
	command.Stdin, command.Stdout = strings.NewReader(input), &bounded{&out, mostSaid}
	command.Stderr = &bounded{&said, mostSaid}
	command.Env, command.WaitDelay = environment(os.Environ()), time.Second
	// An interrupt at the terminal is for whoever runs this, who has something to put back first.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Run(); err != nil {
		if ctx.Err() != nil { // it was killed for that
			err = ctx.Err()
		}
		const longest = 300
		if words := printable.Line(strings.TrimSpace(said.String()), longest); words != "" {
			err = fmt.Errorf("%w: %s", err, words)
		}
		return "", fmt.Errorf("%s: %w", argv[0], err)
	}
	return out.String(), nil
}

// environment is without what would make another job of it, which a shell inside of a job has by itself.
func environment(all []string) (kept []string) {
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "SLURM_") && name != "SLURM_CONF" || strings.HasPrefix(name, "SBATCH_") {
			continue
		}
		kept = append(kept, entry)
	}
	return append(kept, "SLURM_TIME_FORMAT=%s")
}

// bounded takes so many bytes and lets go of the rest.
type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(text []byte) (int, error) {
	kept := text[:min(len(text), b.left)]
	b.left -= len(kept)
	if _, err := b.to.Write(kept); err != nil {
		return 0, err
	}
	return len(text), nil
}
