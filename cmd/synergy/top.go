package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// topCommand is synergy top: its help and its flags. If the output is no terminal, the answer is written once.
func topCommand() *cobra.Command {
	var o ask.Top
	command := &cobra.Command{
		Use:   "top [flags]",
		Short: "what runs, by what it gains, and what each node has left",
		Long: `top shows the jobs that run by the last round's plan, those first that train fastest beside their
proportional share, with what they hold and what their share is; and each node with what is given,
lent beyond shares, and idle. On a terminal it is drawn anew after each round, until it is
interrupted. It asks the daemon, or reads the ledger of one that is down.`,
		Example: `  synergy top
  synergy top --once --nodes
  synergy top --json | jq '.jobs[] | {job, gain}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Once = o.Once || !isTerminal(c.OutOrStdout())
			return o.Run(c.Context(), c.OutOrStdout())
		},
	}
	where, out := newGroup("Where rounds are read"), newGroup("Output")
	where.addSourceFlags(&o.Source)
	times.Var(out.flags, &o.Every, "every", 10*time.Second,
		"`time` between two looks whether there was a round, on a terminal")
	out.flags.BoolVar(&o.Once, "once", false, "one picture, as where the output is no terminal")
	out.flags.BoolVar(&o.Nodes, "nodes", false, "the nodes alone")
	out.flags.BoolVar(&o.JSON, "json", false, "jobs and nodes for programs, once")
	setGroups(command, where, out)
	return command
}
