// Package profiling has a trainer run as the estimator says, and keeps what it measured. How a trainer is given cores and memory is a port: this
// package starts nothing by itself and knows no Slurm.
package profiling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// Trainer runs the trainer. Run gives it the trial's cores and memory and returns the windows of so much training, counted from its first progress; a
// trial that prolongs the one before goes on with the trainer that runs. An error of kind *Fault is the trainer's, any other is of the machinery.
// A context that ends, ends the run, with its error. Close leaves nothing running.
type Trainer interface {
	Run(ctx context.Context, t profiler.Trial) (Measured, error)
	Close() error
}

// Measured is what a run gave.
type Measured struct {
	Windows []profiler.Window
	Start   time.Duration // from the start of the trainer to its first progress; 0 where it was not started
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
}

// Record is what was measured.
type Record struct {
	Runs  []profiler.Run `json:"runs"`
	Start float64        `json:"start_s"` // the longest that the trainer took to its first progress
}

// Measure asks until the estimator stops, time is up, or the context ends. What was measured is in s.Record whatever happens.
func (s *Session) Measure(ctx context.Context) (profiler.Decision, error) {
	defer s.Trainer.Close()
	fresh := true // a run of an earlier session cannot be prolonged
	for {
		d := profiler.Next(s.Question, s.Record.Runs)
		if d.Stop != "" || s.Enough != nil && s.Enough() {
			return d, nil
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
	if fault != nil && !(fault.Done && s.Question.Enough(*last)) {
		last.Fault = fault.Why
	}
	s.Record.Start = max(s.Record.Start, measured.Start.Seconds())
	if s.Keep == nil {
		return nil
	}
	if err := s.Keep(s.Record); err != nil {
		return fmt.Errorf("keep what was measured: %w", err)
	}
	return nil
}
