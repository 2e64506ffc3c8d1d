package profiling_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/synergy-slurmd/synergy-slurmd/profiling"
	"github.com/synergy-slurmd/synergy-slurmd/sensitivity/profiler"
)

// ideal is a trainer with a curve, which fails where fault says so.
type ideal struct {
	rate   func(cores int) float64
	fault  func(cores int) error
	asked  []int
	closed int
	runs   bool
}

func (i *ideal) Run(ctx context.Context, t profiler.Trial) (profiling.Measured, error) {
	if ctx.Err() != nil {
		return profiling.Measured{}, ctx.Err()
	}
	if t.Prolongs && !i.runs {
		return profiling.Measured{}, errors.New("nothing runs that could go on")
	}
	i.asked, i.runs = append(i.asked, t.Cores), true
	m := profiling.Measured{Start: time.Duration(t.Cores) * time.Second}
	for range int(t.For / time.Second) {
		m.Windows = append(m.Windows, profiler.Window{Seconds: 1, Iterations: i.rate(t.Cores)})
	}
	if i.fault != nil {
		return m, i.fault(t.Cores)
	}
	return m, nil
}

func (i *ideal) Close() error {
	i.closed++
	return nil
}

func question() profiler.Question { return profiler.Question{Cores: []int{1, 2, 4, 8, 16}} }

func knee(cores int) float64 { return min(50*float64(cores), 400) }

func TestASessionAsksUntilTheEstimatorStopsAndClosesTheTrainer(t *testing.T) {
	trainer := &ideal{rate: knee}
	s := profiling.Session{Question: question(), Trainer: trainer}
	d, err := s.Measure(t.Context())
	if err != nil || d.Stop == "" || trainer.closed != 1 || s.Record.Start != 16 ||
		math.Abs(d.Curve.At(8).Rate-400) > 1 {
		t.Errorf("%+v, %v; closed %d times, start %g", d, err, trainer.closed, s.Record.Start)
	}
}

func TestWhoeverIsInterruptedGoesOnWhereHeWas(t *testing.T) {
	whole := &ideal{rate: knee}
	all := profiling.Session{Question: question(), Trainer: whole}
	want, err := all.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for after := 1; after < len(whole.asked); after++ {
		var kept profiling.Record
		ctx, stop := context.WithCancel(t.Context())
		first := &ideal{rate: knee}
		s := profiling.Session{Question: question(), Trainer: first, Keep: func(r profiling.Record) error {
			if kept = r; len(first.asked) == after {
				stop()
			}
			return nil
		}}
		if _, err := s.Measure(ctx); !errors.Is(err, context.Canceled) || first.closed != 1 {
			t.Fatalf("interrupted after %d: %v, closed %d times", after, err, first.closed)
		}
		second := &ideal{rate: knee}
		s = profiling.Session{Question: question(), Trainer: second, Record: kept}
		got, err := s.Measure(t.Context())
		again := len(first.asked) + len(second.asked) - len(whole.asked) // a run that was to go on begins anew
		if err != nil || !reflect.DeepEqual(got.Curve.Points, want.Curve.Points) || again > 1 {
			t.Errorf("interrupted after %d: %v, %v, asked %v and %v, want %v", after, got.Curve.Points, err,
				first.asked, second.asked, whole.asked)
		}
	}
}

func TestATrainersFaultIsARunAndOursEndsTheSession(t *testing.T) {
	trainer := &ideal{rate: knee, fault: func(cores int) error {
		if cores == 1 {
			return fmt.Errorf("start: %w", &profiling.Fault{Why: "it needs two"})
		}
		return nil
	}}
	s := profiling.Session{Question: question(), Trainer: trainer}
	d, err := s.Measure(t.Context())
	if err != nil || len(d.Curve.Failed) != 1 || s.Record.Runs[0].Fault != "it needs two" ||
		d.Curve.Points[0].Cores != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	trainer.fault = func(int) error { return errors.New("no space") }
	s = profiling.Session{Question: question(), Trainer: trainer}
	if _, err := s.Measure(t.Context()); err == nil || err.Error() != "run the trainer with 1 cores: no space" {
		t.Error(err)
	}
}

func TestATrainerThatEndsInGoodOrderCountsWhereItDidEnough(t *testing.T) {
	for _, rate := range []float64{50, .1} {
		trainer := &ideal{rate: func(int) float64 { return rate },
			fault: func(int) error { return &profiling.Fault{Why: "it ended", Done: true} }}
		s := profiling.Session{Question: profiler.Question{Cores: []int{2}}, Trainer: trainer}
		if _, err := s.Measure(t.Context()); err != nil || (s.Record.Runs[0].Fault == "") != (rate == 50) {
			t.Errorf("%g iterations/s: %+v, %v", rate, s.Record.Runs, err)
		}
	}
}

func TestATimeThatIsUpEndsASessionWithWhatThereIs(t *testing.T) {
	trainer := &ideal{rate: knee}
	s := profiling.Session{Question: question(), Trainer: trainer,
		Enough: func() bool { return len(trainer.asked) == 2 }}
	d, err := s.Measure(t.Context())
	if err != nil || d.Stop != "" || len(d.Curve.Points) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

// saver counts how often it is asked, and at which size.
type saver struct {
	asked []int
	err   error
}

func (s *saver) Save(_ context.Context, t profiler.Trial) (profiling.Saved, error) {
	s.asked = append(s.asked, t.Cores)
	return profiling.Saved{Checkpoint: 3, Start: 20}, s.err
}

func TestATrainerIsAskedToSaveOnceAtTheFewestCoresWithFullSpeed(t *testing.T) {
	var kept profiling.Record
	s := profiling.Session{
		Question: question(), Trainer: &ideal{rate: knee}, Saver: &saver{},
		Keep: func(r profiling.Record) error { kept = r; return nil },
	}
	if _, err := s.Measure(t.Context()); err != nil || !reflect.DeepEqual(s.Saver.(*saver).asked, []int{8}) ||
		kept.Saved == nil || kept.Saved.Start != 20 {
		t.Errorf("%v, %+v, %v", s.Saver, kept, err)
	}
	again := profiling.Session{Question: question(), Trainer: &ideal{rate: knee}, Saver: &saver{}, Record: kept}
	if _, err := again.Measure(t.Context()); err != nil || len(again.Saver.(*saver).asked) != 0 {
		t.Errorf("asked %v times though it is known, %v", again.Saver, err)
	}
}

func TestATrainerThatCannotSaveHasACurveAllTheSame(t *testing.T) {
	s := profiling.Session{Question: question(), Trainer: &ideal{rate: knee},
		Saver: &saver{err: &profiling.Fault{Why: "it died of USR1"}}}
	if d, err := s.Measure(t.Context()); err != nil || d.Stop == "" || s.Record.Saved == nil ||
		s.Record.Saved.Remark != "it died of USR1" {
		t.Errorf("%+v, %+v, %v", d, s.Record, err)
	}
	s = profiling.Session{Question: question(), Trainer: &ideal{rate: knee}, Saver: &saver{err: context.Canceled}}
	if _, err := s.Measure(t.Context()); !errors.Is(err, context.Canceled) || s.Record.Saved != nil {
		t.Errorf("interrupted: %+v, %v", s.Record.Saved, err)
	}
}
