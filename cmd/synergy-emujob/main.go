// Command synergy-emujob is an emulated training job, the workload for a cluster without GPUs. It turns its flags and
// Slurm's environment into an emulate.Job and the outcome into an exit code; package emulate does the rest.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/emulate"
)

// Exit codes besides --requeue-exit, which asks Slurm for a requeue.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitNoMemory   = 75 // of the emulated GPU
	exitTerminated = 128 + int(syscall.SIGTERM)
)

func main() {
	// Signals are caught before anything else, because uncaught ones end the process and they may come at any time.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	os.Exit(emujob(os.Args[1:], signals))
}

// emujob runs the job and returns the exit code.
func emujob(args []string, signals chan os.Signal) int {
	f, err := parse(args, os.Stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		return complain(exitUsage, err)
	}
	endTurns, err := f.takeTurns()
	switch {
	case outOfMemory(err):
		return complain(exitNoMemory, fmt.Errorf("emulated out of memory: %w", err))
	case err != nil:
		return complain(exitUsage, err)
	}
	defer endTurns()
	defer f.measureIt()()
	job, err := f.job(os.Getenv)
	if err != nil {
		return complain(exitUsage, err)
	}
	log, err := openLog(f, os.Getenv)
	if err != nil {
		return complain(exitFailed, err)
	}
	defer log.Close()
	signal.Notify(signals, job.Leave)
	job.Signals, job.Log = signals, emulate.Log{To: log}
	out, err := job.Run()
	if err != nil {
		return complain(exitFailed, err)
	}
	if !isFollower(os.Getenv) {
		fmt.Fprintln(os.Stderr, sentence(job, out))
	}
	return f.exitCode(out.Reason)
}

// complain prints the error and returns the exit code.
func complain(code int, err error) int {
	fmt.Fprintf(os.Stderr, "synergy-emujob: %v\n", err)
	return code
}

// exitCode is the exit code for the reason of the end. A job that has saved ends with 0, unless it was asked to leave:
// then Slurm requeues it.
func (f *flags) exitCode(reason emulate.Reason) int {
	switch reason {
	case emulate.Left:
		return f.requeueExit
	case emulate.Killed:
		return exitTerminated
	}
	return 0
}

// openLog opens the log to append to it, since a job that is requeued continues its log.
func openLog(f *flags, getenv func(string) string) (io.WriteCloser, error) {
	switch {
	// The first task of the step logs for all.
	case isFollower(getenv):
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	case f.log == "-":
		return os.Stdout, nil
	}
	file, err := os.OpenFile(f.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return file, nil
}

// isFollower reports whether this is one of several tasks of a step and not the first. The first saves and logs for
// all.
func isFollower(getenv func(string) string) bool {
	rank := getenv("SLURM_PROCID")
	return rank != "" && rank != "0"
}

// sentence summarizes the run.
func sentence(job *emulate.Job, out emulate.Outcome) string {
	text := fmt.Sprintf("synergy-emujob: %s did %d iterations in this start and %d of %d in %s",
		job.Profile.Model, out.Done, out.Total, out.Goal, starts(out.Starts))
	if out.Lost > 0 {
		text += fmt.Sprintf(", and %d that were lost", out.Lost)
	}
	return text + fmt.Sprintf(" (%s): %s", job.Mode, ending[out.Reason])
}

var ending = map[emulate.Reason]string{
	emulate.Finished:   "finished",
	emulate.Left:       "saved and left, to be requeued",
	emulate.Terminated: "saved and terminated",
	emulate.Killed:     "terminated without a checkpoint",
}

func starts(n int) string {
	if n == 1 {
		return "1 start"
	}
	return fmt.Sprintf("%d starts", n)
}
