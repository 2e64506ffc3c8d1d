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

// The signals that a job may be asked with (docs/job-contract.md), and those that a trainer may listen to.
var (
	Asking    = []string{"USR1", "USR2", "HUP", "INT", "TERM"}
	Listening = append(slices.Clone(Asking), "QUIT")
)

// ParseSignal reads the name of a signal, with SIG or without, which has to be among the names.
func ParseSignal(text string, among []string) (syscall.Signal, error) {
	bare := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if !slices.Contains(among, bare) {
		return 0, fmt.Errorf("%.40q: want one of %s", text, strings.Join(among, ", "))
	}
	return unix.SignalNum("SIG" + bare), nil
}

// name is a signal as scancel and kill name it.
func name(s syscall.Signal) string { return strings.TrimPrefix(unix.SignalName(s), "SIG") }

// kept are signals that are not passed on: those that cannot be caught, that the kernel sends to the process that has
// made a mistake, that tell us of our own children and terminal, and that Go's runtime sends to itself.
var kept = []syscall.Signal{
	unix.SIGKILL, unix.SIGSTOP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGSYS,
	unix.SIGTRAP, unix.SIGSTKFLT,
	unix.SIGCHLD, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE, unix.SIGPROF, unix.SIGURG,
}

// ending are those by which others have a process end, after it has saved or without.
var ending = []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP}

// jobControl stops and continues; who shares our process group is told as we are.
var jobControl = []syscall.Signal{unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH}

// The real-time signals that are not the C library's own, nor left alone by Go's runtime.
const (
	firstRealTime = 35
	lastRealTime  = 64
)

// passed are the signals that go on to the command, and the one that tells of children.
func (r *running) passed() (all []os.Signal) {
	take := func(s syscall.Signal) {
		if !slices.Contains(kept, s) && !slices.Contains(r.ignored, os.Signal(s)) &&
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

// Ignored are those of the signals that people ignore on purpose, under nohup or in a shell's background, which this
// process has ignored so far. It has to be asked before anybody catches one.
func Ignored() (all []os.Signal) {
	for _, s := range []os.Signal{unix.SIGHUP, unix.SIGINT} {
		if signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}
