package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/internal/cli/ask"
	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
	"github.com/synergy-slurmd/synergy-slurmd/sim/report/figure"
)

// savingsOptions are the flags of savings.
type savingsOptions struct {
	book, since, until string
	csv, plot, json    string
	sacct              string
}

// savingsCommand is synergy savings: its help and its flags.
func savingsCommand() *cobra.Command {
	var o savingsOptions
	command := &cobra.Command{
		Use:   "savings [flags]",
		Short: "what was saved, or would have been, and how sure that is",
		Long: `savings adds up what the daemon has booked in its ledger of savings (savings in its configuration): by
day, the GPU-hours that jobs held and for how many of them a profile is known, what they trained as their users asked
for them and with what they were given, in GPU-hours at the proportional share, the GPU-hours that idled though
somebody waited, by what he lacked, and the runs that ended sooner or later. In the shadow all of that is what would
have been. docs/savings.md says what is assumed.`,
		Example: `  synergy savings --since 7d
  synergy savings --since 2026-11-01 --until 2026-12-01 --csv november.csv --plot november.png`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c, time.Now()) },
	}
	what, out := newGroup("What is added up"), newGroup("Output")
	what.nonEmptyVar(&o.book, "book", ask.UsualSavings, "`folder` of the ledger of savings")
	what.nonEmptyVar(&o.since, "since", "7d",
		"from this `time` on: so long ago, as 7d or 12h, or a day, as 2026-11-01")
	what.nonEmptyVar(&o.until, "until", "", "up to this `time` (default now)")
	what.nonEmptyVar(&o.sacct, "sacct", "",
		"`file` that sacct printed: how long runs took before and after it was switched on; - for the standard input")
	out.nonEmptyVar(&o.csv, "csv", "", "`file` for the sums of each day, all of them; - for the standard output")
	out.nonEmptyVar(&o.plot, "plot", "", "`file` for a picture, that ends in .png or .svg")
	out.nonEmptyVar(&o.json, "json", "", "`file` for the same as JSON; - for the standard output")
	setGroups(command, what, out)
	return command
}

// run adds up the ledger of savings for the time that was asked for, compares it with accounting if --sacct is given,
// and writes the outputs.
func (o *savingsOptions) run(c *cobra.Command, now time.Time) error {
	since, until, err := ask.Between(o.since, o.until, now)
	if err != nil {
		return err
	}
	if o.csv == stdioName && o.json == stdioName {
		return errors.New("--csv, --json: both would go to the standard output: want one of them there")
	}
	if kind := filepath.Ext(o.plot); o.plot != "" && kind != ".png" && kind != ".svg" {
		return fmt.Errorf("--plot %s: want a name that ends in .png or .svg", o.plot)
	}
	note, err := ask.CheckSavings(o.book)
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: --book %s: %s\n", o.book, note)
	}
	lines, skipped, err := book.Read(o.book, since, until)
	if err != nil {
		return failed{err}
	}
	if skipped > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: %d lines are skipped: they are damaged, or claim more than was there\n",
			skipped)
	}
	realised, err := o.compareAccounting(c, lines, since, until)
	if err != nil {
		return err
	}
	days := book.ByDay(lines)
	if realised != nil && !slices.ContainsFunc(days, func(d book.Day) bool { return !d.Shadow }) {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: --sacct: nothing was switched on in that time: there is nothing to "+
			"compare\n")
	}
	return o.writeOutputs(c.OutOrStdout(), days, realised, since, until)
}

