package main

import (
	"github.com/spf13/cobra"
)

// shareCommand is synergy share, with the commands about several jobs on one GPU.
func shareCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "share",
		Short: "several jobs on one GPU: what to expect of a pair, and who has it now",
		Long: `synergy share says how fast jobs will be on one GPU together, who has a node's GPUs now, and why a job
that would share one does or does not. docs/sharing.md has more.`,
		Example: `  synergy share predict res50.json vit.json     how fast would they be together?
  synergy share status                          who has this node's GPUs now?
  synergy share status 4711                     why does this job share a GPU, or not?`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(sharePredictCommand(), shareStatusCommand(),
		removedCommand("why", "use synergy share status JOB"))
	for _, name := range []string{"run", "sweep"} {
		command.AddCommand(
			removedCommand(name, "use deft "+name+", which make deft builds; contrib/deft/README.md has more"),
		)
	}
	return command
}
