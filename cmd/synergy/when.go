package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/cmd/internal/times"
	"github.com/synergy-slurmd/synergy-slurmd/policy"
	"github.com/synergy-slurmd/synergy-slurmd/policy/forecast"
	"github.com/synergy-slurmd/synergy-slurmd/policy/whatif"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// expectation are the flags of when.
type expectation struct {
	present
	within time.Duration
	json   bool
}

func whenCommand() *cobra.Command {
	var e expectation
	command := &cobra.Command{
		Use:   "when [flags] [JOB...]",
		Short: "say when jobs that wait will start",
		Long: `when plays the rounds to come forward from what the last one saw, several times, and says when jobs start in the
middle, and between when and when in eight of ten. Without JOB it lists all that wait, in the order of the queue. What
it goes by: lengths that users declared, time limits of which jobs use a part, as far as the daemon has learned that,
and nothing where a job has neither. It does not know who will be submitted.`,
		Example: `  synergy when 4711
  synergy when --within 30s --json | jq .starts`,
		RunE: func(c *cobra.Command, args []string) error { return e.run(c, args) },
	}
	where, out := newGroup("What is now"), newGroup("Output")
	e.register(where)
	times.Var(out.flags, &e.within, "within", 10*time.Second, "time for looking ahead")
	out.flags.BoolVar(&e.json, "json", false, "the estimates for programs")
	grouped(command, where, out)
	return command
}

// run forecasts the starts from the last round, and prints them for the named jobs or for the whole queue.
func (e *expectation) run(c *cobra.Command, args []string) error {
	if e.within < time.Second || e.within > time.Hour {
		return fmt.Errorf("--within %s: want a time from 1s to 1h", e.within)
	}
	var only []int
	for _, arg := range args {
		job, err := strconv.Atoi(arg)
		if err != nil || job < 1 {
			return fmt.Errorf("%.40q: want the number of a job, as 4711", arg)
		}
		only = append(only, job)
	}
	is, err := e.read(c.Context(), c.InOrStdin(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	is = is.Started(e.started)
	f := forecast.Starts(&is.Cluster, forecast.Options{Policy: is.Policy, Allocator: is.Allocator, Habits: is.Habits,
		Only: only, Stop: stopsAfter(c.Context(), e.within)()})
	if e.json {
		return inJSON(c.OutOrStdout(), f)
	}
	if only != nil {
		return tellEach(c.OutOrStdout(), &is, &f, only)
	}
	return tellQueue(c.OutOrStdout(), &is, &f)
}

// tellEach prints a sentence for each job that was asked about.
func tellEach(out io.Writer, is *whatif.Case, f *forecast.Forecast, jobs []int) error {
	for _, job := range jobs {
		k := slices.IndexFunc(is.Cluster.Jobs, func(j policy.Job) bool { return j.ID == job })
		if k < 0 {
			return failed{fmt.Errorf("job %d is not in the snapshot: want one that waits for its turn; synergy "+
				"why-not %d says what is known of it", job, job)}
		}
		fmt.Fprintln(out, printable.Line(fmt.Sprintf("job %d %s", job, outlookOf(f, &is.Cluster.Jobs[k])), longestLine))
	}
	return remarks(out, f)
}

// outlookOf is what is known of a job's start.
func outlookOf(f *forecast.Forecast, j *policy.Job) string {
	s, known := f.Of(j.ID)
	switch {
	case known:
		return "is " + f.Words(s.Spread)
	case j.Running != nil:
		return "runs"
	case j.Barred != "":
		return "may not start yet, whatever is free: " + j.Barred
	}
	return "waits, and there was no time to look ahead: give it more with --within"
}

// tellQueue prints a table of all waiting jobs.
func tellQueue(out io.Writer, is *whatif.Case, f *forecast.Forecast) error {
	var planner policy.Planner
	place := map[int]int{}
	for k, job := range planner.Queue(is.Cluster, is.Policy, is.Allocator) {
		place[job] = k + 1
	}
	starts := slices.Clone(f.Start)
	slices.SortStableFunc(starts, func(a, b forecast.Start) int { return cmp.Compare(place[a.Job], place[b.Job]) })
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "job\tin the queue\tbetween\tabout\tand")
	for _, s := range starts {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\n", s.Job, place[s.Job], instant(s.P10), instant(s.P50), instant(s.P90))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return remarks(out, f)
}

func instant(at time.Time) string {
	if at.IsZero() {
		return "later"
	}
	return at.Format("2006-01-02T15:04")
}

// remarks say how reliable the estimates are.
func remarks(out io.Writer, f *forecast.Forecast) error {
	switch f.Guess {
	case 0:
	case 1:
		fmt.Fprintln(out, "of one job nobody says how long it is: what waits for it is a guess")
	default:
		fmt.Fprintf(out, "of %d jobs nobody says how long they are: what waits for them is a guess\n", f.Guess)
	}
	if f.Cut {
		fmt.Fprintf(out, "there was time for %d futures, until %s: give it more with --within\n", f.Draws,
			instant(f.Until))
	}
	return nil
}