// writeOutputs writes the files that were named, and the table unless one of them goes to the standard output. realised
// is nil without --sacct.
func (o *savingsOptions) writeOutputs(
	out io.Writer,
	days []book.Day,
	realised *savings.Realised,
	since, until time.Time,
) error {
	if o.csv != "" {
		if err := save("csv", o.csv, out, func(w io.Writer) error { return writeDays(w, days, realised) }); err != nil {
			return err
		}
	}
	if o.plot != "" {
		text, err := picture(savedFigure(days), filepath.Ext(o.plot))
		if err != nil {
			return failed{fmt.Errorf("--plot %s: %w", o.plot, err)}
		}
		if err := save("plot", o.plot, out, func(w io.Writer) error { return writeAll(w, text) }); err != nil {
			return err
		}
	}
	if o.json != "" {
		err := save("json", o.json, out, func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(bookedSums{since.UTC(), until.UTC(), append([]book.Day{}, days...),
				accountingOf(realised, days)})
		})
		if err != nil {
			return err
		}
	}
	if o.csv == stdioName || o.json == stdioName {
		return nil
	}
	return asFailed(showDays(out, days, realised, since, until))
}

// bookedSums is the sums as JSON.
type bookedSums struct {
	Since      time.Time   `json:"since"`
	Until      time.Time   `json:"until"`
	Days       []book.Day  `json:"days"`
	Accounting *accounting `json:"accounting,omitempty"` // with --sacct
}

