package launcher

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The signals with which a job may be asked (docs/job-contract.md), and those that a trainer may handle.
var (
	Asking    = []string{"USR1", "USR2", "HUP", "INT", "TERM"}
	Listening = append(slices.Clone(Asking), "QUIT")
)

// ParseSignal parses the name of a signal, with SIG or without, which must be one of the given names.
func ParseSignal(text string, among []string) (syscall.Signal, error) {
	bare := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if !slices.Contains(among, bare) {
		return 0, fmt.Errorf("%.40q: want one of %s", text, strings.Join(among, ", "))
	}
	return unix.SignalNum("SIG" + bare), nil
}

// name returns a signal's name as scancel and kill use it.
func name(s syscall.Signal) string { return strings.TrimPrefix(unix.SignalName(s), "SIG") }

// neverPassed are signals that are not passed on: those that cannot be caught, that the kernel sends to a process for
// its own mistake, that concern our own children and terminal, and that Go's runtime sends to itself.
var neverPassed = []syscall.Signal{
	unix.SIGKILL, unix.SIGSTOP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGSYS,
	unix.SIGTRAP, unix.SIGSTKFLT,
	unix.SIGCHLD, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGPROF, unix.SIGURG,
}

// ending are the signals by which a process is told to end, with or without saving.
var ending = []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP}

// jobControl are signals for stopping and continuing; a command in our process group gets them directly.
var jobControl = []syscall.Signal{unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH}

// The real-time signals that neither the C library uses (32 to 34) nor Go's runtime reserves.
const (
	firstRealTime = 35
	lastRealTime  = 64
)

// passed returns the signals that are passed on to the command, and SIGCHLD, which tells us about our children.
func (r *runningCommand) passed() (all []os.Signal) {
	take := func(s syscall.Signal) {
		if !slices.Contains(neverPassed, s) && !slices.Contains(r.ignored, os.Signal(s)) &&
			!(r.shares && slices.Contains(jobControl, s)) {
			all = append(all, s)
		}
	}
	for s := unix.SIGHUP; s <= unix.SIGSYS; s++ {
		take(s)
	}
	for s := syscall.Signal(firstRealTime); s <= lastRealTime; s++ {
		take(s)
	}
	return append(all, unix.SIGCHLD)
}

// Ignored returns which of the signals that users ignore on purpose, under nohup or in a shell's background, this
// process ignores. It must be called before any signal is caught.
func Ignored() (all []os.Signal) {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}
