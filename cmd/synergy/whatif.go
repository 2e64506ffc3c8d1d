package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
)

// whatIfCommand is synergy what-if: its help and its flags. Package ask answers.
func whatIfCommand() *cobra.Command {
	var q ask.WhatIf
	command := &cobra.Command{
		Use:   "what-if [flags] CHANGE...",
		Short: "evaluate other nodes, another policy, or another request of a job",
		Long: `what-if plans what the last round saw, and plans it again with changes: more nodes or fewer, other cores and memory,
another policy, another request of one job. It says in a sentence what that comes to, and shows both beside each other.
With --job and no change it tries by itself what would have the job start now: another spread over nodes, a shorter time
limit, fewer restrictions, less cores or memory, a checkpoint, fewer GPUs, a shared GPU, and going first. Nothing is
sent to Slurm, and nothing is changed. Who would submit more if there were more is another question: synergy sim
answers it from a log.`,
		Example: `  synergy what-if --job 4711                       what would have it start now?
  synergy what-if --job 4711 --gpus 4 --nodes 1
  synergy what-if --cores-per-node +4
  synergy what-if --add-nodes 4:like=n1 --policy las
  synergy what-if --drain n[3-4] --job 4711`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return q.Run(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	where, cluster, job, out := newGroup("What is now"), newGroup("Changes of the cluster"),
		newGroup("Changes of a job"), newGroup("Output")
	where.addSourceFlags(&q.Source)
	where.nonEmptyVar(&q.Snapshot, "snapshot", "", "a `file` that the daemon's page /snapshot or /round gave, "+
		"instead; - is the standard input")
	where.flags.StringArrayVar(&q.Profiles, "profiles", nil,
		"`folder` with the profiles that jobs name, where what is read does not bring them along")
	cluster.nonEmptyVar(&q.AddNodes, "add-nodes", "", "so many more nodes, as 4 or `4:like=n1`")
	cluster.nonEmptyVar(&q.Drain, "drain", "", "nodes on which nothing starts, as `n[3-4]`")
	cluster.flags.IntVar(&q.CoresPerGPU, "cores-per-gpu", 0, "of each node with GPUs")
	cluster.nonEmptyVar(&q.CoresPerNode, "cores-per-node", "", "of each node with GPUs, as 64, `+4` or -4")
	cluster.nonEmptyVar(&q.MemoryPerNode, "memory-per-node", "",
		"of each node with GPUs, as 512G, `+100G` or -100G")
	cluster.nonEmptyVar(&q.Policy, "policy", "", "who goes first")
	cluster.nonEmptyVar(&q.Allocator, "allocator", "", "how much each job gets")
	job.flags.IntVar(&q.Job, "job", 0, "the `number` of the job that is asked about")
	job.flags.IntVar(&q.GPUs, "gpus", 0, "that it asks for, on all nodes together")
	job.flags.IntVar(&q.Nodes, "nodes", 0, "that it asks for")
	job.flags.BoolVar(&q.Checkpoint, "checkpoint", false, "it declares a checkpoint")
	job.flags.BoolVar(&q.First, "first", false, "it goes before all others")
	job.nonEmptyVar(&q.Profile, "profile", "", "the `file` with its profile")
	times.Var(out.flags, &q.Within, "within", 10*time.Second, "time for looking ahead")
	out.flags.BoolVar(&q.JSON, "json", false, "the answer for programs")
	setGroups(command, where, cluster, job, out)
	return command
}
