package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/billing"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// bill is what a user's runs were charged, and what they would have been charged by what they held, in hours of
// billing.
type bill struct {
	User    string  `json:"user"`
	Jobs    int     `json:"jobs"`
	Runs    int     `json:"runs"`
	Resized int     `json:"resized"` // runs with another size than the job's first one
	Charged float64 `json:"charged_h"`
	Given   float64 `json:"given_h"`
}

// owes is what the user would owe the site; negative: what the site would owe the user.
func (b bill) owes() float64 { return b.Given - b.Charged }

// charge answers --billing: it charges the runs as Slurm does (by the job's first run), and by what they held.
func (o *past) charge(c *cobra.Command, q history.Question, runs []story.Run, now time.Time) error {
	weights, err := billing.Parse(o.billing)
	if err != nil {
		return fmt.Errorf("--billing: %w", err)
	}
	weights.Most = o.maxTRES
	earlier, err := o.earlier(c, q, runs)
	if err != nil {
		return err
	}
	bills := billsOf(runs, firstRuns(slices.Concat(earlier, runs)), weights, q.Since, minTime(q.Until, now))
	switch {
	case o.json:
		encoder := json.NewEncoder(c.OutOrStdout())
		encoder.SetIndent("", "  ")
		return encoder.Encode(append([]bill{}, bills...))
	case o.csv:
		return done(writeBills(c.OutOrStdout(), bills))
	}
	return done(showBills(c.OutOrStdout(), bills))
}

// earlier are the runs since the submission of the first of these jobs, because a job is charged by its first run,
// which may be before the time that was asked for.
func (o *past) earlier(c *cobra.Command, q history.Question, runs []story.Run) ([]story.Run, error) {
	since := firstSubmitted(runs, q.Since)
	if !since.Before(q.Since) {
		return nil, nil
	}
	q.Since = since
	all, more, err := o.runs(c.Context(), c.ErrOrStderr(), q)
	if more && err == nil {
		fmt.Fprintln(
			c.ErrOrStderr(),
			"synergy: of some jobs the first run is not listed: the first that is stands for it",
		)
	}
	return all, err
}

// firstSubmitted is when the earliest of the jobs was submitted, or since if that is earlier.
func firstSubmitted(runs []story.Run, since time.Time) time.Time {
	for i := range runs {
		if at := runs[i].Submitted; !at.IsZero() {
			since = minTime(since, at)
		}
	}
	return since
}

// which identifies a job. Its number is not enough, since Slurm may use a number again.
type which struct {
	job       int
	submitted int64
}

func whichOf(r *story.Run) which { return which{r.Job, r.Submitted.Unix()} }

// firstRuns are the first runs of all jobs.
func firstRuns(runs []story.Run) map[which]*story.Run {
	first := make(map[which]*story.Run)
	for i := range runs {
		r := &runs[i]
		if known, is := first[whichOf(r)]; !is || r.Began.Before(known.Began) {
			first[whichOf(r)] = r
		}
	}
	return first
}

// billsOf sums up by user what runs were charged between two moments.
func billsOf(runs []story.Run, first map[which]*story.Run, weights billing.Weights, since, until time.Time) []bill {
	by, seen := map[string]*bill{}, map[which]bool{}
	for i := range runs {
		r := &runs[i]
		b := by[r.User]
		if b == nil {
			b = &bill{User: r.User}
			by[r.User] = b
		}
		if of := whichOf(r); !seen[of] {
			seen[of] = true
			b.Jobs++
		}
		b.add(r, first[whichOf(r)], hoursWithin(r, since, until), weights)
	}
	var all []bill
	for _, b := range by {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b bill) int { return cmp.Compare(a.User, b.User) })
	return all
}

// add adds a run. first is the first run of the same job.
func (b *bill) add(r, first *story.Run, hours float64, weights billing.Weights) {
	b.Runs++
	if first.Held.PerNode != r.Held.PerNode {
		b.Resized++
	}
	b.Charged += hours * weights.Of(len(first.Held.Nodes), first.Held.PerNode)
	b.Given += hours * weights.Of(len(r.Held.Nodes), r.Held.PerNode)
}

// hoursWithin is how long a run ran between two moments, in hours.
func hoursWithin(r *story.Run, since, until time.Time) float64 {
	begin, end := r.Began, until
	if begin.Before(since) {
		begin = since
	}
	if !r.Ended.IsZero() {
		end = minTime(end, r.Ended)
	}
	return max(0, end.Sub(begin).Hours())
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// showBills prints the bills as a table for people.
func showBills(out io.Writer, bills []bill) error {
	if len(bills) == 0 {
		_, err := fmt.Fprintln(out, "no runs are known of that time")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "USER\tJOBS\tRUNS\tRESIZED\tCHARGED\tGIVEN\tOWES\t")
	all := bill{User: "all"}
	row := func(a bill) {
		const longest = 40
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%.1f\t%+.1f\t\n", printable.Line(a.User, longest), a.Jobs, a.Runs,
			a.Resized, a.Charged, a.Given, a.owes())
	}
	for _, a := range bills {
		row(a)
		all.Jobs, all.Runs, all.Resized = all.Jobs+a.Jobs, all.Runs+a.Runs, all.Resized+a.Resized
		all.Charged, all.Given = all.Charged+a.Charged, all.Given+a.Given
	}
	if len(bills) > 1 {
		row(all)
	}
	return table.Flush()
}

// writeBills writes the bills as CSV.
func writeBills(w io.Writer, bills []bill) error {
	table := csv.NewWriter(w)
	table.Write([]string{"user", "jobs", "runs", "resized", "charged_h", "given_h", "owes_h"})
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, a := range bills {
		table.Write([]string{plain(a.User), strconv.Itoa(a.Jobs), strconv.Itoa(a.Runs), strconv.Itoa(a.Resized),
			number(a.Charged), number(a.Given), number(a.owes())})
	}
	table.Flush()
	return table.Error()
}
