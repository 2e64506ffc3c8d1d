// Package profiler finds out how fast a model trains with how many cores in as few trials as it takes (Synergy,
// OSDI'22, §3.1). It is a pure state machine: told what is asked and what was measured so far, it names the next trial,
// or says that it is done, with the curve, how far that can be off, and why it stopped. It runs nothing, reads no clock
// and keeps nothing: the same runs give the same decision, so whoever is interrupted goes on with the runs that he has.
//
// Its model is rate(c) = min(r·c, G) with a rounded knee: r is what one core prepares, G what the GPUs do with their
// data at hand. Between two measured points the curve lies above their chord and below both the line through the origin
// and the first point, and the rate of the second; the distance of the two is what is not known there, and it is
// largest at the knee that the model predicts.
package profiler

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Question is what is asked, and how exactly. Its zero values are filled in by Defaults.
type Question struct {
	Cores []int         // of the whole job, ascending and above 0: those that may be tried
	GPUs  int           // of the job; rates are per GPU
	Batch int           // samples per iteration and GPU
	Share int           // the job's proportional share of cores, since every gain is relative to that; 0: not known
	Bound float64       // samples/s and GPU with the data at hand, which no number of cores exceeds; 0: not known
	Most  int           // trials of cores at most, those that are made again included
	Learn float64       // what a trial must promise to change of a rate, relative to it, to be worth its time
	Noise float64       // scatter of a point's rate, relative to it, with which its trial ends
	Short time.Duration // the first look at a trainer of unknown pace
	Long  time.Duration // no trial lasts longer
	// Recorded says that a trial that is made again says the same, and that its windows cannot be prolonged.
	Recorded bool
	Memory   []gres.Memory // of the whole job, ascending; cores are tried with the last, and then the others, or Cache
	Cache    Cache         // zero: the cache, if there is one, is not ours
}

// Defaults for what a Question leaves open.
const (
	defaultMost  = 5
	defaultLearn = 0.02
	defaultNoise = 0.02
	defaultShort = 10 * time.Second
	defaultLong  = time.Minute
)

// Defaults fills in what is 0.
func (q Question) Defaults() Question {
	q.GPUs, q.Batch = max(1, q.GPUs), max(1, q.Batch)
	if q.Most == 0 {
		q.Most = defaultMost
	}
	if q.Learn == 0 {
		q.Learn = defaultLearn
	}
	if q.Noise == 0 {
		q.Noise = defaultNoise
	}
	if q.Short == 0 {
		q.Short = defaultShort
	}
	if q.Long == 0 {
		q.Long = defaultLong
	}
	if len(q.Memory) == 0 {
		q.Memory = []gres.Memory{0}
	}
	return q
}

// full is the memory with which cores are tried.
func (q Question) full() gres.Memory { return q.Memory[len(q.Memory)-1] }

// Trial is a run of the trainer to be made.
type Trial struct {
	Cores  int           `json:"cores"`
	Memory gres.Memory   `json:"memory_mib"`
	For    time.Duration `json:"-"` // from its first progress
	Why    Why           `json:"why"`
	// Prolongs says that the last run is not over: its trainer goes on, and what comes is added to its windows.
	Prolongs bool `json:"-"`
}

// Why is what a trial is for.
type Why string

// What trials are for.
const (
	WhyCore     Why = "what one core gives"
	WhyBound    Why = "the knee that the data at hand predict"
	WhyMost     Why = "the most that it can use"
	WhyKnee     Why = "where the knee should be"
	WhyDoubt    Why = "where its neighbours leave most open"
	WhyFall     Why = "again: it was slower than with fewer"
	WhyScatter  Why = "longer: it scatters"
	WhyConfirm  Why = "to confirm what is reckoned for the cache"
	WhyLess     Why = "whether less memory is enough"
	WhyBetween  Why = "how memory matters"
	WhyCoreNext Why = "the next that it runs with"
)

// Run is what a trial gave. One that failed has a fault and may have windows; they are not believed.
type Run struct {
	Cores   int         `json:"cores"`
	Memory  gres.Memory `json:"memory_mib"`
	Windows []Window    `json:"windows"`
	Use     *Use        `json:"gpu,omitempty"` // nil: not known
	Fault   string      `json:"fault,omitempty"`
}

// Stop is why nothing more is to be tried; empty while there is.
type Stop string

// Why it stops.
const (
	Known   Stop = "nothing that could still be tried would change much"
	Spent   Stop = "the number of trials is used up"
	Tried   Stop = "everything that may be tried was"
	Failing Stop = "the trainer fails"
)

// Decision is what follows from the runs so far: the curve as far as it is known, and the next trial or why there is
// none.
type Decision struct {
	Next  Trial // where Stop is empty
	Stop  Stop
	Curve Curve
	Grows Growth // over memory
}

// Next decides.
func Next(q Question, runs []Run) Decision {
	q = q.Defaults()
	d := Decision{Curve: q.curve(runs)}
	d.Next, d.Stop = q.next(runs, d.Curve)
	if d.Stop == Known || d.Stop == Spent || d.Stop == Tried {
		d.Grows = q.growth(runs, d.Curve)
		if next, more := q.nextMemory(runs, d); more {
			d.Next, d.Stop = next, ""
		}
	}
	return d
}
