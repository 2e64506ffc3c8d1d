package outcome

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
)

// WriteJobs writes what became of each job, in the window or not, as CSV with the header
//
//	job_id,model,gpus,arrival_s,first_run_s,finish_s,jct_s,starts,attained_gpu_s
//
// Numbers are the shortest texts that parse to the same value. Fields of events that did not happen are empty. With
// several runs, leading columns identify the run: policy, allocator, and each other part of the setting in which the
// runs differ, named engine, placement, cluster, ratio, workload, static, load, split, seed, window, round_s,
// restart_s, until_s, at_rounds, outside, unsaved, sharing, share_mode, strict and prioritize.
func WriteJobs(w io.Writer, runs []Run) error {
	header := []string{"job_id", "model", "gpus", "arrival_s", "first_run_s", "finish_s", "jct_s", "starts",
		"attained_gpu_s"}
	return writeRecords(w, runs, header, func(run Run, write func(fields ...string) error) error {
		for _, job := range run.Jobs {
			if err := write(job.fields()...); err != nil {
				return err
			}
		}
		return nil
	})
}

// fields formats a job for WriteJobs; a field of something that did not happen is empty.
func (j Job) fields() []string {
	var firstRun, finish, completion string
	if j.FirstRun >= 0 {
		firstRun = decimal(j.FirstRun)
	}
	if j.Done() {
		finish, completion = decimal(j.Finish), decimal(j.Completion())
	}
	return []string{
		strconv.Itoa(j.ID), named(j.Model), strconv.Itoa(j.GPUs), decimal(j.Arrival), firstRun, finish, completion,
		strconv.Itoa(j.Starts), decimal(j.AttainedGPU),
	}
}

// WriteRounds writes the state of the cluster after each round as CSV with the header
//
//	at_s,running,waiting,gpus,cpus,memory_gb,demand_gpus,started,stopped,value,bound
//
// With several runs, it has the same leading columns as WriteJobs.
func WriteRounds(w io.Writer, runs []Run) error {
	header := []string{
		"at_s", "running", "waiting", "gpus", "cpus", "memory_gb", "demand_gpus", "started", "stopped", "value",
		"bound",
	}
	return writeRecords(w, runs, header, func(run Run, write func(fields ...string) error) error {
		for _, round := range run.Rounds {
			if err := write(round.fields()...); err != nil {
				return err
			}
		}
		return nil
	})
}

// fields formats a round for WriteRounds.
func (r Round) fields() []string {
	return []string{
		decimal(r.At), strconv.Itoa(r.Running), strconv.Itoa(r.Waiting), decimal(r.GPUs), decimal(r.CPUs),
		decimal(r.Memory),
		decimal(r.Demand), strconv.Itoa(r.Started), strconv.Itoa(r.Stopped), certifiedValue(r.Value, r.Bound),
		certifiedValue(r.Bound, r.Bound),
	}
}

// certifiedValue formats a value rounded to a millionth. If bound is 0, the round has no certificate, and the field is
// empty.
func certifiedValue(value, bound float64) string {
	if bound == 0 {
		return ""
	}
	return decimal(math.Round(value*1e6) / 1e6)
}

// writeRecords writes a header and the records of each run, which the function records passes to write. With several
// runs, columns in front say to which run a record belongs.
func writeRecords(w io.Writer, runs []Run, header []string, records func(run Run,
	write func(fields ...string) error) error) error {
	var front []axis
	if len(runs) > 1 {
		front = differing(runs)
	}
	out := csv.NewWriter(w)
	if err := out.Write(append(columnsOf(front), header...)); err != nil {
		return err
	}
	for _, run := range runs {
		own := valuesOf(front, run.Setting)
		write := func(fields ...string) error { return out.Write(append(own, fields...)) }
		if err := records(run, write); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// columnsOf lists the names of axes in files.
func columnsOf(axes []axis) (names []string) {
	for _, a := range axes {
		names = append(names, a.column)
	}
	return names
}

// valuesOf lists the values of a setting on the axes.
func valuesOf(axes []axis, s Setting) (values []string) {
	for _, a := range axes {
		values = append(values, a.value(s))
	}
	return values
}
