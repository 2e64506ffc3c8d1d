package emulate

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// signals are the signals that Slurm passes on to a job's tasks and with which a job may be asked.
var signals = []struct {
	name   string
	signal syscall.Signal
}{
	{"USR1", syscall.SIGUSR1}, {"USR2", syscall.SIGUSR2}, {"HUP", syscall.SIGHUP}, {"INT", syscall.SIGINT},
	{"QUIT", syscall.SIGQUIT}, {"ALRM", syscall.SIGALRM}, {"CONT", syscall.SIGCONT}, {"TERM", syscall.SIGTERM},
}

// SignalNamed returns the signal named like USR1 or SIGUSR1. SIGTERM is refused, since it has a meaning of its own.
func SignalNamed(name string) (os.Signal, error) {
	for _, s := range signals {
		if s.name == strings.TrimPrefix(name, "SIG") && s.signal != syscall.SIGTERM {
			return s.signal, nil
		}
	}
	return nil, fmt.Errorf("signal %q: want USR1, USR2, HUP, INT, QUIT, ALRM or CONT", name)
}

func signalName(signal os.Signal) string {
	for _, s := range signals {
		if s.signal == signal {
			return s.name
		}
	}
	return signal.String()
}
