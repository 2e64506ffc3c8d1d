package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// queueCommand is synergy queue: its help and its flags. Package ask answers.
func queueCommand() *cobra.Command {
	var o ask.Queue
	command := &cobra.Command{
		Use:   "queue [flags]",
		Short: "who waits, in the order of the plan, and for what",
		Long: `queue lists the jobs that wait when the last round has ended: first those that the round starts,
then the others in the order in which the policy has them, then those that have no place in it, such
as held ones. Each has one reason, the first that binds, and the daemon's estimate of its start, if there
is one; synergy explain tells more of both. It asks the daemon, or reads the ledger of one that is down.`,
		Example: `  synergy queue
  synergy queue --user alice
  synergy queue --partition gpu --json | jq '.jobs[] | select(.reason == "configuration")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.Run(c.Context(), c.OutOrStdout(), time.Now()) },
	}
	where, which, out := newGroup("Where rounds are read"), newGroup("Which jobs"), newGroup("Output")
	where.addSourceFlags(&o.Source)
	which.nonEmptyVar(&o.User, "user", "", "those of this `user` alone")
	which.nonEmptyVar(&o.Partition, "partition", "", "those that may start in this `partition` alone")
	which.flags.IntVar(&o.Most, "most", 0, "no more than so many `jobs` (default: all)")
	out.flags.BoolVar(&o.JSON, "json", false, "the queue for programs")
	setGroups(command, where, which, out)
	return command
}
