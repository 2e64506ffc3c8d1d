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

// A trainer that does not handle the request signal must not die of it, nor must its children: on some clusters Slurm's
// signals to steps reach all of their processes. A new program inherits which signals are ignored. But this process
// must not ignore the signal for a moment, or it would miss it. So the child is this program once more, which ignores
// the signal and then becomes the command.

const shimName = "synergy run: about to become"

// shim returns the beginning of the child's command line; the command's own follows.
func (c *Command) shim(path string) []string {
	return []string{shimName, strconv.Itoa(os.Getpid()), strconv.Itoa(int(c.On)), strconv.Itoa(int(c.Send)), path}
}

// Exec becomes the command if this process is such a child, and otherwise returns. Programs that run commands call it
// first.
func Exec() {
	const own = 5 // words of shim, before the command's own
	if len(os.Args) <= own || os.Args[0] != shimName {
		return
	}
	// This program has written these numbers itself; an error would lead to a process and a signal that do not exist.
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

// become returns only if it fails.
func become(path string, argv []string, parent int) error {
	// The parent-death signal belongs to this thread, which may not be the one that had it from the start.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return err
	}
	if os.Getppid() != parent { // the parent was killed meanwhile
		return unix.ESRCH
	}
	return syscall.Exec(path, argv, os.Environ())
}
