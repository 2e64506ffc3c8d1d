// Package trace holds workloads as data: the jobs that a simulation runs, what sites' logs say of theirs, and the
// formats of both. It draws nothing at random and knows no policy, engine or cluster. A reader refuses a file that it
// cannot understand, and says where; a job that it understands but that cannot be simulated, it leaves out, and says
// how many and why.
package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trace is what a file holds: the jobs of a recorded trace, or the entries of a site's log.
type Trace struct {
	Name   string // of the file, as errors call it
	Format Format
	// Begin is the moment that the times of jobs and entries count from, in the zone of the file, or in UTC where times
	// have none. It is zero where the file counts seconds and does not say since when.
	Begin    time.Time
	Jobs     []Job   // in the order of their arrival; those of one moment as the file has them
	Entries  []Entry // in the order of their submission; those of one moment as the file has them
	Dropped  []Dropped
	Adjusted []Adjusted
	Records  Records // of an sacct log
	// Names are what users called their jobs, by the ID of entries: of an sacct log with a column JobName. One that
	// cannot be shown is left out.
	Names map[string]string
	// CPUsPerGPU is the ratio of the profiles that the iterations of a recorded trace were counted with; 0 where it
	// does not say.
	CPUsPerGPU int

	lines []int32 // of Jobs, in the file
}

// CheckModels makes sure that all jobs are of known models. Its error names the line.
func (t *Trace) CheckModels(known []string) error {
	for i, j := range t.Jobs {
		if !slices.Contains(known, j.Model) {
			return t.at(i).wrong("model", j.Model, "one of "+strings.Join(known, ", "))
		}
	}
	return nil
}

// CheckGPUs makes sure that no job has more GPUs than there are. Its error names the line.
func (t *Trace) CheckGPUs(most int) error {
	for i, j := range t.Jobs {
		if j.GPUs > most {
			return t.at(i).wrong("gpus", strconv.Itoa(j.GPUs), fmt.Sprintf("no more than the %d of the cluster", most))
		}
	}
	return nil
}

// at is where a job stands in the file, if it came from one.
func (t *Trace) at(job int) place {
	if job < len(t.lines) {
		return place{t.Name, int(t.lines[job])}
	}
	return place{name: t.Name}
}

// InFileOrder is the entries in the order in which they stand in the file, which is the order in which the paper's
// artifact draws for them.
func (t *Trace) InFileOrder() []Entry {
	entries := slices.Clone(t.Entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Place, b.Place) })
	return entries
}

// Job is one training job of a workload that can be simulated.
type Job struct {
	ID         int
	Model      string  // the name of a profile
	User       string  // empty where nobody says
	GPUs       int     // ≥ 1
	Arrival    float64 // seconds since the beginning of the trace, ≥ 0
	Iterations int64   // ≥ 1, each of the model's iteration time at the proportional share
	Told       Told    // what else an sacct log says; recorded traces have no place for it
}

// Told is what an sacct log may say beyond what every log says. Few logs do, so that it is kept apart.
type Told struct {
	Asked Asked
	Past  Past
}

// Asked is what a job was submitted with, beside its GPUs. It is zero where a log does not say.
type Asked struct {
	Limit    float64 // seconds that it was allowed to run
	Priority int64   // of Slurm, the higher the sooner
}

// Past is what became of a job on the site. It is zero where a log does not say.
type Past struct {
	Started, Ended float64 // seconds since Begin of the trace: its first run, and the end of its last; Ended > 0
	Ran            float64 // seconds of all runs together, > 0
	Runs           int     // ≥ 1
	CPUs           int     // that its last run had, in all
	Memory         float64 // likewise, GB of 1000 MiB
}

// Known says that the log tells when the job ran.
func (p Past) Known() bool { return p.Runs > 0 }

// Since counts from a later moment, or an earlier one.
func (p Past) Since(seconds float64) Past {
	if p.Known() {
		p.Started, p.Ended = inMilliseconds(p.Started-seconds), inMilliseconds(p.Ended-seconds)
	}
	return p
}

// Entry is one job as a site's log has it: how long it ran, and nothing of its model.
type Entry struct {
	ID        string  // the site's own
	User      string  // empty where the log does not say
	Queue     string  // partition, virtual cluster; empty where the log does not say
	Submitted float64 // seconds since Begin of the trace, its first submission, ≥ 0
	Duration  float64 // seconds that it ran, all attempts together, > 0
	GPUs      int     // ≥ 1
	State     string  // as the log says it; empty where it does not
	Told      *Told   // what else the log says; nil: nothing
	Place     int     // among the file's jobs that can be simulated, from 0
}

// Source hands out jobs one after the other, in the order of their arrival. The second result is false when there are
// no more; a source that draws jobs at random may go on for ever.
type Source interface {
	Next() (Job, bool)
}

// Of is a source of given jobs, in the order in which they stand.
func Of(jobs []Job) Source { return &list{jobs} }

type list struct{ left []Job }

func (l *list) Next() (Job, bool) {
	if len(l.left) == 0 {
		return Job{}, false
	}
	first := l.left[0]
	l.left = l.left[1:]
	return first, true
}
