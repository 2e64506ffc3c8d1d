package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/cli"
	"github.com/synergy-slurmd/synergy-slurmd/ledger"
)

// asked are the first arguments that ask about the command line: for its man pages, for a shell's completion script,
// and for the completions that this script asks for. Packages are built with them, so help does not list them.
var asked = []string{"manual", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// describes reports whether the arguments ask about the command line and run nothing.
func describes(args []string) bool { return len(args) > 0 && slices.Contains(asked, args[0]) }

// writeDocs writes the man pages or completions that the arguments ask for, and returns the exit code.
func writeDocs(args []string, stdout, stderr io.Writer) int {
	root := commandTree()
	root.AddCommand(cli.Manual("8", "synergy-slurmd "+programVersion()))
	root.SetOut(stdout)
	root.SetErr(stderr)
	var full cli.Unwritten
	switch err := cli.Execute(context.Background(), root, args); {
	case errors.As(err, &full):
		fmt.Fprintln(stderr, "synergy-slurmd:", err)
		return exitFailed
	case err != nil:
		return complain(stderr, err)
	}
	return exitGood
}

// commandTree is the command line as a tree of cobra commands, for man pages and completions. It runs nothing: the
// daemon parses its arguments itself.
func commandTree() *cobra.Command {
	var f flags
	root := branch("synergy-slurmd", usageDaemon, "resource-sensitive scheduling of GPU jobs beside Slurm", f.define)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true // the completion command has no man page either
	var files ledger.Files
	ofFiles := func(set *pflag.FlagSet) { defineFiles(set, &files) }
	verb := branch(ledgerVerb, usageKeep, "back up and restore what the daemon remembers", nil)
	verb.AddCommand(
		branch("backup FILE", usageKeep, "write what the daemon remembers to a file", ofFiles),
		branch("restore FILE", usageKeep, "put a backup in the place of what is there", ofFiles))
	root.AddCommand(branch(releaseVerb, usageRelease, "hand every waiting job back to Slurm", f.defineRelease), verb)
	return root
}

// branch is a command with its flags. The line "Usage:" is left out of its help, since cobra prints one.
func branch(use, text, short string, define func(*pflag.FlagSet)) *cobra.Command {
	long, _, _ := strings.Cut(text, "\n\nUsage:")
	command := &cobra.Command{Use: use, Short: short, Long: long, Run: func(*cobra.Command, []string) {}}
	if define != nil {
		command.Flags().SortFlags = false
		define(command.Flags())
	}
	return command
}
