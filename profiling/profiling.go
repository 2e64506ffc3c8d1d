// Package profiling runs a trainer at the sizes that the estimator asks for, and keeps what was measured. How a trainer
// gets cores and memory is left to an interface (Trainer): this package starts nothing itself and knows nothing of
// Slurm.
package profiling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Trainer runs the trainer. Run gives it the trial's cores and memory, and returns the windows of the given training
// time, counted from its first progress. A trial that prolongs the one before goes on with the running trainer. A
// *Fault is an error of the trainer, any other error one of the machinery. If the context ends, the run ends with the
// context's error. Close leaves nothing running.
type Trainer interface {
	Run(ctx context.Context, t profiler.Trial) (Measured, error)
	Close() error
}

// Saver is a Trainer that can be asked to save and leave, as a preempted job is, and is then started again. Save does
// that once: it uses the running trainer or starts one with the trial's cores and memory, and starts it again with the
// same. Errors are as those of Run.
type Saver interface {
	Save(ctx context.Context, t profiler.Trial) (Saved, error)
}

// Saved is what leaving and coming back cost.
type Saved struct {
	Checkpoint float64 `json:"checkpoint_s"`     // seconds from the signal to the trainer's end; 0: unknown
	Start      float64 `json:"start_s"`          // seconds from its start to one more iteration; 0: unknown
	Remark     string  `json:"remark,omitempty"` // what was odd, a sentence for the trainer's author
}

// Measured is the result of a run.
type Measured struct {
	Windows []profiler.Window
	Start   time.Duration // from the start of the trainer to its first progress; 0: it was not started
	// Use is the trainer's GPU use meanwhile; nil: unknown.
	Use *profiler.Use
}

// Fault is something that a trainer did wrong, in a sentence for its author.
type Fault struct {
	Why  string
	Done bool // it ended with success: what it did until then counts if that is enough
}

// Error returns the sentence.
func (f *Fault) Error() string { return f.Why }

// Session is one question of the estimator to one trainer, with the answers so far.
type Session struct {
	Question profiler.Question
	Trainer  Trainer
	Record   Record
	// Keep is called after each run, so that an interrupted measurement is not lost; nil: nothing is kept.
	Keep func(Record) error
	// Begins and Ends report trials to a person; nil: not reported. Ends gets the decision after the trial.
	Begins func(profiler.Trial)
	Ends   func(profiler.Trial, profiler.Decision)
	// Enough reports that no further trial is to begin; nil: never.
	Enough func() bool
	Saver  Saver // used once when the curve is known; nil: the cost of a restart is not measured
}

// Record is what was measured.
type Record struct {
	Runs  []profiler.Run `json:"runs"`
	Start float64        `json:"start_s"` // the longest time to the trainer's first progress, seconds
	Saved *Saved         `json:"saved,omitempty"`
	Where string         `json:"where,omitempty"`    // the machine of the last run, if it is not this one
	GPU   string         `json:"gpu_type,omitempty"` // the GPU type in that machine's Slurm, if known
}

// Measure runs trials until the estimator stops, time is up, or the context ends. What was measured is in s.Record in
// any case. If a trial is to prolong a run of an earlier session, whose trainer is gone, that run is dropped and
// measured anew.
func (s *Session) Measure(ctx context.Context) (profiler.Decision, error) {
	defer s.Trainer.Close()
	fresh := true // a run of an earlier session cannot be prolonged
	for {
		d := profiler.Next(s.Question, s.Record.Runs)
		if d.Stop != "" || s.Enough != nil && s.Enough() {
			return d, s.measureRestart(ctx, d)
		}
		t := d.Next
		if t.Prolongs && fresh {
			s.Record.Runs = s.Record.Runs[:len(s.Record.Runs)-1]
			continue
		}
		fresh = false
		if err := s.runTrial(ctx, t); err != nil {
			return d, err
		}
		if s.Ends != nil {
			s.Ends(t, profiler.Next(s.Question, s.Record.Runs))
		}
	}
}

// runTrial runs one trial and records the result. A fault is recorded in the run; only other errors end the session. A
// trainer that ended with success has a fault only if it did too little.
func (s *Session) runTrial(ctx context.Context, t profiler.Trial) error {
	if s.Begins != nil {
		s.Begins(t)
	}
	measured, err := s.Trainer.Run(ctx, t)
	var fault *Fault
	if err != nil && !errors.As(err, &fault) {
		return fmt.Errorf("run the trainer with %d cores: %w", t.Cores, err)
	}
	if !t.Prolongs {
		s.Record.Runs = append(s.Record.Runs, profiler.Run{Cores: t.Cores, Memory: t.Memory})
	}
	last := &s.Record.Runs[len(s.Record.Runs)-1]
	last.Windows = append(last.Windows, measured.Windows...)
	if measured.Use != nil {
		sum := *measured.Use
		if last.Use != nil {
			sum = last.Use.And(sum)
		}
		last.Use = &sum
	}
	if fault != nil && !(fault.Done && s.Question.Enough(*last)) {
		last.Fault = fault.Why
	}
	s.Record.Start = max(s.Record.Start, measured.Start.Seconds())
	return s.keep()
}

// keep saves the record.
func (s *Session) keep() error {
	if s.Keep == nil {
		return nil
	}
	if err := s.Keep(s.Record); err != nil {
		return fmt.Errorf("keep what was measured: %w", err)
	}
	return nil
}

// measureRestart measures the cost of a restart, at the size that a job would be given. A trainer that cannot save
// still has a curve. It gets all the memory. The cost is measured once, and not for a trainer that fails.
func (s *Session) measureRestart(ctx context.Context, d profiler.Decision) error {
	if s.Saver == nil || s.Record.Saved != nil || len(d.Curve.Points) == 0 || d.Stop == profiler.Failing {
		return nil
	}
	trial := profiler.Trial{Cores: enough(d.Curve.Points), For: time.Second}
	if n := len(s.Question.Memory); n > 0 {
		trial.Memory = s.Question.Memory[n-1]
	}
	saved, err := s.Saver.Save(ctx, trial)
	var fault *Fault
	if err != nil && !errors.As(err, &fault) {
		return fmt.Errorf("ask the trainer to save: %w", err)
	}
	if fault != nil {
		saved.Remark = fault.Why
	}
	s.Record.Saved = &saved
	return s.keep()
}

// enough returns the fewest tried cores with at least 98 % of the best speed.
func enough(points []profiler.Point) int {
	const trifle = 0.02
	best := 0.0
	for _, p := range points {
		best = max(best, p.Rate)
	}
	for _, p := range points {
		if p.Rate >= best*(1-trifle) {
			return p.Cores
		}
	}
	return points[len(points)-1].Cores
}
