package trace

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ratioRemark begins the remark that says with which profiles the iterations of a recorded trace were counted. Like all
// remarks, the header and the column user, it is our addition: the artifact neither reads nor writes them.
const ratioRemark = "# cpus per gpu:"

// recordedHeader is the order of the columns in a file without a header.
var recordedHeader = []string{"job_id", "model", "arrival", "iterations", "gpus"}

const maxRatio = 1000 // cores for each GPU

// readRecorded reads a trace recorded by the artifact or by our commands. A header may list the columns in any order;
// unknown columns are ignored.
func readRecorded(name string, r io.Reader) (*Trace, error) {
	t, trace := newTable(name, r), &Trace{}
	t.remark = func(text string) (err error) {
		if value, says := strings.CutPrefix(text, ratioRemark); says {
			trace.CPUsPerGPU, err = t.ratio(strings.TrimSpace(value))
		}
		return err
	}
	jobs := recordedJobs{names: interner{}, seen: map[string]int{}}
	for t.next() {
		if err := jobs.read(t); err != nil {
			return nil, err
		}
	}
	trace.Jobs, trace.lines = jobs.sorted()
	return trace, t.err
}

// ratio reads the value of the remark; errors name it by the words of the remark.
func (t *table) ratio(value string) (int, error) {
	n, err := t.whole(strings.Trim(ratioRemark, "# :"), value, 1, maxRatio)
	return int(n), err
}

// recordedJobs gathers jobs and their line numbers.
type recordedJobs struct {
	columns struct{ id, model, arrival, iterations, gpus, user column }
	names   interner
	seen    map[string]int // IDs with their lines
	jobs    []recordedJob
}

type recordedJob struct {
	Job
	line int
}

// read reads the job of the current line. The first line is a header if it does not begin with a number; without a
// header the columns have the order of the artifact.
func (r *recordedJobs) read(t *table) error {
	if t.header == nil {
		header, headed := recordedHeader, !isWhole(t.fields[0])
		if headed {
			header = t.fields
		}
		if err := r.bind(t, header); err != nil || headed {
			return err
		}
	}
	j, err := r.job(t)
	if err == nil {
		r.jobs = append(r.jobs, recordedJob{j, t.line})
	}
	return err
}

// bind finds the columns in the header, by our names or the artifact's. Only the user may be missing.
func (r *recordedJobs) bind(t *table, header []string) error {
	c := &r.columns
	err := t.bind(header,
		binding{&c.id, []string{"job_id"}},
		binding{&c.model, []string{"model", "model_name"}},
		binding{&c.arrival, []string{"arrival", "arrival_s", "arrival_seconds"}},
		binding{&c.iterations, []string{"iterations", "total_iterations", "total_iters"}},
		binding{&c.gpus, []string{"gpus"}},
	)
	c.user = t.find("user")
	return err
}

// job reads a job from the current line; an ID that occurs twice is an error.
func (r *recordedJobs) job(t *table) (j Job, err error) {
	if err = t.complete(); err != nil {
		return j, err
	}
	c := r.columns
	id, err := t.wholeAt(c.id, 0, maxID)
	if err != nil {
		return j, err
	}
	if err = t.unique(c.id.name, strconv.Itoa(int(id)), r.seen); err != nil {
		return j, err
	}
	if j.Model, err = t.modelAt(c.model, r.names); err != nil {
		return j, err
	}
	if j.Arrival, err = t.secondsAt(c.arrival); err != nil {
		return j, err
	}
	if j.Iterations, err = t.wholeAt(c.iterations, 1, maxIterations); err != nil {
		return j, err
	}
	gpus, err := t.wholeAt(c.gpus, 1, maxGPUs)
	if err != nil {
		return j, err
	}
	j.ID, j.GPUs = int(id), int(gpus)
	j.User, err = t.labelAt(c.user, r.names)
	return j, err
}

// sorted returns the jobs in the order of arrival, with their lines in the file, which later errors about jobs name.
func (r *recordedJobs) sorted() (jobs []Job, lines []int32) {
	slices.SortStableFunc(r.jobs, func(a, b recordedJob) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for _, j := range r.jobs {
		jobs, lines = append(jobs, j.Job), append(lines, int32(j.line))
	}
	return jobs, lines
}
