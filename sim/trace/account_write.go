package trace

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// sacctColumns are the columns that WriteSacct writes, by sacct's names.
var sacctColumns = []string{"Cluster", "JobID", "User", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw",
	"TimelimitRaw", "Priority", "AllocTRES"}

// WriteSacct writes a trace in the form of sacct's output, with one record for each entry: without steps, and with
// restarts and components combined. Reading it gives the same trace. Entries of other formats can be written, too; what
// they lack is left empty. An entry that could not be read again is an error.
func WriteSacct(w io.Writer, t *Trace) error {
	var b strings.Builder
	b.WriteString(strings.Join(sacctColumns, "|") + "\n")
	for _, e := range t.Entries {
		if err := e.checkAccount(); err != nil {
			return fmt.Errorf("write job %s: %w", legible(e.ID), err)
		}
		b.WriteString(strings.Join(e.sacctFields(t.Begin), "|") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// checkAccount returns an error if an entry could not be read again from a record of sacct's form.
func (e Entry) checkAccount() error {
	if err := e.check(); err != nil {
		return err
	}
	_, id := e.clusterAndID()
	if !jobIDs.MatchString(id) {
		return wrong("id", id, "the ID of a job, such as 1234 or 1234_7")
	}
	for field, text := range map[string]string{"user": e.User, "state": e.State, "queue": e.Queue} {
		if strings.Contains(text, "|") || !isLabel(text) {
			return wrong(field, text, wantLabel()+" without |")
		}
	}
	return nil
}

// clusterAndID splits the ID of an entry from a log of several clusters, which the reader joins with a colon; cluster
// is empty for other IDs.
func (e Entry) clusterAndID() (cluster, id string) {
	if at := strings.LastIndex(e.ID, ":"); at >= 0 {
		return e.ID[:at], e.ID[at+1:]
	}
	return "", e.ID
}

// sacctFields returns the fields of an entry's record, in sacct's units: limits in minutes, memory in MiB. begin is the
// origin of the entry's times. What the entry does not have is Unknown for times and otherwise empty.
func (e Entry) sacctFields(begin time.Time) []string {
	cluster, id := e.clusterAndID()
	started, ended, limit, priority, tres := "Unknown", "Unknown", "", "", []string{}
	if told := e.Told; told != nil {
		if told.Past.Known() {
			started, ended = sacctTime(begin, told.Past.Started), sacctTime(begin, told.Past.Ended)
		}
		if told.Asked.Limit > 0 {
			limit = number(told.Asked.Limit / 60)
		}
		if told.Asked.Priority > 0 {
			priority = strconv.FormatInt(told.Asked.Priority, 10)
		}
		if told.Past.CPUs > 0 {
			tres = append(tres, "cpu="+strconv.Itoa(told.Past.CPUs))
		}
		if told.Past.Memory > 0 {
			tres = append(tres, "mem="+number(told.Past.Memory*1000)+"M")
		}
	}
	tres = append(tres, "gres/gpu="+strconv.Itoa(e.GPUs))
	return []string{cluster, id, e.User, e.Queue, e.State, sacctTime(begin, e.Submitted), started, ended,
		number(e.Duration), limit, priority, strings.Join(tres, ",")}
}

// sacctTime formats a moment, given in seconds since begin, as sacct does, with its zone if that is known and not UTC.
// A zero begin stands for the beginning of 1970.
func sacctTime(begin time.Time, seconds float64) string {
	if begin.IsZero() {
		begin = time.Unix(0, 0).UTC()
	}
	at := begin.Add(time.Duration(math.Round(seconds*1000)) * time.Millisecond)
	layout := "2006-01-02T15:04:05.999"
	if _, offset := at.Zone(); offset != 0 {
		layout += "-0700"
	}
	return at.Format(layout)
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
