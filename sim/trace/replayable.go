package trace

import (
	"fmt"
	"slices"
	"strings"
)

// asked are the columns that the command line for sacct names; each stands for all that it needs of the accounting.
var asked = []string{"JobID", "User", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw",
	"Priority", "AllocTRES", "ReqTRES"}

// compared are the columns that runs of the past are held against those of today by.
var compared = []string{"JobIDRaw", "User", "JobName", "State", "Submit", "Start", "End", "ElapsedRaw", "AllocTRES"}

// CompareCommand is the command line whose output says how long runs took and what they were called, likewise.
func CompareCommand(days int) string { return sacctFor(days, compared) }

// CheckComparable makes sure that a log has the columns for that. Its error names each that is missing.
func (t *Trace) CheckComparable() error {
	var missing []string
	for _, name := range compared {
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

// SacctCommand is the command line whose output says what a month again needs, for so many days. It prints times with
// their zone, so that a change to or from daylight saving time moves no job, and each run of a job that was requeued.
func SacctCommand(days int) string { return sacctFor(days, asked) }

func sacctFor(days int, columns []string) string {
	return fmt.Sprintf("SLURM_TIME_FORMAT=%%FT%%T%%z sacct --allusers --allocations --duplicates --parsable2 "+
		"--starttime=now-%ddays --endtime=now --format=%s", days, strings.Join(columns, ","))
}

// essentials are the columns without which jobs cannot be shown as they were, any one of each kind, and what for.
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

// CheckReplayable makes sure that a log tells all that its jobs need to be shown as they were, beside what Slurm would
// do with them. Its error names each column that is missing.
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
