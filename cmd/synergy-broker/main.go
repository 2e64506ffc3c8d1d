// Command synergy-broker decides on a node which of the jobs that share a GPU may use it: it runs the broker of package
// share/broker. The node's prolog, epilog and task prolog call it, too, for jobs on shared GPUs. These calls fail
// without harm: a job without a broker runs on.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/cli"
	"github.com/synergy-slurmd/synergy-slurmd/share/broker"
	"github.com/synergy-slurmd/synergy-slurmd/share/node"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2 // the same command line would fail again
)

// version is set by the linker.
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// runtimeError is an error that another command line would not avoid. Its exit code is exitFailed.
type runtimeError struct{ error }

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := command()
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := cli.Execute(ctx, root, args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "synergy-broker:", err)
	_, is := errors.AsType[runtimeError](err)
	if _, full := errors.AsType[cli.Unwritten](err); is || full {
		return exitFailed
	}
	return exitUsage
}

// command is the command line. Without a subcommand it serves, as serve does; the flags of both are the same.
func command() *cobra.Command {
	var f flags
	serve := func(c *cobra.Command, _ []string) error { return f.serve(c.Context(), c.ErrOrStderr()) }
	root := &cobra.Command{
		Use: "synergy-broker", Short: "say whose turn it is on a GPU that jobs share", Long: about,
		Version: programVersion(),
		RunE:    serve, SilenceErrors: true, SilenceUsage: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&f.dir, "run-dir", node.Folder, "the `folder` of sockets and stamps")
	first := &cobra.Command{Use: "serve", Short: "the same as without a command", Long: about, Args: cobra.NoArgs,
		RunE: serve}
	for _, c := range []*cobra.Command{root, first} {
		c.Flags().SortFlags = false
		f.define(c.Flags())
	}
	root.AddCommand(first, f.thaw(), f.status(), cli.Manual("8", "synergy-broker "+programVersion()),
		f.hook("stamp", "for Prolog, as root: keep what the daemon said of the job",
			func(environ []string, _ io.Writer) error { return f.tell(node.Stamp, environ) }),
		f.hook("unstamp", "for Epilog, as root: forget it",
			func(environ []string, _ io.Writer) error { return f.tell(node.Unstamp, environ) }),
		f.hook("env", "for TaskProlog, as the job's user: say where its GPU's socket is",
			func(environ []string, w io.Writer) error { return node.Env(environ, f.dir, w) }))
	return root
}

const about = `synergy-broker says on a node who may use a GPU now, where several jobs share one. Each GPU has a socket; jobs ask
there for turns (see docs/sharing.md), and the job that is more important goes first. It runs as root: it has to
know whose process asks, and to stop a job that will not yield. Where it does not run, jobs run on and their GPU slices
their time.`

// hook is a command for one of Slurm's scripts. do gets the environment of the script.
func (f *flags) hook(name, short string, do func([]string, io.Writer) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := do(os.Environ(), c.OutOrStdout()); err != nil {
				return runtimeError{err}
			}
			return nil
		}}
}

// mostLook is how long a prolog waits for the broker to prepare the job's GPU. After that the job starts all the same.
const mostLook = 12 * time.Second

// tell changes the stamp of a job and has the broker read the stamps of the GPU that it had or has now. It waits for
// the broker, because the broker writes for the job's tasks how they reach MPS, and that must exist before the first
// task. Jobs without a shared GPU do not wait, and the broker looks only at the GPUs concerned.
func (f *flags) tell(change func(environ []string, dir string) error, environ []string) error {
	gpus := f.stamped()
	if err := change(environ, f.dir); err != nil {
		return err
	}
	gpus = append(gpus, f.stamped()...)
	if _, err := os.Lstat(broker.AdminPath(f.dir)); err != nil || len(gpus) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostLook)
	defer cancel()
	return broker.Tell(ctx, f.dir, gpus...)
}

// unread stands for the GPU of a job whose stamp cannot be read. No broker has a GPU of that index, so each broker
// looks at all GPUs that it serves.
const unread = -1

// stamped returns the shared GPU of the job in this environment; none if the job has no stamp.
func (f *flags) stamped() []int {
	job, err := strconv.Atoi(os.Getenv("SLURM_JOB_ID"))
	if err != nil {
		return nil
	}
	stamp, err := node.ReadStamp(f.dir, job)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []int{unread}
	}
	return []int{stamp.GPU}
}

// thaw is the command that systemd runs after the broker has ended, however it ended.
func (f *flags) thaw() *cobra.Command {
	return &cobra.Command{Use: "thaw", Short: "let all jobs go on that a broker has stopped", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			jobs, err := broker.Thaw(f.dir, proc())
			for _, job := range jobs {
				fmt.Fprintln(c.OutOrStdout(), "thawed job", job)
			}
			// While a broker runs, the announcement is that broker's.
			if !errors.Is(err, broker.ErrThaws) {
				f.retract(c.ErrOrStderr())
			}
			if err != nil {
				return runtimeError{err}
			}
			return nil
		}}
}

// retract removes the announcement of a broker that has died. An error is only printed, as when Slurm cannot be reached
// while the machine shuts down: the jobs have been thawed, and nothing is placed on a node that is down.
func (f *flags) retract(say io.Writer) {
	programs, err := onPath()
	if err != nil {
		return // without Slurm's programs a broker has announced nothing
	}
	if err := retract(programs, notePath(f.dir)); err != nil {
		fmt.Fprintln(say, "take the announcement back:", err)
	}
}

// proc is the machine's own /proc and cgroups.
func proc() broker.Proc {
	return broker.Proc{Root: "/proc", Cgroups: "/sys/fs/cgroup", Owner: os.Geteuid()}
}

// programVersion is the program's version.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, known := debug.ReadBuildInfo(); known && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
