package trace

import (
	"strconv"
	"strings"
)

// Records counts the lines of Slurm's accounting by kind, without headers.
type Records struct {
	Columns  []string // of the header
	Records  int      // all lines
	Jobs     int      // jobs with at least one record
	Steps    int      // records of steps, which add nothing to their jobs' records
	Requeues int      // records of a job or component beyond its first run
	Broken   int      // records with more or fewer fields than the header
}

// textColumns are columns with text from users, which may contain the separator |.
var textColumns = []string{
	"JobName",
	"Comment",
	"AdminComment",
	"SystemComment",
	"Extra",
	"WorkDir",
	"SubmitLine",
	"WCKey",
}

// textColumnOf returns the index of the only column in the header that has text from users, so that a surplus | can be
// attributed to it. If there is no such column, or there are several, it returns -1.
func textColumnOf(header []string) int {
	found := -1
	for _, name := range textColumns {
		for i, field := range header {
			if columnName(field) != columnName(name) {
				continue
			}
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// rejoinFields joins fields of the current line that a | in a user's text has split. It can do so only if one column
// alone may contain a |; otherwise the line is left as it is, and is then counted as broken. The fields before it are
// copied, since appending to them would overwrite those behind.
func (a *accounting) rejoinFields(t *table) {
	surplus := len(t.fields) - len(t.header)
	if surplus <= 0 || a.textColumn < 0 {
		return
	}
	text := strings.Join(t.fields[a.textColumn:a.textColumn+surplus+1], t.separator)
	t.fields = append(append(t.fields[:a.textColumn:a.textColumn], text), t.fields[a.textColumn+surplus+1:]...)
}

// repeats is the number of runs beyond the first of each component, which are due to requeues.
func (j *accounted) repeats() int {
	components := map[string]bool{}
	for _, r := range j.runs {
		components[r.component] = true
	}
	return len(j.runs) - len(components)
}

// readRequest reads into r what a run held besides GPUs, its priority and its time limit. What the record lacks stays
// 0.
func (a *accounting) readRequest(t *table, r *run) (err error) {
	c := &a.columns
	if err = a.readHeld(t, r); err != nil {
		return err
	}
	if text := t.text(c.priority); text != "" {
		if r.priority, err = t.wholeAt(c.priority, 0, maxPriority); err != nil {
			return err
		}
	}
	r.limit, err = a.limit(t)
	return err
}

// readHeld reads the cores and the memory of a run: from AllocTRES, or else from AllocCPUS and ReqMem. A run that took
// no time held nothing, so what it asked for is not read. r.ran must be known.
func (a *accounting) readHeld(t *table, r *run) (err error) {
	c := &a.columns
	text := t.text(c.alloc)
	if text != "" {
		if r.cpus, r.memory, err = coresAndMemory(t, c.alloc, text); err != nil {
			return err
		}
	}
	if r.ran <= 0 {
		return nil
	}
	if r.cpus == 0 && t.text(c.cpus) != "" {
		n, err := t.wholeAt(c.cpus, 0, maxCPUs)
		if err != nil {
			return err
		}
		r.cpus = int32(n)
	}
	if r.memory == 0 {
		r.memory, err = a.requestedMemory(t, r.cpus, countOf(text, "node"))
	}
	return err
}

// requestedMemory is the memory that a run asked for, in GB of 1000 MiB. Slurm before 21.08 prints it per node (4Gn) or
// per core (2000Mc), so it is multiplied by the number of nodes or cores; otherwise it is the total. If nodes is 0,
// because AllocTRES does not say, the column of nodes is read. If the record does not say what was asked for, the
// result is 0.
func (a *accounting) requestedMemory(t *table, cpus int32, nodes int64) (memory float64, err error) {
	c := &a.columns
	text := t.text(c.reqMem)
	if text == "" || text == "?" {
		return 0, nil
	}
	if nodes == 0 && t.text(c.nodes) != "" {
		if nodes, err = t.wholeAt(c.nodes, 0, maxCPUs); err != nil {
			return 0, err
		}
	}
	times, of := 1.0, text
	switch text[len(text)-1] {
	case 'n':
		times, of = float64(nodes), text[:len(text)-1]
	case 'c':
		times, of = float64(cpus), text[:len(text)-1]
	}
	mib, ok := mebibytes(of)
	if !ok || mib*times > maxMemory {
		return 0, t.wrong(c.reqMem.name, text,
			"memory with its unit, such as 64G, 4Gn for each node or 2000Mc for each core")
	}
	return mib * times / 1000, nil
}

// maxCPUs bounds the cores, and the nodes, of one job.
const maxCPUs = 1 << 24

// countOf returns the count of one entry in a list of TRES, at most maxCPUs. If the list does not have the entry, or
// not as a whole number, it returns 0.
func countOf(text, of string) int64 {
	for tres := range strings.SplitSeq(text, ",") {
		if name, n, _ := strings.Cut(tres, "="); strings.EqualFold(name, of) && isWhole(n) {
			whole, _ := strconv.ParseInt(n, 10, 64)
			return min(max(whole, 0), maxCPUs)
		}
	}
	return 0
}

// maxPriority is Slurm's bound: priorities have 32 bits.
const maxPriority = 1<<32 - 1

// unlimited is the limit that Slurm assumes for jobs without one, in seconds.
const unlimited = 365 * day

// limit is a job's time limit in seconds, from TimelimitRaw if that is there, and otherwise from Timelimit. A plain
// number is in minutes. The limit is 0 if it is unknown, or if the job just had its partition's limit, which the log
// does not contain.
func (a *accounting) limit(t *table) (float64, error) {
	c := a.columns.limitRaw
	if t.text(c) == "" {
		c = a.columns.limit
	}
	switch text := t.text(c); strings.ToUpper(text) {
	case "", "PARTITION_LIMIT", "UNKNOWN", "NONE", "INVALID":
		return 0, nil
	case "UNLIMITED":
		return unlimited, nil
	default:
		minutes, ok := decimal(text)
		if !ok {
			return t.elapsedAt(c)
		}
		if seconds := minutes * 60; seconds <= maxSeconds {
			return seconds, nil
		}
		return 0, t.wrong(c.name, text, "minutes, a length of time such as 1-02:03:04, UNLIMITED or Partition_Limit")
	}
}

// coresAndMemory reads cpu= and mem= from a list of TRES, in cores and GB of 1000 MiB. What is not in the list is 0.
// Errors name the column c.
func coresAndMemory(t *table, c column, text string) (cpus int32, memory float64, err error) {
	for tres := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(tres, "=")
		switch strings.ToLower(name) {
		case "cpu":
			n, err := strconv.ParseInt(count, 10, 32)
			if err != nil || n < 0 {
				return 0, 0, t.wrong(c.name, text, "whole numbers of cores from 0, such as cpu=4")
			}
			cpus = int32(n)
		case "mem":
			mib, ok := mebibytes(count)
			if !ok {
				return 0, 0, t.wrong(c.name, text, "memory with its unit, such as mem=64G or mem=1.50T")
			}
			memory = mib / 1000
		}
	}
	return cpus, memory, nil
}

// maxMemory bounds the memory of one job, in MiB.
const maxMemory = 1e12

// mebibytes reads an amount of memory in Slurm's notation, in MiB or with a unit, and returns MiB. It returns false if
// the amount is invalid or too large.
func mebibytes(text string) (float64, bool) {
	factor := 1.0
	for unit, of := range map[string]float64{"K": 1.0 / 1024, "M": 1, "G": 1024, "T": 1 << 20, "P": 1 << 30} {
		if number, found := strings.CutSuffix(strings.ToUpper(text), unit); found {
			text, factor = number, of
			break
		}
	}
	x, ok := decimal(text)
	return x * factor, ok && x*factor <= maxMemory
}
