// Package workload draws the jobs that a simulation runs: the workloads of the paper's artifact (Synergy, OSDI'22),
// exact to the iteration, others from a few distributions, and jobs of a site's log, which lacks models. A workload
// depends on its Config alone and is the same on every machine: it uses CPython's generator, as the published ones did,
// and its own logarithm and powers, since the last bits of those in the standard library differ between machines. The
// package neither reads nor writes files and knows no scheduler.
package workload

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/synergy-slurmd/synergy-slurmd/sim/trace"
)

// Config describes a workload that is drawn at random. Comments say what empty values mean.
type Config struct {
	Classes []Class
	Split   Split   // empty: one part with all classes
	Load    float64 // jobs an hour, from 0.000001; ignored if arrivals are Static
	Jobs    int     // how many; 0: endless
	// Seed is as in CPython: a number and its negative draw the same workload.
	Seed      int64
	GPUs      Mix       // empty: OneGPU
	Durations Durations // empty: PaperDurations
	Arrivals  Arrivals  // empty: Poisson
	Assign    Assign    // empty: BySplit
}

// New returns a source that draws each job when it is requested. With the zero values of GPUs, Durations, Arrivals and
// Assign it draws the artifact's published workload of one-GPU jobs, and with PaperMix its synthetic one with larger
// jobs.
//
// The artifact draws everything from one generator; but if all jobs have one GPU, it draws durations from a second one
// with the same seed. New does the same whenever all jobs have the same number of GPUs.
func New(config Config) (trace.Source, error) {
	if config.Jobs < 0 {
		return nil, wrong("jobs", fmt.Sprint(config.Jobs), "a number, or 0 for a workload without end")
	}
	if config.Arrivals == Static && config.Jobs == 0 {
		return nil, errors.New("arrivals = static: want a number of jobs, since all of them are there at the beginning")
	}
	g := &generator{classes: config.Classes, jobs: config.Jobs, main: seeded(config.Seed)}
	var err error
	if g.size, err = cmp.Or(config.GPUs, OneGPU).sizes(); err != nil {
		return nil, err
	}
	if g.nextDuration, err = cmp.Or(config.Durations, PaperDurations).newDurationFunc(); err != nil {
		return nil, err
	}
	if g.nextArrival, err = cmp.Or(config.Arrivals, Poisson).newArrivalFunc(config.Load); err != nil {
		return nil, err
	}
	if g.class, err = cmp.Or(config.Assign, BySplit).assigner(config.Split, config.Classes); err != nil {
		return nil, err
	}
	g.lengths = g.main
	if g.size.isSingle() {
		g.lengths = seeded(config.Seed)
	}
	return g, nil
}

// generator is a workload from which some jobs have been drawn.
type generator struct {
	classes      []Class
	main         *twister // draws everything else
	lengths      *twister // draws durations; may be main
	nextArrival  arrivalFunc
	nextDuration durationFunc
	size         sizes
	class        assigner // chooses each job's model
	jobs         int      // in total; 0: endless
	drawn        int      // jobs so far
}

// Next draws a job. The order of the draws is the artifact's.
func (g *generator) Next() (trace.Job, bool) {
	if g.jobs > 0 && g.drawn == g.jobs {
		return trace.Job{}, false
	}
	arrival := g.nextArrival(g.main)
	seconds := g.nextDuration(g.lengths)
	gpus := g.size.draw(g.main)
	class := &g.classes[g.class.next(g.main)]
	job := trace.Job{ID: g.drawn, Model: class.Name, GPUs: gpus, Arrival: arrival,
		Iterations: class.iterations(seconds)}
	g.drawn++
	return job, true
}

// maxDuration is the longest duration of a job, in seconds: ten years. Longer draws are repeated.
const maxDuration = 10 * 365 * 24 * 3600

// inRange says whether x is from low to high; NaN is in no range.
func inRange(x, low, high float64) bool { return x >= low && x <= high }

// wrong is the error of an option's value.
func wrong(option, value, want string) error {
	return fmt.Errorf("%s = %s: want %s", option, value, want)
}
