package main

import (
	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// planCommand is synergy plan: its help and its flags. With --round it plans a kept round again, and takes no file.
func planCommand() *cobra.Command {
	o := ask.Plan{Version: programVersion()}
	command := &cobra.Command{
		Use:   "plan [flags] FILE",
		Short: "plan a saved snapshot, and say how good the plan can be; or a kept round again, and what differs",
		Long: `plan decides one round of a cluster that was saved as JSON, offline: who runs where with how much, why the
others wait, what the plan is worth, the most that any plan for the same jobs could be, and what binds. FILE is a
snapshot, as the daemon's page /snapshot gives it, or the report of a round that has one, as the pages /round and
/round/N do; - is the standard input. The profiles of its jobs come along. Nothing is sent to Slurm.

With --round, and no FILE, it plans a round again that the daemon has kept, with the profiles as they were then: by
this version, and by the policy and the allocator of then or others. It says that the plan is the same, byte for byte,
or for each job what was decided then and what is now. A round that is exported has all that it takes and can be
planned again anywhere. Small rounds, which start jobs between two rounds, are told (synergy explain, synergy history)
and not kept to be planned again. It ends with 1 where a plan differs although nothing else was asked for and a planner
of the site's own did not make it: then the versions differ in it.`,
		Example: `  curl -s localhost:9817/snapshot > now.json && synergy plan now.json
  synergy plan --policy srtf --allocator greedy round.json
  synergy plan --profiles /etc/synergy/profiles --json round.json | jq .certificate
  synergy plan --round 4711
  synergy plan --round 4711 --policy srtf --allocator greedy
  synergy plan --round 4711 --export round.json && scp round.json laptop: && ssh laptop synergy plan --round round.json`,
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("round") {
				return cobra.NoArgs(c, args)
			}
			return cobra.ExactArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if o.Round != "" {
				return o.Again(c.Context(), c.InOrStdin(), c.OutOrStdout())
			}
			return o.Run(c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr(), args[0])
		},
	}
	how, kept, out := newGroup("How it is planned"), newGroup("A kept round"), newGroup("Output")
	how.nonEmptyVar(&o.Policy, "policy", "", "who goes first (default as the round had it, or fifo)")
	how.nonEmptyVar(&o.Allocator, "allocator", "", "how much each job gets (default as the round had it, or tune)")
	how.flags.StringArrayVar(&o.Profiles, "profiles", nil,
		"`folder` with the profiles that jobs name, where FILE does not bring them along; may be repeated, the first "+
			"that has a name wins (default the ten of the paper)")
	kept.nonEmptyVar(
		&o.Round,
		"round",
		"",
		"`number` of the round, or the file to which one was exported; - is the standard "+
			"input",
	)
	kept.addHistoryFlags(&o.Past)
	kept.nonEmptyVar(&o.Export, "export", "", "`file` for the round with all that it takes to plan it again")
	out.flags.BoolVar(&o.JSON, "json", false, "the plan and its certificate, or what differs, as JSON")
	setGroups(command, how, kept, out)
	return command
}
