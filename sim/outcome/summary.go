package outcome

import (
	"fmt"
	"math"
)

// Summary is the statistics of a simulation. All but makespan, utilisation and rounds are about the jobs in the window.
type Summary struct {
	Jobs       int `json:"jobs"`
	Finished   int `json:"finished"`
	Unfinished int `json:"unfinished"` // when the simulation ended; they are not in the statistics
	Figures
	CompletionHours Statistics `json:"completion_h"` // published values are in hours
	// Makespan is from the first arrival to the last finish among all finished jobs.
	Makespan    float64     `json:"makespan_s"`
	Utilisation Utilisation `json:"utilisation"`
	Rounds      int         `json:"rounds"`
	Preemptions int         `json:"preemptions"` // starts beyond the first one of each job
}

// Figures are the statistics of the finished jobs in a set.
type Figures struct {
	Completion Statistics `json:"completion_s"` // seconds from arrival to finish
	Queueing   Statistics `json:"queueing_s"`   // seconds from arrival to the first run
	Slowdown   Statistics `json:"slowdown"`     // completion time divided by the length at the proportional share
}

// Utilisation is the part of the cluster that jobs held from the first arrival to the end, 0 to 1.
type Utilisation struct {
	GPUs   float64 `json:"gpus"`
	CPUs   float64 `json:"cpus"`
	Memory float64 `json:"memory"`
}

// Summarise computes the statistics of a run. It is an error if no job of the window has finished, or if the outcome
// contradicts itself; the error names the run.
func Summarise(run Run) (Summary, error) {
	if err := run.check(); err != nil {
		return Summary{}, fmt.Errorf("%s: %w", run.Setting.name(), err)
	}
	counted := run.jobsInWindow()
	done := finished(counted)
	figures := figuresOf(done)
	return Summary{
		Jobs:            len(counted),
		Finished:        len(done),
		Unfinished:      len(counted) - len(done),
		Figures:         figures,
		CompletionHours: figures.Completion.Hours(),
		Makespan:        makespan(finished(run.Jobs)),
		Utilisation:     run.utilisation(),
		Rounds:          run.Held,
		Preemptions:     preemptions(counted),
	}, nil
}

// jobsInWindow returns the jobs of the window, which are the ones that statistics are about.
func (r Run) jobsInWindow() []Job {
	var jobs []Job
	for _, job := range r.Jobs {
		if r.Setting.Window.Has(job.ID) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// finished returns the jobs that have finished; only these have completion times.
func finished(jobs []Job) []Job {
	var done []Job
	for _, job := range jobs {
		if job.Done() {
			done = append(done, job)
		}
	}
	return done
}

// figuresOf computes the statistics of at least one finished job.
func figuresOf(done []Job) Figures {
	var completion, queueing, slowdown []float64
	for _, job := range done {
		completion = append(completion, job.Completion())
		queueing = append(queueing, job.FirstRun-job.Arrival)
		slowdown = append(slowdown, job.Completion()/job.Length)
	}
	return Figures{statistics(completion), statistics(queueing), statistics(slowdown)}
}

// makespan is from the first arrival to the last finish of these jobs, in seconds. There must be at least one.
func makespan(done []Job) float64 {
	first, last := math.Inf(1), math.Inf(-1)
	for _, job := range done {
		first, last = min(first, job.Arrival), max(last, job.Finish)
	}
	return last - first
}

// preemptions counts the starts beyond the first one of each job, since a job starts again only after a preemption.
func preemptions(jobs []Job) int {
	total := 0
	for _, job := range jobs {
		total += max(0, job.Starts-1)
	}
	return total
}

// utilisation is the part of the cluster that jobs held on average, from the first arrival to the end. It counts from
// the first arrival, since a trace may begin long before the jobs that are taken from it.
func (r Run) utilisation() Utilisation {
	seconds := r.Ended - r.firstArrival()
	return Utilisation{
		GPUs:   r.BusyGPUs / (float64(r.GPUs) * seconds),
		CPUs:   r.BusyCPUs / (float64(r.CPUs) * seconds),
		Memory: r.BusyMemory / (r.Memory * seconds),
	}
}

// firstArrival is the first arrival in seconds, of all jobs and not only those of the window.
func (r Run) firstArrival() float64 {
	first := math.Inf(1)
	for _, job := range r.Jobs {
		first = min(first, job.Arrival)
	}
	return first
}
