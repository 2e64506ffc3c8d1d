package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sim"
	"github.com/synergy-slurmd/synergy-slurmd/sim/outcome"
)

// simCommand is synergy sim: its help, with all options as flags or keys of an experiment's file.
func simCommand() *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "sim [FILE] [options]",
		Short: "simulate workloads under policies and allocators, and compare",
		Long: `synergy sim simulates workloads on a cluster under every named policy with every named allocator, and compares.

Without options it takes a small workload on 32 GPUs, and shows Proportional, Greedy and Tune next to each other.

FILE is an experiment in YAML; - is the standard input. Each option is a key of it, and those that --help lists without
dashes are keys only. A flag counts instead of the key of the same name.`,
		Example: `  synergy sim experiment.yaml --policy srtf,las
  synergy sim --policy srtf,las --allocator proportional,tune --cluster 16x8:24:500 --load 9 --window 1000-2000
  synergy sim --trace sacct.txt --split 50,40,10 --cluster mysite.yaml --report out
  synergy sim --engine artifact --cluster 16x8:24:500 --allocator tune --load 9 --window 4000-5000`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
	}
	o.defineFlags(command, o.groups...)
	command.RunE = func(c *cobra.Command, args []string) error {
		if err := o.readExperiment(c.InOrStdin(), args...); err != nil {
			return err
		}
		return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
	}
	return command
}

// run simulates what the options describe, and writes the outputs. If no workload is named it takes a small example,
// and says so. If a simulation fails, no output file is changed.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	if o.output.quiet {
		stderr = io.Discard
	}
	taken, err := o.applyExample()
	if err != nil {
		return err
	}
	e, err := o.experiment(stderr)
	if err != nil {
		return err
	}
	drafts, err := o.drafts()
	if err != nil {
		return o.withGivenNames(err)
	}
	if taken != "" {
		fmt.Fprintf(stderr, "synergy: no workload is named, so here is a small one: %s\n", taken)
	}
	began := time.Now()
	runs, err := simulate(ctx, e, stderr)
	if err != nil {
		discard(drafts)
		return failed{err}
	}
	if err := o.deliver(stdout, drafts, e, runs); err != nil {
		return failed{o.withGivenNames(err)}
	}
	// On a terminal the table has the times.
	if !isTerminal(stdout) {
		fmt.Fprintf(stderr, "synergy: simulations: %d, in %s\n", len(runs), time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// simulate runs the experiment, with a progress bar on a terminal.
func simulate(ctx context.Context, e sim.Experiment, stderr io.Writer) ([]outcome.Run, error) {
	if b := newBar(stderr, time.Now); b != nil {
		e.Progress = b.show
		defer b.clear()
	}
	return e.Run(ctx)
}
