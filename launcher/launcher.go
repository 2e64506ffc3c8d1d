// Package launcher runs a trainer that knows nothing of us as the last command of a job, or as a task of srun: the
// signal by which the daemon asks is turned into the one that the trainer listens to, and its end into the exit code
// with which a job gives way. All other signals and codes pass as they are. It knows neither Slurm nor the daemon,
// beyond that exit code and what scancel is.
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

// Command is a trainer as it is to be run.
type Command struct {
	Argv []string
	Env  []string // as NAME=VALUE; nil: our own

	// asks it to save and leave; said again it is not passed on, since a second one ends many trainers at once
	On     syscall.Signal
	Send   syscall.Signal // what the trainer listens to
	To     Target         // who gets that
	Job    string         // whose steps, as scancel names it; for To == Steps alone
	Grace  time.Duration  // from the request until it is ended by force; 0: that is for others to do
	Exit   int            // the code of a job that gives way
	Accept []int          // codes that say that it has saved, besides those that always do (leaves)

	// that whoever started us ignores (Ignored): they stay so, as under nohup
	Ignored []os.Signal
	Output  io.Writer // gets a copy of what the trainer prints; nil: nobody reads along
	// run while the trainer does, each in a goroutine, and have to end with ctx: when it has ended, and as soon as it
	// is to leave, since it has better to do then. One that does not, as on a file system that hangs, is left behind.
	Beside []func(ctx context.Context, pid int)
	Say    func(text string) // takes a line for people
}

// Target is who gets the signal.
type Target int

// The targets.
const (
	Process Target = iota // the command
	// what it has started itself, as torchrun its workers; the command where there is nothing yet
	Children
	Group // the command and all that is in its process group
	Steps // the tasks of all steps of the job, and no batch script
)

// Codes of a command that did not start, as shells have them.
const (
	CannotRun = 126
	NotFound  = 127
)

const (
	patience = 10 * time.Second // from SIGTERM to SIGKILL, for one whose grace is over
	tidy     = 2 * time.Second  // the same for what it has left behind
)

// running is a command that runs. All but the waiting is done by one goroutine, and the process is reaped by that one:
// its number, and that of its group, are its own as long as anything is sent there.
type running struct {
	*Command
	process *exec.Cmd
	shares  bool // our process group, so a terminal's signals reach it without us
	caught  chan os.Signal
	exited  chan struct{} // closed when it has, and is not reaped yet
	before  []int         // children of ours that are not from it
	// of Ignored: in the background of a shell INT is, and a trainer could not even catch it if it is what we send
	ignored []os.Signal

	ctx    context.Context // ends when it has
	others sync.WaitGroup
	alone  context.CancelFunc // ends what runs beside it
	beside sync.WaitGroup     // that

	asked   bool
	forced  bool // it was ended since its grace was over
	overdue <-chan time.Time
	orphans // of those that it has left behind
}

// Run runs the command to its end and returns the code with which this process should end. An error says why it did not
// start.
func (c *Command) Run() (int, error) {
	// The kernel takes the end of the thread that starts a process for the end of its parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Command: c, ctx: ctx, exited: make(chan struct{}), caught: make(chan os.Signal, 64)}
	defer signal.Stop(r.caught)
	if err := r.start(); err != nil {
		cancel()
		return codeOf(err), err
	}
	r.accompany()
	r.mind()
	cancel()
	r.others.Wait()
	r.part()
	r.sweep()
	return r.end(), nil
}

func (r *running) start() error {
	path, err := exec.LookPath(r.Argv[0])
	if err != nil {
		return err
	}
	r.process = &exec.Cmd{Path: "/proc/self/exe", Args: append(r.shim(path), r.Argv...), Env: r.Env}
	r.process.Stdin, r.process.Stdout, r.process.Stderr = os.Stdin, os.Stdout, os.Stderr
	if r.Output != nil {
		r.process.Stdout, r.process.Stderr = io.MultiWriter(os.Stdout, r.Output), io.MultiWriter(os.Stderr, r.Output)
		// for what has left its group and its parent with the output open
		r.process.WaitDelay = tidy
		// who reads us no more: the trainer is told, by the pipe that it writes to
		signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	}
	// In a group of its own it is not met by what is meant for ours: Slurm signals whole trees, and shells whole
	// groups. At a terminal it shares ours, or it could not read there. SIGTERM and not SIGKILL when we are killed:
	// launchers end their workers then.
	r.shares = r.To != Group && hasTerminal()
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: !r.shares, Pdeathsig: syscall.SIGTERM}
	// orphans become ours, so that they can be found and ended; without that, init's
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

// codeOf is what a shell ends with when it cannot run a command.
func codeOf(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return NotFound
	}
	return CannotRun
}

// accompany begins what goes on beside the command, and the wait for its end.
func (r *running) accompany() {
	pid := r.process.Process.Pid
	r.others.Go(func() {
		for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
		close(r.exited)
	})
	ctx, cancel := context.WithCancel(r.ctx)
	r.alone = cancel
	for _, f := range r.Beside {
		r.beside.Go(func() { f(ctx, pid) })
	}
}

// part waits for what has run beside the command, for a moment.
func (r *running) part() {
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

// mind passes on what comes, until the command has ended.
func (r *running) mind() {
	for {
		select {
		case <-r.exited:
			return
		case caught := <-r.caught:
			r.take(caught.(syscall.Signal))
		case <-r.overdue:
			r.force()
		case <-r.due:
			r.reap(r.left())
		}
	}
}

func (r *running) take(caught syscall.Signal) {
	if caught == r.On || slices.Contains(ending, caught) {
		r.alone()
	}
	switch {
	case caught == unix.SIGCHLD:
		r.lookSoon()
	case caught == r.On:
		r.ask()
	case r.shares && (caught == unix.SIGINT || caught == unix.SIGQUIT): // the terminal has sent it to both of us
	default:
		_ = r.process.Process.Signal(caught) // one that has ended meanwhile does not mind
	}
}

// ask asks the command to save and leave, once. One that has ended by then has not been asked.
func (r *running) ask() {
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
		r.whom()))
	r.deliver()
}

func (r *running) whom() string {
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

func (r *running) deliver() {
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

// signalSteps has Slurm signal the tasks, again and again while that fails, since slurmctld may be away and a step may
// be on its way.
func (r *running) signalSteps() {
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

// force ends a command that has not left within its grace: what it had saved before has to do.
func (r *running) force() {
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

// end reaps the command and judges how it ended.
func (r *running) end() int {
	err := r.process.Wait()
	state := r.process.ProcessState
	if state == nil { // whoever else has waited for it knows how it ended, and we do not
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

// leaves says whether one that was asked and ended with this code has done what it was asked to. A signal that was
// meant to make it save has killed it if it had not begun yet, and SIGTERM is what Slurm sends to a job that has
// requeued itself.
func (c *Command) leaves(code int) bool {
	well := []int{0, c.Exit, 128 + int(c.Send), 128 + int(c.On), 128 + int(unix.SIGTERM)}
	return slices.Contains(well, code) || slices.Contains(c.Accept, code)
}

// shellCode is what a shell says of an end.
func shellCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
