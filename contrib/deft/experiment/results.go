package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/printable"
)

// Job is one job that a model has done.
type Job struct {
	Start, End time.Time
	// Allocated and Reserved are GPU memory, bytes: the most that was in use, and that was held.
	Allocated, Reserved int64
}

// Took returns how long the job took.
func (j Job) Took() time.Duration { return j.End.Sub(j.Start) }

// columns are the columns of a file of a model's jobs.
var columns = []string{
	"start_timestamp_ns", "end_timestamp_ns", "jct_ms", "max_allocated_gpu_memory_allocated_byte",
	"max_reserved_gpu_memory_byte",
}

// WriteJobs writes a model's jobs as CSV with Deft's columns.
func WriteJobs(w io.Writer, jobs []Job) error {
	out := csv.NewWriter(w)
	rows := [][]string{columns}
	for _, j := range jobs {
		rows = append(rows, []string{
			strconv.FormatInt(j.Start.UnixNano(), 10), strconv.FormatInt(j.End.UnixNano(), 10),
			strconv.FormatFloat(j.Took().Seconds()*1000, 'f', 6, 64),
			strconv.FormatInt(j.Allocated, 10), strconv.FormatInt(j.Reserved, 10),
		})
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("write the jobs: %w", err)
	}
	return nil
}

// maxJobs is the most jobs that ReadJobs reads.
const maxJobs = 1 << 20

// ReadJobs reads such a file, ours or Deft's.
func ReadJobs(r io.Reader) ([]Job, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.TrimLeadingSpace = len(columns), true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	for i, name := range columns {
		if head[i] != name {
			return nil, fmt.Errorf("column %d is called %s: want %s", i+1, printable.Quote(head[i], maxShown), name)
		}
	}
	var jobs []Job
	for {
		row, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return jobs, nil
		case err != nil:
			return nil, fmt.Errorf("row %d: %w", len(jobs)+1, err)
		case len(jobs) == maxJobs:
			return nil, fmt.Errorf("more than %d jobs: want a shorter experiment", maxJobs)
		}
		j, err := job(row)
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", len(jobs)+1, err)
		}
		jobs = append(jobs, j)
	}
}

// job parses a row.
func job(row []string) (Job, error) {
	var n [5]int64
	for _, i := range []int{0, 1, 3, 4} { // column 2 follows from the first two
		var err error
		if n[i], err = strconv.ParseInt(row[i], 10, 64); err != nil || n[i] < 0 {
			return Job{}, fmt.Errorf("%s = %s: want a whole number from 0", columns[i],
				printable.Quote(row[i], maxShown))
		}
	}
	if n[1] < n[0] {
		return Job{}, fmt.Errorf("%s = %d: want no less than %s, %d", columns[1], n[1], columns[0], n[0])
	}
	return Job{Start: time.Unix(0, n[0]), End: time.Unix(0, n[1]), Allocated: n[3], Reserved: n[4]}, nil
}

// Processes returns the file models_pid.json: each model's title and the PID that ran it.
func Processes(models []Model, pids []int) ([]byte, error) {
	pairs := make([][2]any, len(models))
	for i, m := range models {
		pairs[i] = [2]any{m.Title(), pids[i]}
	}
	var text bytes.Buffer
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(pairs); err != nil {
		return nil, fmt.Errorf("write the processes: %w", err)
	}
	return text.Bytes(), nil
}

// Missed is the multiple of its duration alone beyond which a job counts as late.
const Missed = 1.6

// Summary summarises a model's jobs.
type Summary struct {
	Jobs           int
	Mean, P50, P95 time.Duration
	Rate           float64 // jobs per second
	// Inflation is Mean relative to a job alone; NaN if that is unknown.
	Inflation float64
	Late      int // jobs that took more than Missed times as long as alone
}

// Summarise leaves out the first job, as Deft's plots do, since it includes warming up.
func Summarise(jobs []Job, alone time.Duration) Summary {
	jobs = jobs[min(1, len(jobs)):]
	if len(jobs) == 0 {
		return Summary{Inflation: math.NaN()}
	}
	took := make([]time.Duration, len(jobs))
	var sum time.Duration
	late := 0
	for i, j := range jobs {
		took[i] = j.Took()
		sum += took[i]
		if alone > 0 && float64(took[i]) > float64(Missed*float64(alone)) {
			late++
		}
	}
	slices.Sort(took)
	s := Summary{
		Jobs: len(jobs),
		Mean: sum / time.Duration(len(jobs)),
		P50:  quantile(took, .5),
		P95:  quantile(took, .95),
		Late: late,
	}
	if span := jobs[len(jobs)-1].End.Sub(jobs[0].Start); span > 0 {
		s.Rate = float64(len(jobs)) / span.Seconds()
	}
	s.Inflation = math.NaN()
	if alone > 0 {
		s.Inflation = float64(s.Mean) / float64(alone)
	}
	return s
}

// quantile returns a quantile of sorted times.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(len(sorted)-1, int(math.Ceil(part*float64(len(sorted))))-1)]
}
