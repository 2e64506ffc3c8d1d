package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
)

func pluginCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "plugin",
		Short: "try planner plugins",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(pluginCheckCommand())
	return command
}

// examination is what the flags of plugin check say.
type examination struct {
	seed      uint64
	snapshots int
	within    time.Duration
	policy    string
	allocator string
	sum       string
	verbose   bool
	save      string
}

func pluginCheckCommand() *cobra.Command {
	var e examination
	command := &cobra.Command{
		Use:   "check [flags] PROGRAM",
		Short: "hold a planner plugin to the promises",
		Long: `check starts a planner plugin as the daemon would, shows it random snapshots of clusters, and says which promises
its plans keep. The exit status is 0 when it keeps all of them, and 1 when it does not.`,
		Example: `  synergy plugin check ./mine
  synergy plugin check --snapshots 1000 --verbose --save broken.json ./mine`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args[0]) },
	}
	what, how := newGroup("What is asked"), newGroup("How it is judged")
	what.flags.IntVar(&e.snapshots, "snapshots", 200, "number of clusters; the first are the smallest")
	what.flags.Uint64Var(&e.seed, "seed", 1, "of the clusters: the same seed gives the same ones")
	what.flags.StringVar(&e.policy, "policy", "las", "as if this were configured")
	what.flags.StringVar(&e.allocator, "allocator", "tune", "as if this were configured")
	how.flags.DurationVar(&e.within, "within", 30*time.Second, "for one plan")
	how.flags.StringVar(&e.sum, "sha256", "", "the program's `checksum`")
	how.flags.BoolVar(&e.verbose, "verbose", false, "show what the plugin writes to its standard error")
	how.flags.StringVar(&e.save, "save", "", "`file` for the first cluster on which a promise was broken, as JSON")
	grouped(command, what, how)
	return command
}

func (e *examination) run(c *cobra.Command, path string) error {
	paper := exam.Paper{Seed: e.seed, Snapshots: e.snapshots, Within: e.within}
	var err error
	if paper.Policy, err = policy.ParsePolicy(e.policy); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	if paper.Allocator, err = policy.ParseAllocator(e.allocator); err != nil {
		return fmt.Errorf("--allocator: %w", err)
	}
	if e.snapshots < 1 || e.within <= 0 {
		return fmt.Errorf("--snapshots %d --within %s: want at least one snapshot and some time", e.snapshots, e.within)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	planner, err := plugin.New(path, e.sum, e.within, e.listener(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	defer planner.Close()
	verdict, err := exam.Hold(c.Context(), planner, paper)
	if err != nil {
		return failed{err}
	}
	if err := pronounce(c.OutOrStdout(), verdict); err != nil {
		return failed{err}
	}
	if verdict.Passed() {
		return nil
	}
	if err := e.keep(verdict); err != nil {
		return failed{err}
	}
	return failed{errors.New("the plugin breaks a promise")}
}

func (e *examination) listener(out io.Writer) func(string) {
	if !e.verbose {
		return nil
	}
	return func(line string) { fmt.Fprintf(out, "plugin: %q\n", line) }
}

// pronounce prints the verdict as a table.
func pronounce(out io.Writer, v exam.Verdict) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range v.Lines {
		word := "kept"
		switch {
		case l.Failed > 0:
			word = "BROKEN"
		case l.Asked == 0:
			word = "UNSEEN"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d of %d\n", word, l.Promise, l.Means, l.Asked-l.Failed, l.Asked)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, l := range v.Lines {
		if l.Failed > 0 {
			fmt.Fprintf(out, "\n%s: %.500s\n", l.Promise, l.First)
		}
	}
	_, err := fmt.Fprintf(out, "\na plan took %s, the slowest %s, with up to %d jobs\n", tidy(v.Mean), tidy(v.Slowest), v.Jobs)
	return err
}

func tidy(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// keep writes the first cluster that a promise was broken on.
func (e *examination) keep(v exam.Verdict) error {
	if e.save == "" {
		return nil
	}
	for _, l := range v.Lines {
		if l.Cluster == nil {
			continue
		}
		text, err := json.MarshalIndent(l.Cluster, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(e.save, append(text, '\n'), 0o644)
	}
	return nil
}
