package trace

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// readSacct reads Slurm's accounting. It combines the records of each job as follows:
//
//   - Steps (1234.batch, 1234.0) are ignored, since they add nothing to the job's record.
//   - Tasks of an array (1234_7) are jobs.
//   - Components of a heterogeneous job (1234+0, 1234+1) become one job with the GPUs of all and the duration of the
//     longest.
//   - Runs of a restarted job, which sacct lists with --duplicates, become one job with the sum of their durations, the
//     submission of the first, and the GPUs, user and state of the last. Two records with the same submission and start
//     are one run, and the longer record counts. So listings of months that overlap can be concatenated, headers
//     included.
//
// The duration of a run is ElapsedRaw, or else Elapsed, or else End - Start. Its GPUs are gres/gpu in AllocTRES, or in
// ReqTRES if nothing was allocated; if only types are listed, their sum. Logs from before Slurm 20.11 may have them in
// AllocGRES and ReqGRES, possibly beside a list of TRES in which the site did not track GPUs. Numeric times are Unix
// times, as printed with SLURM_TIME_FORMAT=%s.
func readSacct(name string, r io.Reader) (*Trace, error) {
	t := newTable(name, r)
	t.separator, t.remark = "|", nil
	a := &accounting{log: newLog(), index: map[string]int{}, known: map[labels]*labels{}}
	a.log.clock.unix = true
	if err := a.open(t); err != nil {
		return nil, err
	}
	for t.next() {
		if err := a.read(t); err != nil {
			return nil, err
		}
	}
	a.log.entries = make([]Entry, 0, len(a.jobs))
	for _, j := range a.jobs {
		a.log.addJob(j)
		a.records.Requeues += j.repeats()
	}
	a.records.Jobs = len(a.jobs)
	made := a.log.trace()
	made.Records, made.Names = a.records, a.jobNames()
	return made, t.err
}

// jobNames returns the names of jobs from their last runs, by ID. If the log has no column of names, it returns nil.
func (a *accounting) jobNames() map[string]string {
	if a.columns.name.missing() {
		return nil
	}
	names := make(map[string]string, len(a.jobs))
	for _, j := range a.jobs {
		if name := j.runs[len(j.runs)-1].name; name != "" {
			names[j.id] = name
		}
	}
	return names
}

// accounting gathers records by job.
type accounting struct {
	columns struct {
		id, cluster, submit, start, end, elapsedRaw, elapsed, alloc, req, user, partition, state, limitRaw, limit,
		priority, name, reqMem, nodes, cpus, allocGRES, reqGRES column
	}
	records    Records
	textColumn int // the only column of the header with text from users; -1: none, or several
	log        *log
	jobs       []accounted
	index      map[string]int     // into jobs, by cluster and ID
	known      map[labels]*labels // the one stored copy of equal texts
}

// open binds the columns of the header. Columns for the job ID, the submission, the GPUs and the duration are required,
// since no job can be simulated without these; all others may be missing.
func (a *accounting) open(t *table) error {
	c := &a.columns
	if err := t.open(binding{&c.id, []string{"JobID", "JobIDRaw"}},
		binding{&c.submit, []string{"Submit"}}); err != nil {
		return t.explainHeader(err)
	}
	c.cluster, c.user, c.partition, c.state = t.find("Cluster"), t.find("User"), t.find("Partition"), t.find("State")
	c.start, c.end, c.elapsedRaw, c.elapsed = t.find("Start"), t.find("End"), t.find("ElapsedRaw"), t.find("Elapsed")
	c.alloc, c.req = t.find("AllocTRES"), t.find("ReqTRES")
	c.allocGRES, c.reqGRES = t.find("AllocGRES"), t.find("ReqGRES")
	c.limitRaw, c.limit, c.priority = t.find("TimelimitRaw"), t.find("Timelimit"), t.find("Priority")
	c.name, c.reqMem = t.find("JobName"), t.find("ReqMem")
	c.nodes, c.cpus = t.find("AllocNodes", "NNodes"), t.find("AllocCPUS", "NCPUS")
	a.records.Columns = slices.Clone(t.header)
	a.textColumn = textColumnOf(t.header)
	if c.alloc.missing() && c.req.missing() && c.allocGRES.missing() && c.reqGRES.missing() {
		return t.errorf("no column AllocTRES or ReqTRES, nor AllocGRES or ReqGRES as before Slurm 20.11: " +
			"want one in the header, for the number of GPUs")
	}
	if c.elapsedRaw.missing() && c.elapsed.missing() && (c.start.missing() || c.end.missing()) {
		return t.errorf(
			"no column ElapsedRaw or Elapsed, and not both Start and End: want them in the header, for how long a " +
				"job ran")
	}
	return nil
}

