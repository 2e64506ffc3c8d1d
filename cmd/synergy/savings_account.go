package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/synergy-slurmd/synergy-slurmd/savings"
	"github.com/synergy-slurmd/synergy-slurmd/savings/book"
	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// comparedDays is how far back accounting is asked for, since runs before the switch-on are needed, too.
const comparedDays = 60

// compareAccounting compares the runs of the ledger with what sacct printed, to check how long they really took.
// Without --sacct it returns nil. If the log has none of the runs, or has them at another time of day as a log without
// time zones does, it prints that. Runs in the shadow are what real runs are compared with.
func (o *savingsOptions) compareAccounting(
	c *cobra.Command,
	lines []book.Line,
	since, until time.Time,
) (*savings.Realised, error) {
	if o.sacct == "" {
		return nil, nil
	}
	t, err := openTrace(c, o.sacct, string(trace.Sacct))
	if err == nil {
		err = t.CheckComparable()
	}
	if err != nil {
		return nil, fmt.Errorf("--sacct: %w; the command line that has all: %s", err,
			trace.CompareCommand(comparedDays))
	}
	accounts := accountsOf(t)
	var runs []savings.Run
	all, elsewhere := 0, 0
	skipped, err := book.ReadRuns(o.book, until, func(r book.Run) {
		all++
		e, ended, found := accounts.findEntry(r)
		if !found && accounts.isShifted(r) {
			elsewhere++
		}
		name := t.Names[e.ID]
		// Runs in the shadow are what real runs are compared with, and may be from before the time that was asked for.
		if found && !ended.After(until) && (r.Shadow || ended.After(since)) {
			who := savings.Who{User: e.User, Name: name, GPUs: e.GPUs, Of: r.Of}
			runs = append(runs, savings.Run{Who: who, At: r.Started, Before: r.Shadow, Speed: r.Speed,
				Took: e.Duration})
		}
	})
	if err != nil {
		return nil, failed{err}
	}
	if skipped > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: %d lines of runs are skipped: they are damaged\n", skipped)
	}
	if all > 0 && len(runs) == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: --sacct %s: none of the %d runs of the ledger ended well there: it is "+
			"of other days, or has times without their zone; the command line is: %s\n", o.sacct, all,
			trace.CompareCommand(comparedDays))
	} else if elsewhere > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "synergy: --sacct %s: %d of the %d runs of the ledger started there at another "+
			"time of day, and are left out: it has times without their zone; the command line is: %s\n", o.sacct,
			elsewhere, all, trace.CompareCommand(comparedDays))
	}
	// A run shorter than two rounds may begin and end unseen by the ledger, so such names are left out.
	realised := savings.Realise(runs, 2*book.Pace(lines))
	return &realised, nil
}

// accounts are the jobs of a log that ended well in their only run, by ID. An ID may occur again.
type accounts struct {
	begin time.Time                // of the log; times of its entries are in seconds since then
	jobs  map[string][]trace.Entry // by ID
}

// accountsOf returns the jobs of a log that can be compared with the ledger. Jobs that failed or were requeued are left
// out, since their times do not say how long they take, and so are jobs without a user or a name.
func accountsOf(t *trace.Trace) accounts {
	a := accounts{t.Begin, map[string][]trace.Entry{}}
	for _, e := range t.Entries {
		if e.State == "COMPLETED" && e.User != "" && t.Names[e.ID] != "" && e.Told != nil && e.Told.Past.Runs == 1 {
			id := e.ID[strings.LastIndex(e.ID, ":")+1:] // without the cluster
			a.jobs[id] = append(a.jobs[id], e)
		}
	}
	return a
}

// sameStart is by how much two times of one start may differ.
const sameStart = time.Minute

// A log without time zones is off by a multiple of zoneStep, and by maxZone at most. Apart from that, the times agree
// within zoneTolerance.
const (
	zoneStep      = 15 * time.Minute
	maxZone       = 14 * time.Hour
	zoneTolerance = 2 * time.Second
)

// findEntry finds the job of a run of the ledger in the log, and when it ended. Job and run must have begun at the same
// time, since Slurm may use a job ID again. found is false if there is none, as for a job that failed or was requeued.
func (a accounts) findEntry(r book.Run) (e trace.Entry, ended time.Time, found bool) {
	for _, e := range a.jobs[fmt.Sprint(r.Job)] {
		if a.timeOf(e.Told.Past.Started).Sub(r.Started).Abs() <= sameStart {
			return e, a.timeOf(e.Told.Past.Ended), true
		}
	}
	return e, ended, false
}

// isShifted reports whether the log has the job of a run at a time that differs from the ledger's by a time zone. A log
// without zones does, and then fits no run, so the user is told.
func (a accounts) isShifted(r book.Run) bool {
	return slices.ContainsFunc(a.jobs[fmt.Sprint(r.Job)], func(e trace.Entry) bool {
		by := a.timeOf(e.Told.Past.Started).Sub(r.Started).Round(zoneStep)
		return by != 0 && by.Abs() <= maxZone &&
			a.timeOf(e.Told.Past.Started).Add(-by).Sub(r.Started).Abs() <= zoneTolerance
	})
}

func (a accounts) timeOf(seconds float64) time.Time {
	return a.begin.Add(time.Duration(seconds * float64(time.Second)))
}

// accounting is the check by accounting as JSON. Low and High bound the GPU-seconds saved in real rounds; both are
// missing if too few runs could be compared.
type accounting struct {
	savings.Realised
	Checked bool     `json:"checked"`
	Low     *float64 `json:"saved_low,omitempty"`
	High    *float64 `json:"saved_high,omitempty"`
}

// accountingOf returns the result of the comparison over all days with real rounds, for JSON. It is nil without
// --sacct.
func accountingOf(realised *savings.Realised, days []book.Day) *accounting {
	if realised == nil {
		return nil
	}
	var all savings.Sums
	for _, d := range days {
		if !d.Shadow {
			all = all.Plus(d.Sums)
		}
	}
	a := &accounting{Realised: *realised, Checked: realised.Checked()}
	if a.Checked {
		low, high := realised.Range(all)
		a.Low, a.High = &low, &high
	}
	return a
}

// accountingColumns are the additional columns of the table with --sacct.
var accountingColumns = []string{"accounting_runs", "accounting_said", "accounting_ran", "accounting_within",
	"accounting_saved_low", "accounting_saved_high"}

// accountingFields are the additional fields of a day's line in CSV: the result of the comparison for all runs, and
// what it means for the day. All are empty for a day in shadow mode. If too few runs could be compared, only their
// number is there.
func accountingFields(realised *savings.Realised, d book.Day) []string {
	fields := make([]string, len(accountingColumns))
	if d.Shadow {
		return fields
	}
	fields[0] = strconv.Itoa(realised.After)
	if realised.Checked() {
		low, high := realised.Range(d.Sums)
		for k, x := range []float64{realised.Said, realised.Ran, realised.Within, low, high} {
			fields[k+1] = strconv.FormatFloat(x, 'f', -1, 64)
		}
	}
	return fields
}
