// Package trace holds workloads as data: the jobs that a simulation runs, the entries of sites' logs, and the file
// formats of both. It draws nothing at random and knows no policy, engine or cluster. A reader refuses a file that it
// cannot understand and says where. A job that can be read but not simulated is left out, and counted with the reason.
package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trace is the content of a file: the jobs of a recorded trace, or the entries of a site's log.
type Trace struct {
	Name   string // of the file, for errors
	Format Format
	// Begin is the origin of the times of jobs and entries, in the zone of the file, or in UTC if its times have none.
	// It is zero if the file counts seconds from an unknown origin.
	Begin    time.Time
	Jobs     []Job   // in the order of arrival; jobs with equal times in the file's order
	Entries  []Entry // in the order of submission; entries with equal times in the file's order
	Dropped  []Dropped
	Adjusted []Adjusted
	Records  Records // of an sacct log
	// Names are the job names that users chose, by entry ID, from an sacct log with a column JobName. Names that cannot
	// be printed are left out.
	Names map[string]string
	// CPUsPerGPU is the ratio of the profiles with which the iterations of a recorded trace were counted; 0 if the
	// trace does not say.
	CPUsPerGPU int

	lines []int32 // line numbers of Jobs in the file
}

// CheckModels requires that all jobs have known models. Its error names the line.
func (t *Trace) CheckModels(known []string) error {
	for i, j := range t.Jobs {
		if !slices.Contains(known, j.Model) {
			return t.at(i).wrong("model", j.Model, "one of "+strings.Join(known, ", "))
		}
	}
	return nil
}

// CheckGPUs requires that no job has more GPUs than most. Its error names the line.
func (t *Trace) CheckGPUs(most int) error {
	for i, j := range t.Jobs {
		if j.GPUs > most {
			return t.at(i).wrong("gpus", strconv.Itoa(j.GPUs), fmt.Sprintf("no more than the %d of the cluster", most))
		}
	}
	return nil
}

// at is the position of a job in the file, for errors; only the name if the line is unknown.
func (t *Trace) at(job int) place {
	if job < len(t.lines) {
		return place{t.Name, int(t.lines[job])}
	}
	return place{name: t.Name}
}

// InFileOrder returns the entries in the order of the file, in which the paper's artifact draws for them.
func (t *Trace) InFileOrder() []Entry {
	entries := slices.Clone(t.Entries)
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Place, b.Place) })
	return entries
}

// Job is a training job that can be simulated.
type Job struct {
	ID         int
	Model      string  // the name of a profile
	User       string  // empty if unknown
	GPUs       int     // ≥ 1
	Arrival    float64 // seconds since the beginning of the trace, ≥ 0
	Iterations int64   // ≥ 1, each as long as the model's iteration at the proportional share
	Told       Told    // further facts from an sacct log; recorded traces do not store them
}

// Told is what an sacct log may say beyond what every log says. It is a separate type because few logs have it.
type Told struct {
	Asked Asked
	Past  Past
}

// Asked is what a job requested besides its GPUs. Fields are zero if the log does not say.
type Asked struct {
	Limit    float64 // the time limit in seconds
	Priority int64   // in Slurm; higher goes first
}

// Past is what became of a job on the site. It is zero if the log does not say.
type Past struct {
	Started, Ended float64 // seconds since Begin: the start of its first run and the end of its last one; Ended > 0
	Ran            float64 // seconds, the sum of all runs, > 0
	Runs           int     // ≥ 1
	CPUs           int     // of its last run, in total
	Memory         float64 // of its last run, in total; GB of 1000 MiB
}

// Known says whether the log tells when the job ran.
func (p Past) Known() bool { return p.Runs > 0 }

// Since shifts the origin of the times by seconds.
func (p Past) Since(seconds float64) Past {
	if p.Known() {
		p.Started, p.Ended = roundToMillis(p.Started-seconds), roundToMillis(p.Ended-seconds)
	}
	return p
}

// Entry is a job in a site's log: how long it ran, but not its model.
type Entry struct {
	ID        string  // the site's own ID
	User      string  // empty if unknown
	Queue     string  // partition or virtual cluster; empty if unknown
	Submitted float64 // seconds since Begin, of the first submission, ≥ 0
	Duration  float64 // seconds, the sum of all attempts, > 0
	GPUs      int     // ≥ 1
	State     string  // as in the log; empty if unknown
	Told      *Told   // further facts from the log; nil: none
	Place     int     // position among the file's jobs that can be simulated, from 0
}

// Source returns jobs one after the other, in the order of arrival. The second result is false after the last one; a
// source that draws jobs at random may be endless.
type Source interface {
	Next() (Job, bool)
}

// Of returns a source of these jobs in their order.
func Of(jobs []Job) Source { return &list{jobs} }

type list struct{ left []Job }

// Next returns the next job; false after the last one.
func (l *list) Next() (Job, bool) {
	if len(l.left) == 0 {
		return Job{}, false
	}
	first := l.left[0]
	l.left = l.left[1:]
	return first, true
}