// showDays prints a row for each day, the sums if there are several days, and sentences on how certain the sums are.
// Shadow mode and real rounds have sums of their own, since in shadow mode nothing was really saved.
func showDays(out io.Writer, days []book.Day, realised *savings.Realised, since, until time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "GPU-hours\tthere\theld\tknown\tas asked\tgiven\tsaved\twithout ckpt\twith ckpt"+
		"\tidle: cores\tmemory\torder\tsplit"+
		"\tfilled\truns ended\tsooner\tlater\t")
	var all [2]savings.Sums
	for _, d := range days {
		mode := 0
		if d.Shadow {
			mode = 1
		}
		all[mode] = all[mode].Plus(d.Sums)
		writeRow(table, d.Day, d.Shadow, d.Sums)
	}
	for mode, s := range all {
		if s.Seconds > 0 && len(days) > 1 {
			writeRow(table, "all", mode == 1, s)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	over := fmt.Sprintf("from %s to %s", since.UTC().Format(time.DateOnly), until.UTC().Format(time.DateOnly))
	// The part of the time asked for in which the daemon booked rounds: of the rest nothing is known.
	looked := (all[0].Seconds + all[1].Seconds) / until.Sub(since).Seconds()
	for mode, s := range all {
		// If nothing was booked at all, one of the two sentences says so.
		if s.Seconds > 0 || mode == 1 && all[0].Seconds == 0 {
			sure := ""
			if s.Seconds > 0 { // of nothing there is nothing to be certain of
				sure = s.Certainty().Words(looked) + accountingText(realised, s, mode == 1) + "\n"
			}
			if _, err := fmt.Fprintf(out, "\n%s\n%s", s.Sentence(mode == 1, over), sure); err != nil {
				return err
			}
		}
	}
	return nil
}

// accountingText is what accounting has shown for real rounds, as a further sentence. It is empty for the shadow and
// without --sacct.
func accountingText(realised *savings.Realised, s savings.Sums, shadow bool) string {
	if realised == nil || shadow {
		return ""
	}
	return " " + realised.Words(s)
}

// writeRow prints the row of a day, with its GPU-hours. The two columns of what would be saved without and with
// checkpoints have dashes if the shadow has not computed that.
func writeRow(table io.Writer, day string, shadow bool, s savings.Sums) {
	if shadow {
		day += " (shadow)"
	}
	fmt.Fprintf(table, "%s\t", day)
	hours := func(list ...float64) {
		for _, x := range list {
			fmt.Fprintf(table, "%.1f\t", x/time.Hour.Seconds())
		}
	}
	hours(s.There, s.Held+s.Unmatched, s.Known, s.Asked, s.With, s.Saved)
	if s.Supposed > 0 {
		hours(s.SavedWithout, s.SavedWith)
	} else {
		fmt.Fprint(table, "-\t-\t")
	}
	hours(s.Cores, s.Memory, s.Order, s.Split, s.Filled)
	fmt.Fprintf(
		table,
		"%d\t%d (%s)\t%d (%s)\t\n",
		s.Ended,
		s.Sooner,
		hoursText(s.Earlier),
		s.Later,
		hoursText(s.Belated),
	)
}

// hoursText prints seconds of runs in hours.
func hoursText(seconds float64) string { return fmt.Sprintf("%.1f h", seconds/time.Hour.Seconds()) }

// writeDays writes all sums as CSV, a line for each day, in seconds and GPU-seconds, under their names in the ledger.
func writeDays(w io.Writer, days []book.Day, realised *savings.Realised) error {
	table := csv.NewWriter(w)
	header := []string{"day", "shadow", "seconds", "there", "held", "known", "unmatched", "asked", "with", "saved",
		"idle_cores", "idle_memory", "idle_order", "idle_split", "filled", "ended", "sooner", "earlier", "later",
		"belated", "checks", "ran", "distance", "supposed", "saved_without_checkpoints", "saved_with_checkpoints",
		"changed"}
	if realised != nil {
		header = append(header, accountingColumns...)
	}
	table.Write(header)
	for _, d := range days {
		line := []string{d.Day, strconv.FormatBool(d.Shadow)}
		for _, x := range []float64{d.Seconds, d.There, d.Held, d.Known, d.Unmatched, d.Asked, d.With, d.Saved, d.Cores,
			d.Memory, d.Order, d.Split, d.Filled, float64(d.Ended), float64(d.Sooner), d.Earlier, float64(d.Later),
			d.Belated, float64(d.Checks), d.Ran, d.Distance, d.Supposed, d.SavedWithout, d.SavedWith, d.Changed} {
			line = append(line, strconv.FormatFloat(x, 'f', -1, 64))
		}
		if realised != nil {
			line = append(line, accountingFields(realised, d)...)
		}
		table.Write(line)
	}
	table.Flush()
	return table.Error()
}

// savedFigure draws GPU-hours by day: held, trained as asked, trained as given, and idle beside waiting jobs. The days
// stand at whole numbers of the horizontal axis, with half a day of room on each side. About eight of them have a
// label, so that labels do not overlap.
func savedFigure(days []book.Day) figure.Figure {
	const place = 240 // the height of the figure
	series := []struct {
		label string
		of    func(savings.Sums) float64
	}{
		{"held", func(s savings.Sums) float64 { return s.Held + s.Unmatched }},
		{"known, trained as asked", func(s savings.Sums) float64 { return s.Asked }},
		{"known, trained as given", func(s savings.Sums) float64 { return s.With }},
		{"idle though somebody waited", savings.Sums.Idle},
	}
	panel := &figure.Panel{X: figure.Axis{Min: -0.5, Max: float64(max(1, len(days))) - 0.5},
		Y: figure.Axis{Label: "GPU-hours", Max: 1}}
	f := figure.Figure{Title: "GPU-hours by day", Note: "trained: in GPU-hours at the proportional share",
		Height: place, Rows: [][]*figure.Panel{{panel}}}
	every := 1 + len(days)/8
	for k, d := range days {
		if k%every == 0 {
			panel.X.Marks = append(panel.X.Marks, figure.Name{At: float64(k), Label: d.Day})
		}
	}
	for i, s := range series {
		dots := figure.Dots{Style: figure.StyleOf(i)}
		line := figure.Line{Style: figure.StyleOf(i)}
		for k, d := range days {
			hours := s.of(d.Sums) / time.Hour.Seconds()
			panel.Y.Max = max(panel.Y.Max, 1.05*hours)
			dots.Points = append(dots.Points, figure.Point{X: float64(k), Y: hours})
			dots.Errors = append(dots.Errors, 0)
			line.Points = append(line.Points, dots.Points[k])
		}
		panel.Marks = append(panel.Marks, line, dots)
		f.Keys = append(f.Keys, figure.Key{Label: s.label, Style: line.Style, Kind: figure.DotKey})
	}
	return f
}
