package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin"
	"github.com/synergy-slurmd/synergy-slurmd/policy/plugin/exam"
)

// pluginCommand has the command about planner plugins.
func pluginCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "plugin",
		Short: "try planner plugins",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(pluginCheckCommand())
	return command
}

// pluginCheckOptions are the flags of plugin check.
type pluginCheckOptions struct {
	paper     exam.Paper
	policy    string
	allocator string
	only      string // a file with the one cluster to ask about; empty: clusters are drawn
	sum       string // the program's SHA-256; empty: not checked
	verbose   bool
	save      string
}

// pluginCheckCommand is synergy plugin check: its help and its flags.
func pluginCheckCommand() *cobra.Command {
	var e pluginCheckOptions
	command := &cobra.Command{
		Use:   "check [flags] PROGRAM",
		Short: "hold a planner plugin to the promises",
		Long: `check starts a planner plugin as the daemon would, shows it random snapshots of clusters, and says which promises
its plans keep. The exit status is 0 when it keeps all of them, and 1 when it does not. Whether its order of jobs is
the one that you want is not asked.`,
		Example: `  synergy plugin check ./mine
  synergy plugin check --snapshots 1000 --verbose --save broken.json ./mine
  synergy plugin check --only broken.json --verbose ./mine`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args[0]) },
	}
	what, how := newGroup("What is asked"), newGroup("How it is judged")
	what.flags.IntVar(&e.paper.Snapshots, "snapshots", 200, "number of clusters; the first are the smallest")
	what.flags.Uint64Var(&e.paper.Seed, "seed", 1, "of the clusters: the same seed gives the same ones")
	what.flags.StringVar(&e.only, "only", "", "nothing but the cluster in this `file`, which --save wrote")
	what.flags.StringVar(&e.policy, "policy", "las", "as if this were configured")
	what.flags.StringVar(&e.allocator, "allocator", "tune", "as if this were configured")
	times.Var(how.flags, &e.paper.Within, "within", 5*time.Second, "for one plan")
	how.flags.StringVar(&e.sum, "sha256", "", "the program's `checksum`")
	how.flags.BoolVar(&e.verbose, "verbose", false, "show what the plugin writes to its standard error")
	how.flags.StringVar(&e.save, "save", "",
		"`file` for the first cluster on which a promise was broken: the question as JSON")
	setGroups(command, what, how)
	return command
}

// run starts the plugin, asks it for plans, and prints which promises they keep. A broken promise, or one that no
// cluster tested, is an error, for the exit status. With --only one cluster cannot test every promise, so there only a
// broken one is.
func (e *pluginCheckOptions) run(c *cobra.Command, path string) error {
	if err := e.readFlags(); err != nil {
		return err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	said := c.ErrOrStderr()
	if err := plugin.Inspect(path, e.sum); err != nil {
		return err
	}
	// The examination measures whether a plan comes within the time. The planner gives up at twice that, so that a late
	// plan is told from none.
	planner := plugin.New(path, e.sum, 2*e.paper.Within, e.stderrPrinter(said))
	defer planner.Close()
	if isTerminal(said) {
		e.paper.Seen = func(asked int) { fmt.Fprintf(said, "\r%d of %d\r", asked, e.paper.Snapshots) }
	}
	verdict, interrupted := exam.Hold(c.Context(), planner, e.paper)
	if err := errors.Join(printVerdict(c.OutOrStdout(), verdict, e.paper.Snapshots),
		e.saveBroken(verdict)); err != nil {
		return failed{err}
	}
	switch {
	case interrupted != nil:
		return failed{interrupted}
	case !verdict.Passed() && verdict.First() == nil && e.only != "":
		return nil // one cluster cannot test every promise
	case !verdict.Passed() && verdict.First() == nil:
		return failed{errors.New(
			"the plugin broke no promise, and some could not be tested: want plans that start jobs")}
	case !verdict.Passed():
		return failed{errors.New("the plugin breaks a promise")}
	}
	return nil
}

// readFlags checks the flags and turns them into the examination's settings. With --only it reads that cluster and asks
// about no other.
func (e *pluginCheckOptions) readFlags() (err error) {
	if e.paper.Policy, err = policy.ParsePolicy(e.policy); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	if e.paper.Allocator, err = policy.ParseAllocator(e.allocator); err != nil {
		return fmt.Errorf("--allocator: %w", err)
	}
	if e.paper.Snapshots < 1 || e.paper.Within <= 0 {
		return fmt.Errorf("--snapshots %d --within %s: want at least one snapshot and some time", e.paper.Snapshots,
			e.paper.Within)
	}
	if e.only == "" {
		return nil
	}
	text, err := os.ReadFile(e.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	cluster, err := plugin.Read(text)
	if err != nil {
		return fmt.Errorf("--only %s: %w", e.only, err)
	}
	e.paper.Only, e.paper.Snapshots = &cluster, 1
	return nil
}

// stderrPrinter returns a function that prints a line that the plugin writes to its standard error. It is nil without
// --verbose: then the lines are dropped.
func (e *pluginCheckOptions) stderrPrinter(out io.Writer) func(string) {
	if !e.verbose {
		return nil
	}
	return func(line string) { fmt.Fprintf(out, "plugin: %q\n", line) }
}

// printVerdict prints the verdict as a table, then what was wrong with the first plan that broke each promise. wanted
// is how many snapshots were to be asked.
func printVerdict(out io.Writer, v exam.Verdict, wanted int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range v.Lines {
		switch {
		case l.Failed > 0:
			fmt.Fprintf(table, "BROKEN\t%s\t%s\t%d of %d times\n", l.Promise, l.Means, l.Failed, l.Asked)
		case l.Asked == 0:
			fmt.Fprintf(table, "UNSEEN\t%s\t%s\tnever asked\n", l.Promise, l.Means)
		default:
			fmt.Fprintf(table, "kept\t%s\t%s\t%d times\n", l.Promise, l.Means, l.Asked)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, l := range v.Lines {
		if l.First != nil {
			fmt.Fprintf(out, "\n%s: snapshot %d: %.1000s\n", l.Promise, l.First.Number, l.First.Wrong)
		}
	}
	if v.Asked < wanted {
		fmt.Fprintf(out, "\n%d of %d snapshots were asked\n", v.Asked, wanted)
	}
	if v.Planned == 0 {
		return nil
	}
	_, err := fmt.Fprintf(
		out,
		"\na plan took %s, the slowest %s, with up to %d jobs\n",
		roundTime(v.Mean),
		roundTime(v.Slowest),
		v.Jobs,
	)
	return err
}

// roundTime rounds a time to what is worth showing.
func roundTime(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// saveBroken writes the first cluster on which a promise was broken into the file of --save, by which --only asks about
// it again.
func (e *pluginCheckOptions) saveBroken(v exam.Verdict) error {
	first := v.First()
	if e.save == "" || first == nil {
		return nil
	}
	text, err := plugin.Written(first.Number+1, first.Cluster, e.paper.Policy, e.paper.Allocator)
	if err != nil {
		return err
	}
	return os.WriteFile(e.save, append(text, '\n'), 0o644)
}
