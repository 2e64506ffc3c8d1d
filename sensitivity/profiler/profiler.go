// Package profiler finds out how fast a model trains with how many cores in as few trials as possible (Synergy,
// OSDI'22, §3.1). It is a pure state machine: given the question and the measurements so far, it names the next trial,
// or says that it is done, with the curve, its uncertainty, and why it stopped. It runs nothing, reads no clock and
// keeps nothing: the same runs give the same decision, so an interrupted measurement goes on from its runs.
//
// Its model is rate(c) = min(r·c, G) with a rounded knee: r is what one core prepares, G what the GPUs do with ready
// data. Between two measured points the curve lies above their chord, and below both the line through the origin and
// the first point, and the rate of the second. The distance of these bounds is what is unknown there. It is largest at
// the knee that the model predicts, and that is where the next trial is made. A product is written float64(x*y), so
// that no processor rounds it in one step with a sum: figures are the same on every machine (tests/rounding_test.go).
package profiler

import (
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/gres"
)

// Question is what is to be measured, and how exactly. Defaults fills in its zero values.
type Question struct {
	Cores []int         // of the whole job, ascending and above 0: the sizes that may be tried
	GPUs  int           // of the job; rates are per GPU
	Batch int           // samples per iteration and GPU
	Share int           // the job's proportional share of cores, since every gain is relative to that; 0: unknown
	Bound float64       // samples/s per GPU with ready data, which no number of cores exceeds; 0: unknown
	Most  int           // the most trials over cores, with repetitions
	Learn float64       // how much a trial must be able to change a rate, relative to it, to be worth its time
	Noise float64       // scatter of a point's rate, relative to it, at which its trial ends
	Short time.Duration // length of the first trial, when the trainer's pace is unknown
	Long  time.Duration // no trial lasts longer
	// Recorded means that a repeated trial gives the same result, and that its windows cannot be prolonged.
	Recorded bool
	Memory   []gres.Memory // of the whole job, ascending; cores are tried with the last; then the others, or Cache's
	Cache    Cache         // zero: the cache, if there is one, is not the trainer's own
}

// Defaults of a Question.
const (
	defaultMost  = 5
	defaultLearn = 0.02
	defaultNoise = 0.02
	defaultShort = 10 * time.Second
	defaultLong  = time.Minute
)

// Defaults fills in zero values.
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
	For    time.Duration `json:"-"` // counted from the first progress
	Why    Why           `json:"why"`
	// Prolongs means that the last run goes on: its trainer is not stopped, and the new windows are added to its.
	Prolongs bool `json:"-"`
}

// Why is the purpose of a trial.
type Why string

// The purposes of trials.
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

// Run is the result of a trial. One that failed has a fault; its windows, if any, are ignored.
type Run struct {
	Cores   int         `json:"cores"`
	Memory  gres.Memory `json:"memory_mib"`
	Windows []Window    `json:"windows"`
	Use     *Use        `json:"gpu,omitempty"` // nil: unknown
	Fault   string      `json:"fault,omitempty"`
}

// Stop is why nothing more is to be tried; empty while there is more.
type Stop string

// The reasons to stop.
const (
	Known   Stop = "nothing that could still be tried would change much"
	Spent   Stop = "the number of trials is used up"
	Tried   Stop = "everything that may be tried was"
	Failing Stop = "the trainer fails"
)

// Decision follows from the runs so far: the curve as far as it is known, and the next trial or why there is none.
type Decision struct {
	Next  Trial // valid if Stop is empty
	Stop  Stop
	Curve Curve
	Grows Growth // the effect of memory
}

// Next returns the decision after these runs.
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
