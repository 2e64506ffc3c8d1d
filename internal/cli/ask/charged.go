package ask

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/billing"
	"github.com/synergy-slurmd/synergy-slurmd/history"
	"github.com/synergy-slurmd/synergy-slurmd/story"
)

// bill is what a user's runs were charged, and what they would have been charged by what they held, in hours of
// billing.
type bill struct {
	User    string  `json:"user"`
	Jobs    int     `json:"jobs"`
	Runs    int     `json:"runs"`
	Resized int     `json:"resized"`   // runs with another size than the job's first one
	Charged float64 `json:"charged_h"` // by the size of each job's first run
	Given   float64 `json:"given_h"`   // by the size of each run
}

// owes is what the user would owe the site, in hours of billing. It is negative if the site would owe the user. Slurm
// charges every run of a job by the size of its first run, so a job that was given more or less later is charged
// wrongly.
func (b bill) owes() float64 { return b.Given - b.Charged }

// billRuns answers a question with Billing. It sums up by user what Slurm charged for the runs, by the size of each
// job's first run, and what it would have charged by what each run held. A run that goes on is counted until now, or
// until the end of the time that was asked for.
func (o *History) billRuns(ctx context.Context, notes io.Writer, q history.Question, list []story.Run,
	now time.Time) (bills, error) {
	weights, err := billing.Parse(o.Billing)
	if err != nil {
		return nil, fmt.Errorf("--billing: %w", err)
	}
	weights.Most = o.MaxTRES
	earlier, err := o.earlierRuns(ctx, notes, q, list)
	if err != nil {
		return nil, err
	}
	return billsOf(list, firstRuns(slices.Concat(earlier, list)), weights, q.Since, minTime(q.Until, now)), nil
}

// earlierRuns returns the runs from before the time that was asked for, since the earliest of these jobs was submitted:
// a job is charged by its first run, which may be one of them. It returns nil if all were submitted later. If there are
// too many to list all, notes says that for some jobs a later run stands for the first.
func (o *History) earlierRuns(ctx context.Context, notes io.Writer, q history.Question, list []story.Run) ([]story.Run,
	error) {
	since := firstSubmitted(list, q.Since)
	if !since.Before(q.Since) {
		return nil, nil
	}
	q.Since = since
	all, more, err := o.runs(ctx, notes, q)
	if more && err == nil {
		fmt.Fprintln(notes, "synergy: of some jobs the first run is not listed: the first that is stands for it")
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

// jobKey identifies a job. Its number is not enough, since Slurm may use a number again.
type jobKey struct {
	job       int
	submitted int64
}

func jobKeyOf(r *story.Run) jobKey { return jobKey{r.Job, r.Submitted.Unix()} }

// firstRuns returns the earliest of these runs of each job, by which Slurm charges all of them.
func firstRuns(runs []story.Run) map[jobKey]*story.Run {
	first := make(map[jobKey]*story.Run)
	for i := range runs {
		r := &runs[i]
		if known, is := first[jobKeyOf(r)]; !is || r.Began.Before(known.Began) {
			first[jobKeyOf(r)] = r
		}
	}
	return first
}

// billsOf sums up by user what runs were charged between two moments, and what they would have been charged by what
// they held. first has the first run of each job, which may be from before these moments.
func billsOf(runs []story.Run, first map[jobKey]*story.Run, weights billing.Weights, since, until time.Time) bills {
	by, seen := map[string]*bill{}, map[jobKey]bool{}
	for i := range runs {
		r := &runs[i]
		b := by[r.User]
		if b == nil {
			b = &bill{User: r.User}
			by[r.User] = b
		}
		if of := jobKeyOf(r); !seen[of] {
			seen[of] = true
			b.Jobs++
		}
		b.addRun(r, first[jobKeyOf(r)], hoursWithin(r, since, until), weights)
	}
	all := bills{}
	for _, b := range by {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b bill) int { return cmp.Compare(a.User, b.User) })
	return all
}

// addRun adds a run of so many hours. Slurm has charged it by the size of first, the first run of the same job. What it
// was given is what it held itself.
func (b *bill) addRun(r, first *story.Run, hours float64, weights billing.Weights) {
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

// minTime is the earlier of two moments.
func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// bills is the answer, ascending in user.
type bills []bill

// show prints a line for each user, and if there are several one with the sum of all.
func (list bills) show(t *Text, _ time.Time) {
	if len(list) == 0 {
		t.Say(0, noRuns)
		return
	}
	rows := [][]string{{"USER", "JOBS", "RUNS", "RESIZED", "CHARGED", "GIVEN", "OWES"}}
	all := bill{User: "all"}
	row := func(a bill) {
		rows = append(rows, []string{Cell(a.User, LongestName), strconv.Itoa(a.Jobs), strconv.Itoa(a.Runs),
			strconv.Itoa(a.Resized), fmt.Sprintf("%.1f", a.Charged), fmt.Sprintf("%.1f", a.Given),
			fmt.Sprintf("%+.1f", a.owes())})
	}
	for _, a := range list {
		row(a)
		all.Jobs, all.Runs, all.Resized = all.Jobs+a.Jobs, all.Runs+a.Runs, all.Resized+a.Resized
		all.Charged, all.Given = all.Charged+a.Charged, all.Given+a.Given
	}
	if len(list) > 1 {
		row(all)
	}
	t.Table(rows, 0)
}

// csv is bills as a table for programs.
func (list bills) csv() [][]string {
	rows := [][]string{{"user", "jobs", "runs", "resized", "charged_h", "given_h", "owes_h"}}
	for _, a := range list {
		rows = append(rows, []string{formulaSafe(a.User), strconv.Itoa(a.Jobs), strconv.Itoa(a.Runs),
			strconv.Itoa(a.Resized), csvNumber(a.Charged), csvNumber(a.Given), csvNumber(a.owes())})
	}
	return rows
}
