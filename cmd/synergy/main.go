// Command synergy is the tool for people: it asks the daemon, simulates clusters that share GPUs, cores and memory
// among training jobs, and says which GPUs a node has and whether Slurm knows. It turns the command line into a call of
// a package and the outcome into tables, files and pictures; it decides nothing itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/cli"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/launcher"
	"github.com/synergy-slurmd/synergy-slurmd/profiling/inside"
)

// Exit codes.
const (
	exitGood   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line or a file that it names is wrong: the same start would fail again
	exitUnseen = 3 // what was asked about could not be read: no driver, no Slurm
)

// version is set by the linker.
var version string

// main runs the command line, unless this process was started for another purpose.
func main() {
	// This program also starts itself, as the shim before a trainer and as the guardian of a measurement. Such a
	// process does not return from these two.
	launcher.Exec()
	inside.Exec()
	collectLess()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// gcPercent is the tool's GOGC. A simulation keeps little and discards much, so collecting less often costs some memory
// and saves much time.
const gcPercent = 400 // percent of the live heap

// collectLess sets the collector's percentage to gcPercent, unless the environment has GOGC.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// run runs the command line and returns the exit code. An exitError says the exit code itself. Without a cause it has
// no message, since its command has said everything already. Any other error is a usage error, unless its type says
// otherwise.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := rootCommand()
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := cli.Execute(ctx, root, normalizeArgs(root, args))
	if err == nil {
		return exitGood
	}
	var command exitError
	if errors.As(err, &command) && command.cause == nil {
		return command.code
	}
	fmt.Fprintln(stderr, "synergy:", err)
	if errors.As(err, &command) {
		return command.code
	}
	if errors.As(err, new(failed)) || errors.As(err, new(ask.Failed)) || errors.As(err, new(cli.Unwritten)) {
		return exitFailed
	}
	if errors.As(err, new(unseen)) || errors.As(err, new(ask.Unseen)) {
		return exitUnseen
	}
	return exitUsage
}

// failed is an error that a better command line would not have avoided.
type failed struct{ error }

func (f failed) Unwrap() error { return f.error }

// unseen is an error in reading what was asked about: the answer is unknown, as without a driver or without Slurm.
type unseen struct{ error }

func (u unseen) Unwrap() error { return u.error }

// rootCommand is synergy with all its commands, and hidden ones for names of earlier releases.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "synergy",
		Short: "simulate clusters that share GPUs, cores and memory among training jobs, and see what GPUs a node has",
		Long: `synergy simulates clusters that share GPUs, cores and memory among training jobs, and sees what GPUs a node has.

It runs the planner of synergy-slurmd, which gives each job the cores and the memory that its model needs
(Synergy, OSDI'22), against a Slurm in memory under a virtual clock: months of a cluster's life in seconds.
On a node it lists the GPUs, writes the lines of Slurm's configuration that fit, and says where Slurm is wrong about them.`,
		Example: `  synergy sim                          Proportional, Greedy and Tune on a small workload
  synergy sim --trace jobs.csv         a recorded workload, or a site's log
  synergy trace inspect sacct.txt      what is in a log
  synergy status                       is the daemon well, and how good is its plan?
  synergy top                          what runs, and what does it gain?
  synergy queue --user alice           who waits for what, in which order?
  synergy explain 4711                 why does this job wait, what would help, when will it start, what became of it?
  synergy what-if --job 4711           what would have it start now? And if there were more nodes?
  synergy history --user alice         who ran with what, when, why, and how fast?
  synergy import sacct                 last month again: what is needed of Slurm's accounting
  synergy plan round.json              one saved round planned anew, and how good a plan of it can be
  synergy plan --round 4711            a round of last month planned again: what would be different today?
  synergy profile -- ./train.sh        how fast does it train with how many cores?
  synergy run -- python train.py       a trainer that knows nothing of us, as the last line of a job
  synergy plugin check ./mine          does a planner of your own keep the promises?
  synergy savings --since 7d           what was saved, or would have been, and how sure that is
  synergy share predict a.json b.json  how fast would two jobs be on one GPU?
  synergy gres --check                 is Slurm right about this node's GPUs?`,
		Version:       programVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("synergy {{.Version}}\n")
	root.AddCommand(simCommand(), traceCommand(), importCommand(), planCommand(), profileCommand(), measureCommand(),
		runCommand(), pluginCommand(), statusCommand(), topCommand(), queueCommand(), explainCommand(),
		historyCommand(), whatIfCommand(), savingsCommand(), gresCommand(), shareCommand(),
		cli.Manual("1", "synergy "+programVersion()))
	root.AddCommand(
		removedCommand("rollout", "synergy-slurmd --check says what is missing for the next stage, and "+
			"/usr/lib/synergy/prove-failing-open shows that jobs start when the daemon dies"),
		removedCommand("why-not", "synergy explain JOB says it, under \"why it waits\" and \"what would help\""),
		removedCommand("when", "synergy explain JOB says it, under \"when it starts\", and synergy queue of all jobs"),
		removedCommand("replay", "synergy plan --round ROUND does it, or --round FILE with a round that was exported"))
	return root
}

// removedCommand is a hidden command of an earlier release. It fails and says what does the same today, for scripts and
// habits that still have the old name.
func removedCommand(name, instead string) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			path := strings.TrimPrefix(c.CommandPath(), "synergy ")
			return fmt.Errorf("%s is no command any more: %s", path, instead)
		}}
}

// programVersion is the program's version: what the linker was given, or else what the compiler knows of the source.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, known := debug.ReadBuildInfo(); known && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