// explainHeader replaces the error about a first line that is no header by a clearer one, if the cause is clear: sacct
// was called with --noheader, or without --parsable2. Otherwise it returns err.
func (t *table) explainHeader(err error) error {
	line := strings.Join(t.fields, t.separator)
	switch {
	case slices.ContainsFunc(t.fields, func(field string) bool { return jobIDs.MatchString(strings.TrimSpace(field)) }):
		return t.errorf("%s is a record: want the header before it, as sacct prints it without --noheader",
			legible(line))
	case len(t.fields) == 1 && slices.ContainsFunc(strings.FieldsFunc(line, isSeparator),
		func(word string) bool { return columnName(word) == columnName("JobID") }):
		return t.errorf("%s has no | between its columns: want what sacct prints with --parsable2", legible(line))
	}
	return err
}

// isSeparator says whether a character may separate columns in a table that is not what --parsable2 prints.
func isSeparator(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == ';' }

// jobIDs matches the job IDs that Slurm prints; a step has a suffix after a point.
var jobIDs = regexp.MustCompile(`^(\d+(?:_(?:\d+|\[[^\]]*\]?))?)(?:\+(\d+))?(\..*)?$`)

// read reads one record and adds it to its job. The header may come again, where listings were concatenated. A record
// with too many or too few fields is counted and left out: a name with a | or a line break must not cost the whole log.
// Steps are only counted.
func (a *accounting) read(t *table) error {
	if slices.Equal(t.fields, t.header) {
		return nil
	}
	a.records.Records++
	a.rejoinFields(t)
	if len(t.fields) != len(t.header) {
		a.log.dropped.add(BrokenRecord)
		a.records.Broken++
		return nil
	}
	id := jobIDs.FindStringSubmatch(t.text(a.columns.id))
	if id == nil {
		return t.wrong(a.columns.id.name, t.text(a.columns.id), "the ID of a job, such as 1234, 1234_7 or 1234+0")
	}
	if id[3] != "" {
		a.records.Steps++
		return nil
	}
	r, err := a.readRun(t, id[2])
	if err != nil {
		return err
	}
	j := a.job(t.text(a.columns.cluster), id[1])
	j.runs = j.add(r)
	return nil
}

// job returns the job with this ID on the cluster, and creates it if necessary. The ID is copied, since a field is a
// part of its whole line and would keep it in memory.
func (a *accounting) job(cluster, id string) *accounted {
	if cluster != "" {
		id = cluster + ":" + id
	}
	i, known := a.index[id]
	if !known {
		i, id = len(a.jobs), strings.Clone(id)
		a.index[id] = i
		a.jobs = append(a.jobs, accounted{id: id})
	}
	return &a.jobs[i]
}

// readRun reads one run of a component from a record; component is empty for an ordinary job. A run still goes on if
// its state says so, or if it has started and has no end; a run without an end that never started does not.
func (a *accounting) readRun(t *table, component string) (r run, err error) {
	c := &a.columns
	if r.submitted, err = t.timeAt(&a.log.clock, c.submit); err != nil {
		return r, err
	}
	if r.started, err = a.readTime(t, c.start); err != nil {
		return r, err
	}
	if r.ran, err = a.runDuration(t, r.started); err != nil {
		return r, err
	}
	if r.ended, err = a.endTime(t, r); err != nil {
		return r, err
	}
	if r.gpus, err = a.gpus(t); err != nil {
		return r, err
	}
	if err = a.readRequest(t, &r); err != nil {
		return r, err
	}
	if r.labels, err = a.labels(t, component); err != nil {
		return r, err
	}
	unended := !c.end.missing() && isMissingTime(t.text(c.end)) && r.started != unknown
	r.running = unended || r.state == "RUNNING" || r.state == "SUSPENDED"
	return r, nil
}

