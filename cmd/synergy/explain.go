package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// explainCommand is synergy explain: its help and its flags. Package ask answers.
func explainCommand() *cobra.Command {
	var o ask.Explain
	command := &cobra.Command{
		Use:   "explain [flags] JOB",
		Short: "why does a job wait or have no more cores, what would help, when will it start, what became of it",
		Long: `explain tells all that is known of a job, under one heading each.

Why it waits: what each kind of node lacks for it and who holds that, which jobs go before it, and
which limits of the site bind. Of a job that runs it says why it has no more cores.

What would help: what of its own request would have to be different for it to find room under the
last round's plan. Each such change was tried; synergy what-if --job tries more of them.

When it starts: in the middle, and between when and when in eight of ten. The rounds to come are
played forward from what the last one saw, several times. That goes by lengths that users declared, by
time limits of which jobs use a part, as far as the daemon has learned that, and by nothing where a job
has neither. Who will be submitted is not known.

What became of it: for what it waited, where it was started with how much and why, how fast it ran, for
whom it gave way, today or last month. It goes back as far as the daemon's history, or the last rounds
where the site keeps none.

It asks the daemon; where that is down it reads the folder of the history, or the daemon's ledger,
which takes the daemon's user or root. The folder alone has only the last of the four.`,
		Example: `  synergy explain 4711
  synergy explain --daemon http://ctl1:9817 --json 4711
  synergy explain --within 30s --json 4711 | jq .expected.starts
  sudo -u synergy synergy explain --history /var/lib/synergy/history 4711
  sudo -u synergy synergy explain --ledger /var/lib/synergy/ledger 4711`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return o.Run(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), args[0], time.Now())
		},
	}
	where, out := newGroup("Where rounds are read"), newGroup("Output")
	where.addHistoryFlags(&o.Past)
	times.Var(out.flags, &o.Within, "within", 10*time.Second, "time for looking ahead, when a job waits")
	out.flags.BoolVar(&o.JSON, "json", false, "all of it for programs")
	setGroups(command, where, out)
	return command
}
