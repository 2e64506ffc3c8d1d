package launcher

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A trainer that does not listen to the signal that asks must not die of it, and neither must what it starts: Slurm's
// signals to steps reach all of their processes on some clusters. What a process ignores its program ignores from the
// start; but this one must not ignore the signal for a moment, or it would not hear it. So the child is this program
// once more, which ignores the signal and becomes the command.

const shimName = "synergy run: about to become"

// shim is the beginning of the child's command line; the command's own follows.
func (c *Command) shim(path string) []string {
	return []string{shimName, strconv.Itoa(os.Getpid()), strconv.Itoa(int(c.On)), strconv.Itoa(int(c.Send)), path}
}

// Exec becomes the command where this process is such a child, and returns where it is not. Programs that run commands
// call it first of all.
func Exec() {
	const own = 5
	if len(os.Args) <= own || os.Args[0] != shimName {
		return
	}
	// Errors of numbers that this program has written itself lead to no such process and no such signal.
	parent, _ := strconv.Atoi(os.Args[1])
	on, _ := strconv.Atoi(os.Args[2])
	send, _ := strconv.Atoi(os.Args[3])
	if on != send {
		signal.Ignore(syscall.Signal(on))
	}
	err := become(os.Args[4], os.Args[own:], parent)
	fmt.Fprintf(os.Stderr, "synergy run: %s: %v\n", os.Args[own], err)
	os.Exit(codeOf(err))
}

// become returns only where that fails.
func become(path string, argv []string, parent int) error {
	// The wish to be told of the parent's end is this thread's, which may not be the one that had it from the start.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent { // it was killed meanwhile
		return unix.ESRCH
	}
	return syscall.Exec(path, argv, os.Environ())
}