// labels returns the shared texts of a record; equal ones are stored once.
func (a *accounting) labels(t *table, component string) (*labels, error) {
	user, err := t.labelAt(a.columns.user, a.log.names)
	if err != nil {
		return nil, err
	}
	queue, err := t.labelAt(a.columns.partition, a.log.names)
	if err != nil {
		return nil, err
	}
	// Slurm adds the user that cancelled a job to CANCELLED; a trace does not need it.
	state, _, _ := strings.Cut(t.text(a.columns.state), " ")
	if state, err = t.label(a.columns.state.name, a.log.names.intern(state)); err != nil {
		return nil, err
	}
	name := t.text(a.columns.name)
	if !isLabel(name) {
		name = "" // users choose any names, so a log is not refused for one that cannot be printed
	}
	l := labels{a.log.names.intern(component), user, queue, state, a.log.names.intern(name)}
	if a.known[l] == nil {
		a.known[l] = &l
	}
	return a.known[l], nil
}

// unknown stands for a time or duration that the log does not have.
const unknown = -1

// isMissingTime says whether the text of a time means that there is none.
func isMissingTime(text string) bool {
	return text == "" || text == "Unknown" || text == "None" || text == "INVALID"
}

// readTime reads a time. If the record has none, as for a job that never started, it returns unknown.
func (a *accounting) readTime(t *table, c column) (float64, error) {
	if isMissingTime(t.text(c)) {
		return unknown, nil
	}
	return t.timeAt(&a.log.clock, c)
}

// endTime is when a run ended. For a run that still goes on it is when the run was last seen, its start plus the time
// that it had run. If neither can be told, it is unknown.
func (a *accounting) endTime(t *table, r run) (float64, error) {
	ended, err := a.readTime(t, a.columns.end)
	if err == nil && ended == unknown && r.started != unknown && r.ran > 0 {
		ended = r.started + r.ran
	}
	return ended, err
}

// runDuration is the duration of a run in seconds, from the best source that the record has: ElapsedRaw, Elapsed, or
// End - Start. started is unknown if the record has no start. If the record has no source, the duration is unknown.
func (a *accounting) runDuration(t *table, started float64) (float64, error) {
	c := &a.columns
	if text := t.text(c.elapsedRaw); !isMissingTime(text) {
		return t.secondsAt(c.elapsedRaw)
	}
	if text := t.text(c.elapsed); !isMissingTime(text) {
		return t.elapsedAt(c.elapsed)
	}
	ended, err := a.readTime(t, c.end)
	switch {
	case err != nil || started == unknown || ended == unknown:
		return unknown, err
	case ended < started:
		return unknown, t.wrong(c.end.name, t.text(c.end), "no time before "+c.start.name+" "+t.text(c.start))
	}
	return ended - started, nil
}

// elapsedAt reads [days-][hours:]minutes:seconds, possibly with a fraction, and returns seconds.
func (t *table) elapsedAt(c column) (float64, error) {
	wrong := t.wrong(c.name, t.text(c), "a length of time such as 1-02:03:04")
	days, clock, found := strings.Cut(t.text(c), "-")
	if !found {
		days, clock = "0", days
	}
	total, ok := decimal(days)
	parts := strings.Split(clock, ":")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return 0, wrong
	}
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	for i, base := range []float64{24, 60, 60} {
		part, ok := decimal(parts[i])
		if !ok {
			return 0, wrong
		}
		total = float64(total*base) + part
	}
	if total > maxSeconds {
		return 0, wrong
	}
	return total, nil
}
