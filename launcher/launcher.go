// Package launcher runs a trainer that does not know the daemon, as the last command of a job or as a task of srun. It
// translates the daemon's request signal into the one that the trainer handles, and the trainer's end into the exit
// code of a job that gives way. All other signals and codes pass unchanged; an unexpected end after a request stays a
// failure. The trainer is started by a second copy of the program that ignores the request signal and then becomes the
// trainer, so that no signal is lost in between. Beyond that exit code and scancel the package knows neither Slurm nor
// the daemon.
package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a trainer and how to run it.
type Command struct {
	Argv []string
	Env  []string // as NAME=VALUE; nil: our own

	// On is the signal that asks to save and leave. It is passed on once, since a second one ends many trainers at
	// once.
	On     syscall.Signal
	Send   syscall.Signal // the signal that the trainer handles
	To     Target         // who gets Send
	Job    string         // the job whose steps get it, as scancel names it; for Steps only
	Grace  time.Duration  // from the request until the trainer is ended by force; 0: never here
	Exit   int            // the exit code of a job that gives way
	Accept []int          // exit codes that also mean that it has saved, besides those in leaves

	// Ignored are the signals that our caller ignores (see the function Ignored). They stay ignored, as under nohup.
	Ignored []os.Signal
	Output  io.Writer // gets a copy of the trainer's output; nil: none
	// Beside run while the trainer runs, each in a goroutine. They must return when ctx ends, which is at the trainer's
	// end or as soon as it is asked to leave. One that does not, as on a hanging file system, is abandoned.
	Beside []func(ctx context.Context, pid int)
	Say    func(text string) // prints a line for people
}

// Target is who gets the signal.
type Target int

// The targets.
const (
	Process Target = iota // the command
	// Children are the processes that the command has started, such as torchrun's workers, or the command if there are
	// none yet.
	Children
	Group // the command's process group
	Steps // the tasks of all steps of the job, without the batch script
)

// The exit codes for a command that did not start, as in a shell.
const (
	CannotRun = 126
	NotFound  = 127
)

const (
	patience = 10 * time.Second // from SIGTERM to SIGKILL after the grace
	tidy     = 2 * time.Second  // the same for processes that the command left behind
)

// runningCommand is a running command. One goroutine does everything but the waiting and also reaps the process, so the
// PID and process group are still the command's whenever a signal is sent.
type runningCommand struct {
	*Command
	process *exec.Cmd
	shares  bool // it shares our process group, so a terminal's signals reach it directly
	caught  chan os.Signal
	exited  chan struct{} // closed when it has exited; it is not reaped yet
	before  []int         // our children that it did not start
	// ignored is Ignored without On and Send: in a shell's background SIGINT is ignored, and a trainer could not catch
	// it if it is what we send.
	ignored []os.Signal

	ctx          context.Context // ends when the command has ended
	others       sync.WaitGroup
	cancelBeside context.CancelFunc // ends what runs beside it
	beside       sync.WaitGroup     // waits for what runs beside it

	asked   bool // it was asked to save and leave
	forced  bool // it was ended by force after its grace
	overdue <-chan time.Time
	orphans // processes that it left behind
}

// Run runs the command to its end and returns the code with which this process should exit. An error says why it did
// not start.
func (c *Command) Run() (int, error) {
	// The kernel treats the end of the thread that starts a process as the end of its parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(context.Background())
	r := &runningCommand{Command: c, ctx: ctx, exited: make(chan struct{}), caught: make(chan os.Signal, 64)}
	defer signal.Stop(r.caught)
	if err := r.start(); err != nil {
		cancel()
		return codeOf(err), err
	}
	r.accompany()
	r.handleEvents()
	cancel()
	r.others.Wait()
	r.part()
	r.sweep()
	return r.end(), nil
}

// start starts the command through the shim (exec.go), and prepares for signals and orphans.
func (r *runningCommand) start() error {
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return err
	}
	r.process = &exec.Cmd{Path: "/proc/self/exe", Args: append(r.shim(path), r.Argv...), Env: r.Env}
	r.process.Stdin, r.process.Stdout, r.process.Stderr = os.Stdin, os.Stdout, os.Stderr
	if r.Output != nil {
		r.process.Stdout, r.process.Stderr = io.MultiWriter(os.Stdout, r.Output), io.MultiWriter(os.Stderr, r.Output)
		// For processes that have left the group and the parent and hold the output open.
		r.process.WaitDelay = tidy
		// If our output is closed, the trainer learns it from the pipe that it writes to.
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
	// In a process group of its own the command does not get signals meant for us: Slurm signals whole trees, and
	// shells whole groups. At a terminal it shares our group, or it could not read from the terminal. If we are killed
	// it gets SIGTERM and not SIGKILL, so that launchers can end their workers.
	r.shares = r.To != Group && hasTerminal()
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: !r.shares, Pdeathsig: syscall.SIGTERM}
	// Orphans become our children, so that they can be found and ended; otherwise they become init's.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	for _, p := range children(os.Getpid()) {
		r.before = append(r.before, p.pid)
	}
	r.ignored = slices.DeleteFunc(slices.Clone(r.Ignored), func(s os.Signal) bool { return s == r.On || s == r.Send })
	if len(r.ignored) > 0 {
		signal.Ignore(r.ignored...)
	}
	signal.Notify(r.caught, r.passed()...)
	return r.process.Start()
}

// codeOf returns a shell's exit code for a command that it cannot run.
func codeOf(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return NotFound
	}
	return CannotRun
}

