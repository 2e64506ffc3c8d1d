package trace

import (
	"fmt"
	"slices"
	"strings"
)

// replayColumns are the columns in SacctCommand: all that a replay can use. For each kind of information the reader
// accepts alternatives; one of them is here.
var replayColumns = []string{
	"JobID",
	"User",
	"Partition",
	"State",
	"Submit",
	"Start",
	"End",
	"ElapsedRaw",
	"TimelimitRaw",
	"Priority",
	"AllocTRES",
	"ReqTRES",
}

// comparableColumns are the columns needed to compare earlier runs with later ones.
var comparableColumns = []string{
	"JobIDRaw",
	"User",
	"JobName",
	"State",
	"Submit",
	"Start",
	"End",
	"ElapsedRaw",
	"AllocTRES",
}

// CompareCommand returns the sacct command whose output CheckComparable accepts: the lengths and names of runs of the
// last days.
func CompareCommand(days int) string { return sacctFor(days, comparableColumns) }

// CheckComparable requires that a log has the columns of CompareCommand. Its error lists all that are missing.
// AllocTRES is not checked, because readSacct accepts other columns for the GPUs and has refused a log without any.
func (t *Trace) CheckComparable() error {
	var missing []string
	for _, name := range comparableColumns {
		if name != "AllocTRES" && !slices.ContainsFunc(t.Records.Columns,
			func(has string) bool { return columnName(has) == columnName(name) }) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return place{name: t.Name}.errorf("misses columns: want %s", strings.Join(missing, ", "))
	}
	return nil
}

// SacctCommand returns the sacct command whose output CheckReplayable accepts, for the last days. It prints times with
// their zone, so that a change to or from daylight saving time shifts no job, and every run of requeued jobs.
func SacctCommand(days int) string { return sacctFor(days, replayColumns) }

// sacctFor returns an sacct command for the allocations of all users in the last days, with these columns.
func sacctFor(days int, columns []string) string {
	return fmt.Sprintf("SLURM_TIME_FORMAT=%%FT%%T%%z sacct --allusers --allocations --duplicates --parsable2 "+
		"--starttime=now-%ddays --endtime=now --format=%s", days, strings.Join(columns, ","))
}

// essentials are the columns needed to show jobs as they were, with alternatives, and what each is for.
var essentials = []struct {
	names []string
	why   string
}{
	{[]string{"JobID", "JobIDRaw"}, "to tell jobs from steps"},
	{[]string{"Submit"}, "for when jobs came"},
	{[]string{"Start"}, "for how long they waited"},
	{[]string{"End"}, "for when they ended"},
	{[]string{"State"}, "for what goes on still"},
	{[]string{"AllocTRES", "AllocGRES"}, "for the GPUs that they had"},
	{[]string{"TimelimitRaw", "Timelimit"}, "for backfill, which plans by limits"},
}

// CheckReplayable requires that a log has all that is needed to show its jobs as they were, beside a simulation of them
// under Slurm alone. Its error lists all missing columns.
func (t *Trace) CheckReplayable() error {
	if t.Format != Sacct {
		return place{name: t.Name}.errorf("is of the format %s: want what sacct prints", t.Format)
	}
	present := map[string]bool{}
	for _, name := range t.Records.Columns {
		present[columnName(name)] = true
	}
	var missing []string
	for _, e := range essentials {
		found := false
		for _, name := range e.names {
			found = found || present[columnName(name)]
		}
		if !found {
			missing = append(missing, fmt.Sprintf("%s, %s", strings.Join(e.names, " or "), e.why))
		}
	}
	if len(missing) > 0 {
		return place{name: t.Name}.errorf("misses columns: want %s", strings.Join(missing, "; "))
	}
	return nil
}
