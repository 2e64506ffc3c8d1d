package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/rollout/proof"
)

// guardOptions say how the daemon is started, and for how long at most it may be away.
type guardOptions struct {
	unit, start string
	within      time.Duration
}

// guardCommand is the process that starts the daemon again if a proof is killed. Only rollout prove runs it.
func guardCommand() *cobra.Command {
	o := &guardOptions{}
	command := &cobra.Command{
		Use:    "guard",
		Short:  "start the daemon again if a proof is killed: rollout prove runs this",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	set := command.Flags()
	set.StringVar(&o.unit, "unit", "", "the daemon's `unit`")
	set.StringVar(&o.start, "start", "", "`command` that starts it, in place of the unit")
	times.Var(set, &o.within, "within", time.Hour, "how long the proof may take")
	return command
}

// guardName is what the process is called, so that nobody who ends all that are called synergy ends it.
const guardName = "proof-guard"

func (o *guardOptions) run(c *cobra.Command) error {
	if o.unit == "" && o.start == "" {
		return errors.New("want what is to be started: synergy rollout prove says it")
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte(guardName), 0) // what it does is the same under any name
	if err := syscall.SetNonblock(syscall.Stdin, true); err != nil {
		return failed{err}
	}
	from := os.NewFile(uintptr(syscall.Stdin), "/dev/stdin")
	defer from.Close()
	fired, err := proof.Watch(from, os.Stdout, o.within, func() error { return o.startAgain(c) })
	switch {
	case !fired:
		return nil
	case err != nil:
		return failed{fmt.Errorf("the proof was killed, and the daemon could not be started again, do it by hand: %w",
			err)}
	}
	fmt.Fprintln(c.ErrOrStderr(), "synergy: the proof has not started the daemon again: it is started now")
	return nil
}

// Limits on how often it is tried.
const (
	startTries = 5
	startPause = 3 * time.Second
)

func (o *guardOptions) startAgain(c *cobra.Command) (err error) {
	for try := range startTries {
		if try > 0 {
			time.Sleep(startPause)
		}
		if o.start != "" {
			err = proof.Commands{Go: strings.Fields(o.start)}.Start(c.Context())
		} else {
			err = proof.Unit{Name: o.unit, Folder: unitFolder}.Start(c.Context())
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// guarded is the daemon with a guard of its own. The lease may be renewed once before the daemon is ended.
func (o *proveOptions) guarded(d proof.Daemon, lease time.Duration) (*proof.Guarded, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	within := 2*lease + 2*o.patience
	argv := []string{os.Args[0], "rollout", "guard", "--within", within.String(), "--unit", o.unit}
	if o.halt != "" {
		argv = append(argv, "--start", o.start)
	}
	return proof.Guard(d, path, argv...)
}
