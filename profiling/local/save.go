package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Request is how a trainer is asked to save and leave. Only the trainer's process gets the signal, as a job's batch
// script does.
type Request struct {
	Signal syscall.Signal
	Name   string // USR1, …
	Within time.Duration
}

// requeued is the exit status by which a job of this project asks to be requeued.
const requeued = 98

// Save asks the running trainer to save and leave, and starts it again.
func (l *Trainer) Save(ctx context.Context, t profiler.Trial) (saved profiling.Saved, err error) {
	if err := l.ensureTraining(ctx, t); err != nil {
		return saved, err
	}
	if saved.Checkpoint, saved.Remark, err = l.measureCheckpoint(ctx); err != nil {
		return saved, err
	}
	saved.Start, err = l.measureStart(ctx, t)
	return saved, err
}

// ensureTraining makes sure that a trainer runs and has trained for a while.
func (l *Trainer) ensureTraining(ctx context.Context, t profiler.Trial) error {
	if l.running != nil {
		select {
		case <-l.running.ended:
		default:
			return nil
		}
	}
	_, err := l.Run(ctx, t)
	return err
}

// measureCheckpoint measures the time from the signal to the trainer's end. If the trainer had ended before the signal,
// that is a fault.
func (l *Trainer) measureCheckpoint(ctx context.Context) (seconds float64, remark string, err error) {
	c, asked := l.running, time.Now()
	switch err := c.command.Process.Signal(l.Asks.Signal); {
	case errors.Is(err, os.ErrProcessDone):
		return 0, "", l.fault(errEnded, "before it was asked to save")
	case err != nil:
		return 0, "", fmt.Errorf("signal %s: %w", l.Asks.Name, err)
	}
	select {
	case <-ctx.Done():
		return 0, "", ctx.Err()
	case <-time.After(l.Asks.Within):
		return 0, "", &profiling.Fault{Why: fmt.Sprintf(
			"the trainer had not left %s after %s: it does not listen to that, or needs longer to save%s",
			l.Asks.Within, l.Asks.Name, c.output.lastWords())}
	case <-c.ended:
	}
	seconds = time.Since(asked).Seconds()
	remark, err = l.exitRemark()
	return seconds, remark, errors.Join(err, l.Close())
}

// exitRemark returns a remark if the trainer's exit status is not what a job needs. Death by a signal is a fault, since
// nothing was saved; another exit status than requeued is only remarked, since the job may have saved all the same.
func (l *Trainer) exitRemark() (remark string, err error) {
	failed := l.running.failed
	var exit *exec.ExitError
	if failed == nil || errors.Is(failed, exec.ErrWaitDelay) {
		return fmt.Sprintf(
			"the trainer left with 0 after %s, which is the end of its job for Slurm: want exit status %d", l.Asks.Name,
			requeued), nil
	}
	if !errors.As(failed, &exit) {
		return "", failed
	}
	if status, is := exit.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return "",
			&profiling.Fault{Why: fmt.Sprintf(
				"the trainer died of %s: it does not listen to that, and its work would be lost", l.Asks.Name)}
	}
	if code := exit.ExitCode(); code != requeued {
		return fmt.Sprintf("the trainer left with exit status %d after %s, where %d brings a job back into the queue%s",
			code, l.Asks.Name, requeued,
			l.running.output.lastWords()), nil
	}
	return "", nil
}

// measureStart measures the time from the trainer's start to one iteration more than its first report, since a trainer
// that resumes first reports where it was. A first report of 1 is an iteration of this start already.
func (l *Trainer) measureStart(ctx context.Context, t profiler.Trial) (seconds float64, err error) {
	if err := l.start(t); err != nil {
		return 0, err
	}
	began, said := int64(0), false
	more := func() bool {
		total := l.running.source.total()
		if !said && total > 0 {
			began, said = total, true
		}
		return said && (total > began || began == 1)
	}
	if err := l.until(ctx, l.Patience, more); err != nil {
		return 0, l.fault(err, "when it was started again")
	}
	return time.Since(l.running.begun).Seconds(), nil
}