// accompany starts what runs beside the command, and the wait for its end.
func (r *runningCommand) accompany() {
	pid := r.process.Process.Pid
	r.others.Go(func() {
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
		close(r.exited)
	})
	ctx, cancel := context.WithCancel(r.ctx)
	r.cancelBeside = cancel
	for _, f := range r.Beside {
		r.beside.Go(func() { f(ctx, pid) })
	}
}

// part waits a moment for what has run beside the command.
func (r *runningCommand) part() {
	ended := make(chan struct{})
	go func() {
		r.beside.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(tidy):
		r.Say("what ran beside it hangs, and is left behind")
	}
}

// handleEvents handles signals and deadlines until the command has ended.
func (r *runningCommand) handleEvents() {
	for {
		select {
		case <-r.exited:
			return
		case caught := <-r.caught:
			r.take(caught.(syscall.Signal))
		case <-r.overdue:
			r.force()
		case <-r.due:
			r.reap(r.leftovers())
		}
	}
}

// take handles a signal that we caught. What runs beside the command ends as soon as the command is told to leave. Any
// signal but On and SIGCHLD is passed on, unless the terminal has sent it to the command, too.
func (r *runningCommand) take(caught syscall.Signal) {
	if caught == r.On || slices.Contains(ending, caught) {
		r.cancelBeside()
	}
	switch {
	case caught == unix.SIGCHLD:
		r.lookSoon()
	case caught == r.On:
		r.ask()
	case r.shares && (caught == unix.SIGINT || caught == unix.SIGQUIT): // the terminal has sent it to both of us
	default:
		_ = r.process.Process.Signal(caught) // it may have ended meanwhile
	}
}

// ask asks the command to save and leave, once. A command that has ended by then counts as not asked.
func (r *runningCommand) ask() {
	select {
	case <-r.exited:
		return
	default:
	}
	if r.asked {
		return
	}
	r.asked = true
	if r.Grace > 0 {
		r.overdue = time.After(r.Grace)
	}
	r.Say(fmt.Sprintf("%s asks to save and leave: %s goes to %s", unix.SignalName(r.On), unix.SignalName(r.Send),
		r.targetName()))
	r.deliver()
}

// targetName describes the target for people.
func (r *runningCommand) targetName() string {
	name := fmt.Sprintf("%s (%d)", filepath.Base(r.Argv[0]), r.process.Process.Pid)
	switch r.To {
	case Children:
		return "what " + name + " has started"
	case Group:
		return "the process group of " + name
	case Steps:
		return "the steps of job " + r.Job
	}
	return name
}

// deliver sends the signal to the target.
func (r *runningCommand) deliver() {
	pid := r.process.Process.Pid
	switch r.To {
	case Process:
		_ = unix.Kill(pid, r.Send)
	case Group:
		_ = unix.Kill(-pid, r.Send)
	case Steps:
		r.others.Go(func() { r.signalSteps() })
	case Children:
		begun := children(pid)
		if len(begun) == 0 {
			_ = unix.Kill(pid, r.Send)
		}
		for _, p := range begun {
			_ = unix.Kill(p.pid, r.Send)
		}
	}
}

// signalSteps has Slurm signal the tasks. It retries, since slurmctld may be away and a step may just be starting.
func (r *runningCommand) signalSteps() {
	for r.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
		said, err := exec.CommandContext(ctx, "scancel", "--signal="+name(r.Send), r.Job).CombinedOutput()
		cancel()
		if err == nil || r.ctx.Err() != nil {
			return
		}
		r.Say(fmt.Sprintf("scancel --signal=%s %s: %v: %.200s: trying again", name(r.Send), r.Job, err, said))
		select {
		case <-time.After(2 * time.Second):
		case <-r.ctx.Done():
		}
	}
}

// force ends a command that has not left within its grace, by SIGTERM and the next time by SIGKILL. Only what it saved
// before is kept. SIGTERM goes to the command alone, which may end its workers in order; SIGKILL goes to its whole
// group, unless that is ours.
func (r *runningCommand) force() {
	signal, pid := unix.SIGTERM, r.process.Process.Pid
	if r.forced {
		signal = unix.SIGKILL
	} else {
		r.Say(fmt.Sprintf("it has not left within %s: it is ended", r.Grace))
	}
	if r.forced = true; signal == unix.SIGTERM {
		r.overdue = time.After(patience)
	}
	if signal == unix.SIGKILL && !r.shares {
		pid = -pid
	}
	_ = unix.Kill(pid, signal)
}

// end reaps the command and returns the exit code for this process: after a request, Exit for a command that did as
// asked or was ended by force, and otherwise the command's own code.
func (r *runningCommand) end() int {
	err := r.process.Wait()
	state := r.process.ProcessState
	if state == nil { // the exit status was lost to another waiter
		r.Say(fmt.Sprintf("how it ended is not known: %v", err))
		return CannotRun
	}
	code := shellCode(state.Sys().(syscall.WaitStatus))
	switch {
	case r.asked && (r.forced || r.leaves(code)):
		r.Say(fmt.Sprintf("it has ended with %d: leaving with %d", code, r.Exit))
		return r.Exit
	case r.asked:
		r.Say(
			fmt.Sprintf(
				"it was asked to save, and ended with %d: that is taken for a failure; if it is how it leaves, say "+
					"--accept %[1]d", code))
	}
	return code
}

// leaves reports whether an exit code after a request means that the command did as asked. The request signal may have
// killed a command that had not begun to handle signals, and SIGTERM is what Slurm sends to a job that has requeued
// itself.
func (c *Command) leaves(code int) bool {
	well := []int{0, c.Exit, 128 + int(c.Send), 128 + int(c.On), 128 + int(unix.SIGTERM)}
	return slices.Contains(well, code) || slices.Contains(c.Accept, code)
}

// shellCode returns a shell's exit code for this status.
func shellCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
