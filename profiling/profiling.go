// Package profiling has a trainer run as the estimator says, and keeps what it measured. How a trainer is given cores
// and memory is a port: this package starts nothing by itself and knows no Slurm.
package profiling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Trainer runs the trainer. Run gives it the trial's cores and memory and returns the windows of so much training,
// counted from its first progress; a trial that prolongs the one before goes on with the trainer that runs. An error of
// kind *Fault is the trainer's, any other is of the machinery. A context that ends, ends the run, with its error. Close
// leaves nothing running.
type Trainer interface {
	Run(ctx context.Context, t profiler.Trial) (Measured, error)
	Close() error
}

// Saver is a Trainer that can be asked to save and to leave, as a job is that gives way, and is started again. Save
// does so once: it uses the trainer that runs, or starts one with the trial's cores and memory, and starts it again
// with these. Errors are as those of Run.
type Saver interface {
	Save(ctx context.Context, t profiler.Trial) (Saved, error)
}

// Saved is what leaving and coming back cost.
type Saved struct {
	Checkpoint float64 `json:"checkpoint_s"`     // from the signal to the trainer's end; 0: not known
	Start      float64 `json:"start_s"`          // from its start until it has done an iteration more; 0: not known
	Remark     string  `json:"remark,omitempty"` // what was odd, a sentence for the person who wrote the trainer
}

// Measured is what a run gave.
type Measured struct {
	Windows []profiler.Window
	Start   time.Duration // from the start of the trainer to its first progress; 0 where it was not started
	// Use is what it had of its GPUs meanwhile; nil: not known.
	Use *profiler.Use
}

// Fault is something that a trainer did wrong, in a sentence for the person who wrote it.
type Fault struct {
	Why  string
	Done bool // it ended in good order: what it did until then counts where that is enough
}

// Error is the sentence.
func (f *Fault) Error() string { return f.Why }

// Session is one question to one trainer, with what has been answered so far.
type Session struct {
	Question profiler.Question
	Trainer  Trainer
	Record   Record
	// Keep is called after each run, so that whoever is interrupted has what was measured; nil: nothing is kept.
	Keep func(Record) error
	// Begins and Ends tell a person; nil: nobody is told. Ends has the run as far as it has come.
	Begins func(profiler.Trial)
	Ends   func(profiler.Trial, profiler.Decision)
	// Enough says that no further trial is to begin; nil: never.
	Enough func() bool
	Saver  Saver // asked once when the curve is known; nil: what leaving costs is not measured
}

// Record is what was measured.
type Record struct {
	Runs  []profiler.Run `json:"runs"`
	Start float64        `json:"start_s"` // the longest that the trainer took to its first progress
	Saved *Saved         `json:"saved,omitempty"`
	Where string         `json:"where,omitempty"`    // the machine of the last run, where that is not this one
	GPU   string         `json:"gpu_type,omitempty"` // as that machine's Slurm calls it, where it says
}

// Measure asks until the estimator stops, time is up, or the context ends. What was measured is in s.Record whatever
// happens.
func (s *Session) Measure(ctx context.Context) (profiler.Decision, error) {
	defer s.Trainer.Close()
	fresh := true // a run of an earlier session cannot be prolonged
	for {
		d := profiler.Next(s.Question, s.Record.Runs)
		if d.Stop != "" || s.Enough != nil && s.Enough() {
			return d, s.save(ctx, d)
		}
		t := d.Next
		if t.Prolongs && fresh {
			s.Record.Runs = s.Record.Runs[:len(s.Record.Runs)-1]
			continue
		}
		fresh = false
		if err := s.try(ctx, t); err != nil {
			return d, err
		}
		if s.Ends != nil {
			s.Ends(t, profiler.Next(s.Question, s.Record.Runs))
		}
	}
}

// try makes one trial, and writes down what came of it.
func (s *Session) try(ctx context.Context, t profiler.Trial) error {
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

func (s *Session) keep() error {
	if s.Keep == nil {
		return nil
	}
	if err := s.Keep(s.Record); err != nil {
		return fmt.Errorf("keep what was measured: %w", err)
	}
	return nil
}

// save measures what leaving costs, at the size that a job would be given. A trainer that cannot do it has a curve
// all the same.
func (s *Session) save(ctx context.Context, d profiler.Decision) error {
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

// enough is the fewest cores that were tried with all but a trifle of the best speed.
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
