package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// Exit codes of status, for monitoring.
const (
	statusIll    = 1
	statusSilent = 2 // no daemon answered, or the command line is wrong
)

// statusCommand is synergy status. Its exit status says how the daemon does, for monitoring.
func statusCommand() *cobra.Command {
	var o ask.Status
	command := &cobra.Command{
		Use:   "status [flags]",
		Short: "is the daemon well, what did its last round do, how good is its plan, what waits for what",
		Long: `status says in a few lines whether the daemon is well, whether it acts, stands by or only plans,
when its last round was and what failed in it, who has the GPUs and cores, what jobs wait for, how
near the plan is to the best that is possible and what binds, how many names it has learned profiles
of, and what was saved.

The exit status is 0 when the daemon is well, 1 when it answers and is not, and 2 when it does not answer;
what the ledger knows is shown then, where it can be read.`,
		Example: `  synergy status
  synergy status --daemon http://ctl1:9817 --json | jq .daemon.healthy`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := o.Run(c.Context(), c.OutOrStdout(), time.Now())
			switch {
			case state == ask.Silent:
				return exitError{statusSilent, err}
			case err == nil && state == ask.Ill:
				return exitError{code: statusIll}
			}
			return err
		},
	}
	where, out := newGroup("Whom to ask"), newGroup("Output")
	where.addSourceFlags(&o.Source)
	out.flags.BoolVar(&o.JSON, "json", false, "the answer for programs")
	setGroups(command, where, out)
	return command
}
