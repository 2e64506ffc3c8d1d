package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// historyCommand is synergy history: its help and its flags. Package ask answers.
func historyCommand() *cobra.Command {
	var o ask.History
	command := &cobra.Command{
		Use:   "history [flags]",
		Short: "who ran with what, when, why, and at what speed",
		Long: `history lists the runs that the daemon's history knows (history in its configuration): of each its job,
its user, when it began and for how long it ran, what it held where, what its share would have been, how many times as fast as
with that it was to train by its profile, how many iterations a second it did by its own reports and how many its
profile says, how it ended and why it was started. Listed are the runs that began or ended in that time, and those
that ran all the time. It asks the daemon; where that is down it reads the folder, which takes the daemon's user or
root. synergy explain JOB tells the whole story of one.

With --billing it adds up by user what the runs were charged, in hours of billing, and what they would have been by what
they held: Slurm reckons billing for a job's first run and charges each later one the same.`,
		Example: `  synergy history --user alice --since 30d
  synergy history --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  sudo -u synergy synergy history --history /var/lib/synergy/history --job 4711
  synergy history --since 30d --billing CPU=1.0,Mem=0.25G,GRES/gpu=2.0`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.Run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), time.Now())
		},
	}
	where, what, out := newGroup("Where it is read"), newGroup("What is listed"), newGroup("Output")
	where.addHistoryFlags(&o.Past)
	what.nonEmptyVar(&o.User, "user", "", "runs of this `user`")
	what.flags.IntVar(&o.Job, "job", 0, "runs of this `job`")
	what.nonEmptyVar(&o.Since, "since", "7d",
		"from this `time` on: so long ago, as 7d or 12h, or a day, as 2026-11-01")
	what.nonEmptyVar(&o.Until, "until", "", "up to this `time` (default now)")
	what.nonEmptyVar(&o.Billing, "billing", "", "what was charged and what was given, by these `weights`: those of "+
		"TRESBillingWeights, and CPU=1 where there are none")
	what.flags.BoolVar(&o.MaxTRES, "max-tres", false,
		"with --billing: the largest counts and not the sum, as with PriorityFlags=MAX_TRES")
	out.flags.BoolVar(&o.JSON, "json", false, "the runs for programs")
	out.flags.BoolVar(&o.CSV, "csv", false, "the runs as a table for programs")
	setGroups(command, where, what, out)
	return command
}
