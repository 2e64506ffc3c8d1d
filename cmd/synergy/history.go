package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// past are the flags of history.
type past struct {
	chronicle
	user, since, until string
	job                int
	json, csv, maxTRES bool
	billing            string
}

func historyCommand() *cobra.Command {
	var o past
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
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, time.Now()) },
	}
	where, what, out := newGroup("Where it is read"), newGroup("What is listed"), newGroup("Output")
	o.define(where)
	what.give(&o.user, "user", "", "runs of this `user`")
	what.flags.IntVar(&o.job, "job", 0, "runs of this `job`")
	what.give(&o.since, "since", "7d",
		"from this `time` on: so long ago, as 7d or 12h, or a day, as 2026-11-01")
	what.give(&o.until, "until", "", "up to this `time` (default now)")
	what.give(
		&o.billing,
		"billing",
		"",
		"what was charged and what was given, by these `weights`: those of TRESBillingWeights, and CPU=1 where there are none",
	)
	what.flags.BoolVar(&o.maxTRES, "max-tres", false,
		"with --billing: the largest counts and not the sum, as with PriorityFlags=MAX_TRES")
	out.flags.BoolVar(&o.json, "json", false, "the runs for programs")
	out.flags.BoolVar(&o.csv, "csv", false, "the runs as a table for programs")
	grouped(command, where, what, out)
	return command
}

// mostRuns bounds how many runs are listed.
const mostRuns = 10_000

// run lists the runs that were asked for, or their charges with --billing.
func (o *past) run(c *cobra.Command, now time.Time) error {
	q, err := o.question(now)
	if err != nil {
		return err
	}
	runs, more, err := o.runs(c.Context(), c.ErrOrStderr(), q)
	if err != nil {
		return err
	}
	if more {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: only the last %d runs are listed: ask for less time, or for one user\n",
			len(runs))
	}
	switch {
	case o.billing != "":
		return o.charge(c, q, runs, now)
	case o.json:
		encoder := json.NewEncoder(c.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]story.Run{}, runs...))
	case o.csv:
		return done(writeRuns(c.OutOrStdout(), runs))
	}
	return done(showRuns(c.OutOrStdout(), runs))
}

func (o *past) question(now time.Time) (q history.Question, err error) {
	if o.json && o.csv {
		return q, errors.New("--json and --csv: want one of them")
	}
	if o.maxTRES && o.billing == "" {
		return q, errors.New("--max-tres: is of --billing, which is not there")
	}
	if o.job < 0 {
		return q, fmt.Errorf("--job %d: want the number of a job", o.job)
	}
	q = history.Question{User: o.user, Job: o.job, Most: mostRuns}
	q.Since, q.Until, err = between(o.since, o.until, now)
	return q, err
}

// showRuns prints runs for people. Any cell may contain words of users, so each is made printable.
func showRuns(out io.Writer, runs []story.Run) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(out, "no runs are known of that time")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tUSER\tNAME\tBEGAN\tRAN\tHELD\tON\tSHARE\tSPEED\tIT/S\tBY PROFILE\tEND\tWHY")
	const longest = 80
	for i := range runs {
		r := &runs[i]
		ran, end := "", r.End
		if !r.Ended.IsZero() {
			ran = r.Ended.Sub(r.Began).Round(time.Second).String()
		} else {
			end = "runs"
		}
		if r.Shadow {
			end += " (shadow)"
		}
		cells := []string{strconv.Itoa(r.Job), r.User, strings.TrimSpace(r.Name), clockTime(r.Began), ran,
			amounts(r), story.Nodes(r.Held.Nodes), fmt.Sprintf("%d c %s", r.Fair.CPUs, story.Gigabytes(r.Fair.Memory)),
			figure3("×%.2f", r.Gain), figure3("%.3g", r.Ran), figure3("%.3g", r.Claimed), end, r.Why}
		for k, cell := range cells {
			cells[k] = printable.Line(cell, longest)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// amounts is what a run held.
func amounts(r *story.Run) string {
	per := r.Held.PerNode
	text := fmt.Sprintf("%d GPU %d c %s", per.GPUs, per.CPUs, story.Gigabytes(per.Memory))
	if n := len(r.Held.Nodes); n > 1 {
		text = fmt.Sprintf("%d × %s", n, text)
	}
	return text
}

// figure3 is a figure, or a dash if it is unknown.
func figure3(format string, x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf(format, x)
}

// writeRuns writes runs as CSV: amounts per node, memory in MiB, speeds in iterations a second.
func writeRuns(w io.Writer, runs []story.Run) error {
	table := csv.NewWriter(w)
	table.Write([]string{"job", "user", "name", "profile", "submitted", "began", "ended", "nodes", "gpus", "cores",
		"memory_mib", "fair_cores", "fair_memory_mib", "gain", "ran", "claimed", "windows", "gpu_s", "end", "round",
		"small", "shadow", "why"})
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range runs {
		r := &runs[i]
		table.Write([]string{strconv.Itoa(r.Job), plain(r.User), plain(r.Name), plain(r.Profile), stamp(r.Submitted),
			stamp(r.Began), stamp(r.Ended), strings.Join(r.Held.Nodes, " "), strconv.Itoa(r.Held.PerNode.GPUs),
			strconv.Itoa(r.Held.PerNode.CPUs), strconv.Itoa(int(r.Held.PerNode.Memory)), strconv.Itoa(r.Fair.CPUs),
			strconv.Itoa(int(r.Fair.Memory)), number(r.Gain), number(r.Ran), number(r.Claimed),
			strconv.Itoa(r.Windows), number(r.GPUTime), r.End, strconv.Itoa(r.Round), strconv.FormatBool(r.Small),
			strconv.FormatBool(r.Shadow), plain(r.Why)})
	}
	table.Flush()
	return table.Error()
}

// plain is a foreign text that no spreadsheet takes for a formula. Unprintable characters are removed first, since they
// could hide the sign with which a formula begins.
func plain(text string) string {
	if text = printable.Line(text, longestLine); strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
