package ask

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/printable"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// History asks who ran with what, when, why, and at what speed; or, with Billing, what that was charged.
type History struct {
	Past
	User         string // empty: all
	Job          int    // 0: all
	Since, Until string // as Between reads them
	Billing      string // weights; empty: the runs are listed
	MaxTRES      bool
	JSON, CSV    bool
}

// maxRuns bounds how many runs are listed or charged. The last ones are kept, and Run says that there are others.
const maxRuns = 10_000

// Run writes the runs that were asked for, or with Billing what they were charged, per user. Both answers can be
// written as text, JSON or CSV. notes gets what is missing: gaps in the history, and that there are runs beyond
// maxRuns.
func (o *History) Run(ctx context.Context, out, notes io.Writer, now time.Time) error {
	q, err := o.question(now)
	if err != nil {
		return err
	}
	list, more, err := o.runs(ctx, notes, q)
	if err != nil {
		return err
	}
	if more {
		fmt.Fprintf(notes, "synergy: only the last %d runs are listed: ask for less time, or for one user\n", len(list))
	}
	var a interface {
		answer
		csv() [][]string
	}
	// An empty list is not nil, so that it is [] in JSON and not null.
	if a = append(runs{}, list...); o.Billing != "" {
		if a, err = o.billRuns(ctx, notes, q, list, now); err != nil {
			return err
		}
	}
	if o.CSV {
		return asFailed(csv.NewWriter(out).WriteAll(a.csv()))
	}
	return write(out, a, o.JSON, now)
}

// question is what the history is asked for. Flags that do not go together are an error, before anything is read.
func (o *History) question(now time.Time) (q history.Question, err error) {
	if o.JSON && o.CSV {
		return q, errors.New("--json and --csv: want one of them")
	}
	if o.MaxTRES && o.Billing == "" {
		return q, errors.New("--max-tres: is of --billing, which is not there")
	}
	if o.Job < 0 {
		return q, fmt.Errorf("--job %d: want the number of a job", o.Job)
	}
	q = history.Question{User: o.User, Job: o.Job, Most: maxRuns}
	q.Since, q.Until, err = Between(o.Since, o.Until, now)
	return q, err
}

// runs is the answer without Billing.
type runs []story.Run

const noRuns = "no runs are known of that time"

// show prints a line for each run. A run that goes on has no length, and "runs" as its end.
func (all runs) show(t *Text, _ time.Time) {
	if len(all) == 0 {
		t.Say(0, noRuns)
		return
	}
	rows := [][]string{{"JOB", "USER", "NAME", "BEGAN", "RAN", "HELD", "ON", "SHARE", "SPEED", "IT/S", "BY PROFILE",
		"END", "WHY"}}
	for i := range all {
		r := &all[i]
		ran, end := "", r.End
		if !r.Ended.IsZero() {
			ran = r.Ended.Sub(r.Began).Round(time.Second).String()
		} else {
			end = "runs"
		}
		if r.Shadow {
			end += " (shadow)"
		}
		row := []string{strconv.Itoa(r.Job), r.User, r.Name, clockTime(r.Began), ran, heldText(r),
			story.Nodes(r.Held.Nodes), fmt.Sprintf("cpu=%d mem=%s", r.Fair.CPUs, r.Fair.Memory),
			figureOrDash("×%.2f", r.Gain), figureOrDash("%.3g", r.Ran), figureOrDash("%.3g", r.Claimed), end, r.Why}
		for k, text := range row {
			row[k] = printable.Line(text, longestCell)
		}
		rows = append(rows, row)
	}
	t.Table(rows, 0)
}

// heldText is what a run held: on each node, and on how many if there are several.
func heldText(r *story.Run) string {
	if n := len(r.Held.Nodes); n > 1 {
		return fmt.Sprintf("%d × %s", n, r.Held.PerNode)
	}
	return r.Held.PerNode.String()
}

// csv is runs as a table for programs: amounts per node, memory in MiB, speeds in iterations a second.
func (all runs) csv() [][]string {
	rows := [][]string{{"job", "user", "name", "profile", "submitted", "began", "ended", "nodes", "gpus", "cores",
		"memory_mib", "fair_cores", "fair_memory_mib", "gain", "ran", "claimed", "windows", "gpu_s", "end", "round",
		"small", "shadow", "why"}}
	for i := range all {
		r := &all[i]
		rows = append(
			rows,
			[]string{strconv.Itoa(r.Job), formulaSafe(r.User), formulaSafe(r.Name), formulaSafe(r.Profile),
				csvTime(r.Submitted), csvTime(r.Began), csvTime(r.Ended), strings.Join(r.Held.Nodes, " "),
				strconv.Itoa(r.Held.PerNode.GPUs), strconv.Itoa(r.Held.PerNode.CPUs),
				strconv.Itoa(int(r.Held.PerNode.Memory)), strconv.Itoa(r.Fair.CPUs), strconv.Itoa(int(r.Fair.Memory)),
				csvNumber(
					r.Gain,
				), csvNumber(r.Ran), csvNumber(r.Claimed), strconv.Itoa(r.Windows), csvNumber(r.GPUTime), r.End,
				strconv.Itoa(r.Round), strconv.FormatBool(r.Small), strconv.FormatBool(r.Shadow), formulaSafe(r.Why)},
		)
	}
	return rows
}

// csvNumber is a figure for a program.
func csvNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// formulaSafe is a foreign text in CSV that no spreadsheet takes for a formula, which a user could have put into a
// job's name. Unprintable characters are removed first, since they could hide the sign with which a formula begins.
func formulaSafe(text string) string {
	if text = printable.Line(text, LongestSentence); strings.IndexAny(text, "=+-@") == 0 {
		return "'" + text
	}
	return text
}

// csvTime is a moment for a program. It is empty for a zero one, such as the end of a job that runs.
func csvTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}
