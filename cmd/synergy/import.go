package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// importCommand has the commands that read a site's accounting.
func importCommand() *cobra.Command {
	command := &cobra.Command{
		Use:                   "import",
		Short:                 "take in a site's accounting, to simulate last month again",
		Long:                  "synergy import takes in what a site knows of its past, to simulate it again.",
		Example:               "  synergy import sacct",
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	command.AddCommand(importSacctCommand())
	return command
}

// importOptions are the flags of synergy import sacct.
type importOptions struct {
	days int
	file string
}

// importSacctCommand is synergy import sacct: its help and its flags.
func importSacctCommand() *cobra.Command {
	i := &importOptions{}
	command := &cobra.Command{
		Use:   "sacct [FILE] [options]",
		Short: "write the command line for sacct that is needed, or check what it printed",
		Long: `synergy import sacct writes the command line for sacct that says what is needed of a site's past: run it where sacct is,
as somebody who may see all jobs.

With FILE, it checks what sacct printed, says what the records were, and with --output writes a trace with one record for each job:
steps left out, restarts and heterogeneous components put together. A file that misses a column is refused, with what is missing.
FILE is - for the standard input.`,
		Example: `  sh -c "$(synergy import sacct --days 30)" > sacct.txt
  synergy import sacct sacct.txt -o month.txt
  synergy sim --trace month.txt --split 50,40,10 --cluster mysite.yaml --report out`,
		Args:                  cobra.MaximumNArgs(1),
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, args []string) error { return i.run(c, args) },
	}
	g := newGroup("Options")
	g.flags.IntVar(&i.days, "days", 30, "`number` of days that the command line asks for, up to now")
	g.flags.StringVarP(&i.file, "output", "o", "", "write the trace to `FILE`, compressed where its name ends in .gz")
	setGroups(command, g)
	return command
}

// maxDays is how far back the command line for sacct may ask: ten years.
const maxDays = 3650

// run prints the command line for sacct, or with a file checks what sacct printed. --days is only for the first, and
// --output only for the second, so each is an error with the other.
func (i *importOptions) run(c *cobra.Command, args []string) error {
	given := c.Flags().Changed
	switch {
	case i.days < 1 || i.days > maxDays:
		return fmt.Errorf("--days %d: want 1 to %d", i.days, maxDays)
	case len(args) == 0 && given("output"):
		return fmt.Errorf("--output: is for what was read: name the FILE that sacct printed")
	case len(args) == 0:
		_, err := fmt.Fprintln(c.OutOrStdout(), trace.SacctCommand(i.days))
		return asFailed(err)
	case given("days"):
		return fmt.Errorf("--days: is for the command line, and %s has its own: leave it out", args[0])
	}
	return i.read(c, args[0], given("output"))
}

// read checks that a file of sacct has all columns that a simulation needs, and says what its records were. If writes
// is true it also writes a trace made from them. The summary goes to the standard error if the trace goes to the
// standard output.
func (i *importOptions) read(c *cobra.Command, path string, writes bool) error {
	t, err := openTrace(c, path, string(trace.Sacct))
	if err != nil {
		return err
	}
	if err := t.CheckReplayable(); err != nil {
		return fmt.Errorf("%w; the command line that has all: %s", err, trace.SacctCommand(i.days))
	}
	if writes && i.file == path && path != stdioName {
		return fmt.Errorf("--output %s: would replace what is read: want another name", path)
	}
	told := c.OutOrStdout()
	if writes && i.file == stdioName {
		told = c.ErrOrStderr()
	}
	printRecords(told, t)
	if !writes {
		return nil
	}
	return save("output", i.file, c.OutOrStdout(), func(w io.Writer) error { return trace.WriteSacct(w, t) })
}

// printRecords says what the records of a file were, and how many jobs they gave, so that a site sees what is left out.
func printRecords(w io.Writer, t *trace.Trace) {
	line := func(count int, what string) {
		if count > 0 {
			fmt.Fprintf(w, "%10d  %s\n", count, what)
		}
	}
	r := t.Records
	fmt.Fprintf(w, "%10d  records\n", r.Records)
	line(r.Steps, "of steps, which say nothing that their jobs do not say")
	line(r.Requeues, "of further runs of jobs that were requeued")
	line(r.Broken, "refused: more or fewer fields than the header")
	fmt.Fprintf(w, "%10d  jobs\n", r.Jobs)
	for _, d := range t.Dropped {
		if d.Why != trace.BrokenRecord {
			line(d.Count, "left out: "+d.Why)
		}
	}
	for _, a := range t.Adjusted {
		line(a.Count, "taken: "+a.How)
	}
	fmt.Fprintf(w, "%10d  jobs in the trace\n", len(t.Entries))
	untold := 0
	for _, e := range t.Entries {
		if e.Told == nil || !e.Told.Past.Known() {
			untold++
		}
	}
	line(untold, "of which nobody tells when they ran, so that nothing can be shown as it was")
}
